"""Indices of several specs that are one, because a factor that the specs share stands on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from countveil.models.spec import Spec


class JoinedIndex(NamedTuple):
    """One index of a model of several views, by every name it has: (view, letter) in the order of the views."""

    letters: tuple[tuple[str, str], ...]
    is_axis: bool

    def letters_in(self, view: str) -> list[str]:
        """Its letters in one view: usually one, or none."""
        return [letter for name, letter in self.letters if name == view]


def joined_indices(specs: Mapping[str, Spec]) -> tuple[JoinedIndex, ...]:
    """All indices of all views; those at the same place of a shared factor are joined.

    A factor that stands at two terms of a spec counts where it stands first.

    >>> from countveil.models.spec import read_spec
    >>> words, authors = read_spec("dk,kv->dv", ["theta", "phi"]), read_spec("ic,ca->ia", ["theta", "psi"])
    >>> [index.letters for index in joined_indices({"words": words, "authors": authors})][:2]
    [(('words', 'd'), ('authors', 'i')), (('words', 'k'), ('authors', 'c'))]
    """
    everything = [
        (view, letter) for view, spec in specs.items() for letter in dict.fromkeys("".join(spec.terms))
    ]
    group = {one: {one} for one in everything}
    at: dict[tuple[str, int], tuple[str, str]] = {}
    for view, spec in specs.items():
        for factor in spec.factors:
            for place, letter in enumerate(spec.term(factor)):
                met = at.setdefault((factor, place), (view, letter))
                together = group[met] | group[view, letter]
                for one in together:
                    group[one] = together
    found = dict.fromkeys(tuple(one for one in everything if one in group[first]) for first in everything)
    return tuple(JoinedIndex(letters, letters[0][1] in specs[letters[0][0]].output) for letters in found)
