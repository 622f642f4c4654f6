"""Compiled parts that the engines share: one row of rates, one row of releases, one cell's tokens."""

from __future__ import annotations

from countveil.kernels.binomial import binomial
from countveil.kernels.compiled import compiled
from countveil.kernels.uniform import uniform

#: What a row buffer holds for a missing cell.
MISSING = -1

#: Counts up to this are shared out token by token, larger ones by binomials.
FEW_TOKENS = 16


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


@compiled
def cell_rate(d, v, theta, phi_by_column):
    """sum_k theta_dk phi_kv.

    Four partial sums over one-dimensional views, which the compiler turns into vector instructions; their order
    is fixed, so the bits are too.
    """
    t, p = theta[d], phi_by_column[v]
    n = len(t)
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, n - 3, 4):
        s0 += t[k] * p[k]
        s1 += t[k + 1] * p[k + 1]
        s2 += t[k + 2] * p[k + 2]
        s3 += t[k + 3] * p[k + 3]
    for k in range(n - n % 4, n):
        s0 += t[k] * p[k]
    return (s0 + s1) + (s2 + s3)


@compiled
def weigh(d, v, theta, phi_by_column, weights):
    """weights[k] = theta_dk phi_kv."""
    t, p = theta[d], phi_by_column[v]
    for k in range(len(weights)):
        weights[k] = t[k] * p[k]


@compiled
def allocate(stream, d, v, count, weights, total, row_topic, column_topic):
    """Share a cell's count out over the topics in proportion to ``weights`` and add it to both sums.

    Weights that have all underflowed to zero count as equal: a token must go somewhere.
    """
    n = len(weights)
    if count <= FEW_TOKENS:
        for _ in range(count):
            u, stream = uniform(stream)
            if total > 0.0:
                left = u * total
                k = 0
                while k < n - 1 and left >= weights[k]:
                    left -= weights[k]
                    k += 1
                while weights[k] <= 0.0:  # rounding led past the last positive weight
                    k -= 1
            else:
                k = int(u * n)  # u < 1
            row_topic[d, k] += 1
            column_topic[v, k] += 1
        return stream
    left = total
    last = 0
    for k in range(n):
        if total <= 0.0:
            share = 1.0 / (n - k)
        elif weights[k] > 0.0:
            share = weights[k] / left if weights[k] < left else 1.0
            left -= weights[k]
        else:
            continue
        last = k
        drawn, stream = binomial(stream, count, share)
        row_topic[d, k] += drawn
        column_topic[v, k] += drawn
        count -= drawn
        if count == 0:
            return stream
    row_topic[d, last] += count  # rounding again: the rest belongs to the last positive weight
    column_topic[v, last] += count
    return stream
