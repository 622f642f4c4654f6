"""The prior of every factor, and what is inferred of it: which factors have scales, means of components, a level.

The laws and their draws stand in ``prior``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from countveil.models.einsum.model import EinsumModel
    from countveil.models.groups import Groups


class Prior(NamedTuple):
    """Entries are independent Gamma(shape, rate); those of a symmetric matrix on and above the diagonal.

    Without a rate the means of the entries are inferred. With groups of rows those of each group are, in any case.
    """

    shape: float
    rate: float | None = None
    symmetric: bool = False
    groups: Groups | None = None


class Inferred(NamedTuple):
    """What is inferred about the means of one factor's entries."""

    shape: float  # of the entries, given their means
    scales: bool  # one for every place of its axis
    means: bool  # one for every component
    level: bool  # the scale of the data
    is_scale: bool  # it has no summed index: its entries are scales themselves
    groups: Groups | None = None  # of its rows: each has means of its own
    usual_mean: float = 1.0  # b0: the inverse of what inverse means are expected to be


def inferred_means(views: Mapping[str, EinsumModel]) -> dict[str, Inferred]:
    """For every factor whose prior has no rate what is inferred of it, over all views."""
    found: dict[str, Inferred] = {}
    for model in views.values():
        spec = model._spec
        free = [n for n in spec.factors if model._prior(n).rate is None and n not in model._fixed]
        summed = {name: bool(set(spec.term(name)) - set(spec.output)) for name in free}
        on_axis = {name: bool(set(spec.term(name)) & set(spec.output)) for name in free}
        leading = [spec.names[spec.first]] if spec.first is not None else []
        first = next((n for n in (*leading, *free) if n in free and summed[n] and on_axis[n]), None)
        last = next((n for n in reversed(free) if summed[n]), next(reversed(free), None))
        for name in free:
            mine = Inferred(
                model._prior(name).shape,
                scales=summed[name] and on_axis[name],
                means=name == first,
                level=name == last,
                is_scale=not summed[name],
                groups=model._prior(name).groups if name == first else None,
            )
            before = found.get(name, mine)
            found[name] = mine._replace(means=mine.means or before.means, level=mine.level or before.level)
        for name in spec.factors:
            prior = model._prior(name)
            if prior.groups is not None and prior.rate is not None:
                found[name] = Inferred(
                    prior.shape, False, True, False, False, prior.groups, prior.shape / prior.rate
                )
    return found


def added_fields(
    inferred: Mapping[str, Inferred], dims: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[str, ...]]:
    """What is inferred, as fields of a state: names, and those of their dimensions; the factors' are ``dims``."""
    found: dict[str, tuple[str, ...]] = {}
    for name, one in inferred.items():
        row, *components = ("",) if dims is None else dims[name]
        if one.scales:
            found[f"{name}_scale"] = (row,)
            found[f"{name}_scale_upper"] = found[f"{name}_scale_lower"] = ()
        if one.is_scale:
            found[f"{name}_shape"] = ()
        if one.means:
            found[f"{name}_mean"] = tuple(components) if one.groups is None else ("group", *components)
        if one.level:
            found[f"{name}_level"] = ()
    return found
