"""Compiled parts that the engines share: one row of rates, one row of releases, one cell's tokens."""

from __future__ import annotations

from countveil.kernels.compiled import compiled
from countveil.kernels.multinomial import multinomial

#: What a row buffer holds for a missing cell.
MISSING = -1


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
def allocate(stream, count, theta_row, phi_column, weights, tokens, row_topic, column_topic):
    """Share a cell's count out over the topics in proportion to theta_k phi_kv and add it to both sums."""
    for k in range(len(theta_row)):
        weights[k] = theta_row[k] * phi_column[k]
        tokens[k] = 0
    stream = multinomial(stream, count, weights, tokens)
    for k in range(len(theta_row)):
        row_topic[k] += tokens[k]
        column_topic[k] += tokens[k]
    return stream
