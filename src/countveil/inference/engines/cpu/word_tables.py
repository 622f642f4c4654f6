"""Alias tables of the topics' words, over some of the columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.alias import build_alias
from countveil.kernels.compiled import compiled
from countveil.models.row_work import RowWork


class WordTables(NamedTuple):
    """For every topic the sum of its weights over these columns, and a table to draw one of them by weight.

    Both halves of a slot stand side by side, because a token visits slots at random and pays for each visit.
    """

    mass: np.ndarray  # (topics)
    slots: np.ndarray  # (topics, columns, 2): probability to keep the slot's own column, the other column


def word_tables(phi_by_column: np.ndarray, columns: np.ndarray, row_work: RowWork) -> WordTables:
    """Tables over ``columns``; the slots hold column numbers of the whole matrix."""
    n_topics = phi_by_column.shape[1]
    tables = WordTables(np.zeros(n_topics), np.empty((n_topics, len(columns), 2)))
    if len(columns):
        # Every topic is a row of work here.
        row_work.run(
            n_topics, lambda start, stop: _build(start, stop, phi_by_column, columns, *tables), small=1
        )
    return tables


@compiled
def _build(start, stop, phi_by_column, columns, mass, slots):
    n = len(columns)
    weights = np.empty(n)
    keep = np.empty(n)
    other = np.empty(n, dtype=np.int32)
    work = np.empty(n, dtype=np.int32)
    for k in range(start, stop):
        for i in range(n):
            weights[i] = phi_by_column[columns[i], k]
        mass[k] = build_alias(weights, keep, other, work)
        for i in range(n):
            slots[k, i, 0] = keep[i]
            slots[k, i, 1] = columns[other[i]]
