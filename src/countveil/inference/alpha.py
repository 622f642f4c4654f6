"""The noise parameter alpha given the rates, where it is not known.

A sweep has two steps, each of which leaves the posterior of (state, alpha) as it is: the state given alpha, as for
any release with that alpha; and alpha given the state. For the second draw the true counts y given the state and
alpha, then alpha given the noise ``tau = x - y``. With ``S = sum abs(tau)`` over n observed cells and a Beta(p, q)
prior,

    P(alpha | tau) ∝ alpha**(S+p-1) (1-alpha)**(n+q-1) (1+alpha)**(-n).

With ``M ~ NegativeBinomial(n, alpha**2)``, a sum of n geometrics ``P(m) = (1-alpha**2) alpha**(2m)``, the last
factor is gone and alpha ~ Beta(p + S + 2M, q + 2n). Cells x <= 0 that the model leaves out add their abs(x) to S
and one each to q: they are geometric.

Of the cells x <= 0 only number and sum of ``abs(x)`` are needed: there ``abs(tau) = abs(x) + y``, and the sum of
the y of a row is one Poisson draw, of mean alpha times the sum of their rates. Positive cells are drawn one by
one, every row from its own stream. So the step costs O(positive cells * K), for any model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.inference.observed import rows_of
from countveil.inference.problem import UnknownAlpha, View
from countveil.kernels import steps
from countveil.kernels.gamma import log_gamma
from countveil.kernels.given_release.geometric import draw_count
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.poisson import poisson
from countveil.models.count_model import checked_rates, rates_at, row_blocks
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

#: alpha stays this far from 0 and 1: beyond, doubles cannot tell rho from 0 or infinity.
_EDGE = 1e-12


class AlphaStep:
    """Draws alpha given the state of a view's model."""

    def __init__(self, view: View, unknown: UnknownAlpha) -> None:
        self._view, self._unknown = view, unknown
        data = view.observed
        self._rows, self._columns = rows_of(data.row_starts), data.columns.astype(np.int64)
        self._missing = rows_of(data.missing_starts), data.missing_columns.astype(np.int64)

    def alpha(self, state: Any, alpha: float, key: SweepKey, workers: Workers) -> float:
        """A new alpha, given the model's state and the old alpha."""
        view = self._view
        rates = self._rates_at(state, self._rows, self._columns)
        others = self.rates_of_others(state, rates)
        sums = np.zeros(workers.threads, dtype=np.int64)

        def rows(worker: int, start: int, stop: int) -> None:
            sums[worker] += _sum_of_noise(key, start, stop, alpha, view.observed, rates, others)

        workers.run_with_worker(view.observed.n_rows, rows)
        p, q = self._unknown.prior
        total = self._unknown.below + float(sums.sum())
        return _draw_alpha(key, alpha, total, view.data.n_observed, p, q + self._unknown.n_geometric)

    def rates_of_others(self, state: Any, rates: np.ndarray) -> np.ndarray:
        """For every row the sum of the rates of its observed cells x <= 0; ``rates`` are of positive cells."""
        data = self._view.observed
        found = self._row_totals(state)
        found -= np.bincount(self._rows, rates, data.n_rows)
        missing = self._rates_at(state, *self._missing)
        found -= np.bincount(self._missing[0], missing, data.n_rows)
        return np.maximum(found, 0.0)  # rounding may leave a hair below zero

    def _rates_at(self, state: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return rates_at(self._view.model, state, self._view.data.shape, rows, columns)

    def _row_totals(self, state: Any) -> np.ndarray:
        model, shape = self._view.model, self._view.data.shape
        if getattr(model, "unfolds", False):
            theta, phi = model.unfold(state)  # type: ignore[attr-defined]
            return np.einsum("dk,k->d", theta, phi.sum(axis=1))
        return np.concatenate(
            [checked_rates(model, state, shape, block).sum(axis=1) for block in row_blocks(shape)]
        )


@compiled
def _sum_of_noise(key, start, stop, alpha, data, rates, others):  # type: ignore[no-untyped-def]
    """The sum of |x - y| over the positive cells, and of y over the others, in rows start..stop: a whole number."""
    rho = -math.log(alpha)
    row_starts, values = data.row_starts, data.values
    total = np.int64(0)
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.NOISE, d)
        for i in range(row_starts[d], row_starts[d + 1]):
            x = np.int64(values[i])
            y, stream = draw_count(stream, x, rates[i], rho)
            total += abs(x - y)
        y, stream = poisson(stream, alpha * others[d])
        total += y
    return total


@compiled
def _draw_alpha(key, alpha, total, n, p, q):  # type: ignore[no-untyped-def]
    """A step from alpha that leaves P(alpha | S, n) as it is."""
    stream = open_stream(key.seed, key.chain, key.sweep, steps.ALPHA, 0)
    # Negative binomial as a Poisson with a gamma mean.
    odds = alpha * alpha / ((1.0 - alpha) * (1.0 + alpha))
    log_mean, stream = log_gamma(stream, max(float(n), 1e-3), 1.0)  # n = 0: nothing was observed
    m, stream = poisson(stream, math.exp(log_mean) * odds)
    # A beta as a quotient of gammas, in logarithms.
    a, stream = log_gamma(stream, p + total + 2.0 * m, 1.0)
    b, stream = log_gamma(stream, q + 2.0 * n, 1.0)
    return min(max(1.0 / (1.0 + math.exp(b - a)), _EDGE), 1.0 - _EDGE)
