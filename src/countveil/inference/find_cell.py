"""Bisection in a row of listed cells."""

from __future__ import annotations

from countveil.kernels.compiled import compiled


@compiled
def find_cell(listed, low, high, wanted):  # type: ignore[no-untyped-def]
    """Position of ``wanted`` in the increasing part low..high of ``listed``, or -1."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if listed[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and listed[low] == wanted else -1
