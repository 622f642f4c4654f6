"""Topics (the paper's figure 3): reconstruction and quality of topics, by level of noise.

Quality is that of the ten heaviest words of every topic in every kept draw, with the true documents as
reference, and averaged, as in the paper. **Why exact can beat non-private in coherence**: coherence divides by
how many documents have a word, and adds 1 to how many have both, so rare words cost it most. Noise hides rare
words, and topics then show frequent ones. ``frequency`` is the median over topics' words of the number of
documents that have them; ``coherence_frequent`` scores, for every method alike, the ten heaviest words among
those that at least one document in fifty has. If the advantage is that of frequent words, it is gone there.

Do totals come out right where the model is true? ``redrawn`` documents are Poisson with the rates of a non-private
fit: one release of them at every level, beside the real ones, whose words come in bursts.

``start`` does nothing for topics. Naive fits of documents take hours where noise is strong; ``naive_sweeps``
shortens them, and the column ``sweeps`` of the table says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from countveil.evaluation import coherence, log_score, mean_absolute_error, npmi, top_words
from countveil.models import TopicModel
from countveil.posterior import Posterior
from countveil.studies.experiments.panels import draw_scores
from countveil.studies.experiments.texts import describe_documents, load_documents
from countveil.studies.plan import KEPT, METHODS, Found, Job, Measure, Settings, Study

#: A word is frequent if so many documents have it: one in fifty.
FREQUENT = 0.02
N_WORDS = 10

MEASURES = (
    Measure("mae", "MAE", "lower"),
    Measure("log_score", "log score", "higher"),
    Measure("npmi", "NPMI", "higher"),
    Measure("coherence", "coherence", "higher"),
    Measure("coherence_frequent", "coherence, frequent words", "higher"),
    Measure("frequency", "documents with a top word"),
    Measure("total", "total rate / total count"),
    Measure("seconds", "CPU s"),
)


def plan(settings: Settings) -> list[Job]:
    """Documents of which the model is true, then the paper's grid, and the same with the inferred prior."""
    jobs: list[Job] = []
    for size in settings.sizes:
        jobs += settings.at_levels(METHODS, size=size, data="documents")
    size = min(settings.sizes)
    redrawn = settings.at_levels(METHODS[:2], ["inferred"], size=size, data="redrawn")
    return [*redrawn, *settings.repeated(jobs)]


def perform(job: Job, settings: Settings, data: dict[str, sparse.csr_array]) -> Found:
    """One fit, and its scores against the true documents."""
    if job.data not in data:
        data[job.data] = redrawn(data["documents"], job, settings)
    counts = data[job.data]
    seen, options = job.observed(counts)
    model = TopicModel(job.size, **job.given)
    # Scoring 50 draws of 10**8 rates takes a minute: fits that were shortened anyway keep fewer.
    posterior = job.fitted(model, settings, seen, kept=KEPT if job.sweeps >= 1000 else KEPT // 3, **options)
    total = float(posterior.tree["sample_stats"]["total_rate"].mean()) / float(counts.sum())
    return Found({**rate_scores(posterior, counts), "total": total, **topic_scores(posterior, counts)})


def redrawn(counts: sparse.csr_array, job: Job, settings: Settings) -> sparse.csr_array:
    """Poisson counts with the mean rates of a non-private fit: documents of which the model is true."""
    reference = Job("non-private", job.prior, None, 0, job.sweeps, size=job.size, data="documents")
    posterior = reference.fitted(TopicModel(job.size, **job.given), settings, counts)
    rng = np.random.default_rng(0)
    return sparse.csr_array(
        sparse.vstack([sparse.csr_array(rng.poisson(block)) for _, block in posterior.iter_rates()])
    )


def rate_scores(posterior: Posterior, counts: sparse.csr_array) -> dict[str, float]:
    """Mean absolute error and log score; the draws of 10**8 rates are made once for both."""
    error = 0.0

    def draws_by_rows() -> Iterator[tuple[slice, np.ndarray]]:
        nonlocal error
        for rows, draws in posterior.iter_rate_draws():
            share = (rows.stop - rows.start) / counts.shape[0]
            error += share * mean_absolute_error(draws.mean(axis=0), counts[rows])
            yield rows, draws

    score = log_score(draws_by_rows(), counts)
    return {"mae": error, "log_score": score}


def topic_scores(posterior: Posterior, counts: Any) -> dict[str, float]:
    """Means over kept draws and topics."""
    presence = sparse.csc_array(counts > 0)
    documents_with = np.asarray(presence.sum(axis=0)).reshape(-1)
    phi = posterior.tree["posterior"]["phi"].to_numpy()
    weights = phi.reshape(-1, *phi.shape[2:])
    top = top_words(weights, N_WORDS).reshape(-1, N_WORDS)
    common = np.where(documents_with >= FREQUENT * counts.shape[0], weights, -1.0)
    frequent = top_words(common, N_WORDS).reshape(-1, N_WORDS)
    return {
        "npmi": float(npmi(top, counts).mean()),
        "coherence": float(coherence(top, counts).mean()),
        "coherence_frequent": float(coherence(frequent, counts).mean()),
        "frequency": float(np.median(documents_with[top])),
    }


def picture(folder: Any, path: Path) -> None:
    """The paper's three panels, the log score, and the two that explain coherence."""
    summary = folder.summary()
    kinds = [(f"K = {size}", {"size": size, "data": "documents"}) for size in sorted({*summary["size"]})]
    title = "Topics by level of noise (mean and 95 % interval over releases, where there are several)"
    draw_scores(summary, MEASURES[:6], kinds, path, title)


STUDY = Study(
    "topics",
    "Topics of documents",
    MEASURES,
    paper=Settings(7500, (3.0, 2.0, 1.0), (50,), 5),
    quick=Settings(60, (3.0, 1.0), (6,), 1),
    load=load_documents,
    describe=describe_documents,
    plan=plan,
    perform=perform,
    picture=picture,
    data_options=("documents",),
)
