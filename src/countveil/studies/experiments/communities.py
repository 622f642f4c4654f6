"""Communities (the paper's figure 4, left): how well the rates of a network are reconstructed from its release.

The paper's grid is exact, naive and non-private at every level and number of communities, from five releases.
Beside it:

* both priors;
* at the largest number of communities, messages counted once (``counts_unique``), and plain starts;
* at the smallest, where the paper's finding that exact beats non-private is strongest: ``robust`` fits the plain
  counts with the likelihood of noisy ones, and ``redrawn`` counts are Poisson with the rates of a non-private
  fit, so that the model is true. If exact wins by the noise it sees, robust does not win; if because the model
  is wrong about the real counts, nobody beats non-private on redrawn ones.
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


def plan(settings: Settings) -> list[Job]:
    """The paper's grid, then what stands beside it."""
    jobs: list[Job] = []
    for size in settings.sizes:
        jobs += settings.at_levels(METHODS, size=size, data="counts")
    small, large = min(settings.sizes), max(settings.sizes)
    jobs += settings.at_levels(["robust"], ["paper"], size=small, data="counts")
    jobs += settings.at_levels(METHODS[:2], ["paper"], size=small, data="redrawn")
    jobs += settings.at_levels(METHODS, ["paper"], size=large, data="counts_unique")
    plain = settings.at_levels(METHODS[:2], ["paper"], size=large, data="counts", start="plain")
    said = [Job("silence", "none", None, 0, 0, data=data) for data in ("counts", "counts_unique")]
    return [*said, *settings.repeated(jobs + plain)]


def perform(job: Job, settings: Settings, data: dict[str, np.ndarray]) -> Found:
    """One fit, and its scores over all pairs."""
    if job.data not in data:
        data[job.data] = redrawn(data["counts"], job, settings)
    counts = data[job.data]
    if job.method == "silence":
        return Found(silence(counts, off_diagonal(len(counts))))
    seen, options = job.observed(counts)
    model = CommunityModel(job.size, **job.given)
    posterior = job.fitted(model, settings, seen, **options)
    cells = off_diagonal(len(counts))
    scores = rate_scores(posterior, counts, cells)
    if job.method == "exact":
        scores.update(coverage(posterior, counts, cells))
    return Found(scores)


def redrawn(counts: np.ndarray, job: Job, settings: Settings) -> np.ndarray:
    """Poisson counts with the mean rates of a non-private fit: data of which the model is true."""
    reference = Job("non-private", "paper", None, 0, job.sweeps, size=job.size, data="counts")
    posterior = reference.fitted(CommunityModel(job.size, **reference.given), settings, counts)
    rates = np.concatenate([block for _, block in posterior.iter_rates()])
    return np.random.default_rng(0).poisson(rates)


def picture(folder: Any, path: Path) -> None:
    """MAE and log score by level, a row for every number of communities, and one for redrawn counts."""
    summary = folder.summary()
    sizes = sorted({*summary["size"]} - {0})
    kinds = [(f"C = {n}", {"size": n, "data": "counts", "start": "auto"}) for n in sizes]
    kinds.append((f"C = {sizes[0]}, redrawn: model true", {"size": sizes[0], "data": "redrawn"}))
    title = "Reconstruction of the true network (mean and 95 % interval over releases)"
    draw_scores(summary, [MEASURES[0], MEASURES[1], MEASURES[2], MEASURES[3]], kinds, path, title)


STUDY = network_study(
    "communities",
    "Communities: reconstruction",
    sizes=(5, 10, 20),
    plan=plan,
    perform=perform,
    picture=picture,
)
