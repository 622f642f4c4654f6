"""The data of a model of several views: read, and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.plain_counts import PlainCounts, read_plain_counts
from countveil.models.shared_factors import SharedFactors

#: What a view may be fitted to.
ViewData = PrivateCounts | CombinedReleases | PlainCounts


def read_views(model: SharedFactors, data: Any, labels: Any = None) -> dict[str, ViewData]:
    """One release or array of plain counts for every view, in the order of the model."""
    _check_names("data", model, data, everything=True)
    if labels is not None:
        _check_names("labels", model, labels, everything=False)
    found: dict[str, ViewData] = {}
    for name, view in model.views.items():
        one, named = data[name], None if labels is None else labels.get(name)
        try:
            if not isinstance(one, PrivateCounts | CombinedReleases):
                one = read_plain_counts(one, named)
            elif named is not None:
                raise ValueError("labels: expected None for a release, which has its own, got labels")
            view._checked_shape(one.shape)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from error
        found[name] = one
    _check_common_axes(model, found)
    return found


def _check_names(what: str, model: SharedFactors, given: Any, everything: bool) -> None:
    expected = ", ".join(model.views)
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{what}: expected a mapping from views ({expected}) to arrays, got {type(given).__name__}"
        )
    if set(given) - set(model.views) or (everything and set(given) != set(model.views)):
        names = ", ".join(map(str, given)) or "none"
        raise ValueError(f"{what}: expected the views {expected}, got {names}")


def _check_common_axes(model: SharedFactors, data: Mapping[str, ViewData]) -> None:
    """Axes on which a shared factor stands have one length, and no two different sets of labels."""
    for index in model.axes:
        places = [(view, model.views[view]._spec.output.index(letter)) for view, letter in index.letters]
        (first, first_axis), *others = places
        for view, axis in others:
            expected, got = data[first].shape[first_axis], data[view].shape[axis]
            if expected != got:
                raise ValueError(
                    f"{view}: expected length {expected} along axis {axis}, as {first} has along axis "
                    f"{first_axis} (they share a factor), got {got}"
                )
        labelled = [(v, a, data[v].labels[a]) for v, a in places if data[v].labels[a] is not None]
        for view, axis, labels in labelled[1:]:
            first, first_axis, known = labelled[0]
            assert labels is not None
            assert known is not None
            if not np.array_equal(labels, known):
                same = sorted(map(str, labels)) == sorted(map(str, known))
                raise ValueError(
                    f"{view}: expected the labels of {first} (axis {first_axis}) along axis {axis} (they share a "
                    f"factor), got {'the same in another order' if same else 'others'}"
                )
