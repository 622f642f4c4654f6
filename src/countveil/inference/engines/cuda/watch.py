"""The scalars by which a chain is watched, from its arrays on the device: as ``monitor.Monitor`` has them.

Terms are made there, one for each row or cell, and added up on the processor, in order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.inference.engines.cuda.device import cuda, empty, kernel, launch, to_device, to_host
from countveil.inference.engines.cuda.matrix_chain import MatrixChain, Workspace
from countveil.inference.monitor import LOG_LIKELIHOOD, Monitor
from countveil.inference.problem import Problem
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.kernels.poisson import log_poisson
from countveil.models.einsum.prior import log_prior_of_means
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers


class Watch:
    """Of the chains of a matrix of two factors."""

    def __init__(self, problem: Problem, work: Workspace, workers: Workers) -> None:
        self._workers = workers
        sample = Monitor(problem, workers)._samples[""]
        self._cells = tuple(map(to_device, (sample._rows, sample._columns, sample._values, sample._rho)))
        self._of_cells = empty(len(sample._rows), np.float64)
        self._of_rows, self._of_columns = empty(work.n_rows, np.float64), empty(work.width, np.float64)
        self._model, self._work = work.model, work

    def scalars(self, chain: MatrixChain, state: Any, swept: bool) -> dict[str, float]:
        """The same as ``Monitor.scalars`` gives, but for the order of additions; ``state`` is the chain's."""
        work, held = self._work, self._model._hold(state)
        launch(log_likelihoods, len(self._of_cells), *self._cells, *chain.factors, self._of_cells)
        total = float(held[work.row].sum(axis=0) @ held[work.column].sum(axis=0))
        found = {LOG_LIKELIHOOD: float(to_host(self._of_cells).sum()), "total_rate": total}
        if not swept:
            return found
        launch(log_densities, work.n_rows, *chain.row_prior, *chain.rows, self._of_rows)
        launch(log_densities, work.width, *chain.column_prior, *chain.columns, self._of_columns)
        joint = to_host(self._of_rows).sum() + to_host(self._of_columns).sum()
        for shape, n in ((work.priors.row_shape, work.n_rows), (work.priors.column_shape, work.width)):
            joint -= n * work.n_components * math.lgamma(shape)
        joint -= total if work.is_whole else self._model._observed_rate(held, work.exposure, self._workers)
        found["log_joint"] = float(joint) + log_prior_of_means(self._model._inferred, held, self._workers)
        return found


@compiled
def log_likelihood_of(x, mu, rho):
    """log P(x | mu) of a release, or of a count where there is no noise."""
    if math.isinf(rho):
        return log_poisson(x, mu)
    return log_marginal_clamped(x, mu, rho)


@kernel
def log_likelihoods(rows, columns, values, rho, theta, phi, out):
    """Of the sampled cells."""
    i = cuda.grid(1)
    if i < len(out):
        mu = 0.0
        for k in range(theta.shape[1]):
            mu += theta[rows[i], k] * phi[columns[i], k]
        out[i] = log_likelihood_of(values[i], mu, rho[i])


@kernel
def log_densities(shape, top, scales, means, tokens, factor, out):
    """out[i]: tokens times log of the entries, and the log-densities of their priors, of row i."""
    i = cuda.grid(1)
    if i < factor.shape[0]:
        scale = scales[i] if len(scales) > 1 else scales[0]
        total = 0.0
        for k in range(factor.shape[1]):
            mean = means[k] if len(means) > 1 else means[0]
            rate, x = top / scale / mean, factor[i, k]
            total += (tokens[i, k] + shape - 1.0) * math.log(max(x, SMALLEST)) - rate * x
            total += shape * math.log(rate)
        out[i] = total
