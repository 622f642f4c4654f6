"""Compiled parts that the engines share: one row of rates, one row of releases, one cell's tokens."""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.cell_products import LANES, running_sums, sum_of_products
from countveil.kernels.binomial import binomial
from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.uniform import uniform
from countveil.models.topic_model import TopicState

#: What a row buffer holds for a missing cell.
MISSING = -1

#: Counts up to this are shared out token by token, larger ones by binomials.
FEW_TOKENS = 16

_ZERO, _ONE, _LANES = np.uint64(0), np.uint64(1), np.uint64(LANES)


def factors_by_row(state: TopicState) -> tuple[np.ndarray, np.ndarray]:
    """theta (rows, K) and phi (columns, K) as compiled code expects them; no copy where they are so already."""
    return np.ascontiguousarray(state.theta, np.float64), np.ascontiguousarray(state.phi.T, np.float64)


@compiled
def fill_rates(d, theta, phi, rates):
    """rates[v] = sum_k theta_dk phi_kv, topic after topic: vectorised over v, and always in the same order."""
    for v in range(len(rates)):
        rates[v] = 0.0
    for k in range(theta.shape[1]):
        weight = theta[d, k]
        for v in range(len(rates)):
            rates[v] += weight * phi[k, v]


@compiled
def open_row(d, row_starts, columns, values, missing_starts, missing_columns, released):
    """Write row d into ``released``: positive cells, 0 for x <= 0, MISSING."""
    for v in range(len(released)):
        released[v] = 0
    for i in range(row_starts[d], row_starts[d + 1]):
        released[columns[i]] = values[i]
    for i in range(missing_starts[d], missing_starts[d + 1]):
        released[missing_columns[i]] = MISSING


@inlined
def cell_rate(d, v, theta, phi_by_column):
    """sum_k theta_dk phi_kv."""
    return sum_of_products(theta, d, phi_by_column, v)


@compiled
def scratch_size(n_topics):
    """Room that ``allocate`` needs: running sums of the products, where each lane begins, and a row of theta."""
    return n_topics // LANES * LANES + 2 * LANES + n_topics


@inlined
def allocate_few(stream, d, v, count, theta, phi_by_column, scratch, row_topic, column_topic):
    """Share a cell's count out over the topics in proportion to theta_dk phi_kv, and add it to both sums.

    A token is a point of the line on which the products lie end to end: lane after lane (see ``cell_products``),
    within a lane topic after topic. All ends up to the point are counted, without a branch, so that the processor
    works on several tokens at once.
    """
    # Unsigned, because numba checks a signed index for being negative.
    d, v = np.uint64(d), np.uint64(v)
    total = lay_out(d, v, theta, phi_by_column, scratch)
    for _ in range(count):
        u, stream = uniform(stream)
        k = pick(u, total, d, v, theta, phi_by_column, scratch)
        row_topic[d, k] += 1
        column_topic[v, k] += 1
    return stream


@inlined
def lay_out(d, v, theta, phi_by_column, scratch):
    """The products theta_dk phi_kv end to end: running sums within a lane, and where each lane starts."""
    last = np.uint64(theta.shape[1]) // _LANES * _LANES
    running_sums(theta, d, phi_by_column, v, scratch)
    total = 0.0
    for lane in range(_LANES):
        scratch[last + _LANES + lane] = total
        total += scratch[last + lane]
    return total


@inlined
def pick(u, total, d, v, theta, phi_by_column, scratch):
    """The topic at the point u * total of the line that was laid out."""
    last = np.uint64(theta.shape[1]) // _LANES * _LANES
    starts = last + _LANES
    point = u * total
    lane = _ZERO
    for other in range(_ONE, _LANES):
        lane += _ONE if point >= scratch[starts + other] else _ZERO
    point -= scratch[starts + lane]
    k = lane
    for end in range(lane, last, _LANES):
        k += _LANES if scratch[end] <= point else _ZERO
    return k if k < last else _checked(k, u, d, v, theta, phi_by_column)


@compiled
def _checked(k, u, d, v, theta, phi_by_column):
    """k, unless rounding led past the end or to a product of zero: the last positive one then.

    Products that have all underflowed to zero count as equal: a token must go somewhere.
    """
    n = np.uint64(theta.shape[1])
    if k < n and theta[d, k] * phi_by_column[v, k] > 0.0:
        return k
    for back in range(n):
        if theta[d, n - _ONE - back] * phi_by_column[v, n - _ONE - back] > 0.0:
            return n - _ONE - back
    return np.uint64(u * n)


@compiled
def allocate_many(stream, d, v, count, theta, phi_by_column, scratch, row_topic, column_topic):
    """``allocate_few`` for large counts: binomials, topic after topic, until few tokens are left.

    The order of the topics is free as long as the tokens have no say in it: each is drawn in proportion to the
    products that are left. So the largest mostly comes first, without a search, and often takes all tokens.
    """
    d, v, n = np.uint64(d), np.uint64(v), theta.shape[1]
    total = lay_out(d, v, theta, phi_by_column, scratch)
    k, drawn, stream = _one_topic(stream, total, d, v, count, theta, phi_by_column, scratch)
    row_topic[d, k] += drawn
    column_topic[v, k] += drawn
    count -= drawn
    if count == 0:
        return stream
    left = scratch[len(scratch) - n :].reshape(1, n)
    for other in range(n):
        left[0, other] = theta[d, other]
    left[0, k] = 0.0 if total > 0.0 else left[0, k]
    total = lay_out(_ZERO, v, left, phi_by_column, scratch)
    while count > FEW_TOKENS and total > 0.0:
        k, drawn, stream = _one_topic(stream, total, _ZERO, v, count, left, phi_by_column, scratch)
        row_topic[d, k] += drawn
        column_topic[v, k] += drawn
        count -= drawn
        left[0, k] = 0.0
        total = lay_out(_ZERO, v, left, phi_by_column, scratch)
    for _ in range(count):
        u, stream = uniform(stream)
        k = pick(u, total, _ZERO, v, left, phi_by_column, scratch)
        row_topic[d, k] += 1
        column_topic[v, k] += 1
    return stream


@inlined
def _one_topic(stream, total, d, v, count, theta, phi_by_column, scratch):
    """A topic, and how many of the tokens it takes.

    A single product that is left is the total to the last bit, and takes all. Where all have underflowed to zero no
    topic takes any: tokens go one by one then (``_checked``).
    """
    u, stream = uniform(stream)
    k = pick(u, total, d, v, theta, phi_by_column, scratch)
    share = theta[d, k] * phi_by_column[v, k] / total if total > 0.0 else 0.0
    drawn, stream = binomial(stream, count, share)
    return k, drawn, stream


@compiled
def allocate(stream, d, v, count, theta, phi_by_column, scratch, row_topic, column_topic):
    """Either way. A loop over many cells asks for itself: two ways in one place make it slower."""
    if count > FEW_TOKENS:
        return allocate_many(stream, d, v, count, theta, phi_by_column, scratch, row_topic, column_topic)
    return allocate_few(stream, d, v, count, theta, phi_by_column, scratch, row_topic, column_topic)
