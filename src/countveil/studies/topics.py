"""Topics (the paper's figure 3): reconstruction and quality of topics, by level of noise.

Quality is that of the ten heaviest words of every topic in every kept draw, with the true documents as
reference, and averaged, as in the paper. **Why exact can beat non-private in coherence**: coherence divides by
how many documents have a word, and adds 1 to how many have both, so rare words cost it most. Noise hides rare
words, and topics then show frequent ones. ``frequency`` is the median over topics' words of the number of
documents that have them; ``coherence_frequent`` scores, for every method alike, the ten heaviest words among
those that at least one document in fifty has. If the advantage is that of frequent words, it is gone there.

``start`` does nothing for topics. Naive fits of documents take hours where noise is strong; ``naive_sweeps``
shortens them, and the column ``sweeps`` of the table says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from countveil.evaluation import coherence, log_score, mean_absolute_error, npmi, top_words
from countveil.models import TopicModel
from countveil.posterior import Posterior
from countveil.studies.panels import draw_scores
from countveil.studies.plan import (
    KEPT,
    PRIORS,
    Found,
    Job,
    Measure,
    Settings,
    Study,
    fitted,
    methods_at_levels,
    observed_by,
    repeated,
)
from countveil.studies.texts import describe_documents, load_documents

METHODS = ("non-private", "exact", "naive")
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
    """The paper's grid, then the same with the inferred prior."""
    jobs: list[Job] = []
    for size in settings.sizes:
        jobs += methods_at_levels(settings, METHODS, size=size, data="documents")
    return repeated(settings, jobs)


def perform(job: Job, settings: Settings, data: Mapping[str, sparse.csr_array]) -> Found:
    """One fit, and its scores against the true documents."""
    counts = data[job.data]
    seen, options = observed_by(job, counts)
    model = TopicModel(job.size, **PRIORS[job.prior])
    # Scoring 50 draws of 10**8 rates takes a minute: fits that were shortened anyway keep fewer.
    posterior = fitted(model, job, settings, seen, kept=KEPT if job.sweeps >= 1000 else KEPT // 3, **options)
    scores = {
        "mae": mean_absolute_error(posterior.iter_rates(), counts),
        "log_score": log_score(posterior.iter_rate_draws(), counts),
        "total": float(posterior.tree["sample_stats"]["total_rate"].mean()) / float(counts.sum()),
    }
    return Found({**scores, **topic_scores(posterior, counts)})


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
    kinds = [(f"K = {size}", {"size": size}) for size in sorted(set(summary["size"]))]
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
