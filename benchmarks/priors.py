"""``make priors``: fixed priors beside inferred ones, on documents and a network, written to benchmarks/PRIORS.md.

Every fit hides some cells; their true counts give the held-out log score. Rows of a table are means over releases,
with the half range of the releases behind.
"""

from __future__ import annotations

import argparse
import datetime
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

import countveil as cv
from countveil.evaluation import coherence, held_out_log_score, mean_absolute_error, npmi
from countveil.posterior.diagnostics.summary import summarize
from documents import documents
from machine import describe_machine

LEVELS = (1.0, 2.0, 3.0, None)
TOPICS, COMMUNITIES = 50, 20
PAPER = {"shape": 0.1, "rate": 1.0}


class Kind(NamedTuple):
    """A data set, its models by the names of their priors, and how long they run."""

    counts: Any
    models: dict[str, Any]
    sweeps: int
    kept: int
    hidden: int
    words: bool  # whether topics are scored too


class Fit(NamedTuple):
    """What one fit gave."""

    told: float  # the release's unbiased total
    total: float
    log_score: float
    error: float
    npmi: float
    coherence: float
    seconds: float


def fitted(kind: Kind, model: Any, level: float | None, seed: int) -> Fit:
    counts = kind.counts
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.choice(math.prod(counts.shape), kind.hidden, replace=False))
    hidden = np.unravel_index(cells, counts.shape)
    if level is None:
        dense = counts.toarray() if sp.issparse(counts) else counts
        data, told = np.ma.array(dense, mask=False), float(counts.sum())
        data[hidden] = np.ma.masked
    else:
        release = cv.simulate_release(counts, alpha=math.exp(-level), seed=seed)
        data, told = release.hide(hidden), release.total()
    began = time.perf_counter()
    posterior = cv.fit(
        model, data, sweeps=kind.sweeps, burn_in=kind.sweeps // 2,
        thin=kind.sweeps // 2 // kind.kept, chains=1, seed=seed, progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    scores = (math.nan, math.nan)
    if kind.words:
        top = posterior.topics(10).top_words()
        scores = float(npmi(top, counts).mean()), float(coherence(top, counts).mean())
    total = float(posterior.tree["sample_stats"]["total_rate"].mean())
    score = held_out_log_score(posterior, counts, cells=hidden)
    error = mean_absolute_error(posterior.iter_rates(), counts)
    return Fit(told, total, 1000 * score, error, *scores, seconds)


def table(kind: Kind, levels: Sequence[float | None], releases: int, say: Callable[..., None]) -> None:
    """Printed as it comes: fits take minutes."""
    say("| eps/N | prior | total (release's) | log score x 1000 | MAE | NPMI | coherence | seconds |")
    say("|---|---|---|---|---|---|---|---|")
    for level in levels:
        for prior, model in kind.models.items():
            each = [fitted(kind, model, level, seed) for seed in range(1 if level is None else releases)]
            found = np.array(each)
            mean, half = found.mean(axis=0), np.ptp(found, axis=0) / 2
            told, total, score, error, by_npmi, by_coherence, seconds = (
                f"{m:.{digits}{kind_}}" + ("" if len(each) == 1 else f" +- {h:.2g}")
                for m, h, digits, kind_ in zip(mean, half, (4, 4, 2, 4, 3, 1, 0), "ggfffff", strict=True)
            )
            name = "plain" if level is None else f"{level:g}"
            scores = f"{by_npmi} | {by_coherence}" if kind.words else "|"
            say(f"| {name} | {prior} | {total} ({told}) | {score} | {error} | {scores} | {seconds} |")


def messages(edges: str) -> np.ndarray:
    """Distinct messages from actor to actor by month."""
    found = pd.read_csv(edges).iloc[:, :3].drop_duplicates()
    month = pd.to_datetime(found.iloc[:, 0]).dt.to_period("M")
    places = [pd.factorize(month, sort=True)[0]]
    names = pd.Index(sorted(set(found.iloc[:, 1]) | set(found.iloc[:, 2])))
    places += [names.get_indexer(found.iloc[:, column]) for column in (1, 2)]
    out = np.zeros((len(names), len(names), places[0].max() + 1), dtype=np.int64)
    np.add.at(out, (places[1], places[2], places[0]), 1)
    out[np.arange(len(names)), np.arange(len(names))] = 0
    return out


def mixing(counts: Any, sweeps: int, say: Callable[..., None]) -> None:
    """Effective samples of the total, and of the scales of a frequent word, a rare one, and two rows."""
    often = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")
    part = counts[:1000][:, often[::5][:2000]]
    release = cv.simulate_release(part, alpha=math.exp(-2.0), seed=0)
    say(
        "| prior | total | log joint | word 0 | word 1000 | row 0 | row 500 |",
        "|---|---|---|---|---|---|---|",
    )
    for name, model in {"Gamma(0.1, 1)": cv.TopicModel(20, **PAPER), "inferred": cv.TopicModel(20)}.items():
        found = cv.fit(
            model, release, sweeps=sweeps, burn_in=sweeps // 2, thin=1, chains=2, seed=1, progress=False
        )
        stats = found.tree["sample_stats"]
        watched = {field: stats[field].to_numpy() for field in ("total_rate", "log_joint")}
        if model.rate is None:
            for field, places in (("phi_scale", (0, 1000)), ("theta_scale", (0, 500))):
                logs = np.log(found.tree["posterior"][field].to_numpy().astype(float))
                for place in places:
                    watched[f"{field} {place}"] = logs[..., place] - logs.mean(axis=2)
        ess = summarize(watched, 0.9)["ess_bulk"]
        cells = [f"{value:.0f}" for value in ess] + [""] * (6 - len(ess))
        say(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", help="a scipy.sparse .npz of documents x words; synthetic by default")
    parser.add_argument("--edges", help="a .csv.gz of time, sender, recipient; left out by default")
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few sweeps, one release: to see that it works")
    parser.add_argument("-o", "--output", default=str(Path(__file__).with_name("PRIORS.md")))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", "prior: shape and rate")  # it is what is shown here
    releases = 1 if given.quick else given.releases
    counts, what = documents(given.documents)
    lines: list[str] = []

    def say(*more: str) -> None:
        lines.extend(more)
        print(*more, sep="\n", flush=True)
        Path(given.output).write_text("\n".join(lines) + "\n")

    say(
        "# Priors",
        "",
        f"Made by `make priors` on {datetime.date.today():%Y-%m-%d}: {describe_machine(('countveil', 'numpy', 'numba'))}.",
        "",
    )
    sweeps = 40 if given.quick else 300
    text = Kind(
        counts,
        {"Gamma(0.1, 1)": cv.TopicModel(TOPICS, **PAPER), "inferred": cv.TopicModel(TOPICS)},
        sweeps, 10, 300_000, words=True,
    )  # fmt: skip
    say(f"## Topics, K = {TOPICS}", "", f"On {what}; {sweeps} sweeps, the second half kept.", "")
    table(text, LEVELS, releases, say)
    once = sp.csr_array(counts).astype(bool).astype(np.int64)
    say(
        "",
        "The same with every count above 1 made 1, so that there are no bursts.",
        "",
    )
    table(text._replace(counts=once, models={"inferred": text.models["inferred"]}), (1.0,), 1, say)
    part = 200 if given.quick else 2000
    say("", f"## Effective samples of {part} sweeps (two chains, half of them burn-in)", "")
    say("1,000 documents, 2,000 words, K = 20, eps/N = 2.", "")
    mixing(sp.csr_array(counts), part, say)
    if given.edges:
        tensor = messages(given.edges)
        network = Kind(
            tensor.sum(axis=2),
            {
                "Gamma(0.1, 1)": cv.CommunityModel(COMMUNITIES, **PAPER),
                "inferred": cv.CommunityModel(COMMUNITIES, rate=None),
            },
            200 if given.quick else 3000, 100, 2500, words=False,
        )  # fmt: skip
        say("", f"## Communities, C = {COMMUNITIES}", "", f"{network.counts.shape[0]} actors.", "")
        table(network, LEVELS, releases, say)
        by_month = Kind(
            tensor,
            {"Gamma(0.1, 1)": cv.TensorModel(20, **PAPER), "inferred": cv.TensorModel(20, rate=None)},
            200 if given.quick else 1000, 50, 50_000, words=False,
        )  # fmt: skip
        say("", "## A tensor, rank 20", "", f"{' x '.join(map(str, tensor.shape))}: from, to, month.", "")
        table(by_month, LEVELS[:3], releases, say)


if __name__ == "__main__":
    main()
