"""Synthetic topics (the paper's appendix): are planted topics found again?

The paper's text leaves the settings to its appendix. Here factors are drawn from the paper's own prior,
Gamma(0.1, 1), so that its model is true; ``uneven`` data have, on top, words whose frequency varies as in text
(log-normal), of which the prior knows nothing. Every fitted topic is matched with one planted topic, so that the
total affinity ``sum_v sqrt(p_v q_v)`` is largest; ``affinity`` is its mean (1: the same), ``found`` the share of
planted topics whose affinity is above 0.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from countveil.models import TopicModel
from countveil.studies.demo.demo import match_topics
from countveil.studies.experiments.panels import draw_scores
from countveil.studies.plan import METHODS, Found, Job, Measure, Settings, Study

DOCUMENTS, WORDS = 300, 300
ALIKE = 0.8

MEASURES = (
    Measure("affinity", "affinity with planted topics", "higher"),
    Measure("found", "share found", "higher"),
    Measure("error", "error of rates", "lower"),
    Measure("seconds", "CPU s"),
)


class Corpus(NamedTuple):
    """Planted factors and their counts."""

    rates: np.ndarray
    topics: np.ndarray
    counts: np.ndarray


def draw_corpus(kind: str, n_topics: int, seed: int) -> Corpus:
    """Factors from the prior; ``uneven``: words with frequencies of their own, the same total on average.

    >>> draw_corpus("uneven", 5, 0).counts.shape
    (300, 300)
    """
    rng = np.random.default_rng([23, seed])
    theta = rng.gamma(0.1, 1.0, (DOCUMENTS, n_topics))
    phi = rng.gamma(0.1, 1.0, (n_topics, WORDS))
    if kind == "uneven":
        scale = rng.lognormal(0.0, 1.5, WORDS)
        phi = phi * scale / scale.mean()
    # At the prior's own scale a cell has a mean of n_topics/100; ten times as many counts make topics that can
    # be found.
    rates = 10.0 * (theta @ phi)
    return Corpus(rates, phi, rng.poisson(rates))


def plan(settings: Settings) -> list[Job]:
    """Every method, level and prior, on both kinds of data."""
    jobs: list[Job] = []
    for data in ("even", "uneven"):
        for size in settings.sizes:
            jobs += settings.at_levels(METHODS, size=size, data=data)
    return settings.repeated(jobs)


def perform(job: Job, settings: Settings, data: Mapping[str, Any]) -> Found:
    """One corpus, its release, a fit, and how well its topics match the planted ones, over kept draws."""
    corpus = draw_corpus(job.data, job.size, job.release)
    seen, options = job.observed(corpus.counts)
    model = TopicModel(job.size, **job.given)
    posterior = job.fitted(model, settings, seen, **options)
    phi = posterior.tree["posterior"]["phi"].to_numpy()
    alike = np.array([match_topics(corpus.topics, draw).affinity for draw in phi.reshape(-1, *phi.shape[2:])])
    far = sum(float(np.abs(block - corpus.rates[rows]).sum()) for rows, block in posterior.iter_rates())
    return Found(
        {
            "affinity": float(alike.mean()),
            "found": float((alike > ALIKE).mean()),
            "error": far / corpus.rates.size,
        }
    )


def picture(folder: Any, path: Path) -> None:
    """Recovery by level, a row for each kind of data."""
    summary = folder.summary()
    kinds = [
        (f"{data}, K = {size}", {"data": data, "size": size})
        for data in ("even", "uneven")
        for size in sorted(set(summary["size"]))
    ]
    draw_scores(summary, MEASURES[:3], kinds, path, "Planted topics, found again (mean and 95 % interval)")


def load(options: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing: every job draws its own counts."""
    return {}


def describe(data: Any) -> str:
    """A line about the data."""
    return f"synthetic documents, {DOCUMENTS} x {WORDS}"


STUDY = Study(
    "synthetic-topics",
    "Synthetic topics",
    MEASURES,
    paper=Settings(7500, (3.0, 2.0, 1.0), (10,), 10, threads=1),
    quick=Settings(60, (3.0, 1.0), (4,), 1, threads=1),
    load=load,
    describe=describe,
    plan=plan,
    perform=perform,
    picture=picture,
)
