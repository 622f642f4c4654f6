"""Samples of noise per second: add_noise beside OpenDP and numpy's geometrics, in one run, on one core.

python benchmarks/noise.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp

from countveil.privacy import Guarantee, add_noise

RATES = ["0.1", "1", "3"]
SIZE, OPENDP_SIZE = 10_000_000, 100_000
REPEATS, OPENDP_REPEATS = 7, 3


def speeds(work: Callable[[], object], size: int, repeats: int) -> tuple[float, float]:
    """Millions of samples per second: the best and the median of some repeats, after one to warm up."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return size / min(seconds) / 1e6, size / statistics.median(seconds) / 1e6


def ours(rate: str) -> tuple[float, float]:
    zeros, guarantee = np.zeros(SIZE, dtype=np.int64), Guarantee(rate)
    return speeds(lambda: add_noise(zeros, guarantee), SIZE, REPEATS)


def opendp(rate: str) -> tuple[float, float]:
    """Exact and from a secure source, as ours."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    mechanism, zeros = dp.m.make_geometric(*space, scale=1 / float(rate)), [0] * OPENDP_SIZE
    return speeds(lambda: mechanism(zeros), OPENDP_SIZE, OPENDP_REPEATS)


def numpy_geometrics(rate: str) -> tuple[float, float]:
    """Neither exact nor from a secure source: what privacy costs in speed."""
    generator, p = np.random.default_rng(), -np.expm1(-float(rate))
    return speeds(lambda: generator.geometric(p, SIZE) - generator.geometric(p, SIZE), SIZE, REPEATS)


def table() -> list[str]:
    """The lines of a table, measured now."""
    dp.enable_features("contrib")
    lines = [
        f"Million samples per second on one core, best (median), in blocks of {SIZE:,} (OpenDP: {OPENDP_SIZE:,}); "
        "ratios of medians. The bar is 50.",
        "",
        "| eps/N | add_noise | OpenDP | numpy geometric | to OpenDP | to numpy |",
        "|---|---|---|---|---|---|",
    ]
    for rate in RATES:
        results = [measure(rate) for measure in (ours, opendp, numpy_geometrics)]
        cells = " | ".join(f"{best:.2f} ({median:.2f})" for best, median in results)
        ratios = [results[0][1] / median for _, median in results[1:]]
        lines.append(f"| {rate} | {cells} | {ratios[0]:.0f}x | {ratios[1]:.1f}x |")
    return lines


if __name__ == "__main__":
    print(*table(), sep="\n")
