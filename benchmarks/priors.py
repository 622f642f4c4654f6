"""``make priors``: fixed priors beside inferred ones, on documents, a network and a tensor.

    python benchmarks/priors.py --documents documents.npz --edges edges.csv.gz --processes 16

Every fit is a process of one thread and a line of benchmarks/priors.csv, written as it comes; the same command again
makes what is missing. From that file ``--table`` (and every run at its end) writes benchmarks/PRIORS.md.

Every fit hides some cells; their true counts give the held-out log score. Rows of a table are means over releases,
with the half range of the releases behind; "rare" is the share of topics' ten first words that are in the rarer half of
the vocabulary by their true counts: where noise ranks words it is large. Of all that a release decides (noise, hidden cells, the chain's seed) the
fits of one release have the same, so priors are compared by the differences of their scores, release by release.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import functools
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

import countveil as cv
from countveil.evaluation import coherence, held_out_log_score, mean_absolute_error, npmi
from countveil.posterior.diagnostics.summary import summarize
from documents import describe, documents
from machine import describe_machine
from one_tail import law_of_scales

LEVELS = ("1", "2", "3", "plain")
TOPICS, COMMUNITIES, RANK = 50, 20, 20
PAPER, INFERRED = "Gamma(0.1, 1)", "inferred"
#: Scales with one tail: the forms between which the inferred prior chooses, see one_tail.py.
FORMS = {"gamma scales": "gamma", "inverse gamma scales": "inverse gamma"}
FIELDS = ("told", "total", "log_score", "error", "npmi", "coherence", "rare", "seconds")
#: Of which effective samples are counted.
WATCHED = ("total rate", "log joint", "word 0", "word 1000", "row 0", "row 500")
MOST_HIDDEN = 300_000


class Job(NamedTuple):
    """One fit; a line of the file begins with it."""

    data: str
    prior: str
    level: str
    release: int
    sweeps: int


class Source(NamedTuple):
    """Where data come from."""

    documents: str | None
    edges: str | None
    part: int  # of the documents, for what all of them are too many for


class Kind(NamedTuple):
    """A data set, and how it is fitted."""

    title: str
    counts: Callable[[Source], Any]
    model: Callable[..., Any]
    priors: tuple[str, ...]
    levels: tuple[str, ...]
    kept: int  # draws
    longer: float = 1.0  # times the sweeps of documents
    hidden: float = 0.02  # share of its cells
    words: bool = False  # whether topics are scored too
    releases: int | None = None  # as many as asked for


@functools.lru_cache(maxsize=1)
def every_document(source: Source) -> Any:
    return documents(source.documents)[0]


def first_documents(source: Source) -> Any:
    return every_document(source)[: source.part]


def counted_once(source: Source) -> Any:
    """No count above 1, so that there are no bursts."""
    return sp.csr_array(every_document(source)).astype(bool).astype(np.int64)


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


def by_month(source: Source) -> np.ndarray:
    assert source.edges is not None
    return messages(source.edges)


def network(source: Source) -> np.ndarray:
    return by_month(source).sum(axis=2)


def topic_model(**prior: Any) -> Any:
    return cv.TopicModel(TOPICS, **prior)


def community_model(**prior: Any) -> Any:
    return cv.CommunityModel(COMMUNITIES, **prior)


def tensor_model(**prior: Any) -> Any:
    return cv.TensorModel(RANK, **prior)


#: The longest fits first, so that no process is left with one of them at the end.
KINDS = {
    "documents": Kind(
        f"Topics, K = {TOPICS}", every_document, topic_model, (PAPER, INFERRED), LEVELS, 10, words=True
    ),
    "once": Kind(
        "The same with every count above 1 made 1, so that there are no bursts",
        counted_once, topic_model, (INFERRED,), ("1",), 10, words=True, releases=1,
    ),
    "part": Kind(
        f"The law of scales: a part of the documents, K = {TOPICS}",
        first_documents, topic_model, (INFERRED, *FORMS), LEVELS, 10, words=True,
    ),
    "tensor": Kind(
        f"A tensor, rank {RANK}: from, to, month",
        by_month, tensor_model, (PAPER, INFERRED), LEVELS[:3], 50, longer=10 / 3, hidden=0.05,
    ),
    "network": Kind(
        f"Communities, C = {COMMUNITIES}",
        network, community_model, (PAPER, INFERRED, *FORMS), LEVELS, 100, longer=10, hidden=0.1,
    ),
}  # fmt: skip
MIXING = "mixing"


def jobs(source: Source, chosen: Iterable[str], sweeps: int, releases: int) -> Iterator[Job]:
    """All fits that can be made of the data that are there."""
    for name in chosen:
        if name == MIXING:
            for prior in (PAPER, INFERRED):
                yield Job(MIXING, prior, "2", 0, sweeps * 20 // 3)
            continue
        kind = KINDS[name]
        if kind.counts in (network, by_month) and source.edges is None:
            continue
        for release in range(releases if kind.releases is None else kind.releases):
            for level in kind.levels:
                for prior in kind.priors:
                    yield Job(name, prior, level, release, max(4, int(sweeps * kind.longer)))


def performed(job: Job, source: Source) -> tuple[dict[str, float], str]:
    """What one fit gives, and of what counts."""
    warnings.filterwarnings("ignore", "prior: shape and rate")  # it is what is shown here
    if job.data == MIXING:
        return effective_samples(job, source), ""
    counts = KINDS[job.data].counts(source)
    return scores(job, counts), f"{name_of(job, source)}: {described(counts)}"


def name_of(job: Job, source: Source) -> str:
    path = source.edges if KINDS[job.data].counts in (network, by_month) else source.documents
    return "synthetic" if path is None else Path(path).name


def described(counts: Any) -> str:
    if sp.issparse(counts):
        return describe(counts)
    return f"{' x '.join(map(str, counts.shape))}, {counts.sum():,} counts, {np.count_nonzero(counts):,} non-zero cells"


def prior_of(job: Job) -> dict[str, float | None]:
    return {"shape": 0.1, "rate": 1.0 if job.prior == PAPER else None}


def scores(job: Job, counts: Any) -> dict[str, float]:
    kind = KINDS[job.data]
    n_cells = math.prod(counts.shape)
    rng = np.random.default_rng(job.release)
    cells = np.unique(rng.choice(n_cells, min(MOST_HIDDEN, int(kind.hidden * n_cells)), replace=False))
    hidden = np.unravel_index(cells, counts.shape)
    if job.level == "plain":
        dense = counts.toarray() if sp.issparse(counts) else counts
        data, told = np.ma.array(dense, mask=False), float(counts.sum())
        data[hidden] = np.ma.masked
    else:
        release = cv.simulate_release(counts, alpha=math.exp(-float(job.level)), seed=job.release)
        data, told = release.hide(hidden), release.total()
    began = time.perf_counter()
    with law_of_scales(FORMS.get(job.prior)):
        posterior = cv.fit(
            kind.model(**prior_of(job)), data, sweeps=job.sweeps, burn_in=job.sweeps // 2,
            thin=max(1, job.sweeps // 2 // kind.kept), chains=1, seed=job.release, engine="cpu", threads=1,
            progress=False,
        )  # fmt: skip
    found = {"told": told, "seconds": time.perf_counter() - began}
    if kind.words:
        top = posterior.topics(10).top_words()
        found |= {"npmi": float(npmi(top, counts).mean()), "coherence": float(coherence(top, counts).mean())}
        often = np.asarray(counts.sum(axis=0)).ravel()
        found["rare"] = float((often[np.asarray(top)] < np.median(often)).mean())
    found["total"] = float(posterior.tree["sample_stats"]["total_rate"].mean())
    found["log_score"] = 1000 * held_out_log_score(posterior, counts, cells=hidden)
    found["error"] = mean_absolute_error(posterior.iter_rates(), counts)
    return found


def effective_samples(job: Job, source: Source) -> dict[str, float]:
    """Of the total, of the scales of a frequent word and a rare one, and of two rows; of 1,000 x 2,000 counts."""
    counts = every_document(source)
    often = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")
    part = counts[:1000][:, often[::5][:2000]]
    release = cv.simulate_release(part, alpha=math.exp(-float(job.level)), seed=0)
    began = time.perf_counter()
    found = cv.fit(
        cv.TopicModel(20, **prior_of(job)), release, sweeps=job.sweeps, burn_in=job.sweeps // 2, thin=1, chains=2,
        seed=1, engine="cpu", threads=1, progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    stats = found.tree["sample_stats"]
    watched = {"total rate": stats["total_rate"].to_numpy(), "log joint": stats["log_joint"].to_numpy()}
    if job.prior == INFERRED:
        for what, field in (("word", "phi_scale"), ("row", "theta_scale")):
            logs = np.log(found.tree["posterior"][field].to_numpy().astype(float))
            for place in (int(name.split()[1]) for name in WATCHED if name.startswith(what)):
                watched[f"{what} {place}"] = logs[..., place] - logs.mean(axis=2)
    ess = summarize(watched, 0.9)["ess_bulk"]
    return {name: float(ess[name]) for name in watched} | {"seconds": seconds}


COLUMNS = (*Job._fields, "part", *FIELDS, *WATCHED, "counts", "made")


def read_lines(path: Path) -> dict[tuple[Job, int], dict[str, str]]:
    """Lines by their fits and the size of the part; of a line that is there twice, the last."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    found = {}
    for line in lines:
        if not line.get("made"):  # it was cut off just now
            continue
        job = Job(line["data"], line["prior"], line["level"], int(line["release"]), int(line["sweeps"]))
        found[job, int(line["part"])] = line
    return found


