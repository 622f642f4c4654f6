"""What time and file size tell about the true counts: each kind of counts beside all zeros, in turns, in one run.

python benchmarks/side_channels.py          (or: make side-channels; about a minute on one quiet core)
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import countveil as cv
from countveil.privacy import Guarantee, add_noise
from machine import describe_machine

SHAPE = (1000, 1000)
VOCABULARY = [f"word{i}" for i in range(500)]
EPSILON = 1

Work = Callable[[], object]


def kinds_of_counts() -> dict[str, np.ndarray]:
    """Arrays of one shape and type, all of which must look alike from outside."""
    rng = np.random.default_rng(0)
    few = np.where(rng.random(SHAPE) < 0.01, rng.integers(1, 10, SHAPE), 0)
    return {
        "all zero": np.zeros(SHAPE, dtype=np.int64),
        "all zero, again": np.zeros(SHAPE, dtype=np.int64),
        "one cell in 100 is not zero": few,
        "all one": np.ones(SHAPE, dtype=np.int64),
        "Poisson, mean 5": rng.poisson(5.0, SHAPE),
        "all 2**40": np.full(SHAPE, 2**40),
    }


def texts_of(words: int) -> list[str]:
    """1,000 texts of so many words each, all in the vocabulary."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(VOCABULARY, words)) for _ in range(1000)]


def groups(folder: Path) -> Iterator[tuple[str, dict[str, Work]]]:
    """What is measured: for every way in, the work for each kind of counts; the first is the yardstick."""
    promise, counts = Guarantee(EPSILON), kinds_of_counts()

    def each(form: Callable[[np.ndarray], Any], call: Callable[[Any], object]) -> dict[str, Work]:
        given = {name: form(array) for name, array in counts.items()}
        return {name: lambda one=one: call(one) for name, one in given.items()}

    yield "add_noise, an array", each(lambda array: array, lambda one: add_noise(one, promise))
    yield (
        "add_noise, a list (a tenth of the cells)",
        each(lambda array: array[:100].tolist(), lambda one: add_noise(one, promise)),
    )
    yield "privatize, an array", each(lambda array: array, lambda one: cv.privatize(one, EPSILON))
    yield "privatize, scipy.sparse", each(sparse.csr_array, lambda one: cv.privatize(one, EPSILON))
    texts = {f"{words} words each": texts_of(words) for words in (0, 20, 100)}
    texts = {"no words": texts["0 words each"], "no words, again": texts.pop("0 words each"), **texts}
    yield (
        "privatize, texts",
        {
            name: lambda one=one: cv.privatize(one, EPSILON, vocabulary=VOCABULARY)
            for name, one in texts.items()
        },
    )
    file = folder / "release.parquet"
    to_file = each(lambda a: a, lambda one: cv.privatize_to_file(one, file, EPSILON, overwrite=True))
    yield "privatize_to_file, an array", to_file


def times_in_turns(work: dict[str, Work], rounds: int) -> dict[str, list[float]]:
    """Seconds of every call; each round runs all of them, in another order.

    Of the processor, not of the clock: other programs would blur that, and an observer may be well placed.
    """
    rng = np.random.default_rng(1)
    names, seconds = list(work), {name: [] for name in work}
    for name in names:
        work[name]()  # warm
    for _ in range(rounds):
        for name in rng.permutation(names):
            start = time.process_time()
            work[name]()
            seconds[name].append(time.process_time() - start)
    return seconds


def told(yardstick: list[float], other: list[float]) -> float:
    """How often one time of each, compared, says rightly which was which, at best: 0.5 is a coin."""
    slower = np.mean(np.array(other)[:, None] > np.array(yardstick))
    return float(max(slower, 1 - slower))


def report(rounds: int) -> Iterator[str]:
    """The lines of both tables, measured now."""
    cells = f"{SHAPE[0]:,} x {SHAPE[1]:,}"
    yield f"{describe_machine(('countveil', 'numpy', 'scipy', 'pyarrow'))}; {datetime.date.today():%Y-%m-%d}. {cells} cells (texts: 1,000 x {len(VOCABULARY)}),"
    yield f'eps/N = {EPSILON}, {rounds} rounds in turns, processor time. Ratios of medians to the first line of each group; "told" is how'
    yield "often two single times, compared, say rightly which is which (50 % is a coin)."
    yield from ("", "| way in | true counts | median, ms | ratio | told |", "|---|---|---|---|---|")
    sizes: dict[str, int] = {}
    medians: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for way, work in groups(Path(folder)):
            seconds = times_in_turns(work, rounds)
            first = next(iter(seconds.values()))
            for name, each in seconds.items():
                medians[way, name] = statistics.median(each)
                ratio = medians[way, name] / statistics.median(first)
                shown = "" if each is first else f"{ratio:.2f} | {told(first, each):.0%}"
                yield f"| {way} | {name} | {1000 * medians[way, name]:.1f} | {shown or ' | '} |"
        for name, array in kinds_of_counts().items():
            file = Path(folder) / "size.parquet"
            cv.privatize_to_file(array, file, EPSILON, overwrite=True)
            sizes[name] = file.stat().st_size
    yield from ("", *slopes(medians), "", "| size of the release file | kB | ratio |", "|---|---|---|")
    for name, size in sizes.items():
        yield f"| {name} | {size / 1000:,.0f} | {size / sizes['all zero']:.2f} |"


def slopes(medians: dict[tuple[str, str], float]) -> list[str]:
    """What one more non-zero cell, or one more word, adds to the time, beyond what the noisy counts explain."""

    def added(way: str, other: str, base: str) -> float:
        return medians[way, other] - medians[way, base]

    # An array's zeros cost what its ones do; what its noisy counts cost later, those of a sparse matrix do too.
    listed = added("privatize, scipy.sparse", "all one", "all zero") - added(
        "privatize, an array", "all one", "all zero"
    )
    words = added("privatize, texts", "100 words each", "no words")
    return [
        f"A non-zero cell of a sparse matrix takes {listed / (SHAPE[0] * SHAPE[1]) * 1e9:.0f} ns more than a zero, "
        f"a word of a text {words / 100_000 * 1e9:.0f} ns."
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    for line in report(parser.parse_args().rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
