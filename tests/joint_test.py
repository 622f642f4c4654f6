"""A joint test of a whole sampler, from independent replicates.

Draw the state from its prior and the data given the state; then run a few sweeps of the sampler given the data,
starting from that very state. If every step leaves the posterior invariant, the pair (state after, data) has the
joint law it started with, exactly, whatever the number of sweeps; and the replicates are independent, so a
two-sample Kolmogorov-Smirnov test of any function of the pair is exact. (Geweke 2004 in the form of replicates;
ranks throughout, because products of gamma factors have no usable moments.)

Fresh pairs cost much less than sweeps, so that there are four for each replicate: n replicates and 4 n fresh pairs
have the power of 1.6 n of both.

``sampler(state, data, key)`` returns the state after; ``functions`` maps a name to f(state, data).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from countveil.kernels.philox import SweepKey

#: Fresh pairs for each replicate.
FRESH = 4


def joint_pvalues(
    draw_pair: Callable[[np.random.Generator], tuple[Any, Any]],
    sampler: Callable[[Any, Any, SweepKey], Any],
    functions: dict[str, Callable[[Any, Any], float]],
    *,
    replicates: int,
    sweeps: int,
    seed: int,
) -> dict[str, float]:
    """For every function the p-value of "the pair after the sweeps has the law of a fresh pair"."""
    rng = np.random.default_rng(seed)
    after = {name: np.empty(replicates) for name in functions}
    fresh = {name: np.empty(FRESH * replicates) for name in functions}
    for i in range(FRESH * replicates):
        state, data = draw_pair(rng)
        for name, function in functions.items():
            fresh[name][i] = function(state, data)
    for i in range(replicates):
        # The reference must be independent of what is tested: another pair for the sampler.
        state, data = draw_pair(rng)
        for sweep in range(1, sweeps + 1):
            state = sampler(state, data, SweepKey(np.uint64(seed), 0, sweep + i * sweeps))
        for name, function in functions.items():
            after[name][i] = function(state, data)
    return {name: float(stats.ks_2samp(after[name], fresh[name]).pvalue) for name in functions}
