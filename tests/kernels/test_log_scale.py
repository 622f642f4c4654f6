"""Scale draws against the law by quadrature."""

import subprocess
import sys

import numpy as np
import pytest

from compiled_loop import draw_many
from countveil.kernels.log_scale import FARTHEST, draw_log_scale, log_scale_mode, log_scale_mode_by_root
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


def test_the_mode_by_a_root_is_the_mode():
    rng = np.random.default_rng(SEED)
    given = 10.0 ** rng.uniform(-9, 9, (3000, 3))
    given[1000:2000] = 10.0 ** rng.uniform(-307, 250, (1000, 3))
    powers = rng.normal(0.0, 1.0, 3000) * 10.0 ** rng.uniform(-2, 4, 3000)
    for p, (a, b, c) in zip(powers, given, strict=True):
        by_root, mode = log_scale_mode_by_root(p, a, b, c), log_scale_mode(p, a, b, c)
        assert abs(by_root - mode) <= 1e-8 * max(1.0, abs(mode)), (p, a, b, c)
    assert log_scale_mode_by_root(2.0, 3.0, 4.0, 0.0) == log_scale_mode(2.0, 3.0, 4.0, 0.0)


# Factors that have underflowed: the density is flat over hundreds of units, or ends at the edge of the domain before
# it has fallen.
FLAT = [
    (p, a, b, c)
    for p in (0.0, 0.03, -0.03, 50.0, -50.0, 1e4, -1e4)
    for a, b, c in (
        (1e-300, 1e-300, 0.0),
        (1e-308, 1e-308, 0.0),
        (1e-300, 1e-308, 0.0),
        (1e-308, 1e-300, 0.0),
    )
] + [(p, 1e-308, 0.0, 1e-308) for p in (0.03, -0.03, 50.0, -50.0, -1e4)]
FLAT += [(-50.0, 1e-308, 1e-300, 1e-308), (-0.5, 1.0, 1e-300, 1e-308), (-3.0, 2.0, 0.0, 2.3e-308)]


def cdf_on_the_domain(p, a, b, c):
    """Of the law on abs(s) <= 700, by quadrature; ``b`` or ``c`` may be 0."""
    # Evenly spread, and dense at the edges, where steep densities are.
    edges = np.concatenate([[0.0], np.logspace(-9, 0, 20_000)])
    grid = np.unique(np.concatenate([np.linspace(-699, 699, 1_000_001), edges - FARTHEST, FARTHEST - edges]))
    height = p * grid - a * np.exp(grid) - b * np.exp(-grid)
    if c > 0:
        with np.errstate(over="ignore"):
            height -= np.exp(np.log(c) - 2 * grid)
    density = np.exp(height - height.max())
    mass = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (density[1:] + density[:-1]))])
    return lambda s: np.interp(s, grid, mass / mass[-1])


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if i % 3 == 0 else pytest.mark.long) for i, c in enumerate(FLAT)]
)
def test_log_scale_where_factors_have_underflowed(case):
    s = draw_many(draw_log_scale, *case, size=20_000, seed=SEED + 2, dtype=np.float64)
    assert np.isfinite(s).all()
    assert np.abs(s).max() <= FARTHEST
    assert len(np.unique(s)) > 0.99 * len(s), "not the mode, to which it would fall back"
    law = cdf_on_the_domain(*case)
    assert fits(continuous_pvalue(s, law))
    centre = log_scale_mode(*case)
    assert rejects(continuous_pvalue(centre + 1.1 * (s - centre), law))


# Of a process of its own: should it hang again, the others are not kept waiting.
UNDERFLOWING = """
import numpy as np, countveil as cv
release = cv.PrivateCounts(np.ones((3, 3), int), alpha=0.5)
posterior = cv.fit(cv.TopicModel(20, shape=0.01), release, sweeps=1000, seed=1, progress=False)
assert np.isfinite(posterior.rates()).all()
"""


@pytest.mark.long
def test_a_fit_whose_factors_underflow_comes_to_its_end():
    subprocess.run([sys.executable, "-c", UNDERFLOWING], check=True, timeout=600)
