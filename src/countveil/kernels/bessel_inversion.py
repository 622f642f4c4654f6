"""One step of the paper's sampler of a true count, through the Skellam distribution (the reference method).

Two-sided geometric noise is a Skellam variable with exponential rates: tau = g_plus - g_minus,
g ~ Poisson(lam), lam ~ exponential with MEAN alpha/(1-alpha). Given x = y + tau the step draws,
with the two rates as state,

1. m ~ Bessel(|x|, 2*sqrt((lam_plus + mu) * lam_minus)), the smaller of y + g_plus and g_minus;
2. the larger is m + |x|;
3. y ~ Binomial(y + g_plus, mu/(mu + lam_plus));
4. lam_plus ~ Gamma(1 + g_plus, rate 1/alpha), lam_minus ~ Gamma(1 + g_minus, rate 1/alpha).

The paper prints other rates in 1 and 4; with those the chain has another law (see tests/test_errata.py).
"""

from __future__ import annotations

import math

from countveil.kernels.bessel import bessel
from countveil.kernels.binomial import binomial
from countveil.kernels.compiled import inlined
from countveil.kernels.gamma import gamma


@inlined
def draw_count_by_bessel(stream, x, mu, alpha, lam_plus, lam_minus):
    """``(y, lam_plus, lam_minus, stream)``: y given the rates, then the rates given y."""
    smaller, stream = bessel(stream, abs(x), 2.0 * math.sqrt((lam_plus + mu) * lam_minus))
    if x <= 0:
        y_plus = smaller
        g_minus = smaller - x
    else:
        y_plus = smaller + x
        g_minus = smaller
    y, stream = binomial(stream, y_plus, mu / (mu + lam_plus))
    lam_plus, stream = gamma(stream, 1.0 + (y_plus - y), 1.0 / alpha)
    lam_minus, stream = gamma(stream, 1.0 + g_minus, 1.0 / alpha)
    return y, lam_plus, lam_minus, stream
