"""Links (the paper's figure 4, right): how well cells are predicted that were hidden from the fit.

The paper hides "all entries that involve any of the top 50 senders or recipients". ``any`` takes it by its
words: whole rows of the senders and whole columns of the recipients. ``both`` hides the cells from top senders
to top recipients, after which every actor is still seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from countveil.models import CommunityModel
from countveil.studies.experiments.networks import (
    MEASURES,
    coverage,
    network_study,
    off_diagonal,
    rate_scores,
    silence,
)
from countveil.studies.experiments.panels import draw_scores
from countveil.studies.plan import METHODS, Found, Job, Settings

#: The paper's number of actors whose links are hidden; a third of them where there are fewer than 150.
TOP = 50


def plan(settings: Settings) -> list[Job]:
    """Both readings of what is hidden, at every number of communities; plain starts at the largest."""
    jobs: list[Job] = []
    large = max(settings.sizes)
    for hidden in ("both", "any"):
        for size in settings.sizes:
            jobs += settings.at_levels(METHODS, size=size, data="counts", hidden=hidden)
        jobs += settings.at_levels(
            METHODS[:2], ["paper"], size=large, data="counts", hidden=hidden, start="plain"
        )
    jobs += settings.at_levels(METHODS, ["paper"], size=large, data="counts_unique", hidden="both")
    said = [Job("silence", "none", None, 0, 0, data="counts", hidden=hidden) for hidden in ("both", "any")]
    return [*said, *settings.repeated(jobs)]


def perform(job: Job, settings: Settings, data: dict[str, np.ndarray]) -> Found:
    """One fit without the hidden cells, and its scores on them."""
    counts = data[job.data]
    hidden = hidden_cells(counts, job.hidden)
    if job.method == "silence":
        return Found(silence(counts, hidden))
    seen, options = job.observed(counts, hidden)
    model = CommunityModel(job.size, **job.given)
    posterior = job.fitted(model, settings, seen, **options)
    scores = rate_scores(posterior, counts, hidden)
    if job.method != "naive":  # it takes what it sees for the truth
        scores.update(coverage(posterior, counts, hidden))
    return Found(scores)


def hidden_cells(counts: np.ndarray, kind: str) -> np.ndarray:
    """A mask of the cells to predict, by one of the two readings; the diagonal is never among them.

    >>> counts = np.array([[0, 9, 9], [1, 0, 0], [0, 0, 0]])
    >>> hidden_cells(counts, "any").astype(int)  # one sender of three: the first; one recipient: the second
    array([[0, 1, 1],
           [0, 0, 0],
           [0, 1, 0]])
    """
    n = min(TOP, len(counts) // 3)
    senders, recipients = (np.zeros(len(counts), dtype=bool) for _ in range(2))
    senders[np.argsort(-counts.sum(axis=1), kind="stable")[:n]] = True
    recipients[np.argsort(-counts.sum(axis=0), kind="stable")[:n]] = True
    join = np.logical_or if kind == "any" else np.logical_and
    return join(senders[:, None], recipients) & off_diagonal(len(counts))


def picture(folder: Any, path: Path) -> None:
    """Held-out MAE and log score by level."""
    summary = folder.summary()
    kinds = [
        (f"C = {size}, {hidden}", {"size": size, "hidden": hidden, "data": "counts", "start": "auto"})
        for hidden in ("any", "both")
        for size in sorted({*summary["size"]} - {0})
    ]
    title = "Held-out links (mean and 95 % interval over releases)"
    draw_scores(summary, [MEASURES[0], MEASURES[1], MEASURES[2], MEASURES[3]], kinds, path, title)


STUDY = network_study(
    "links", "Links: held-out cells", sizes=(5, 10, 20), plan=plan, perform=perform, picture=picture
)
