"""The shape of a gamma law, by slice steps, against its density by quadrature."""

import math

import numpy as np
import pytest
from scipy import special

from countveil.kernels.law_shape import FARTHEST, draw_law_shape, log_density_of_shape
from countveil.kernels.philox import open_stream
from countveil.runtime.compiled import compiled
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

# n, sum of logs, sum, mean and sd of log s: nothing known, a few, a law without spread, Zipf-like, many.
CASES = [
    (0, 0.0, 0.0, 0.0, 1.0),
    (3, -4.0, 2.5, 0.0, 1.0),
    (5, -0.01, 5.0, 0.0, 1.0),
    (50, -210.0, 48.0, 0.0, 1.0),
    (20_000, -9000.0, 20_100.0, 0.0, 1.0),
    (4, -3.0, 4.0, 1.0, 0.4),
]


@compiled
def steps_of(n_chains, n_steps, seed, n, logs, total, mean, sd):
    out = np.empty(n_chains)
    for i in range(n_chains):
        stream = open_stream(np.uint64(seed), 0, i, 0, 0)
        shape = math.exp(mean)
        for _ in range(n_steps):
            shape, stream = draw_law_shape(stream, shape, n, logs, total, mean, sd)
        out[i] = math.log(shape)
    return out


def cdf(n, logs, total, mean, sd):
    grid = np.linspace(-FARTHEST, FARTHEST, 2_000_001)
    s = np.exp(grid)
    height = n * (s * grid - special.gammaln(s)) + s * (logs - total) - ((grid - mean) / sd) ** 2 / 2
    density = np.exp(height - height.max())
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda x: np.interp(x, grid, mass / mass[-1])


@pytest.mark.parametrize("case", CASES)
def test_law(case):
    # Separate chains of steps, each long enough to forget its start.
    found = steps_of(20_000, 60, SEED + 5, *case)
    assert fits(continuous_pvalue(found, cdf(*case)))
    centre = np.median(found)
    assert rejects(continuous_pvalue(centre + 1.1 * (found - centre), cdf(*case)))


def test_nothing_beyond_the_domain():
    assert log_density_of_shape(FARTHEST + 1e-9, 3, 0.0, 3.0, 0.0, 1.0) == -math.inf
    # All draws alike: the law would have no spread at all, and the step must still end.
    assert np.isfinite(steps_of(50, 20, SEED, 10_000, 0.0, 10_000.0, 0.0, 1.0)).all()
