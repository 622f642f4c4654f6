"""Chains in which alpha, the noise parameter, is unknown too.

A sweep has two steps, each of which leaves the posterior of (state, alpha) as it is:

1. the state given alpha: a sweep of whatever engine serves the model, on the release with that alpha;
2. alpha given the state: draw the true counts y given the state and alpha, then alpha given the noise
   ``tau = x - y``. With ``S = sum abs(tau)`` over n observed cells and a Beta(p, q) prior,

       P(alpha | tau) ∝ alpha**(S+p-1) (1-alpha)**(n+q-1) (1+alpha)**(-n).

   With ``M ~ NegativeBinomial(n, alpha**2)``, a sum of n geometrics ``P(m) = (1-alpha**2) alpha**(2m)``, the last
   factor is gone and alpha ~ Beta(p + S + 2M, q + 2n).

Of the cells x <= 0 only number and sum of ``abs(x)`` are needed: there ``abs(tau) = abs(x) + y``, and the sum of
all such y is one Poisson draw, of mean alpha times the sum of their rates. Positive cells are drawn one by one.
So step 2 costs O(positive cells * K), for any model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.contents import row_indices
from countveil.inference.derived_seed import derived_seed
from countveil.inference.draws import Draws
from countveil.inference.engines.choose import choose_engine
from countveil.inference.monitor import Monitor
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.rates import rates_at, total_rate
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count
from countveil.kernels.gamma import log_gamma
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.models.count_model import State
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.unknown_noise import UnknownNoise

#: alpha stays this far from 0 and 1: beyond, doubles cannot tell rho from 0 or infinity.
_EDGE = 1e-12


class NoiseSweep:
    """Engine for an UnknownNoise model and a release."""

    def __init__(
        self, model: UnknownNoise, data: PrivateCounts | PlainCounts, method: str, engine: str
    ) -> None:
        self.data = data = _checked_release(data, method)
        self._model, self._choice = model, (method, engine)
        total = data.nonpositive.total
        assert total is not None  # checked above
        self._below = float(total.sum())
        positive = data.positive
        self._rows, self._columns = row_indices(positive.row_starts), positive.columns.astype(np.int64)
        self._values = positive.values.astype(np.int64)
        self._missing = _missing_of_the_model(model.model, data)

    def sweep(self, state: State, key: SweepKey, row_work: RowWork) -> tuple[State, Any]:
        """The state given alpha, then alpha given the state."""
        release = at_alpha(self.data, float(state.alpha))
        # Built anew, because what an engine prepares may depend on alpha: readable, and cheap beside a sweep.
        engine = choose_engine(self._model.model, release, *self._choice)
        inner, sums = engine.sweep(self._model.inner(state), key, row_work)
        return self._model.join(inner, self.alpha(inner, float(state.alpha), key)), sums

    def alpha(self, inner: State, alpha: float, key: SweepKey) -> float:
        """A new alpha, given the model's state and the old alpha."""
        model, shape = self._model.model, self.data.shape
        rates = rates_at(model, inner, shape, self._rows, self._columns)
        others = self.rate_of_others(inner, rates)
        n = self.data.n_observed
        streams = key._replace(seed=derived_seed(key.seed, "noise"))
        return _draw_alpha(*streams, alpha, self._values, rates, others, self._below, n, *self._model.prior)

    def rate_of_others(self, inner: State, rates: np.ndarray) -> float:
        """The sum of the rates of the observed cells x <= 0; ``rates`` are those of the positive cells."""
        model, shape = self._model.model, self.data.shape
        missing = rates_at(model, inner, shape, *self._missing)
        # Rounding may leave a hair below zero.
        return max(total_rate(model, inner, shape) - float(rates.sum()) - float(missing.sum()), 0.0)


class NoiseMonitor:
    """The scalars of the model, with the likelihood at the alpha of the state; and alpha itself."""

    def __init__(self, model: UnknownNoise, data: PrivateCounts) -> None:
        self._model = model
        self._monitor = Monitor(model.model, data)

    def scalars(self, state: State, sums: Any) -> dict[str, float]:
        """All monitored scalars of one state."""
        self._monitor._rho = np.full(len(self._monitor._rho), -math.log(state.alpha))
        found = self._monitor.scalars(self._model.inner(state), sums)
        return {"alpha": float(state.alpha), **found}


