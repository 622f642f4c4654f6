"""Uniform, exponential, normal and gamma draws against their exact laws."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainc

from compiled_loop import draw_many
from countveil.kernels.gamma import SMALLEST, gamma, log_gamma
from countveil.kernels.normal import DENSITY, LAYERS, TAIL, X, normal
from countveil.kernels.uniform import exponential, uniform
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

SIZE = 400_000


def draw(kernel, *parameters, seed=1):
    return draw_many(kernel, *parameters, size=SIZE, seed=SEED + seed, dtype=np.float64)


def test_uniform():
    u = draw(uniform)
    assert u.min() > 0
    assert u.max() < 1
    assert fits(continuous_pvalue(u, stats.uniform.cdf))
    assert rejects(continuous_pvalue(u, stats.uniform(0, 1.1).cdf))


def test_exponential():
    e = draw(exponential)
    assert fits(continuous_pvalue(e, stats.expon.cdf))
    assert rejects(continuous_pvalue(1.1 * e, stats.expon.cdf))


def test_normal():
    z = draw(normal)
    assert fits(continuous_pvalue(z, stats.norm.cdf))
    assert rejects(continuous_pvalue(1.1 * z, stats.norm.cdf))


def test_normal_tail_has_its_own_law():
    # The tail beyond the base layer is a code path of its own that the test above hardly sees.
    z = draw_many(normal, size=8_000_000, seed=SEED + 2, dtype=np.float64)
    tail = np.abs(z[np.abs(z) > TAIL])
    law = stats.truncnorm(TAIL, np.inf)
    share = 2 * stats.norm.sf(TAIL)
    assert fits(stats.binomtest(len(tail), len(z), share).pvalue)
    assert rejects(stats.binomtest(len(tail), len(z), 1.3 * share).pvalue)
    assert fits(continuous_pvalue(tail, law.cdf))
    assert rejects(continuous_pvalue(TAIL + 1.3 * (tail - TAIL), law.cdf))
    assert fits(stats.binomtest(int((z > TAIL).sum()), len(tail), 0.5).pvalue)


def test_ziggurat_layers_close_at_the_top():
    areas = X[1:LAYERS] * (DENSITY[2 : LAYERS + 1] - DENSITY[1:LAYERS])
    assert np.allclose(areas, X[0] * DENSITY[1], rtol=1e-9)


@pytest.mark.parametrize("shape", [1e-3, 0.01, 0.1, 0.5, 1.0, 1.1, 3.0, 100.0, 1e6])
@pytest.mark.parametrize("rate", [pytest.param(1.0, marks=pytest.mark.long), 7.5])
def test_log_gamma_for_every_shape(shape, rate):
    # The logarithm never underflows; P(g <= x) through the uniform scale of u = F(g).
    log_g = draw(log_gamma, shape, rate)
    assert np.isfinite(log_g).all()
    assert fits(continuous_pvalue(log_g, lambda x: log_gamma_cdf(x, shape, rate)))
    assert rejects(continuous_pvalue(log_g, lambda x: log_gamma_cdf(x, 1.1 * shape, rate)))


def log_gamma_cdf(log_g, shape, rate):
    """P(Gamma <= exp(log_g)); for exp(log_g) -> 0 it is (rate*g)**shape / Gamma(shape+1)."""
    log_x = log_g + math.log(rate)
    tiny = np.exp(np.minimum(shape * log_x - math.lgamma(shape + 1), 0.0))
    return np.where(log_x < -30, tiny, gammainc(shape, np.exp(np.maximum(log_x, -30))))


@pytest.mark.parametrize("shape", [0.1, 0.9, 1.0, 2.5, 40.0, 1e5])
def test_gamma(shape):
    rate = 2.0
    g = draw(gamma, shape, rate)
    assert fits(continuous_pvalue(g, stats.gamma(shape, scale=1 / rate).cdf))
    assert rejects(continuous_pvalue(g, stats.gamma(1.1 * shape, scale=1 / rate).cdf))


@pytest.mark.parametrize("shape", [1e-3, 0.01])
def test_gamma_that_underflows_becomes_the_smallest_normal_number(shape):
    g = draw(gamma, shape, 1.0)
    assert g.min() == SMALLEST == np.finfo(float).tiny
    underflown = float(log_gamma_cdf(np.log(SMALLEST), shape, 1.0))
    assert fits(stats.binomtest(int((g == SMALLEST).sum()), SIZE, underflown).pvalue)
    assert rejects(stats.binomtest(int((g == SMALLEST).sum()), SIZE, 0.5 * underflown).pvalue)
    # Above the floor the law is untouched.
    above = np.log(g[g > SMALLEST])
    assert fits(
        continuous_pvalue(above, lambda x: (log_gamma_cdf(x, shape, 1.0) - underflown) / (1 - underflown))
    )


@pytest.mark.parametrize("shape", [np.nan, np.inf, -np.inf, -1e-9, -1.0, -(2.0**62), 0.0])
def test_gamma_of_a_shape_that_is_none_ends(shape):
    """Whatever went wrong before, a rejection loop is left."""
    for kernel in (gamma, log_gamma):
        g = draw_many(kernel, shape, 1.0, size=1000, seed=SEED, dtype=np.float64)
        assert not (np.isfinite(g) & (g > SMALLEST)).any()
