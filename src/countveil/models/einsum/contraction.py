"""Products of factors summed over indices, pair by pair, without BLAS: the same bits wherever it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from countveil.runtime.compiled import compiled


def contract(
    terms: Sequence[str], arrays: Sequence[np.ndarray], output: str, sizes: Mapping[str, int] | None = None
) -> np.ndarray:
    """The einsum ``terms -> output``; an index of the output that no term has is filled with equal values
    (``sizes`` says how many).

    >>> contract(["k", "tk"], [np.array([1.0, 2.0]), np.ones((3, 2))], "jk", {"j": 2})
    array([[3., 6.],
           [3., 6.]])
    """
    form = _row_form(tuple(terms), output)
    if form is not None:
        out = np.empty(len(arrays[form[0]]))
        _fill_row_forms(*(arrays[place] for place in form), out)
        return out
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


def largest_step(terms: Sequence[str], output: str, sizes: Mapping[str, int]) -> int:
    """How many products the largest step of ``contract`` forms: by factors that make rings they are many.

    >>> largest_step(["dk", "kv"], "dv", {"d": 1, "v": 1, "k": 5})
    5
    >>> largest_step(["da", "va", "ab", "bc", "ac"], "dv", dict(zip("dvabc", [1, 1, 9, 9, 9])))
    729
    """
    steps = _steps(tuple(terms), output, tuple(tuple(sizes[c] for c in term) for term in terms))[1]
    return max((math.prod(sizes[c] for c in set(how) - set(",->")) for _, how in steps), default=1)


@lru_cache(maxsize=1024)
def _row_form(terms: tuple[str, ...], output: str) -> tuple[int, int, int] | None:
    """Where in ``jc,cd,jd->j``, in any order, jc, cd and jd stand; None for any other einsum.

    That is what an actor's receiving meets in a network, in every sweep.
    """
    rows = [place for place, term in enumerate(terms) if len(term) == 2 and term[0] == output]
    if len(terms) != 3 or len(rows) != 2:
        return None
    (one, two), middle = rows, ({0, 1, 2} - set(rows)).pop()
    c, d = terms[one][1], terms[two][1]
    return {c + d: (one, middle, two), d + c: (two, middle, one)}.get(terms[middle]) if c != d else None


@compiled
def _fill_row_forms(left, matrix, right, out):  # type: ignore[no-untyped-def]
    """out[j] = sum_cd left[j, c] matrix[c, d] right[j, d], c after c and d after d."""
    size = matrix.shape[1]
    sums = np.empty(size)
    for j in range(len(out)):
        sums[:] = 0.0
        for c in range(len(matrix)):
            for d in range(size):
                sums[d] += left[j, c] * matrix[c, d]
        total = 0.0
        for d in range(size):
            total += sums[d] * right[j, d]
        out[j] = total


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