def without_alpha(draws: Draws) -> Draws:
    """The draws of the model alone; alpha is left among the monitored scalars."""
    states = {name: values for name, values in draws.states.items() if name != "alpha"}
    return draws._replace(states=states, state_type=draws.state_type.inner_type)


def at_alpha(data: PrivateCounts, alpha: float) -> PrivateCounts:
    """The same release with another alpha for all cells."""
    contents = data._contents
    rho = np.asarray(-math.log(alpha))
    levels = contents.nonpositive._replace(rho=rho.reshape(1).copy())
    return PrivateCounts._from_contents(contents._replace(rho=rho, nonpositive=levels))


def _missing_of_the_model(model: Any, data: PrivateCounts) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of missing cells, but for those that the model itself leaves out of its total rate."""
    width = math.prod(data.shape[1:])
    cells = np.zeros(0, dtype=np.int64)
    if data.missing is not None:
        cells = row_indices(data.missing.row_starts) * width + data.missing.columns
    left_out = model.left_out(data.shape) if hasattr(model, "left_out") else None
    if left_out is not None:
        cells = np.setdiff1d(cells, np.ravel_multi_index(left_out, data.shape))
    rows, columns = np.divmod(cells, width)
    return rows, columns


def _checked_release(data: PrivateCounts | PlainCounts, method: str) -> PrivateCounts:
    if isinstance(data, CombinedReleases):
        raise ValueError("data: expected one release, whose noise is to be inferred, got several combined")
    if not isinstance(data, PrivateCounts):
        raise ValueError("data: expected a release, whose noise is to be inferred, got plain counts")
    if method != "exact":
        raise ValueError(f"method: expected 'exact' for noise that is not known, got {method!r}")
    if data.rho.ndim:
        raise ValueError("data: expected one noise parameter for all cells, got several")
    if data.nonpositive.total is None:
        raise ValueError(
            "data: expected a release that knows the sum of its values below 0, got one whose zeros are "
            "clamped: read as exact zeros they would make the noise seem much smaller than it is. Build it "
            "from signed values, cv.PrivateCounts(values, alpha=...), or say clamped=False if there are none; "
            "hide() keeps what is needed only where it was released with keep_negative=True"
        )
    return data


@compiled
def _sum_of_noise(stream, alpha, values, rates, others, below):  # type: ignore[no-untyped-def]
    """sum |x - y| over all observed cells, the true counts y drawn given their rates: ``(S, stream)``."""
    rho = -math.log(alpha)
    total = below
    for i in range(len(values)):
        y, stream = draw_count(stream, values[i], rates[i], rho)
        total += abs(values[i] - y)
    y, stream = poisson(stream, alpha * others)
    return total + y, stream


@compiled
def _alpha_given_noise(stream, alpha, total, n, p, q):  # type: ignore[no-untyped-def]
    """A step from alpha that leaves P(alpha | S, n) as it is: ``(alpha, stream)``."""
    # Negative binomial as a Poisson with a gamma mean.
    odds = alpha * alpha / ((1.0 - alpha) * (1.0 + alpha))
    log_mean, stream = log_gamma(stream, max(float(n), 1e-3), 1.0)  # n = 0: nothing was observed
    m, stream = poisson(stream, math.exp(log_mean) * odds)
    # A beta as a quotient of gammas, in logarithms.
    a, stream = log_gamma(stream, p + total + 2.0 * m, 1.0)
    b, stream = log_gamma(stream, q + 2.0 * n, 1.0)
    return min(max(1.0 / (1.0 + math.exp(b - a)), _EDGE), 1.0 - _EDGE), stream


@compiled
def _draw_alpha(  # type: ignore[no-untyped-def]
    seed, chain, sweep, alpha, values, rates, others, below, n, p, q
):
    stream = open_stream(seed, chain, sweep, steps.COUNTS, 0)
    total, stream = _sum_of_noise(stream, alpha, values, rates, others, below)
    new, stream = _alpha_given_noise(stream, alpha, total, n, p, q)
    return new
