"""Scalars by which chains are watched: cheap, and none depends on the order of components."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.inference.observed import cells_at, observe, repeated_log_likelihoods, seen
from countveil.inference.problem import Problem, View
from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.kernels.poisson import log_poisson
from countveil.models.count_model import State, rates_at, total_rate
from countveil.models.einsum.model import EinsumModel
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

#: Cells whose marginal likelihood is watched.
SAMPLE = 20_000
#: Their log-likelihood, added up. Plain "log_likelihood" is what ArviZ takes for that of single observations.
LOG_LIKELIHOOD = "sampled_log_likelihood"


class Monitor:
    """``sampled_log_likelihood`` and ``total_rate`` of every view, and ``log_joint`` of a factorization.

    Several views have their names behind those of the scalars, as in ``total_rate_words``.
    """

    def __init__(self, problem: Problem, workers: Workers) -> None:
        self._problem, self._workers = problem, workers
        self._samples = {name: _Sample(view, workers.of_rows) for name, view in problem.views.items()}

    def scalars(
        self, state: State, statistics: Mapping[str, Any] | None, alpha: float | None
    ) -> dict[str, float]:
        """All monitored scalars of one state; ``alpha`` if it is inferred."""
        found: dict[str, float] = {} if alpha is None else {"alpha": alpha}
        for name, sample in self._samples.items():
            end = f"_{name}" if name else ""
            own = self._problem.view_state(name, state)
            found[f"{LOG_LIKELIHOOD}{end}"] = sample.log_likelihood(own, alpha)
            model = sample.view.model
            if isinstance(model, EinsumModel):
                found[f"total_rate{end}"] = model._total_rate(own, self._workers)
            else:
                found[f"total_rate{end}"] = total_rate(model, own, sample.view.data.shape)
        if statistics is not None:
            found["log_joint"] = self._problem.model.log_joint(state, statistics, self._workers)
        return found


def names_of_scalars(problem: Problem) -> list[str]:
    """What ``Monitor.scalars`` gives after a sweep, in its order."""
    ends = [f"_{name}" if name else "" for name in problem.views]
    return [
        *(["alpha"] if problem.alpha is not None else []),
        *(f"{scalar}{end}" for end in ends for scalar in (LOG_LIKELIHOOD, "total_rate")),
        *(["log_joint"] if problem.is_factorization else []),
    ]


def scalars_of_view(monitored: Mapping[str, Any], view: str) -> dict[str, Any]:
    """Those of one view, by their usual names."""
    return {name: monitored[f"{name}_{view}"] for name in (LOG_LIKELIHOOD, "total_rate")}


class _Sample:
    """Observed cells whose likelihood is watched; the true counts are summed out in closed form.

    Which cells are asked for depends on the shape alone, so fits of one data set by different methods and seeds are
    watched at the same cells.
    """

    def __init__(self, view: View, everyone: Workers) -> None:
        self.view, self._everyone = view, everyone
        # The naive method takes the release for true counts; it is watched by what the release is.
        data = view.observed
        if view.method == "naive":
            data = getattr(view.data, "released", None) or observe(view.data)  # a shard has looked already
        cells = everyone.number(data.n_rows) * data.width
        if cells <= SAMPLE:
            chosen = np.arange(cells)
        else:  # without a list of all cells
            chosen = np.sort(np.random.default_rng(0).choice(cells, SAMPLE, replace=False, shuffle=False))
        rows, columns = np.divmod(chosen, data.width)
        rows -= everyone.first_row
        here = (rows >= 0) & (rows < data.n_rows)
        rows, columns = rows[here], columns[here]
        values, rho = cells_at(data, rows, columns)
        observed = seen(values)
        self._rows, self._columns = rows[observed], columns[observed]
        self._values, self._rho = values[observed], rho[observed]

    def log_likelihood(self, state: State, alpha: float | None) -> float:
        """The sum over the sample."""
        rates = rates_at(self.view.model, state, self.view.data.shape, self._rows, self._columns)
        each = np.empty(len(rates))
        if self._values.ndim == 2:
            repeated_log_likelihoods(self._values, rates, self._rho, each)
        else:
            rho = self._rho if alpha is None else np.full(len(self._rho), -math.log(alpha))
            _log_likelihoods(self._values, rates, rho, each)
        return float(self._everyone.joined(each).sum())


@compiled
def _log_likelihoods(values, rates, rho, out):
    for i in range(len(values)):
        if math.isinf(rho[i]):
            out[i] = log_poisson(values[i], rates[i])
        else:
            out[i] = log_marginal_clamped(values[i], rates[i], rho[i])
