"""Is noise shared between cells or between calls, or does it repeat after seeding or in a forked process?"""

from __future__ import annotations

import hashlib
import os
import random
import select
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from countveil.auditing.check import MIN_EXPECTED, Check, Mechanism, check_pvalue, noise_on
from countveil.auditing.law import chances, fit_pvalue, smallest_error
from countveil.auditing.trials import any_half, kinds, mixed_counts
from countveil.privacy import Guarantee

Draw = Callable[[], np.ndarray]

BLOCK = (25, 40)  # cells of one row of an array of three axes
LAGS = (1, 2, 3, 40, 1000)  # among them the next cell along each axis
WIDTH = 200  # of a matrix
ARRAYS, ARRAY = 200, (30, 50)  # calls whose noise is summed, and their arrays
LEAST_NOISE = 1000  # variance of a sum that is as good as normal
PATIENCE = 60  # seconds for a child that must draw a little noise


def check_independence(mechanism: Mechanism, guarantee: Guarantee, size: int) -> list[Check]:
    """Pairs of cells along every axis, all distances at once, the same cell in two calls; counts of other cells.

    In an array of three axes, in a matrix and in a line.
    """
    rho, rng = guarantee.rho, np.random.default_rng()
    shape = (max(size // (BLOCK[0] * BLOCK[1]), 2), *BLOCK)
    forms = ((shape, LAGS), ((max(size // WIDTH, 2), WIDTH), (1, 2, 3, WIDTH)), ((size,), (1, 2, 3)))
    half = any_half(rng)
    trials: list[tuple[np.ndarray, np.ndarray]] = []
    close: list[float] = []
    later: list[float] = []
    others: list[float] = []
    for axes, lags in forms:
        counts = mixed_counts(axes, rng)
        noise = noise_on(mechanism, guarantee, counts).ravel()
        again = noise_on(mechanism, guarantee, mixed_counts(axes, rng)).ravel()
        trials.append((noise, again))
        close += [pair_pvalue(*pairs(noise, lag), rho) for lag in lags]
        later.append(pair_pvalue(noise, again, rho))
        others += others_pvalues(noise, again, counts.ravel(), rho, half, lags)
    noise, again = trials[0]
    near = min(close) * len(close)
    # Any distance: a block of noise used twice, a period of the generator. Signs and sizes apart.
    far = min(any_lag_pvalue(np.sign(noise)), any_lag_pvalue(np.abs(noise) > 0.7 / rho)) * 2
    calls = min(later) * len(later)
    rows = [one for both in (noise, again) for one in both.reshape(shape[0], -1)]
    arrays = [noise_on(mechanism, guarantee, mixed_counts(ARRAY, rng)).ravel() for _ in range(ARRAYS)]
    sums = min(sums_pvalue(rows, rho), sums_pvalue(arrays, rho)) * 2
    error = smallest_error(rho, size // 16, len(others))  # of the rarest kind of counts
    return [
        check_pvalue("neighbouring cells", near, "independent", "depend on each other"),
        check_pvalue("cells at any distance", far, "uncorrelated", "correlated"),
        check_pvalue("the same cell in two calls", calls, "independent", "depend on each other"),
        check_pvalue("sums of noise over rows and arrays", sums, "as far from 0 as they should", "are not"),
        check_pvalue(
            "counts of other cells",
            min(others) * len(others),
            "do not show in the noise",
            "show in the noise",
            finds=f"a rate that is off by {error:.1%} beside counts of one size" if error else "",
        ),
    ]


def others_pvalues(
    noise: np.ndarray, again: np.ndarray, counts: np.ndarray, rho: float, half: int, lags: Sequence[int]
) -> list[float]:
    """Noise has its law whatever the next cells hold, and whatever the call before held in its place.

    Noise may be independent from cell to cell, and right by the count that it is added to, and yet tell of another
    one: by its sign, say.
    """
    found = []
    for kind in kinds(counts, half):
        found += [fit_pvalue(noise[np.roll(kind, step)], rho) for lag in lags for step in (lag, -lag)]
        found.append(fit_pvalue(again[kind], rho))
    return found


def sums_pvalue(parts: list[np.ndarray], rho: float) -> float:
    """Sums of noise, whose variance follows from the law: noise that balances itself gives totals away.

    Chi-square of the squared sums over their variances; both ends count. Sums of little noise are far from normal
    and tell nothing.
    """
    variance = 0.5 / np.sinh(0.5 * rho) ** 2 if rho < 100 else 0.0
    if len(parts[0]) * variance < LEAST_NOISE:
        return 1.0
    squares = sum(float(part.sum()) ** 2 / (len(part) * variance) for part in parts)
    return float(2 * min(stats.chi2.cdf(squares, len(parts)), stats.chi2.sf(squares, len(parts))))


def pairs(noise: np.ndarray, lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells ``lag`` apart, each in one pair only: pairs that overlap would not be independent themselves."""
    blocks = noise[: len(noise) // (2 * lag) * (2 * lag)].reshape(-1, 2, lag)
    return blocks[:, 0].ravel(), blocks[:, 1].ravel()


def pair_pvalue(one: np.ndarray, other: np.ndarray, rho: float) -> float:
    """Chi-square of pairs, in up to 5 x 5 groups, against the product of the exact laws."""
    edges = max(1, round(1 / rho)) * np.array([-2, -1, 0, 1])
    chance = chances(rho, edges)
    while len(edges) > 1 and (chance.min() ** 2) * len(one) < MIN_EXPECTED:
        edges = np.delete(edges, min(int(chance.argmin()), len(edges) - 1))
        chance = chances(rho, edges)
    if (chance.min() ** 2) * len(one) < MIN_EXPECTED:
        return 1.0  # noise is so rare that pairs tell nothing
    both = chance.size * np.searchsorted(edges, one) + np.searchsorted(edges, other)
    observed = np.bincount(both, minlength=chance.size**2)
    expected = np.outer(chance, chance).ravel() * len(one)
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), chance.size**2 - 1))


def any_lag_pvalue(signal: np.ndarray) -> float:
    """The largest of all correlations of a series with itself, shifted around a circle."""
    n = 1 << min(20, int(np.log2(len(signal))))
    centred = signal[:n] - signal[:n].mean()
    spread = float((centred**2).sum())
    if spread**2 / n < 3000:  # so few coincidences that their number is far from normal
        return 1.0
    power = np.abs(np.fft.rfft(centred)) ** 2
    correlation = np.fft.irfft(power, n)[1 : n // 2] / spread
    return float(2 * stats.norm.sf(np.abs(correlation).max() * np.sqrt(n)) * (n // 2))


def check_freshness(mechanism: Mechanism, guarantee: Guarantee) -> list[Check]:
    """Two draws that may agree only with chance 1e-12 or less."""
    size = _telling_size(guarantee.rho)
    if size is None:
        return [Check("fresh noise", True, "not tested: at this guarantee noise is too rare")]

    def draw() -> np.ndarray:
        return noise_on(mechanism, guarantee, np.zeros(size, dtype=np.int64))

    plain = not np.array_equal(draw(), draw())
    seeded = not np.array_equal(_seeded(draw), _seeded(draw))
    found = [
        Check("two calls", plain, "different noise" if plain else "the same noise twice"),
        Check(
            "two calls after seeding", seeded, "different noise" if seeded else "the seed decides the noise"
        ),
    ]
    if hasattr(os, "fork"):
        forked = _forked(draw)
        found.append(
            Check("a forked process", forked, "different noise" if forked else "repeats its parent's noise")
        )
    return found


def _telling_size(rho: float) -> int | None:
    """So many cells that two independent draws agree on all of them with chance 1e-12."""
    a = np.exp(-rho)
    agree = ((1 - a) / (1 + a)) ** 2 * (1 + a * a) / (1 - a * a)  # sum of the squared chances
    size = 28 / max(1 - agree, 1e-300)
    return int(size) + 10 if size < 10_000_000 else None


def _seeded(draw: Draw) -> np.ndarray:
    """What ``draw`` gives after seeding Python's and numpy's generators, which then get their state back."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    fresh = np.random.default_rng
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    np.random.default_rng = lambda *_: fresh(1)
    try:
        return draw()
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        np.random.default_rng = fresh


def _forked(draw: Draw) -> bool:
    """Whether a child that starts from the same state draws other noise than its parent."""
    draw()  # whatever the mechanism might buffer is filled now
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads; the child only draws
        child = os.fork()
    if child == 0:
        try:
            os.close(out)
            os.write(into, _digest(draw()))
        finally:
            os._exit(0)
    os.close(into)
    ours = _digest(draw())
    ready = select.select([out], [], [], PATIENCE)[0]
    theirs = os.read(out, 64) if ready else b""
    os.close(out)
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
    return bool(theirs) and ours != theirs


def _digest(noise: np.ndarray) -> bytes:
    return hashlib.sha256(noise.tobytes()).digest()
