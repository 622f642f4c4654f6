"""Scale moves of any factorization: what two factors may trade without changing a rate.

Where two factors P and Q both have the summed index x, P[x] * c and Q[x] / c leave every rate as it is, for every
value of x. Only the priors decide about c: with s = log c its density is exp((a_P n_P - a_Q n_Q) s - b_P P_x e**s -
b_Q Q_x e**-s), a and b the shapes and rates, n the numbers of entries at x, and P_x, Q_x their sums. Where several
factors must move together, some by c and some by 1/c, their a n and their b P_x add up on either side.

Communities: theta_.c * e**s goes with pi_cd and pi_dc times e**-s (d != c) and pi_cc times e**-2s. The density is
exp(a (V - 2C) s - b (Theta_c e**s + sum_{d!=c} (pi_cd + pi_dc) e**-s + pi_cc e**-2s)); where pi is symmetric each
pair is one entry, and V - C - 1 takes the place of V - 2C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.log_scale import draw_log_scale
from countveil.kernels.philox import open_stream
from countveil.models.exposure import ordered_sum
from countveil.models.prior import Prior
from countveil.models.scale_move import trade_scale
from countveil.models.sweep_key import SweepKey


def trade_along(
    key: SweepKey, first_row: int, priors: tuple[Prior, Prior], factors: tuple[np.ndarray, np.ndarray]
) -> None:
    """Trade between two factors, in place; the summed index is the last axis of both views."""
    tables = [np.ascontiguousarray(f).reshape(-1, f.shape[-1]) for f in factors]
    trade_scale(*key, first_row, *priors[0][:2], *priors[1][:2], *tables)
    for factor, table in zip(factors, tables, strict=True):
        if not factor.flags.c_contiguous:  # the table is a copy
            factor[...] = table.reshape(factor.shape)


def trade_jointly(
    key: SweepKey,
    first_row: int,
    up: Sequence[tuple[Prior, np.ndarray]],
    down: Sequence[tuple[Prior, np.ndarray]],
) -> None:
    """Multiply the factors of ``up`` by c[x], divide those of ``down``, in place; x is the first axis of each."""
    power, sums = 0.0, []
    for sign, side in ((1, up), (-1, down)):
        total = np.zeros(len(side[0][1]))
        for prior, factor in side:
            flat = factor.reshape(len(factor), -1)
            power += sign * prior.shape * flat.shape[1]
            total += prior.rate * ordered_sum(np.ascontiguousarray(flat.T))
        sums.append(total)
    scale = np.empty(len(sums[0]))
    _draw_joint_scales(*key, first_row, power, *sums, scale)
    for side, by in ((up, scale), (down, 1.0 / scale)):
        for _, factor in side:
            factor *= by.reshape(-1, *[1] * (factor.ndim - 1))
            np.maximum(factor, SMALLEST, out=factor)


@compiled
def _draw_joint_scales(seed, chain, sweep, first_row, power, up, down, scale):  # type: ignore[no-untyped-def]
    for x in range(len(scale)):
        stream = open_stream(seed, chain, sweep, steps.SCALE, first_row + x)
        s, stream = draw_log_scale(stream, power, up[x], down[x], 0.0)
        scale[x] = math.exp(s)


@compiled
def trade_in_blocks(seed, chain, sweep, shape, rate, symmetric, theta, pi):  # type: ignore[no-untyped-def]
    """Trade between memberships and blocks, community after community, in place."""
    n, size = theta.shape
    power = shape * (n - size - 1 if symmetric else n - 2 * size)
    for c in range(size):
        stream = open_stream(seed, chain, sweep, steps.SCALE, c)
        up, down = 0.0, 0.0
        for i in range(n):
            up += theta[i, c]
        for d in range(size):
            if d != c:
                down += pi[c, d] if symmetric else pi[c, d] + pi[d, c]
        s, stream = draw_log_scale(stream, power, rate * up, rate * down, rate * pi[c, c])
        scale = math.exp(s)
        for i in range(n):
            theta[i, c] = max(theta[i, c] * scale, SMALLEST)
        for d in range(size):
            # (c, c) is divided twice.
            pi[c, d] = max(pi[c, d] / scale, SMALLEST)
            pi[d, c] = max(pi[d, c] / scale, SMALLEST)
