"""Scale draws against the law by quadrature."""

import numpy as np
import pytest

from compiled_loop import draw_many
from countveil.kernels.log_scale import draw_log_scale, log_scale_mode
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

CASES = [
    (0.0, 1.0, 1.0, 0.0),
    (0.0, 0.01, 0.02, 0.0),
    (-500.0, 3000.0, 5000.0, 0.0),
    (1000.0, 2.0, 1e5, 0.0),
    (3.0, 1e-6, 1e-6, 0.0),
    (-2.0, 4.0, 1e-9, 0.3),
    (5.0, 40.0, 0.0, 20.0),
    (2.0, 1e9, 1e-3, 0.0),
]


def cdf(p, a, b, c):
    mode = log_scale_mode(p, a, b, c)

    def height(s):
        return p * s - a * np.exp(s) - b * np.exp(-s) - c * np.exp(-2 * s)

    # The law is log-concave, so doubling until the density is invisible brackets all of it.
    low = high = 1e-6
    while height(mode) - height(mode - low) < 45:
        low *= 1.5
    while height(mode) - height(mode + high) < 45:
        high *= 1.5
    grid = np.concatenate([np.linspace(mode - low, mode, 40_001), np.linspace(mode, mode + high, 40_001)[1:]])
    density = np.exp(height(grid) - height(mode))
    mass = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (density[1:] + density[:-1]) / 2)])
    return lambda s: np.interp(s, grid, mass / mass[-1])


@pytest.mark.parametrize("case", CASES)
def test_log_scale(case):
    s = draw_many(draw_log_scale, *case, size=100_000, seed=SEED + 1, dtype=np.float64)
    assert fits(continuous_pvalue(s, cdf(*case)))
    centre = log_scale_mode(*case)
    assert rejects(continuous_pvalue(centre + 1.1 * (s - centre), cdf(*case)))
