"""Answers from running means: the chains of a run in one order, put together.

Every chain has counted its draws in an order of its own. Where the draws of the columns are at hand, chains are
matched with those, in the order of ``topics()``; else with each other, by their mean roots, the largest components
first. With n_c draws, means m_c and standard deviations s_c of the chains, those of all n draws are

    m = sum_c n_c m_c / n,    (n - 1) s^2 = sum_c (n_c - 1) s_c^2 + n_c (m_c - m)^2
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from countveil.posterior.align import AlignedComponents, AlignedTopics, aligned_as
from countveil.posterior.align.components import Components
from countveil.posterior.align.invariants import row_sum_name, weights_name
from countveil.posterior.align.matching import (
    Alignment,
    align,
    axis_draws,
    checked_steps,
    distributions,
    fixed_places,
    match,
    root_of,
)
from countveil.posterior.align.topics import Topics
from countveil.posterior.axes import free_names

#: What answers have where there are no draws to take an interval from.
MOMENTS = ("mean", "sd")


class JoinedChains:
    """What a posterior knows of a run whose draws were not all kept; answers as aligners give them."""

    def __init__(
        self, model: Any, fields: Mapping[Any, Any], running: xr.Dataset, axes: tuple[str, ...]
    ) -> None:
        """``fields`` (chain, draw, ...) of which draws were kept, and the group of running means."""
        self._model, self._fields, self._running, self._axes = model, fields, running, axes
        self._n = running["n_draws"].to_numpy().astype(np.float64)
        self._components = {
            running["root"].dims[1],
            *(running["blocks"].dims[1:] if "blocks" in running else ()),
        }

    def __contains__(self, name: str) -> bool:
        return name in self._running

    @cached_property
    def has_columns(self) -> bool:
        """Whether the draws of all factors but the rows' were kept."""
        names = self._model._spec.per_axis
        return names is not None and all(name in self._fields for name in names[1:])

    def column_fields(self) -> dict[str, np.ndarray]:
        """The draws of all fields that do not stand on rows; for the rows' factor a single row, their sum."""
        name = self._model._spec.per_axis[0]
        sums = np.asarray(self._fields[row_sum_name(self._model)])
        place = 2 + self._model._spec.term(name).index(self._model._spec.output[0])
        kept = {str(field): np.asarray(self._fields[field]) for field in self._fields}
        return {**kept, name: np.expand_dims(sums, place)}

    def column_draws(self) -> list[np.ndarray]:
        """The same by axis, each (draws of all chains, length of the axis, components)."""
        return axis_draws(self._model, self.column_fields())

    @cached_property
    def of_columns(self) -> AlignedTopics | AlignedComponents:
        """The draws of the columns, aligned."""
        assert self.has_columns
        if aligned_as(self._model)[0] == "topics":
            return AlignedTopics.of(self._model, self.column_fields(), self._axes)
        return self._columns_as_components(fixed_places(self._model, self._n_columns))

    @property
    def alignment(self) -> Alignment:
        """Of the draws of the columns."""
        return self.of_columns.alignment

    @property
    def dimension(self) -> str:
        """The name of the dimension whose places are matched."""
        return self.of_columns.dimension

    def topics(self, n_words: int, interval: float, labels: np.ndarray) -> Topics:
        """Words with intervals where the draws of the columns were kept, else with standard deviations."""
        if self.has_columns:
            assert isinstance(self.of_columns, AlignedTopics)
            return self.of_columns.topics(n_words, interval, labels)
        name = free_names(self._axes, {"topic", *MOMENTS})[1]
        found = self.pooled(weights_name(self._model._spec.per_axis[1]))
        weights = _dataset(("topic", name), found, {name: labels})
        return Topics(weights, self.pooled("share")["mean"], self.agreement, min(n_words, len(labels)))

    def memberships(self, rows: np.ndarray, interval: float, labels: np.ndarray) -> xr.Dataset:
        """Shares of the components in every row, with standard deviations."""
        of = "community" if "communities" in aligned_as(self._model) else "topic"
        name = free_names(self._axes, {of, "agreement", *MOMENTS})[0]
        coordinates = {name: labels, "agreement": (of, self.agreement)}
        return _dataset((name, of), self.pooled("memberships", rows), coordinates)

    def blocks(self, interval: float) -> xr.Dataset:
        """Expected counts from community to community, with standard deviations."""
        agreement = {"agreement": ("community", self.agreement)}
        return _dataset(("community", "to_community"), self.pooled("blocks"), agreement)

    def components(self, n_labels: int, interval: float, labels: list[np.ndarray]) -> Components:
        """Distributions over every axis: with intervals those that have draws, the others with deviations."""
        axes = free_names(self._axes, {"component", "low", "high", *MOMENTS})
        factors, share, agreement = {}, {}, {}
        inner = None
        if self.has_columns:
            inner = self._columns_as_components(self.alignment.order)
        of_columns = None if inner is None else inner.components(n_labels, interval, labels[1:])
        for axis, name in enumerate(axes):
            if of_columns is not None and axis > 0:
                factors[name] = list(of_columns.factors.values())[axis - 1]
                continue
            found = self.pooled(weights_name(self._model._spec.per_axis[axis]))
            factors[name] = _dataset(("component", name), found, {name: labels[axis]})
        if of_columns is not None:
            shares = next(iter(of_columns.share.values()))
        else:
            shares = self.pooled("share")["mean"]
        for name in axes:
            share[name], agreement[name] = shares, self.agreement
        return Components(factors, share, agreement, n_labels)

    def pooled(self, name: str, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Mean and standard deviation over the draws of all chains; of some rows, if they stand first."""
        total = self._n.sum()
        means, spreads = (
            [self._in_order(one, c, rows) for c in range(len(self._n))] for one in (name, f"{name}_sd")
        )
        mean = np.add.reduce([n * one for n, one in zip(self._n, means, strict=True)]) / total
        squares = np.zeros(mean.shape)
        for n, one, sd in zip(self._n, means, spreads, strict=True):
            squares += n * (one - mean) ** 2
            if n > 1:
                squares += (n - 1) * sd**2
        sd = np.sqrt(squares / (total - 1)) if total > 1 else np.full(mean.shape, np.nan)
        return {"mean": mean, "sd": sd}

    @cached_property
    def agreement(self) -> np.ndarray:
        """How alike a component is in two different draws, as ``align`` has it."""
        total = self._n.sum()
        if total == 1:
            return np.full(self._order.shape[1], np.nan)
        roots, lengths = (
            np.add.reduce([n * self._in_order(name, c) for c, n in enumerate(self._n)])
            for name in ("root", "length")
        )
        return np.clip(((roots**2).sum(axis=1) - lengths) / (total * (total - 1)), 0.0, 1.0)

    @cached_property
    def _order(self) -> np.ndarray:
        """For every chain its component at each place."""
        roots = self._running["root"].to_numpy()
        if self._model._spec.per_axis is not None:
            fixed = fixed_places(self._model, len(roots))
            if fixed is not None:
                return fixed
        if self.has_columns:
            checked_steps(*roots.shape[:2])
            reference = self._mean_root()
            return np.stack([match(reference, root) for root in roots])
        order = align(roots**2).order
        share = self._running["share"].to_numpy()
        mean = self._n @ np.take_along_axis(share, order, axis=1)
        return order[:, np.argsort(-mean, kind="stable")]

    def _mean_root(self) -> np.ndarray:
        """Of the aligned draws of the columns, on what running means were matched on."""
        columns = self.column_draws()[1:]
        found = np.zeros(self._running["root"].shape[1:])
        for s, order in enumerate(self.alignment.order):
            each = [distributions(factor[s : s + 1])[0] for factor in columns]
            found += root_of(np.concatenate(each, axis=1))[order]
        return found

    def _columns_as_components(self, order: np.ndarray | None) -> AlignedComponents:
        rows, first, *others = self.column_draws()
        # A component's share is the product of all sums: the rows' goes into one factor, whose weights stay.
        scaled = first * rows.astype(np.float64)
        return AlignedComponents([scaled, *others], None, self._axes[1:], order)

    @property
    def _n_columns(self) -> int:
        return int(np.prod(self._fields[self._model._spec.per_axis[1]].shape[:2]))

    def _in_order(self, name: str, chain: int, rows: np.ndarray | None = None) -> np.ndarray:
        variable = self._running[name]
        values = variable.to_numpy()[chain]
        if rows is not None:
            values = values[rows]
        for place, dim in enumerate(variable.dims[1:]):
            if dim in self._components:
                values = np.take(values, self._order[chain], axis=place)
        return values


def _dataset(
    dims: tuple[str, str], found: Mapping[str, np.ndarray], coordinates: Mapping[str, Any]
) -> xr.Dataset:
    places = {
        dim: np.arange(n) for dim, n in zip(dims, found["mean"].shape, strict=True) if dim not in coordinates
    }
    arrays = {name: (dims, values) for name, values in found.items()}
    return xr.Dataset(
        arrays, {**places, **coordinates}, {"intervals": "none: their draws were not kept (keep=)"}
    )
