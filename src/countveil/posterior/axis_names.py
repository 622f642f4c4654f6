"""Names for the axes of the data where other names stand beside them."""

from __future__ import annotations

from collections.abc import Collection


def free_names(axes: tuple[str, ...], taken: Collection[str]) -> tuple[str, ...]:
    """The names of the axes; one that is taken, or cannot name an array in a Zarr folder, is replaced.

    Data may well have an axis "topic" or "chain" of its own. It becomes "row", "column" (or "axis0", ...) then:
    a fit must not fail over a name once the work is done.

    >>> free_names(("document", "word"), {"chain", "draw", "topic"})
    ('document', 'word')
    >>> free_names(("chain", "topic"), {"chain", "draw", "topic"})
    ('row', 'column')
    """
    used = set(taken) | {name for name in axes if _is_free(name, taken)}
    names = []
    for place, axis in enumerate(axes):
        name = axis
        if not _is_free(axis, taken):
            name = ("row", "column")[place] if len(axes) == 2 else f"axis{place}"
            while name in used:
                name += "_"
            used.add(name)
        names.append(name)
    return tuple(names)


def _is_free(name: str, taken: Collection[str]) -> bool:
    # What Zarr reserves: the separator, dots alone, two leading underscores, and its own file.
    reserved = "/" in name or not name.strip(".") or name.startswith("__") or name == "zarr.json"
    return name not in taken and not reserved
