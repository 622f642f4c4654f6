"""Scalars that do not depend on labels, to judge a chain by: cheap, and the same for every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.cells_at import cells_at, seen
from countveil.inference.observations import observe
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.rates import rates_at, total_rate
from countveil.inference.repeated_cells import repeated_log_likelihoods
from countveil.kernels.compiled import compiled
from countveil.kernels.log_marginal import log_marginal_clamped
from countveil.kernels.log_poisson import log_poisson
from countveil.models.count_model import CountModel, State

#: Cells whose marginal likelihood is watched.
SAMPLE = 20_000


class Monitor:
    """Log-likelihood of a fixed sample of observed cells, total rate, and the log joint if the model has one.

    In the log-likelihood the true counts are summed out in closed form. The sample depends on the shape alone,
    so fits of one data set by different methods and seeds are watched at the same cells.
    """

    def __init__(self, model: CountModel, data: PrivateCounts | CombinedReleases | PlainCounts) -> None:
        self._model, self._shape = model, data.shape
        width = math.prod(data.shape[1:])
        cells = data.shape[0] * width
        if cells > SAMPLE:
            chosen = np.sort(np.random.default_rng(0).choice(cells, SAMPLE, replace=False, shuffle=False))
        else:
            chosen = np.arange(cells)
        rows, columns = np.divmod(chosen, width)
        values, rho = cells_at(observe(data), rows, columns)
        observed = seen(values)
        self._rows, self._columns = rows[observed], columns[observed]
        self._values, self._rho = values[observed], rho[observed]

    def scalars(self, state: State, sums: Any) -> dict[str, float]:
        """All monitored scalars of one state."""
        rates = rates_at(self._model, state, self._shape, self._rows, self._columns)
        found = {
            "log_likelihood": self._log_likelihood(rates),
            "total_rate": total_rate(self._model, state, self._shape),
        }
        if sums is not None:
            found["log_joint"] = self._model.log_joint(state, sums)  # type: ignore[attr-defined]
        return found

    def _log_likelihood(self, rates: np.ndarray) -> float:
        if self._values.ndim == 1:
            return float(_log_likelihood(self._values, rates, self._rho))
        each = np.empty(len(rates))
        repeated_log_likelihoods(self._values, rates, self._rho, each)
        return float(each.sum())


@compiled
def _log_likelihood(values, rates, rho):
    total = 0.0
    for i in range(len(values)):
        if math.isinf(rho[i]):
            total += log_poisson(values[i], rates[i])
        else:
            total += log_marginal_clamped(values[i], rates[i], rho[i])
    return total
