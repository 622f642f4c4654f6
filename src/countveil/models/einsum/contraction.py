"""Products of factors summed over indices, pair by pair, without BLAS: the same bits wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np


def contract(
    terms: Sequence[str], arrays: Sequence[np.ndarray], output: str, sizes: Mapping[str, int] | None = None
) -> np.ndarray:
    """The einsum ``terms -> output``; an index of the output that no term has is filled with equal values
    (``sizes`` says how many).

    >>> contract(["k", "tk"], [np.array([1.0, 2.0]), np.ones((3, 2))], "jk", {"j": 2})
    array([[3., 6.],
           [3., 6.]])
    """
    present, steps = _steps(tuple(terms), output, tuple(a.shape for a in arrays))
    held = list(arrays)
    for places, subscripts in steps:
        taken = [held.pop(p) for p in places]
        # No `optimize`: that would call BLAS.
        held.append(np.einsum(subscripts, *taken) if subscripts else taken[0])
    found = held[0] if terms else np.ones(())
    if present == output:
        return np.asarray(found, order="C")
    shape = tuple(found.shape[present.index(c)] if c in present else 1 for c in output)
    assert sizes is not None
    full = tuple(n if c in present else sizes[c] for n, c in zip(shape, output, strict=True))
    return np.ascontiguousarray(np.broadcast_to(found.reshape(shape), full))


@lru_cache(maxsize=1024)
def _steps(
    terms: tuple[str, ...], wanted_output: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[str, tuple[tuple[tuple[int, ...], str], ...]]:
    """The indices of the output that some term has; which arrays to multiply, and how, until one is left.

    Taken arrays go, the product joins at the end. First an array is summed over the indices that it alone has, if
    there are any.
    """
    left, sizes = (
        list(terms),
        {c: n for t, s in zip(terms, shapes, strict=True) for c, n in zip(t, s, strict=True)},
    )
    output = "".join(c for c in wanted_output if c in sizes)
    if len(left) <= 1:
        return output, tuple(((0,), f"{term}->{output}") for term in left)
    steps: list[tuple[tuple[int, ...], str]] = []
    for _ in terms:
        term = left.pop(0)
        kept = "".join(c for c in term if c in output or any(c in other for other in left))
        left.append(kept)
        steps.append(((0,), f"{term}->{kept}" if kept != term else ""))
    arrays = [np.empty([sizes[c] for c in term]) for term in left]
    path = np.einsum_path(f"{','.join(left)}->{output}", *arrays, optimize="greedy")[0][1:]
    for number, places in enumerate(path):
        # From the back, so that the places of the others stay as they are.
        order = tuple(sorted(places, reverse=True))
        taken = [left.pop(p) for p in order]
        wanted = set(output).union(*left)
        result = output
        if number < len(path) - 1:
            result = "".join(c for c in dict.fromkeys("".join(taken)) if c in wanted)
        left.append(result)
        steps.append((order, f"{','.join(taken)}->{result}"))
    return output, tuple(steps)
