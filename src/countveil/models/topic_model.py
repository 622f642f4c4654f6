"""The topic model: Poisson factorization of a matrix of counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import SMALLEST
from countveil.models.count_model import Data
from countveil.models.exposure import Exposure, ordered_sum
from countveil.models.gamma_factor import draw_factor_rows
from countveil.models.kept_exposure import KeptExposure
from countveil.models.parameters import positive_number, whole_number
from countveil.models.row_work import RowWork
from countveil.models.scale_move import trade_scale
from countveil.models.sweep_key import SweepKey


class TopicState(NamedTuple):
    """``theta`` (rows, topics): how much of each topic a row has. ``phi`` (topics, columns): topics' words.

    phi is laid out column by column in memory, because a token needs the K entries of one column.
    """

    theta: np.ndarray
    phi: np.ndarray


class TopicSums(NamedTuple):
    """Sums of allocated tokens: all that the factors need to know of the true counts."""

    row_topic: np.ndarray  # int32 or int64 (rows, topics)
    column_topic: np.ndarray  # int32 or int64 (columns, topics)
    exposure: Exposure | KeptExposure


@dataclass(frozen=True)
class TopicModel:
    """y_dv ~ Poisson(sum_k theta_dk phi_kv), theta_dk and phi_kv ~ Gamma(shape, rate).

    Gamma-Poisson matrix factorization, used as a topic model (Schein et al., ICML 2019, case study 1).

    Parameters
    ----------
    n_topics
        Number of topics K.
    shape, rate
        Of the gamma priors of both factors. A shape below 1 makes topics and memberships sparse.

    Examples
    --------
    >>> from countveil.models import TopicModel
    >>> TopicModel(n_topics=50)
    TopicModel(n_topics=50, shape=0.1, rate=1.0)
    """

    n_topics: int
    shape: float = 0.1
    rate: float = 1.0

    def __post_init__(self) -> None:
        # Plain numbers, whatever came: compiled code knows no fractions.
        object.__setattr__(self, "n_topics", whole_number("n_topics", self.n_topics, 1))
        object.__setattr__(self, "shape", positive_number("shape", self.shape, least=1e-3))
        object.__setattr__(self, "rate", positive_number("rate", self.rate))

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the dimensions of the state."""
        return {"theta": ("row", "topic"), "phi": ("topic", "column")}

    def init(self, data: Data, rng: np.random.Generator) -> TopicState:
        """Exponential factors, scaled so that the total rate is the data's (unbiased) total.

        A draw from the prior can be wrong by orders of magnitude and is almost all zeros.
        """
        if len(data.shape) != 2:
            raise ValueError(f"data: expected a matrix for a TopicModel, got {len(data.shape)} axes")
        n_rows, n_columns = data.shape
        theta = rng.exponential(size=(n_rows, self.n_topics))
        phi = rng.exponential(size=(n_columns, self.n_topics)).T
        # Noise can push the estimated total below zero; one count per hundred cells is a start anywhere.
        mean_rate = max(data.total() / max(data.n_observed, 1), 0.01)
        scale = np.sqrt(mean_rate / self.n_topics)
        return TopicState(theta * scale, phi * scale)

    def rates(self, state: TopicState, rows: slice) -> np.ndarray:
        """theta @ phi for these rows."""
        return state.theta[rows] @ state.phi

    def rates_at(self, state: TopicState, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The rates of single cells."""
        out = np.empty(len(rows))
        for start in range(0, len(rows), 2048):
            block = slice(start, start + 2048)
            out[block] = np.einsum("ik,ik->i", state.theta[rows[block]], state.phi.T[columns[block]])
        return out

    def total_rate(self, state: TopicState) -> float:
        """The sum of all rates."""
        return float(ordered_sum(state.theta) @ ordered_sum(state.phi.T))

    def update(self, state: TopicState, counts: np.ndarray, rng: np.random.Generator) -> TopicState:
        """Both factors given all counts (no cell missing): the plain path of the protocol."""
        row_topic = np.zeros(state.theta.shape, dtype=np.int64)
        column_topic = np.zeros(state.phi.T.shape, dtype=np.int64)
        for d, v in zip(*np.nonzero(counts), strict=True):
            weights = np.maximum(state.theta[d] * state.phi[:, v], SMALLEST)
            tokens = rng.multinomial(counts[d, v], weights / weights.sum())
            row_topic[d] += tokens
            column_topic[v] += tokens
        theta = rng.gamma(self.shape + row_topic) / (self.rate + state.phi.sum(axis=1))
        theta = np.maximum(theta, SMALLEST)
        phi = rng.gamma(self.shape + column_topic) / (self.rate + theta.sum(axis=0))
        phi = np.maximum(phi, SMALLEST)
        return TopicState(theta, phi.T)

    def update_from_sums(
        self, state: TopicState, sums: TopicSums, key: SweepKey, row_work: RowWork
    ) -> TopicState:
        """Both factors given the sums of allocated tokens: theta, phi given the new theta, then their scales."""
        theta, phi = np.empty(state.theta.shape), np.empty(state.phi.T.shape)
        exposure = sums.exposure.of_rows(state.phi.T, len(theta))
        row_work.run(
            len(theta),
            lambda start, stop: draw_factor_rows(
                *key, steps.ROW_FACTOR, 0, start, stop, self.shape, self.rate, sums.row_topic, exposure, theta
            ),
        )
        exposure_of_columns = sums.exposure.of_columns(theta, len(phi))
        row_work.run(
            len(phi),
            lambda start, stop: draw_factor_rows(
                *key, steps.COLUMN_FACTOR, 0, start, stop,
                self.shape, self.rate, sums.column_topic, exposure_of_columns, phi,
            ),
        )  # fmt: skip
        trade_scale(*key, 0, self.shape, self.rate, self.shape, self.rate, theta, phi)
        return TopicState(theta, phi.T)

    def log_joint(self, state: TopicState, sums: TopicSums) -> float:
        """log p(tokens, theta, phi) up to a constant of the tokens: a scalar to watch a chain by."""
        theta, phi = state.theta, state.phi.T
        total = -float(np.einsum("dk,dk->", theta, sums.exposure.of_rows(phi, len(theta)) + self.rate))
        total -= self.rate * float(np.sum(phi))
        for tokens, factor in ((sums.row_topic, theta), (sums.column_topic, phi)):
            total += float(_log_density(tokens, factor, self.shape))
        return total


@compiled
def _log_density(tokens, factor, shape):  # type: ignore[no-untyped-def]
    """sum of (tokens + shape - 1) * log(factor), without arrays in between."""
    total = 0.0
    for i in range(factor.shape[0]):
        for k in range(factor.shape[1]):
            total += (tokens[i, k] + shape - 1.0) * math.log(factor[i, k])
    return total
