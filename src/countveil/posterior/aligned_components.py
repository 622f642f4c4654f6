"""All draws of a tensor model, or of a factorization of that form, in one order of components.

Factors trade scale, so each component's factor is divided by its sum over the axis. In the CP form a component has
one place in all factors and is matched on all of them together; in the Tucker form every axis is matched alone.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from countveil.posterior.alignment import Alignment, in_order
from countveil.posterior.axis_names import free_names
from countveil.posterior.components import Components
from countveil.posterior.interval import tails_of

_TINY = np.finfo(np.float64).tiny


class AlignedComponents:
    """Draws of the factors (draws, length of the axis, components), and of the core if there is one."""

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
        if core is None:
            mass = np.prod(sums, axis=0)
            found = in_order(np.concatenate(self._weights, axis=2), mass, order)
            self._alignments, self._shares = [found[0]] * len(factors), [found[1]] * len(factors)
            return
        parts = core.astype(np.float64)
        for axis, s in enumerate(sums):
            parts = parts * s.reshape(len(s), *(-1 if a == axis else 1 for a in range(len(sums))))
        both = []
        for axis, weights in enumerate(self._weights):
            mass = parts.sum(axis=tuple(a + 1 for a in range(len(sums)) if a != axis))
            both.append(in_order(weights, mass))
        self._alignments, self._shares = [one for one, _ in both], [two for _, two in both]
        parts = parts / np.maximum(parts.sum(axis=tuple(range(1, parts.ndim)), keepdims=True), _TINY)
        for axis, one in enumerate(self._alignments):
            order = one.order.reshape(len(parts), *(-1 if a == axis else 1 for a in range(len(sums))))
            parts = np.take_along_axis(parts, order, axis=axis + 1)
        self._core = parts

    def alignment_of(self, axis: int) -> Alignment:
        """The order of the components of one axis, and how well they agree."""
        return self._alignments[axis]

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
    low, high = np.quantile(draws, tails_of(interval), axis=0)
    found = {"mean": draws.mean(axis=0), "low": low, "high": high}
    places = {
        dim: np.arange(n) for dim, n in zip(dims, draws.shape[1:], strict=True) if dim not in coordinates
    }
    return xr.Dataset(
        {name: (dims, values) for name, values in found.items()},
        coords={**places, **coordinates},
        attrs={"interval": interval},
    )
