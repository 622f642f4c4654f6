"""Relocation: in burn-in, components that explain little are moved to where the model explains too little.

Where a chain settles limits a user more than how far it steps: communities that start alike merge, and a Gibbs
sweep seldom parts them again. So between 20 % and 80 % of burn-in, every 45 sweeps, one of the three components of
least worth (the log-likelihood that would be lost without it) is moved. A cell is drawn in proportion to what the
model misses there, the component becomes what is left unexplained beside it (in its row and its column), and after
40 ordinary sweeps the chain goes back to where it was if the log-likelihood has fallen.

This is a start and no part of the kernel: after burn-in nothing of it is left, so the posterior is what it is. A
trial in progress is part of the chain's carry (the state before it, under ``before:``), so that a chain which was
stopped in the middle of one goes on as if nothing had happened. Every sum over rows is one of integers or of
multiples of 2**-20, so that the choice does not depend on how rows are split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.carry import BEFORE
from countveil.inference.observed import Observed, rows_of
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings
from countveil.kernels import steps
from countveil.kernels.exact_sum import exact_sums
from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.poisson import log_poisson
from countveil.kernels.uniform import exponential, uniform
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.spec import Spec
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

#: The part of burn-in in which components move, sweeps from one trial to the next, and sweeps of a trial.
FROM, UNTIL, EVERY, TRIAL = 0.2, 0.8, 45, 40
#: A trial may lose that much log-likelihood: at its end the chain is not yet where it will settle.
LOSS = 10.0
#: Of how many components of least worth one is taken.
WEAKEST = 3
#: Cells whose likelihood is computed once for every component, at most.
LOOKS = 4_000_000
_GRAIN = 20
#: Streams of rows, behind those of the roles.
_ROWS = 64


class Roles(NamedTuple):
    """Which columns of which factors are one component, of a spec by axis.

    A role is a summed index, with those that a tied factor makes one with it: c and d of ``ic,cd,jd->ij``. The CP
    form has one, Tucker's as many as axes.
    """

    letters: tuple[frozenset[str], ...]
    factors: tuple[str, ...]  # of every axis
    of_axis: tuple[int, ...]  # the role of every axis


def roles_of(spec: Spec) -> Roles | None:
    """The roles of a spec (by axis) in which every axis has one factor with one summed index; None for others."""
    factors, letters = [], []
    for axis in spec.output:
        having = [p for p, term in enumerate(spec.terms) if axis in term and len(term) > 1]
        if len(having) != 1 or len(spec.terms[having[0]]) != 2 or spec.terms[having[0]][1] in spec.output:
            return None
        factors.append(spec.names[having[0]])
        letters.append(spec.terms[having[0]][1])
    groups: list[frozenset[str]] = []
    for name, letter in zip(factors, letters, strict=True):
        mine = frozenset(one for other, one in zip(factors, letters, strict=True) if other == name) | {letter}
        met = [g for g in groups if g & mine]
        groups = [g for g in groups if not g & mine] + [frozenset().union(mine, *met)]
    if set(spec.latent) != set(letters):
        return None
    of_axis = tuple(next(r for r, g in enumerate(groups) if letter in g) for letter in letters)
    return Roles(tuple(groups), tuple(factors), of_axis)


def relocation_of(problem: Problem, settings: Settings) -> Relocation | None:
    """The relocation that suits a problem; None where there is none, or too little burn-in for it."""
    if settings.start == "plain" or not trials(settings.burn_in) or problem.alpha is not None:
        return None
    view = problem.views.get("")
    if view is None or view.method == "bessel" or not isinstance(view.model, EinsumModel):
        return None
    data, spec = view.observed, view.model._spec.by_axis
    roles = roles_of(spec)
    # Whoever gives factors, fixed or to start with, knows better. A matrix of documents has no such modes to leave.
    chosen = view.model._fixed or view.model._start
    if roles is None or spec.first is None or chosen or view.model.matrix_fields is not None:
        return None
    if data.is_repeated or len(data.cell_rho):
        return None
    return Relocation(view.model, data, roles, settings.burn_in)


def trials(burn_in: int) -> range:
    """The sweeps after which a trial begins."""
    return range(math.ceil(FROM * burn_in), math.floor(UNTIL * burn_in) - TRIAL + 1, EVERY)


class Relocation:
    """Ask ``relocation_of`` for one."""

    def __init__(self, model: EinsumModel, data: Observed, roles: Roles, burn_in: int) -> None:
        self._model, self._data, self._roles = model, data, roles
        self._trials = trials(burn_in)
        with np.errstate(under="ignore"):
            self._exposed = -np.expm1(-data.row_rho)  # 1 - alpha

    def acts_after(self, sweep: int) -> bool:
        """Whether a trial begins or ends after this sweep: after others the state stays as it is."""
        return sweep in self._trials or sweep - TRIAL in self._trials

    def after_sweep(self, state: Any, extra: dict[str, np.ndarray], key: SweepKey, workers: Workers) -> Any:
        """The state with which the chain goes on after sweep ``key.sweep``; ``extra`` is changed in place."""
        if key.sweep in self._trials:
            held = self._model._hold(state)
            likelihood = self._log_likelihood(held, workers)
            extra |= {BEFORE + name: np.array(value) for name, value in state._asdict().items()}
            extra[f"{BEFORE}log_likelihood"] = np.asarray(likelihood)
            return self._model._state(self._moved(held, likelihood, key, workers))
        if key.sweep - TRIAL in self._trials:
            before = float(extra.pop(f"{BEFORE}log_likelihood"))
            fields = {name: extra.pop(BEFORE + name) for name in state._fields}
            if self._log_likelihood(self._model._hold(state), workers) < before - LOSS:
                return type(state)(**fields)
        return state

    @cached_property
    def _seen(self) -> Any:
        data = self._data
        return exposure_of(data.missing_starts, data.missing_columns, data.width)

    def _log_likelihood(self, held: Mapping[str, np.ndarray], workers: Workers, stride: int = 1) -> float:
        """Of all observed cells, up to a constant: cells x <= 0 enter by the sum of their rates alone."""
        theta, phi = self._model._row_matrix(held), self._model._column_matrix(held)
        of_rows = np.zeros((len(theta), 1))
        workers.run(
            len(theta),
            lambda start, stop: _add_positive(
                start, stop, self._data, self._exposed, theta, phi, stride, of_rows
            ),
        )
        observed = (theta * self._seen.of_rows(phi)).sum(axis=1, keepdims=True)
        of_rows -= self._exposed[:, None] * observed
        up, down = (float(exact_sums(np.maximum(s * of_rows, 0.0), workers)[0]) for s in (1.0, -1.0))
        return up - down

    def _moved(
        self, held: dict[str, np.ndarray], likelihood: float, key: SweepKey, workers: Workers
    ) -> dict[str, np.ndarray]:
        """The factors with one component of every role at a place where the model explains too little."""
        seed, chosen = self._seed(held, key, workers), []
        stride = 1 + len(self._data.columns) * sum(self._sizes) // LOOKS
        if stride > 1:
            likelihood = self._log_likelihood(held, workers, stride)
        for role in range(len(self._roles.letters)):
            worth = [
                likelihood - self._log_likelihood(self._without(held, role, k), workers, stride)
                for k in range(self._sizes[role])
            ]
            weak = np.argsort(worth, kind="stable")[:WEAKEST]
            chosen.append(int(weak[_choose(key, role, len(weak))]))
        return held if seed is None else self._placed(held, chosen, *seed, workers)

    @cached_property
    def _sizes(self) -> list[int]:
        return [self._model._sizes[min(letters)] for letters in self._roles.letters]

    def _without(self, held: Mapping[str, np.ndarray], role: int, k: int) -> dict[str, np.ndarray]:
        """The factors with component k of a role as good as gone."""
        name = self._roles.factors[self._roles.of_axis.index(role)]
        changed = held[name].copy()
        changed[:, k] *= 1e-3
        return {**held, name: changed}

    def _seed(
        self, held: Mapping[str, np.ndarray], key: SweepKey, workers: Workers
    ) -> tuple[tuple[int, ...], np.ndarray] | None:
        """A cell in proportion to what its likelihood could gain, and what every cell has beyond its rate."""
        theta, phi = self._model._row_matrix(held), self._model._column_matrix(held)
        first, cell = np.full(len(theta), np.inf), np.zeros(len(theta), dtype=np.int64)
        excess = np.zeros(len(self._data.columns))
        workers.run(
            len(theta),
            lambda start, stop: _race(start, stop, key, self._data, theta, phi, first, cell, excess),
        )
        row = int(np.argmin(first))
        if math.isinf(first[row]):
            return None  # nothing is missed anywhere
        shape = self._model._shape_of(held)
        others = np.unravel_index(int(self._data.columns[cell[row]]), shape[1:])
        return (row, *map(int, others)), excess

    def _placed(
        self,
        held: dict[str, np.ndarray],
        chosen: list[int],
        seed: tuple[int, ...],
        excess: np.ndarray,
        workers: Workers,
    ) -> dict[str, np.ndarray]:
        """The chosen components as the excess beside the seed."""
        spec, roles, shape = self._model._spec.by_axis, self._roles, self._model._shape_of(held)
        profiles, own = self._profiles(shape, seed, excess)
        found, alone = dict(held), dict(held)
        for name in dict.fromkeys(roles.factors):
            axes = [axis for axis, other in enumerate(roles.factors) if other == name]
            k = chosen[roles.of_axis[axes[0]]]
            profile = np.sum([profiles[axis] for axis in axes], axis=0)
            # The seed's own places belong to it more than any, also where they never meet themselves.
            profile[[seed[axis] for axis in axes]] = profile.max()
            profile += 1e-3 * float(profile.max())
            column = profile * (float(exact_sums(held[name], workers).mean()) / float(profile.sum()))
            found[name] = held[name].copy()
            found[name][:, k] = column
            alone[name] = found[name][:, k : k + 1].copy()
            means = found.get(f"{name}_mean")
            if means is not None:  # as much is expected of it as of the others
                found[f"{name}_mean"] = np.array(means)
                found[f"{name}_mean"][k] = np.delete(means, k).mean() if len(means) > 1 else means[k]
        cores = [
            name for name in spec.factors if name not in roles.factors and spec.term(name) not in spec.output
        ]
        here: tuple[int, ...] = ()
        for name in cores:
            roles_here = (
                next(r for r, letters in enumerate(roles.letters) if letter in letters)
                for letter in spec.term(name)
            )
            here = tuple(chosen[role] for role in roles_here)
            core = held[name].copy()
            for place, k in enumerate(here):
                core[(slice(None),) * place + (k,)] = 0.05 * held[name].mean()
            core[here] = 1.0
            found[name], alone[name] = core, np.ones((1,) * core.ndim)
        # What it explains in the seed's row and column shall be what was missed there.
        whole = self._model._total(alone, workers)
        columns = [alone[name] for name in roles.factors]
        parts = [
            float(c[at, 0]) / float(exact_sums(c, workers)[0]) for c, at in zip(columns, seed, strict=True)
        ]
        explained = whole * sum(parts)
        scale = sum(own) / explained if explained > 0 else 1.0
        if cores:
            found[cores[-1]][here] = scale
        else:
            each = scale ** (1.0 / len(roles.factors))
            for name, role in zip(roles.factors, roles.of_axis, strict=True):
                found[name][:, chosen[role]] *= each
        return found

    def _profiles(
        self, shape: tuple[int, ...], seed: tuple[int, ...], excess: np.ndarray
    ) -> tuple[list[np.ndarray], list[float]]:
        """For every axis the excess of cells that share a place with the seed on another one, and of its own place.

        Where two axes share a factor, what goes one way and what goes the other is one.
        """
        places = [rows_of(self._data.row_starts), *np.unravel_index(self._data.columns, shape[1:])]
        pairs = [
            (a, b)
            for a, name in enumerate(self._roles.factors)
            for b, other in enumerate(self._roles.factors)
            if a < b and name == other
        ]
        ways = [places]
        for a, b in pairs:
            turned = list(places)
            turned[a], turned[b] = places[b], places[a]
            ways.append(turned)
        profiles, own = [np.zeros(n) for n in shape], [0.0] * len(shape)
        for way in ways:
            same = [place == at for place, at in zip(way, seed, strict=True)]
            for axis, n in enumerate(shape):
                shared = np.sum([s for other, s in enumerate(same) if other != axis], axis=0)
                profiles[axis] += np.bincount(way[axis], shared * excess, n)
                own[axis] += float(excess[same[axis]].sum()) / len(ways)
        return profiles, own


@compiled
def _log_probability(x, mu, rho):  # type: ignore[no-untyped-def]
    return log_poisson(x, mu) if math.isinf(rho) else log_marginal_clamped(x, mu, rho)


@compiled
def _rate(theta, phi, d, v):  # type: ignore[no-untyped-def]
    mu = 0.0
    for k in range(theta.shape[1]):
        mu += theta[d, k] * phi[v, k]
    return mu


@compiled
def _add_positive(start, stop, data, exposed, theta, phi, stride, out):  # type: ignore[no-untyped-def]
    """out[d] += what positive cells of row d have beyond exp(-(1-alpha) mu); of every stride-th for all."""
    for d in range(start, stop):
        total = 0.0
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            if stride == 1 or (i - data.row_starts[d] + d) % stride == 0:
                mu = _rate(theta, phi, d, data.columns[i])
                x = np.int64(data.values[i])
                total += _log_probability(x, max(mu, 1e-300), data.row_rho[d]) + exposed[d] * mu
        out[d, 0] += stride * total


@compiled
def _choose(key, role, n):  # type: ignore[no-untyped-def]
    u, _ = uniform(open_stream(key.seed, key.chain, key.sweep, steps.RELOCATION, role))
    return int(u * n)


@compiled
def _race(start, stop, key, data, theta, phi, first, cell, excess):  # type: ignore[no-untyped-def]
    """The positive cell of every row that is first where each has an exponential time, sooner if it misses more."""
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.RELOCATION, _ROWS + d)
        rho = data.row_rho[d]
        noise = 0.0 if math.isinf(rho) else 1.0 / math.expm1(rho)
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            mu = max(_rate(theta, phi, d, data.columns[i]), 1e-300)
            x = np.int64(data.values[i])
            e, stream = exponential(stream)
            if x <= mu:
                continue
            missed = _log_probability(x, float(x), rho) - _log_probability(x, mu, rho)
            more = max(x - mu - noise, 0.0)
            excess[i] = math.floor(more * 2.0**_GRAIN) * 2.0**-_GRAIN
            if missed > 0.0 and more > 0.0 and e / missed < first[d]:
                first[d] = e / missed
                cell[d] = i
