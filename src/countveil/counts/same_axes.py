"""Whether several arrays of counts speak of the same things: their axis names and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


class Labelled(Protocol):
    """Anything with named axes and labels."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def axes(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> tuple[np.ndarray | None, ...]: ...


def common_axes(parts: Sequence[Labelled], name: str) -> tuple[str, ...]:
    """The names of the axes: default names give way to others, others must agree."""
    n_axes = len(parts[0].shape)
    default = ("row", "column") if n_axes == 2 else tuple(f"axis{i}" for i in range(n_axes))
    named = [part.axes for part in parts if part.axes != default]
    for axes in named[1:]:
        if axes != named[0]:
            raise ValueError(f"{name}: expected the axes {', '.join(named[0])}, got {', '.join(axes)}")
    return named[0] if named else default


def check_same_labels(parts: Sequence[Labelled], axis: int, name: str) -> Any:
    """The labels of this axis: those that have any must agree, in the same order."""
    labelled = [part.labels[axis] for part in parts if part.labels[axis] is not None]
    for labels in labelled[1:]:
        expect_labels(labelled[0], labels, f"{name}: expected the same labels along axis {axis}")
    return labelled[0] if labelled else None


def expect_labels(before: Any, now: Any, message: str) -> None:
    """Refuse other labels, or another order."""
    if np.array_equal(before, now):
        return
    if set(before) == set(now):
        raise ValueError(f"{message}, got them in another order; bring one into the order of the other first")
    place = int(np.flatnonzero(before != now)[0])
    raise ValueError(f"{message}, got {now[place]!r} in place of {before[place]!r} (place {place})")
