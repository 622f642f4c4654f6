"""Noise is independent across cells and across calls."""

import numpy as np
import pytest
from scipy import stats

from countveil.privacy import Guarantee, add_noise
from goodness_of_fit import fits, rejects
from privacy.noise_law import cdf

SIZE = 400_000


def draw(rho):
    return add_noise(np.zeros(SIZE, dtype=np.int64), Guarantee(rho))


def pairs(noise, lag):
    """Cells ``lag`` apart, each in one pair only: overlapping pairs give the chi-square a heavier tail."""
    blocks = noise[: noise.size // (2 * lag) * (2 * lag)].reshape(-1, 2, lag)
    return blocks[:, 0].ravel(), blocks[:, 1].ravel()


def joint_pvalue(one, other, rho):
    """Chi-square of the pairs, in up to 5 x 5 groups, against the product of the exact laws."""
    edges = max(1, round(1 / rho)) * np.array([-2, -1, 0, 1])
    edges = edges[np.minimum(cdf(rho)(edges), 1 - cdf(rho)(edges)) > 0.01]
    p = np.diff(np.concatenate([[0.0], cdf(rho)(edges), [1.0]]))
    both = p.size * np.searchsorted(edges, one) + np.searchsorted(edges, other)
    observed = np.bincount(both, minlength=p.size**2)
    expected = np.outer(p, p).ravel() * one.size
    assert expected.min() > 20
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), p.size**2 - 1))


def correlation_pvalue(one, other):
    """Normal in large samples; ranks, because the tails are heavier than normal."""
    r = stats.spearmanr(one, other).statistic
    return float(2 * stats.norm.sf(abs(r) * np.sqrt(one.size)))


# 0.01 comes from digits, the others from one table; chunks of the mechanism hold 2**15 cells.
@pytest.mark.parametrize("rho", [0.01, 0.1, 1, 3])
def test_cells_are_independent(rho):
    noise = draw(rho)
    for lag in (1, 2, 3, 2**15 - 1, 2**15):
        assert fits(joint_pvalue(*pairs(noise, lag), rho))
    for lag in (1, 2**15):
        assert fits(correlation_pvalue(noise[:-lag], noise[lag:]))
    assert fits(correlation_pvalue(np.abs(noise[:-1]), np.abs(noise[1:])))


@pytest.mark.parametrize("rho", [0.01, 0.1, 1, 3])
def test_calls_are_independent(rho):
    one, other = draw(rho), draw(rho)
    assert fits(joint_pvalue(one, other, rho))
    assert fits(correlation_pvalue(one, other))
    assert fits(correlation_pvalue(np.abs(one), np.abs(other)))


@pytest.mark.parametrize("rho", [0.01, 0.1, 1, 3])
def test_these_tests_would_see_dependence(rho):
    """Each twentieth cell repeats its neighbour."""
    noise = draw(rho)
    noise[1::20] = noise[0::20]
    assert rejects(joint_pvalue(*pairs(noise, 1), rho))
    assert rejects(correlation_pvalue(noise[:-1], noise[1:]))


def test_noise_does_not_follow_the_counts():
    """The noise on small counts and on large ones has one law, and none of it is about the counts."""
    counts = np.arange(SIZE) % 50
    noise = add_noise(counts, Guarantee(1)) - counts
    assert fits(correlation_pvalue(noise, counts))
    assert fits(correlation_pvalue(np.abs(noise), counts))
    assert rejects(correlation_pvalue(noise + counts // 10, counts))
