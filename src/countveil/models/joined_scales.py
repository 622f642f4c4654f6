"""Scale moves that change no rate of any view.

Let x be a summed index that some factors have. Multiplying each factor's entries at x by c**e, e = 1, 0 or -1,
leaves every rate of every view as it is if in every view the exponents of the factors that have x add up to 0: of
documents x words and documents x authors, theta goes by c, and the words' and the authors' factors go by 1/c. The
moves here are independent solutions, those of few factors first. Factors that are fixed, tied, or have x twice stay
as they are: so the memberships of a network with views beside it have no scale move.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from countveil.models.joined_indices import JoinedIndex
from countveil.models.spec import Spec

#: 3**n combinations of exponents are tried; with more factors at one index there are no moves along it.
MOST_FACTORS = 9


class ScaleMove(NamedTuple):
    """Factors to multiply and factors to divide, each with the place of the summed index among its axes."""

    up: tuple[tuple[str, int], ...]
    down: tuple[tuple[str, int], ...]


def scale_moves(
    specs: Mapping[str, Spec], indices: Collection[JoinedIndex], fixed: Collection[str]
) -> list[ScaleMove]:
    """The moves along all summed indices.

    >>> from countveil.models.joined_indices import joined_indices
    >>> from countveil.models.spec import read_spec
    >>> words, authors = read_spec("dk,kv->dv", ["theta", "phi"]), read_spec("dk,ka->da", ["theta", "psi"])
    >>> specs = {"words": words, "authors": authors}
    >>> scale_moves(specs, joined_indices(specs), fixed=())
    [ScaleMove(up=(('theta', 1),), down=(('phi', 0), ('psi', 0)))]
    """
    tied = {name for spec in specs.values() for name in spec.factors if len(spec.places(name)) > 1}
    moves = []
    for index in indices:
        if index.is_axis:
            continue
        places: dict[str, set[int]] = {}
        sums = []  # of every letter: the factors at whose terms it stands
        for view, letter in index.letters:
            spec = specs[view]
            having = [name for name in spec.factors if letter in spec.term(name)]
            for name in having:
                places.setdefault(name, set()).add(spec.term(name).index(letter))
            sums.append(having)
        free = [
            name for name, at in places.items() if len(at) == 1 and name not in tied and name not in fixed
        ]
        if not 2 <= len(free) <= MOST_FACTORS:
            continue
        equations = [[float(name in having) for name in free] for having in sums]
        for exponents in _independent(np.array(equations)):
            sides = [
                tuple((n, min(places[n])) for n, e in zip(free, exponents, strict=True) if e == sign)
                for sign in (1, -1)
            ]
            moves.append(ScaleMove(*sides))
    return moves


def _independent(equations: np.ndarray) -> list[np.ndarray]:
    """Independent solutions of ``equations @ e = 0`` in -1, 0, 1, those of few factors first.

    A solution and its opposite are one move: the first exponent that is not 0 is 1.
    """
    n = equations.shape[1]
    tried = np.array(list(product((0, 1, -1), repeat=n)), dtype=float).reshape(-1, n)
    solved = tried[~(tried @ equations.T).any(axis=1)]
    signs = np.array([row[row != 0][0] if row.any() else 0 for row in solved])
    solved = solved[signs == 1]
    found: list[np.ndarray] = []
    for row in solved[np.argsort(np.abs(solved).sum(axis=1), kind="stable")]:
        if np.linalg.matrix_rank(np.array([*found, row])) > len(found):
            found.append(row)
    return found
