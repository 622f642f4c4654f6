"""The straight line, once, on a real corpus: privatize, fit three ways, compare.

The documents are the docstrings of numpy and scipy, which play the private ones; see ``docstring_corpus``.
Because the truth is at hand here, the demo can say what privacy costs. An analyst has only the release.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from countveil.counts import PrivateCounts, privatize
from countveil.counts.files.atomic import write_file
from countveil.evaluation import coherence, log_score, mean_absolute_error, npmi
from countveil.fitting import fit
from countveil.models import TopicModel
from countveil.posterior import Posterior
from countveil.report import MethodResult, comparison_picture
from countveil.studies.demo.docstring_corpus import DocstringCorpus, docstring_corpus

N_WORDS = 10  # by which a topic is scored and shown
RELEASE, RUN, PICTURE = "release.parquet", "exact.zarr", "comparison.png"
#: By this note a folder of the demo is known: files there may be replaced, and nobody else's.
NOTE, MADE_BY_DEMO = "demo.txt", "Made by countveil demo, which replaces the files here when it runs again.\n"


class DemoResult(NamedTuple):
    """What the demo found, for ``demo_text`` to put into words."""

    corpus: DocstringCorpus
    release: PrivateCounts
    methods: list[MethodResult]  # non-private, exact, naive; a topic of one row is the same topic, as matched
    affinity: dict[str, np.ndarray]  # of exact's and naive's topics with all non-private ones
    shown: np.ndarray  # which of the non-private topics are shown
    folder: Path
    seconds: float


def run_demo(
    folder: str | os.PathLike[str],
    *,
    epsilon: int | float | str = 2,
    precision: int = 1,
    n_topics: int = 20,
    sweeps: int = 300,
    max_documents: int = 3000,
    max_words: int = 2500,
    seed: int = 1,
    n_shown: int = 6,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> DemoResult:
    """Run it and write the release, the exact run and the picture into ``folder``.

    The noise is the real thing and has no seed, so every run of the demo differs a little; the fits have one.
    ``say`` hears what is going on. The ``n_shown`` topics shown are spread evenly from the largest to the
    smallest of the non-private fit.
    """
    began = time.perf_counter()
    target = _prepared(folder)
    say("Reading the docstrings of the installed numpy and scipy ...")
    corpus = docstring_corpus(max_documents=max_documents, max_words=max_words)
    say("Privatizing their word counts ...")
    release = privatize(
        corpus.counts, epsilon, precision, rows=corpus.documents, columns=corpus.vocabulary
    )  # fmt: skip
    release.save(target / RELEASE, overwrite=True)  # no secret: anyone has these texts
    model = TopicModel(n_topics)
    settings: dict[str, Any] = {
        "sweeps": sweeps, "thin": max(1, sweeps // 40), "chains": 1, "seed": seed, "progress": progress,
    }  # fmt: skip
    fits: dict[str, Posterior] = {}
    say(f"Fitting {n_topics} topics to the true counts: the yardstick, not private ...")
    fits["non-private"] = fit(model, corpus.counts, **settings)
    say("Fitting the release, exactly: the noise is part of the model ...")
    fits["exact"] = fit(model, release, **settings)
    fits["exact"].save(target / RUN)
    say("Fitting the release, naively: noisy counts taken for true ones ...")
    fits["naive"] = fit(model, release, method="naive", **settings)
    say("Scoring all three against the true counts ...")
    topics = {name: posterior.topics(N_WORDS) for name, posterior in fits.items()}
    weights = {name: found.weights["mean"].to_numpy() for name, found in topics.items()}
    matched = {name: match_topics(weights["non-private"], weights[name]) for name in fits}
    # Spread from the largest to the smallest: not those that came out best.
    shown = np.unique(np.linspace(0, n_topics - 1, min(n_shown, n_topics)).round().astype(int))
    methods = [
        _result(name, fits[name], topics[name].top_words(), matched[name].order[shown], corpus)
        for name in fits
    ]
    comparison_picture(
        methods, target / PICTURE, guarantee=str(release.guarantee),
        title="Topics of docstrings: what privacy costs, and what each method makes of it",
    )  # fmt: skip
    affinity = {name: matched[name].affinity for name in ("exact", "naive")}
    return DemoResult(corpus, release, methods, affinity, shown, target, time.perf_counter() - began)


def _result(
    name: str, posterior: Posterior, top: np.ndarray, shown: np.ndarray, corpus: DocstringCorpus
) -> MethodResult:
    return MethodResult(
        name,
        mae=mean_absolute_error(posterior.iter_rates(), corpus.counts),
        log_score=log_score(posterior.iter_rate_draws(), corpus.counts),
        npmi=float(npmi(top, corpus.counts).mean()),
        coherence=float(coherence(top, corpus.counts).mean()),
        topics=[[corpus.vocabulary[word] for word in top[topic]] for topic in shown],
    )


def _prepared(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if needed, without the run of an earlier demo; files of others are not replaced."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    note = target / NOTE
    if not (note.is_file() and note.read_bytes() == MADE_BY_DEMO.encode()):
        for name in (RELEASE, RUN, PICTURE, NOTE):
            if os.path.lexists(target / name):
                raise FileExistsError(
                    f"output: expected a new folder, or one of an earlier demo, got {target}, which has another "
                    f"{name}"
                )
        write_file(note, MADE_BY_DEMO.encode(), overwrite=False)
    if (target / RUN / "zarr.json").is_file():
        shutil.rmtree(target / RUN)
    return target


class MatchedTopics(NamedTuple):
    """For every reference topic the other fit's topic, and how alike the two are (1 = identical)."""

    order: np.ndarray
    affinity: np.ndarray


def match_topics(reference: Any, other: Any) -> MatchedTopics:
    """The one-to-one assignment with the largest total affinity sum_v sqrt(p_v q_v) (Bhattacharyya).

    Both are (topics, words) arrays of weights >= 0, as many topics in one as in the other.

    >>> match_topics([[1, 0, 0], [0, 1, 1]], [[0, 2, 2], [3, 0, 0]]).order
    array([1, 0])
    """
    ours, theirs = _roots(reference), _roots(other)
    if ours.shape != theirs.shape:
        raise ValueError(f"other: expected the shape of reference, {ours.shape}, got {theirs.shape}")
    affinity = ours @ theirs.T
    _, order = linear_sum_assignment(affinity, maximize=True)
    return MatchedTopics(order, np.minimum(affinity[np.arange(len(ours)), order], 1.0))


def _roots(weights: Any) -> np.ndarray:
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"topics: expected shape (topics, words), got {array.shape}")
    return np.sqrt(array / np.maximum(array.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))
