"""Sums over rows in floating point, each worker adding up what it has: what tests of splits and order must catch."""

from __future__ import annotations

import numpy as np

from countveil.kernels.exact_sum import UNWEIGHTED
from countveil.models.einsum.exposure import ordered_sum


def plain_sums(terms, workers, weights=UNWEIGHTED):
    parts, terms = np.zeros((workers.threads, terms.shape[1])), terms * weights[:, None]

    def add(worker, start, stop):
        parts[worker] += ordered_sum(np.ascontiguousarray(terms[start:stop]))

    workers.run_with_worker(len(terms), add)
    return parts.sum(axis=0)


def plain_sums_of_columns(self, row_factor, n_columns, workers):
    parts = np.zeros((workers.threads, n_columns, row_factor.shape[1]))
    alpha = np.zeros(len(row_factor)) if self.alpha is None else self.alpha

    def add(worker, start, stop):
        for d in range(start, stop):
            cells = np.full(n_columns, 0.0 if self.lists_observed else 1.0)
            cells[self.columns[self.starts[d] : self.starts[d + 1]]] = 1.0 if self.lists_observed else 0.0
            cells *= 1.0 - alpha[d]
            cells[self.kept_columns[self.kept_rows == d]] += alpha[d]
            parts[worker] += cells[:, None] * row_factor[d]

    workers.run_with_worker(len(row_factor), add)
    return parts.sum(axis=0)
