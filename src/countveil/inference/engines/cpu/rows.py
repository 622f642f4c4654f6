"""Compiled parts that the engines share: one row of rates, one row of releases, one cell's tokens."""

from __future__ import annotations

import numpy as np

from countveil.kernels.binomial import binomial
from countveil.kernels.compiled import compiled
from countveil.kernels.uniform import uniform

#: What a row buffer holds for a missing cell.
MISSING = -1

#: Counts up to this are shared out token by token, larger ones by binomials.
FEW_TOKENS = 16


@compiled
def fill_rates(theta_row, phi, rates):
    """rates[v] = sum_k theta_k phi_kv, topic after topic: vectorised over v, and always in the same order."""
    for v in range(len(rates)):
        rates[v] = 0.0
    for k in range(len(theta_row)):
        weight = theta_row[k]
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
def weigh(theta_row, phi_column, weights):
    """weights[k] = theta_k phi_kv; returns their sum, the rate of the cell.

    Four partial sums, because one would wait for each addition; their order is fixed, so the bits are too.
    """
    n = len(theta_row)
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, n - 3, 4):
        w0 = theta_row[k] * phi_column[k]
        w1 = theta_row[k + 1] * phi_column[k + 1]
        w2 = theta_row[k + 2] * phi_column[k + 2]
        w3 = theta_row[k + 3] * phi_column[k + 3]
        weights[k] = w0
        weights[k + 1] = w1
        weights[k + 2] = w2
        weights[k + 3] = w3
        s0 += w0
        s1 += w1
        s2 += w2
        s3 += w3
    for k in range(n - n % 4, n):
        weights[k] = theta_row[k] * phi_column[k]
        s0 += weights[k]
    return (s0 + s1) + (s2 + s3)


@compiled
def allocate(stream, count, weights, total, row_topic, column_topic):
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
            row_topic[k] += 1
            column_topic[k] += 1
        return stream
    left = total
    for k in range(n):
        if total <= 0.0:
            share = 1.0 / (n - k)
        elif weights[k] < left:
            share = weights[k] / left
        else:
            share = 1.0
        left -= weights[k]
        drawn, stream = binomial(stream, count, share)
        row_topic[k] += drawn
        column_topic[k] += drawn
        count -= drawn
        if count == 0:
            break
    if count > 0:  # rounding again: the rest belongs to the last positive weight
        k = n - 1
        while k > 0 and weights[k] <= 0.0:
            k -= 1
        row_topic[k] += count
        column_topic[k] += count
    return stream
