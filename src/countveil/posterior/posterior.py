"""Posterior: draws + model + data, and the questions people ask of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts import PrivateCounts
from countveil.inference.cells_at import cells_at
from countveil.inference.observations import observe
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.rates import rates_at, row_blocks
from countveil.models import TopicModel
from countveil.models.parameters import whole_number
from countveil.posterior.diagnostics import summarize
from countveil.posterior.selection import positions
from countveil.posterior.topics import AlignedTopics, Topics
from countveil.posterior.tree import axis_labels
from countveil.posterior.true_counts import draw_true_counts

#: A labelled array of rates larger than this is refused: it would not help anyone.
LARGEST_ARRAY = 10**9


class Posterior:
    """What a fit has learnt: the posterior of the model given the release, as kept draws.

    ``tree`` is an xarray DataTree in ArviZ's schema (``posterior``, ``sample_stats``), for any further analysis.

    Examples
    --------
    >>> import countveil as cv
    >>> release = cv.simulate_release([[9, 0, 0], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1,
    ...                               labels=(["a", "b", "c"], ["oil", "gas", "power"]))
    >>> posterior = cv.fit(cv.TopicModel(2), release, sweeps=100, seed=1, progress=False)
    >>> posterior.rates(rows=["a"]).shape
    (1, 3)
    """

    def __init__(
        self,
        tree: xr.DataTree,
        model: Any,
        state_type: Any,
        data: PrivateCounts | PlainCounts | None,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        labels: tuple[np.ndarray | None, ...],
        seed: int,
    ) -> None:
        self.tree = tree
        self.model = model
        self._state_type = state_type
        self._data = data
        self._axes, self._shape, self._labels, self._seed = axes, shape, labels, seed

    @property
    def release(self) -> PrivateCounts | None:
        """The release that was fitted, if it was one."""
        return self._data if isinstance(self._data, PrivateCounts) else None

    @property
    def n_draws(self) -> int:
        """Kept draws of all chains together."""
        return math.prod(self._sizes)

    @property
    def _sizes(self) -> tuple[int, int]:
        sizes = self.tree["posterior"].sizes
        return sizes["chain"], sizes["draw"]

    def states(self) -> Iterator[Any]:
        """The kept states, chain after chain, as the model's own NamedTuple."""
        if self._state_type is None:
            raise ValueError(
                "model: expected the model of this run, got none; load_posterior(path, model=...)"
            )
        fields = [self.tree["posterior"][name].to_numpy() for name in self._state_type._fields]
        for chain, draw in np.ndindex(*self._sizes):
            yield self._state_type(*(_double(field[chain, draw]) for field in fields))

    def rates(self, rows: Any = None, columns: Any = None) -> xr.DataArray:
        """Posterior mean of the Poisson rates of these cells (rows, columns: positions, labels, or None = all)."""
        self._matrix("rates")
        r, c = self._positions(rows, columns)
        if 8 * len(r) * len(c) > LARGEST_ARRAY:
            raise ValueError(
                f"rows, columns: expected at most {LARGEST_ARRAY // 8:,} cells, got {len(r) * len(c):,}; "
                "go through iter_rates() block by block"
            )
        total = np.zeros((len(r), len(c)))
        for state in self.states():
            total += self._block(state, r, c)
        return self._labelled(total / self.n_draws, r, c)

    def iter_rates(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Posterior mean rates of all cells, block by block of rows: (slice of rows, array)."""
        for block, draws in self.iter_rate_draws():
            yield block, draws.mean(axis=0)

    def iter_rate_draws(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Rates of all cells in every kept draw, block by block of rows: (slice, (draws, rows, ...))."""
        states = list(self.states())
        for block in row_blocks((self._shape[0], *self._shape[1:], len(states))):
            yield block, np.stack([np.asarray(self.model.rates(state, block)) for state in states])

    def topics(self, n_words: int = 10, *, interval: float = 0.9) -> Topics:
        """Topics, most prevalent first: their words with intervals, and how well the draws agree on them."""
        n_words = whole_number("n_words", n_words, 1)
        return self._aligned.topics(n_words, _share("interval", interval), self._axis_labels(1))

    def memberships(self, rows: Any = None, *, interval: float = 0.9) -> xr.Dataset:
        """Each row's shares of the topics (the topics in the order of ``topics()``), with intervals."""
        chosen = positions("rows", rows, self._labels[0], self._shape[0])
        return self._aligned.memberships(chosen, _share("interval", interval), self._axis_labels(0)[chosen])

    def true_counts(self, rows: Any = None, columns: Any = None, *, interval: float = 0.9) -> xr.Dataset:
        """The posterior of the true counts of chosen cells: mean, interval, probability of being positive.

        This is not the posterior of the rates: given the release, E[count] and E[rate] differ.
        """
        self._matrix("true_counts")
        if self._data is None:
            raise ValueError("data: expected the counts of this run, got none; plain counts are not saved")
        r, c = self._positions(rows, columns)
        n_cells = len(r) * len(c)
        if 8 * n_cells * self.n_draws > LARGEST_ARRAY:
            most = LARGEST_ARRAY // (8 * self.n_draws)
            raise ValueError(f"rows, columns: expected at most {most:,} cells at once, got {n_cells:,}")
        row_of, column_of = np.repeat(r, len(c)), np.tile(c, len(r))
        values, rho = cells_at(observe(self._data), row_of, column_of)
        drawn = np.empty((self.n_draws, n_cells), dtype=np.int64)
        places = list(np.ndindex(*self._sizes))
        for i, (place, state) in enumerate(zip(places, self.states(), strict=True)):
            rates = rates_at(self.model, state, self._shape, row_of, column_of)
            draw_true_counts(np.uint64(self._seed), *place, values, rates, rho, drawn[i])
        tails = [(1 - _share("interval", interval)) / 2, (1 + interval) / 2]
        low, high = np.quantile(drawn, tails, axis=0, method="inverted_cdf")
        found = {"mean": drawn.mean(axis=0), "low": low, "high": high, "positive": (drawn > 0).mean(axis=0)}
        arrays = {name: self._labelled(v.reshape(len(r), len(c)), r, c) for name, v in found.items()}
        return xr.Dataset(arrays, attrs={"interval": interval})

    def summary(self, n_rates: int = 10, *, interval: float = 0.9) -> pd.DataFrame:
        """Convergence and precision of quantities that do not depend on labels.

        The monitored scalars and the rates of ``n_rates`` cells, spread evenly over the array: mean, sd,
        interval, Monte Carlo error, effective sample sizes (bulk, tail) and R-hat. An R-hat above 1.01 or an
        effective sample size below 400 asks for longer chains.
        """
        quantities = {name: values.to_numpy() for name, values in self.tree["sample_stats"].items()}
        cells = math.prod(self._shape)
        chosen = np.unique(np.linspace(0, cells - 1, min(n_rates, cells)).astype(np.int64))
        rows, columns = np.divmod(chosen, math.prod(self._shape[1:]))
        if len(chosen):
            at = np.stack([rates_at(self.model, s, self._shape, rows, columns) for s in self.states()])
            for i, name in enumerate(self._cell_names(rows, columns)):
                quantities[f"rate[{name}]"] = at[:, i].reshape(self._sizes)
        return summarize(quantities, _share("interval", interval))

    def to_dataframe(self, what: str = "topics", **options: Any) -> pd.DataFrame:
        """A table of ``"topics"``, ``"memberships"``, ``"rates"``, ``"true_counts"`` or monitored ``"scalars"``.

        ``options`` go to the method of that name.
        """
        if what == "topics":
            return self.topics(**options).table
        if what == "scalars":
            return self.tree["sample_stats"].to_dataset().to_dataframe(**options).reset_index()
        if what in ("memberships", "rates", "true_counts"):
            found = getattr(self, what)(**options)
            return (found.to_dataset(name="rate") if what == "rates" else found).to_dataframe().reset_index()
        choices = "'topics', 'memberships', 'rates', 'true_counts' or 'scalars'"
        raise ValueError(f"what: expected {choices}, got {what!r}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new Zarr folder in ArviZ's schema; ``load_posterior`` and arviz read it.

        The release goes with it. Plain counts do not: a run file never holds true counts.
        """
        from countveil.posterior.files import save_posterior  # it needs this class to load

        save_posterior(self, path)

    def __repr__(self) -> str:
        chains, draws = self._sizes
        size = " x ".join(map(str, self._shape))
        return f"Posterior({self.model!r}, {size}, {chains} chains x {draws} draws)"

    @cached_property
    def _aligned(self) -> AlignedTopics:
        if not isinstance(self.model, TopicModel):
            raise TypeError(
                f"topics: expected the posterior of a TopicModel, got {type(self.model).__name__}"
            )
        group = self.tree["posterior"]
        theta, phi = (group[name].to_numpy() for name in ("theta", "phi"))
        axes = (self._axes[0], self._axes[1])
        return AlignedTopics(theta.reshape(-1, *theta.shape[2:]), phi.reshape(-1, *phi.shape[2:]), axes)

    def _block(self, state: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if isinstance(self.model, TopicModel):
            return state.theta[rows] @ state.phi[:, columns]
        if len(rows) == self._shape[0]:
            return np.asarray(self.model.rates(state, slice(0, self._shape[0])))[rows][:, columns]
        each = [np.asarray(self.model.rates(state, slice(r, r + 1)))[0, columns] for r in rows]
        return np.array(each).reshape(len(rows), len(columns))

    def _matrix(self, what: str) -> None:
        if len(self._shape) != 2:
            raise ValueError(f"{what}: expected a matrix, got {len(self._shape)} axes; see iter_rates()")

    def _positions(self, rows: Any, columns: Any) -> tuple[np.ndarray, np.ndarray]:
        return (
            positions("rows", rows, self._labels[0], self._shape[0]),
            positions("columns", columns, self._labels[1], self._shape[1]),
        )

    def _axis_labels(self, axis: int) -> np.ndarray:
        return axis_labels(self._axes[axis], self._shape[axis], self._axes, self._shape, self._labels)

    def _labelled(self, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> xr.DataArray:
        coordinates = {
            self._axes[0]: self._axis_labels(0)[rows],
            self._axes[1]: self._axis_labels(1)[columns],
        }
        return xr.DataArray(values, coords=coordinates, dims=self._axes)

    def _cell_names(self, rows: np.ndarray, columns: np.ndarray) -> list[str]:
        if len(self._shape) != 2:
            return [f"{r}, {c}" for r, c in zip(rows, columns, strict=True)]
        by_row, by_column = self._axis_labels(0), self._axis_labels(1)
        return [f"{by_row[r]}, {by_column[c]}" for r, c in zip(rows, columns, strict=True)]


def _double(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _share(name: str, value: float) -> float:
    if not (isinstance(value, (int, float)) and 0 < value < 1):
        raise ValueError(f"{name}: expected a number between 0 and 1, got {value!r}")
    return float(value)
