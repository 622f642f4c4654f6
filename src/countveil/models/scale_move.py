"""Scale moves: a topic may move weight from its word weights to its memberships and back.

theta_.k * c and phi_k. / c have the same product for every c, so the counts say nothing about c and only the priors
do: with s = log c, the density is exp((a*D - a'*V)*s - b*Theta_k*e**s - b'*Phi_k*e**-s), Theta_k and Phi_k the sums
of the factors, a and b the shape and the rate of theta's prior, a' and b' those of phi's.
The move is exact for any likelihood and mask, and it is what the sampler would otherwise crawl along.
"""

from __future__ import annotations

import math

from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.log_scale import draw_log_scale
from countveil.kernels.philox import open_stream
from countveil.models.exposure import ordered_sum


@compiled
def trade_scale(seed, chain, sweep, first_row, shape, rate, other_shape, other_rate, theta, phi_by_column):
    """Draw the scale of every topic anew, in place. Topic k has the stream of row ``first_row`` + k."""
    n_rows, n_topics = theta.shape
    n_columns = len(phi_by_column)
    row_sums, column_sums = ordered_sum(theta), ordered_sum(phi_by_column)
    power = shape * n_rows - other_shape * n_columns
    for k in range(n_topics):
        stream = open_stream(seed, chain, sweep, steps.SCALE, first_row + k)
        s, stream = draw_log_scale(stream, power, rate * row_sums[k], other_rate * column_sums[k], 0.0)
        row_sums[k] = math.exp(s)
    for d in range(n_rows):
        for k in range(n_topics):
            theta[d, k] = max(theta[d, k] * row_sums[k], SMALLEST)
    for v in range(n_columns):
        for k in range(n_topics):
            phi_by_column[v, k] = max(phi_by_column[v, k] / row_sums[k], SMALLEST)
