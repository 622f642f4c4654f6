"""Does the noise have its exact law, on counts of every size and on all cells of a release?"""

from __future__ import annotations

import numpy as np
from scipy import sparse, stats

from countveil.auditing.check import FALSE_ALARM, MIN_EXPECTED, Check, Mechanism, check_pvalue, noise_on
from countveil.counts import privatize
from countveil.privacy import Guarantee

# Zeros, ones, ordinary and large counts: noise that depends on the count would show.
COUNTS = (0, 1, 7, 10**6)


def cdf(rho: float, k: np.ndarray) -> np.ndarray:
    """P(tau <= k) = 1 - a**(k+1)/(1+a) for k >= 0 and a**-k/(1+a) below, a = exp(-rho)."""
    tail = np.exp(-rho * np.where(k < 0, -k, k + 1.0)) / (1 + np.exp(-rho))
    return np.where(k < 0, tail, 1 - tail)


def groups(rho: float, size: int) -> np.ndarray:
    """Edges of at most some 200 intervals, each expecting enough of ``size`` samples."""
    reach = max(np.log(size / (2 * MIN_EXPECTED)) / rho, 1.0)
    edges = np.unique(np.round(np.linspace(-reach - 1, reach, 201)).astype(np.int64))
    while len(edges) > 1:
        expected = np.diff(np.concatenate([[0.0], cdf(rho, edges), [1.0]])) * size
        poor = np.flatnonzero(expected < MIN_EXPECTED)
        if not len(poor):
            break
        edges = np.delete(edges, min(int(poor[0]), len(edges) - 1))
    return edges


def fit_pvalue(noise: np.ndarray, rho: float, edges: np.ndarray) -> float:
    """Chi-square of the samples in (edge, edge] against the law with this rho."""
    ordered = np.sort(noise)
    below = np.searchsorted(ordered, edges, side="right")
    observed = np.diff(np.concatenate([[0], below, [len(noise)]]))
    expected = np.diff(np.concatenate([[0.0], cdf(rho, edges), [1.0]])) * len(noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(
            expected > 0, (observed - expected) ** 2 / expected, np.where(observed > 0, np.inf, 0)
        )
    return float(stats.chi2.sf(terms.sum(), max(len(edges), 1)))


def extremes_pvalue(noise: np.ndarray, rho: float) -> float:
    """Whether the largest noise is of the size it should be: clipped noise protects nobody at the clip."""
    largest = float(np.abs(noise).max())
    # P(abs(tau) <= m) = 1 - 2 * a**(m+1) / (1+a)
    beyond, reached = (2 * np.exp(-rho * k) / (1 + np.exp(-rho)) for k in (largest + 1, largest))
    too_small = np.exp(-len(noise) * beyond)
    too_large = min(1.0, len(noise) * reached) if largest else 1.0
    return float(min(1.0, 2 * min(too_small, too_large)))


def check_law(mechanism: Mechanism, guarantee: Guarantee, size: int) -> list[Check]:
    """The law on counts of every size, and whether a parameter off by 10 % would have been noticed."""
    rho = guarantee.rho
    each = size // len(COUNTS)
    noise = [noise_on(mechanism, guarantee, count, each) for count in COUNTS]
    edges = groups(rho, each)
    fit = min(fit_pvalue(part, rho, edges) for part in noise) * len(COUNTS)
    everything = np.concatenate(noise)
    positive, negative = int((everything > 0).sum()), int((everything < 0).sum())
    sign = stats.binomtest(positive, positive + negative).pvalue if positive + negative else 1.0
    found = [
        check_pvalue("law of the noise", fit, "fits", "is another one"),
        check_pvalue(
            "largest noise", extremes_pvalue(everything, rho), "as far out as it should be", "is not"
        ),
        check_pvalue("sign of the noise", float(sign), "positive as often as negative", "is biased"),
    ]
    if rho < 8:  # beyond that noise is so rare that no sample of this size tells 10 % apart
        wrong = max(fit_pvalue(noise[0], other, edges) for other in _off_by_a_tenth(rho))
        seen = wrong < FALSE_ALARM
        told = "would be noticed" if seen else "would not be noticed: more samples are needed"
        found.append(Check("an alpha off by 10 %", True, told, {"p-value": wrong}, weak=not seen))
    return found


def _off_by_a_tenth(rho: float) -> list[float]:
    """Of alpha and of rho, up and down; where alpha is near 1, a tenth of rho is the smaller change."""
    alphas = [a for a in (0.9 * np.exp(-rho), 1.1 * np.exp(-rho)) if a < 1]
    return [0.9 * rho, 1.1 * rho, *(-np.log(alphas)).tolist()]


def check_release(guarantee: Guarantee, size: int) -> Check:
    """Through ``privatize``, a sparse matrix with few counts: the noise of its zeros must have the law too."""
    width = 1000
    n_rows = max(size // width, 10)
    counts = sparse.csr_array(([10**6] * n_rows, (range(n_rows), [0] * n_rows)), shape=(n_rows, width))
    released = privatize(counts, guarantee=guarantee, keep_negative=True).to_dense()
    zeros, others = released[:, 1:].ravel(), released[:, 0] - 10**6
    noise = np.concatenate([zeros, others])
    pvalue = min(fit_pvalue(part, guarantee.rho, groups(guarantee.rho, len(part))) for part in (zeros, noise))
    good, bad = "get the same noise as all cells", "do not get the noise they should"
    return check_pvalue("zeros of a sparse matrix", 2 * pvalue, good, bad)