def run(todo: list[Job], source: Source, processes: int, path: Path) -> None:
    """Make fits, each in a process, and append them to the file as they come."""
    made = f"{datetime.date.today():%Y-%m-%d}: {describe_machine(('countveil', 'numpy', 'numba'))}"
    began = time.perf_counter()
    there = path.read_text() if path.exists() else ""
    there = there[: there.rfind("\n") + 1]  # without a line that was cut off
    path.write_text(there or ",".join(COLUMNS) + "\n")
    columns = next(csv.reader(there.splitlines())) if there else COLUMNS  # of an older file, fewer
    with path.open("a", newline="") as file:
        lines = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            waiting = {pool.submit(performed, job, source): job for job in todo}
            for number, done in enumerate(as_completed(waiting), start=1):
                job, (found, counts) = waiting[done], done.result()
                lines.writerow(
                    job._asdict() | {"part": part_of(job, source), "counts": counts, "made": made}
                    | {name: f"{value:.6g}" for name, value in found.items()}
                )  # fmt: skip
                file.flush()
                told = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
                since = time.perf_counter() - began
                print(
                    f"{number} of {len(todo)}, {since:.0f} s: {' | '.join(map(str, job))} | {told}",
                    flush=True,
                )


def part_of(job: Job, source: Source) -> int:
    return source.part if KINDS.get(job.data, KINDS["once"]).counts is first_documents else 0


