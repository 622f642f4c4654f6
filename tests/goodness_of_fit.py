"""Goodness of fit of samples against an exact law, at one stated false-alarm rate.

Every sampler test asks both questions: do the samples fit the law (``fits``), and would the same test have
caught a law that is wrong by 10 % (``rejects``)? The second is the power check: a test that cannot fail is
worth nothing. Seeds are fixed, so a passing test stays passing; COUNTVEIL_TEST_SEED varies them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6
SEED = int(os.environ.get("COUNTVEIL_TEST_SEED", "0"))

Cdf = Callable[[np.ndarray], np.ndarray]


def discrete_pvalue(samples: np.ndarray, cdf: Cdf, edges: np.ndarray | None = None) -> float:
    """Chi-square p-value of integer ``samples`` against ``cdf``.

    Cells are (edge[i-1], edge[i]] with open ends; without ``edges`` every integer between the 1e-4 quantiles
    of the samples gets a cell when there are few, and 100 evenly spread ones when there are many.
    Neighbouring cells are merged until each expects at least 20 samples.
    """
    samples = np.asarray(samples)
    if edges is None:
        low, high = np.quantile(samples, [1e-4, 1 - 1e-4]).astype(np.int64)
        edges = np.unique(np.linspace(low, high, min(high - low + 1, 100)).astype(np.int64))
    probability = np.diff(np.concatenate([[0.0], np.asarray(cdf(edges), dtype=float), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, samples, side="left"), minlength=len(edges) + 1)
    return _merged_chi_square(observed, probability * len(samples))


def _merged_chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    merged_observed, merged_expected = [0.0], [0.0]
    for o, e in zip(observed, expected, strict=True):
        if merged_expected[-1] >= 20:
            merged_observed.append(0.0)
            merged_expected.append(0.0)
        merged_observed[-1] += o
        merged_expected[-1] += e
    if merged_expected[-1] < 20 and len(merged_expected) > 1:
        last_observed, last_expected = merged_observed.pop(), merged_expected.pop()
        merged_observed[-1] += last_observed
        merged_expected[-1] += last_expected
    if len(merged_expected) == 1:
        # One cell holds everything the law can produce in so many samples: any stray sample is a misfit.
        # `observed` and `expected` then differ only if samples fell where the law puts nothing.
        stray = sum(o for o, e in zip(observed, expected, strict=True) if e < 1e-12)
        return 0.0 if stray else 1.0
    o, e = np.array(merged_observed), np.array(merged_expected)
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(e) - 1))


def continuous_pvalue(samples: np.ndarray, cdf: Cdf) -> float:
    """Kolmogorov-Smirnov p-value of real ``samples`` against ``cdf``."""
    return float(stats.kstest(np.asarray(samples), cdf).pvalue)


def fits(pvalue: float) -> bool:
    """The samples do not contradict the law at the stated false-alarm rate."""
    return pvalue > FALSE_ALARM


def rejects(pvalue: float) -> bool:
    """The test has power: this (deliberately wrong) law is contradicted."""
    return pvalue <= FALSE_ALARM
