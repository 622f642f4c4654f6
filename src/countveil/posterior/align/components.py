"""Components of a tensor model, or of a factorization of that form: all draws in one order; how people read them.

Factors trade scale, so each component's factor is divided by its sum over the axis. In the CP form a component has
one place in all factors and is matched on all of them together; in the Tucker form every axis is matched alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts.shown_text import short_label, visible
from countveil.posterior.align.matching import (
    Aligner,
    Alignment,
    all_draws,
    axis_draws,
    fixed_places,
    in_order,
)
from countveil.posterior.axes import free_names
from countveil.posterior.diagnostics.summary import interval_dataset, mean_and_interval

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False, repr=False)
class Components:
    """Aligned components, largest first.

    ``factors`` has for every axis a Dataset over (component, axis) with ``mean``, ``low`` and ``high`` of its
    distribution over that axis. ``share`` is the part of all expected counts that belongs to each component and
    ``agreement`` how alike it is in two different draws: arrays for the CP form; for a Tucker form every axis has
    components of its own, and ``core`` holds the part of every combination.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> from countveil.models import TensorModel
    >>> counts = np.zeros((3, 3, 2), int)
    >>> counts[:2, :2, 0], counts[2, 2, 1] = 60, 90
    >>> posterior = cv.fit(TensorModel(rank=2), counts, sweeps=200, seed=1, progress=False)
    >>> components = posterior.components(2)
    >>> components.table.columns.tolist()
    ['axis', 'component', 'rank', 'label', 'weight', 'low', 'high']
    >>> list(components.factors)
    ['axis0', 'axis1', 'axis2']
    """

    factors: Mapping[str, xr.Dataset]
    share: Mapping[str, np.ndarray]
    agreement: Mapping[str, np.ndarray]
    n_labels: int
    core: xr.Dataset | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The heaviest labels: axis, component, rank (from 0), label, weight, low, high (or ``sd``)."""
        parts = []
        for axis, weights in self.factors.items():
            mean = weights["mean"].to_numpy()
            top = np.argsort(-mean, axis=1, kind="stable")[:, : self.n_labels]
            n, m = top.shape
            component, rank = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
            chosen = (component, top.reshape(-1))
            values = {str(name): each.to_numpy()[chosen] for name, each in weights.data_vars.items()}
            label = weights[weights["mean"].dims[1]].to_numpy()[chosen[1]]
            columns = {"component": component, "rank": rank, "label": label, "weight": values.pop("mean")}
            parts.append(pd.DataFrame({"axis": axis, **columns, **values}))
        return pd.concat(parts, ignore_index=True)

    def __repr__(self) -> str:
        lines = []
        for axis, weights in self.factors.items():
            mean = weights["mean"].to_numpy()
            labels = weights[weights["mean"].dims[1]].to_numpy()
            lines.append(f"{visible(axis)}\ncomponent  share  agreement  labels")
            for k, row in enumerate(mean):
                top = np.argsort(-row, kind="stable")[: self.n_labels]
                listed = " ".join(short_label(labels[v]) for v in top)
                lines.append(f"{k:>9}  {self.share[axis][k]:5.1%}  {self.agreement[axis][k]:9.2f}  {listed}")
        told = {weights.attrs["chains"] for weights in self.factors.values() if "chains" in weights.attrs}
        return "\n".join([*lines, *told])


class AlignedComponents(Aligner):
    """Draws of the factors (draws, length of the axis, components), and of the core if there is one."""

    of_models = "a TensorModel, or of a Factorization with a factor for each axis and one summed index"

    def __init__(
        self,
        factors: list[np.ndarray],
        core: np.ndarray | None,
        axes: tuple[str, ...],
        order: np.ndarray | None = None,
    ) -> None:
        """``order`` of the components of a CP form, if it is known already."""
        taken = {"component", "mean", "low", "high", *(f"component{a}" for a in range(len(axes)))}
        self._axes = free_names(axes, taken)
        sums = [f.sum(axis=1, dtype=np.float64) for f in factors]
        # (draws, components, length), every one a distribution.
        self._weights = [
            np.swapaxes(f / np.maximum(s[:, None], _TINY), 1, 2) for f, s in zip(factors, sums, strict=True)
        ]
        self._core = None
        self.dimension = "component" if core is None else "component0"
        if core is None:
            mass = np.prod(sums, axis=0)
            found = in_order(np.concatenate(self._weights, axis=2), mass, order)
            self._alignments, self._shares = [found[0]] * len(factors), [found[1]] * len(factors)
            self.alignment = found[0]
            return
        parts = core.astype(np.float64)
        for axis, s in enumerate(sums):
            parts = parts * s.reshape(len(s), *(-1 if a == axis else 1 for a in range(len(sums))))
        both = []
        for axis, weights in enumerate(self._weights):
            mass = parts.sum(axis=tuple(a + 1 for a in range(len(sums)) if a != axis))
            both.append(in_order(weights, mass))
        self._alignments, self._shares = [one for one, _ in both], [two for _, two in both]
        self.alignment = self._alignments[0]
        parts = parts / np.maximum(parts.sum(axis=tuple(range(1, parts.ndim)), keepdims=True), _TINY)
        for axis, one in enumerate(self._alignments):
            order = one.order.reshape(len(parts), *(-1 if a == axis else 1 for a in range(len(sums))))
            parts = np.take_along_axis(parts, order, axis=axis + 1)
        self._core = parts

    @classmethod
    def of(
        cls, model: Any, fields: Mapping[Any, Any], axes: tuple[str, ...], order: np.ndarray | None = None
    ) -> Self:
        """Of the CP form, where every axis has a factor; else of the Tucker form, whose last factor is its core."""
        if model._spec.per_axis is None:
            *factors, core = (all_draws(fields[name]) for name in model._spec.factors)
            return cls(factors, core, axes)
        factors = axis_draws(model, fields)
        order = fixed_places(model, len(factors[0])) if order is None else order
        return cls(factors, None, axes, order)

    def places(self, model: Any) -> Mapping[str, Alignment]:
        """In the Tucker form every axis has its own."""
        if self._core is None:
            return super().places(model)
        *axes, _ = model._spec.factors
        return {model.dims[name][1]: one for name, one in zip(axes, self._alignments, strict=True)}

    def components(self, n_labels: int, interval: float, labels: list[np.ndarray]) -> Components:
        """Distributions over every axis with their means and intervals."""
        factors = {}
        for axis, name in enumerate(self._axes):
            order = self._alignments[axis].order
            draws = np.take_along_axis(self._weights[axis], order[:, :, None], axis=1)
            of = "component" if self._core is None else f"component{axis}"
            factors[name] = _dataset((of, name), draws, interval, {name: labels[axis]})
        core = None
        if self._core is not None:
            core = _dataset(tuple(f"component{a}" for a in range(len(self._axes))), self._core, interval, {})
        shares = dict(zip(self._axes, self._shares, strict=True))
        agreements = dict(zip(self._axes, (a.agreement for a in self._alignments), strict=True))
        return Components(factors, shares, agreements, n_labels, core)


def _dataset(dims: tuple[str, ...], draws: np.ndarray, interval: float, coordinates: dict) -> xr.Dataset:
    places = {
        dim: np.arange(n) for dim, n in zip(dims, draws.shape[1:], strict=True) if dim not in coordinates
    }
    return interval_dataset(dims, mean_and_interval(draws, interval), {**places, **coordinates}, interval)