def mean_and_half_range(values: np.ndarray, form: str) -> str:
    return format(values.mean(), form) + ("" if len(values) == 1 else f" +- {np.ptp(values) / 2:.2g}")


def table(kind: Kind, lines: dict[tuple[str, str, int], dict[str, str]]) -> Iterator[str]:
    """Of one data set: lines by level, prior and release."""
    yield (
        "| eps/N | prior | releases | total (release's) | log score x 1000 | minus inferred's | MAE | NPMI "
        "| coherence | rare | seconds |"
    )
    yield "|" + "---|" * 11
    for level in kind.levels:
        for prior in kind.priors:
            mine = sorted(release for at, name, release in lines if (at, name) == (level, prior))
            if not mine:
                continue
            each = {
                f: np.array([float(lines[level, prior, r].get(f) or "nan") for r in mine]) for f in FIELDS
            }
            paired = [r for r in mine if (level, INFERRED, r) in lines]
            apart = np.array(
                [
                    float(lines[level, prior, r]["log_score"]) - float(lines[level, INFERRED, r]["log_score"])
                    for r in paired
                ]
            )
            less = "" if prior == INFERRED or not paired else mean_and_half_range(apart, "+.2f")
            total, told = (mean_and_half_range(each[name], ".4g") for name in ("total", "told"))
            score, error, by_npmi, by_coherence, rare, seconds = (
                mean_and_half_range(each[name], form)
                for name, form in zip(FIELDS[2:], (".2f", ".4f", ".3f", ".1f", ".3f", ".0f"), strict=True)
            )
            of_words = f"{by_npmi} | {by_coherence} | {rare}" if kind.words else "| |"
            yield (
                f"| {level} | {prior} | {len(mine)} | {total} ({told}) | {score} | {less} | {error} | {of_words} "
                f"| {seconds} |"
            )


