"""Scalars by which chains are watched: cheap, and none depends on the order of components."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.inference.observed import cells_at, observe, repeated_log_likelihoods, seen
from countveil.inference.problem import Problem, View
from countveil.kernels.noise.geometric import log_marginal_clamped
from countveil.kernels.poisson import log_poisson
from countveil.models.count_model import State, rates_at, total_rate
from countveil.runtime.compiled import compiled

#: Cells whose marginal likelihood is watched.
SAMPLE = 20_000


class Monitor:
    """``log_likelihood`` and ``total_rate`` of every view, and ``log_joint`` of a factorization.

    Several views have their names behind those of the scalars, as in ``log_likelihood_words``.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._samples = {name: _Sample(view) for name, view in problem.views.items()}

    def scalars(
        self, state: State, statistics: Mapping[str, Any] | None, alpha: float | None
    ) -> dict[str, float]:
        """All monitored scalars of one state; ``alpha`` if it is inferred."""
        found: dict[str, float] = {} if alpha is None else {"alpha": alpha}
        for name, sample in self._samples.items():
            end = f"_{name}" if name else ""
            own = self._problem.view_state(name, state)
            found[f"log_likelihood{end}"] = sample.log_likelihood(own, alpha)
            found[f"total_rate{end}"] = total_rate(sample.view.model, own, sample.view.data.shape)
        if statistics is not None:
            found["log_joint"] = self._problem.model.log_joint(state, statistics)
        return found


def scalars_of_view(monitored: Mapping[str, Any], view: str) -> dict[str, Any]:
    """Those of one view, by their usual names."""
    return {name: monitored[f"{name}_{view}"] for name in ("log_likelihood", "total_rate")}


class _Sample:
    """Observed cells whose likelihood is watched; the true counts are summed out in closed form.

    Which cells are asked for depends on the shape alone, so fits of one data set by different methods and seeds are
    watched at the same cells.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        # The naive method takes the release for true counts; it is watched by what the release is.
        data = observe(view.data) if view.method == "naive" else view.observed
        cells = data.n_rows * data.width
        chosen = np.arange(cells)
        if cells > SAMPLE:
            chosen = np.sort(np.random.default_rng(0).choice(cells, SAMPLE, replace=False, shuffle=False))
        rows, columns = np.divmod(chosen, data.width)
        values, rho = cells_at(data, rows, columns)
        observed = seen(values)
        self._rows, self._columns = rows[observed], columns[observed]
        self._values, self._rho = values[observed], rho[observed]

    def log_likelihood(self, state: State, alpha: float | None) -> float:
        """The sum over the sample."""
        rates = rates_at(self.view.model, state, self.view.data.shape, self._rows, self._columns)
        if self._values.ndim == 2:
            each = np.empty(len(rates))
            repeated_log_likelihoods(self._values, rates, self._rho, each)
            return float(each.sum())
        rho = self._rho if alpha is None else np.full(len(self._rho), -math.log(alpha))
        return float(_log_likelihood(self._values, rates, rho))


@compiled
def _log_likelihood(values, rates, rho):
    total = 0.0
    for i in range(len(values)):
        if math.isinf(rho[i]):
            total += log_poisson(values[i], rates[i])
        else:
            total += log_marginal_clamped(values[i], rates[i], rho[i])
    return total
