"""Single sweeps of the CPU engine, given a state and small data: what law, joint and split tests are made of."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.choose import ColumnChoice
from countveil.inference.engines.cpu.sampler import CpuSampler, ViewSampler
from countveil.inference.engines.cpu.tokens import Choice, Tokens
from countveil.inference.observed import Observed
from countveil.inference.problem import Problem, View
from countveil.inference.settings import derived_seed
from countveil.models import TopicModel
from countveil.runtime.workers import Workers

IN_PLACE = Workers(1)
TopicState = TopicModel(1, rate=1.0).state_type


def observed(values, rho=None, cell_rho=None, missing=None):
    """What is known of a small matrix; plain counts if no noise is given. rho = inf marks a plain row."""
    missing = np.zeros(values.shape, dtype=bool) if missing is None else missing
    positive = (values > 0) & ~missing
    row_rho = np.inf if rho is None and cell_rho is None else np.nan if rho is None else rho
    n = len(values)
    found = Observed(
        *values.shape,
        np.concatenate([[0], np.cumsum(positive.sum(axis=1))]),
        np.nonzero(positive)[1].astype(np.int32),
        values[positive].astype(np.uint16 if values.max() < 2**16 else np.int64),
        np.concatenate([[0], np.cumsum(missing.sum(axis=1))]),
        np.nonzero(missing)[1].astype(np.int32),
        np.broadcast_to(row_rho, n).astype(float),
        np.zeros((0, 0)) if cell_rho is None else np.array(cell_rho, dtype=float),
        np.zeros((0, 0), dtype=np.int64),
        np.zeros((0, 0)),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros((0, 0), dtype=bool),
        np.zeros(0),
    )
    return changed(found)


def changed(data, **arrays):
    """The data with these arrays in place of theirs: all read-only, as those of a release.

    Numba compiles everything anew for an array that can be written to: half a minute for every algorithm.
    """
    found = data._replace(**arrays)
    for array in found[2:]:
        array.setflags(write=False)
    return found


def view_of(model, data, shape=None, method="exact"):
    """A view of a problem, without the classes that hold data for people."""
    shape = (data.n_rows, data.width) if shape is None else shape
    held = SimpleNamespace(shape=shape, n_observed=data.n_rows * data.width - len(data.missing_columns))
    return View(model, held, held, data, method)


def tokens(data, n_components, visited=(), whole=(), tokens_per_visit=np.inf, integrate=False):
    """The token algorithm with these columns visited, and visited as a whole; no row is crowded by default."""
    chosen = np.zeros((2, data.width), dtype=bool)
    chosen[0, [*visited, *whole]] = True
    chosen[1, list(whole)] = True
    return Tokens(
        data,
        n_components,
        IN_PLACE,
        integrate=integrate,
        tokens_per_visit=tokens_per_visit,
        chosen=Choice(ColumnChoice(*chosen)),
    )


class OneChain:
    """The CPU sampler of a model and one array: ``sweep`` goes from any state, with any key."""

    def __init__(self, model, data, shape=None, *, algorithm="auto", method="exact", matrix=None, extra=None):
        """``matrix`` takes the place of the algorithm for the matrix form; ``extra`` is the chain's own."""
        self.problem = Problem(model, {"": view_of(model, data, shape, method)}, method)
        self.sampler = CpuSampler(self.problem, 0, 1, algorithm, IN_PLACE)
        self.view: ViewSampler = self.sampler._views[""]
        if matrix is not None:
            self.view._matrix, self.view._fibers = matrix, None
        self.extra = {} if extra is None else extra

    def sweep(self, state, key, workers=IN_PLACE):
        """The state after one sweep; ``extra`` goes on, too."""
        return sweep(self.sampler, state, key, workers, self.extra)

    def statistics(self, state, key, workers=IN_PLACE):
        """The tokens of every factor (by axis) and the exposure, of one sweep."""
        return self.view.statistics(state, key, workers, self.extra)

    def matrix_tokens(self, state, key, workers=IN_PLACE):
        """The tokens of the matrix form, of one sweep."""
        theta, phi = self.problem.model.unfold(state)
        matrix = self.view._matrix
        return matrix.draw(theta, matrix.prepare(phi.T, workers), key, workers)


def sweep(sampler, state, key, workers=IN_PLACE, extra=None):
    """One sweep of any CPU sampler from a state, with this key."""
    extra = {} if extra is None else extra
    sampler._workers = workers
    if sampler._seed != key.seed:
        sampler._seed = key.seed
        several = len(sampler._seeds) > 1
        sampler._seeds = {
            name: derived_seed(key.seed, f"view {name}") if several else key.seed for name in sampler._seeds
        }
    sampler.load(Carry(key.chain, key.sweep - 1, state._asdict(), extra))
    sampler.sweep(key.chain)
    after = sampler._chains[key.chain]
    extra.update(after.extra)
    return after.state


class Splits(Workers):
    """Rows in parts, in some order, by two workers in turn: draws must not depend on it."""

    SMALL_WORK = 0  # nothing is too little for two

    def __init__(self, size, order=1):
        """Parts of ``size`` rows; ``order`` -1 takes the last first."""
        super().__init__(1)
        self.threads, self._size, self._order = 2, size, order

    def run_with_worker(self, n_rows, function, small=0):
        starts = list(range(0, n_rows, self._size))[:: self._order]
        for i, start in enumerate(starts):
            function(i % 2, start, min(start + self._size, n_rows))


#: A hundred rows cut into 1, 2, 3, 7, 15, 100 parts, forwards and backwards in turn.
ALL_SPLITS = [Splits(100), Splits(50, -1), Splits(34), Splits(15, -1), Splits(7), Splits(1, -1)]
