"""Samplers (beyond the paper): exact against bessel, and the paper's formulas as they are printed.

Exact and bessel draw from one posterior by other steps: their answers must agree, and what differs is the time
and how much the draws are worth. On real counts a chain settles in one of many modes, so that two chains differ by
luck, whatever drew them; ``redrawn`` counts, of which the model is true, leave less to luck.

``literal`` is the paper's chain with the rate it prints for lambda given the rest
(``Gamma(1 + g, alpha/(1-alpha) + 1)``): that chain has the law of ``1 - alpha`` in place of alpha, which
tests/test_errata.py shows, so it is run as exact with that alpha.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from countveil.models import CommunityModel
from countveil.studies.experiments import networks
from countveil.studies.experiments.communities import redrawn
from countveil.studies.experiments.networks import (
    coverage,
    network_study,
    off_diagonal,
    rate_scores,
)
from countveil.studies.experiments.panels import draw_scores
from countveil.studies.plan import Found, Job, Measure, Settings

METHODS = ("exact", "bessel", "literal")
MEASURES = (
    *networks.MEASURES[:2],
    Measure("mean_rate", "mean rate"),
    *networks.MEASURES[5:7],
    Measure("ess", "effective draws of the total"),
    Measure("ess_second", "effective draws per CPU s"),
    Measure("seconds", "CPU s"),
)


def plan(settings: Settings) -> list[Job]:
    """Three ways through the same releases, with the paper's prior and plain starts."""
    jobs: list[Job] = []
    for data in ("counts_unique", "redrawn"):
        for size in settings.sizes:
            jobs += settings.at_levels(METHODS, ["paper"], size=size, data=data, start="plain")
    return settings.repeated(jobs)


def perform(job: Job, settings: Settings, data: dict[str, np.ndarray]) -> Found:
    """One chain with many draws, so that their worth can be told."""
    if job.data not in data:
        data[job.data] = redrawn(data["counts"], job, settings)
    counts = data[job.data]
    seen, options = job.observed(counts)
    began = time.process_time()
    posterior = job.fitted(CommunityModel(job.size, **job.given), settings, seen, kept=500, **options)
    seconds = time.process_time() - began
    cells = off_diagonal(len(counts))
    found = rate_scores(posterior, counts, cells)
    scores = {name: found[name] for name in ("mae", "log_score", "mean_rate")}
    scores.update(coverage(posterior, counts, cells))
    ess = float(posterior.summary(0)["ess_bulk"]["total_rate"])
    return Found({**scores, "ess": ess, "ess_second": ess / max(seconds, 1e-9)})


def picture(folder: Any, path: Path) -> None:
    """Scores, and draws per second, by level."""
    summary = folder.summary()
    kinds = [
        (f"C = {size}, {data}", {"size": size, "data": data})
        for data in ("counts_unique", "redrawn")
        for size in sorted(set(summary["size"]))
    ]
    shown = [measure for measure in MEASURES if measure.name in ("mae", "log_score", "covered", "ess_second")]
    draw_scores(
        summary, shown, kinds, path, "Exact, bessel, and the formulas as printed (literal)", METHODS,
    )  # fmt: skip


STUDY = network_study(
    "samplers",
    "Samplers: exact, bessel, literal",
    sizes=(5,),
    measures=MEASURES,
    plan=plan,
    perform=perform,
    picture=picture,
)