def written(path: Path) -> Iterator[str]:
    """PRIORS.md, from the file of fits."""
    lines = read_lines(path)
    made = sorted({line["made"] for line in lines.values()})
    yield from (
        "# Priors",
        "",
        f"Made by `make priors`, every fit with one thread, on {'; and on '.join(made)}.",
    )
    for name in (*KINDS, MIXING):
        settings = sorted({(job.sweeps, part) for job, part in lines if job.data == name}, reverse=True)
        for sweeps, part in settings:
            chosen = {
                job: line
                for (job, p), line in lines.items()
                if (job.data, job.sweeps, p) == (name, sweeps, part)
            }
            of = f", the first {part:,} documents" if part else ""
            if name == MIXING:
                yield from (
                    "",
                    f"## Effective samples of {sweeps:,} sweeps (two chains, half of them burn-in)",
                    "",
                )
                yield from ("1,000 documents, 2,000 words, K = 20, eps/N = 2.", "")
                yield f"| prior | {' | '.join(WATCHED)} |"
                yield "|---" * (1 + len(WATCHED)) + "|"
                for job in sorted(chosen, reverse=False):
                    cells = [f"{float(chosen[job][w]):.0f}" if chosen[job][w] else "" for w in WATCHED]
                    yield f"| {job.prior} | {' | '.join(cells)} |"
                continue
            what = next(iter(chosen.values()))["counts"]
            yield from (
                "",
                f"## {KINDS[name].title}{of}",
                "",
                f"On {what}; {sweeps:,} sweeps, the second half kept.",
                "",
            )
            yield from table(KINDS[name], {(j.level, j.prior, j.release): line for j, line in chosen.items()})


def main() -> None:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", help="a scipy.sparse .npz of documents x words; synthetic by default")
    parser.add_argument("--edges", help="a .csv.gz of time, sender, recipient; left out by default")
    parser.add_argument("--data", nargs="+", choices=[*KINDS, MIXING], default=[*KINDS, MIXING])
    parser.add_argument(
        "--part", type=int, default=2000, help="documents on which laws of scales are compared"
    )
    parser.add_argument(
        "--sweeps", type=int, default=300, help="of documents; networks have ten times as many"
    )
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="fits at a time, of one thread each")
    parser.add_argument("--quick", action="store_true", help="few sweeps, one release: to see that it works")
    parser.add_argument("--fits", default=str(here / "priors.csv"), help="the file of fits, which grows")
    parser.add_argument(
        "--table", action="store_true", help="make no fits: only the tables, of those there are"
    )
    parser.add_argument("-o", "--output", default=str(here / "PRIORS.md"))
    given = parser.parse_args()
    path, source = Path(given.fits), Source(given.documents, given.edges, given.part)
    if not given.table:
        sweeps, releases = (40, 1) if given.quick else (given.sweeps, given.releases)
        there = read_lines(path)
        every = jobs(source, given.data, sweeps, releases)
        todo = [job for job in every if (job, part_of(job, source)) not in there]
        run(todo, source, given.processes, path)
    Path(given.output).write_text("\n".join(written(path)) + "\n")


if __name__ == "__main__":
    main()
