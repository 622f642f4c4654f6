"""An einsum of non-negative factors: its text taken apart and checked; the class of its states; and indices that
several specs share.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from countveil.models.count_model import whole_number

_PATTERN = re.compile(r"[A-Za-z]+(,[A-Za-z]+)*->[A-Za-z]+")
#: Names that mean something else beside the factors in a posterior.
_TAKEN = ("chain", "draw")
#: Factors of one array: numpy multiplies no more, and a stranger's run may name a million.
_MOST_TERMS = 32


@dataclass(frozen=True)
class Spec:
    """The terms of an einsum, its output, and the name of the factor at each term.

    A name that stands at two terms is one factor, tied: it enters the rates through both.
    """

    terms: tuple[str, ...]
    output: str
    names: tuple[str, ...]

    @cached_property  # a sweep asks many times
    def factors(self) -> tuple[str, ...]:
        """The distinct names, in order."""
        return tuple(dict.fromkeys(self.names))

    @cached_property
    def latent(self) -> str:
        """The summed letters, in order."""
        return "".join(dict.fromkeys(c for term in self.terms for c in term if c not in self.output))

    def places(self, name: str) -> tuple[int, ...]:
        """The terms at which a factor stands."""
        return tuple(p for p, other in enumerate(self.names) if other == name)

    def term(self, name: str) -> str:
        """The letters of a factor where it stands first."""
        return self.terms[self.names.index(name)]

    @cached_property
    def by_axis(self) -> Spec:
        """The same with the axes of every term first: how factors lie in memory, and what all work is done on.

        A row of a factor is then what belongs to one place of an axis: one stream, one shard.

        >>> read_spec("dk,kv->dv").by_axis.terms
        ('dk', 'vk')
        """
        terms = (
            "".join(c for c in self.output if c in term) + "".join(c for c in term if c not in self.output)
            for term in self.terms
        )
        return Spec(tuple(terms), self.output, self.names)

    @cached_property
    def turns(self) -> tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]:
        """For every factor the order of its letters that ``by_axis`` has, and the way back."""
        pairs = [(name, self.term(name), self.by_axis.term(name)) for name in self.factors]
        return tuple(
            (name, tuple(map(term.index, turned)), tuple(map(turned.index, term)))
            for name, term, turned in pairs
        )

    @cached_property
    def per_axis(self) -> tuple[str, ...] | None:
        """The factor of every axis, where each has one of its own, and one summed index is all that joins them.

        That is a matrix factorization ``dk,kv->dv``, or the CP form of a tensor; anything else has None.
        """
        pairs = {frozenset(term): name for term, name in zip(self.terms, self.names, strict=True)}
        wanted = [frozenset((axis, *self.latent)) for axis in self.output]
        plain = len(self.latent) == 1 and len(self.output) > 1 and len(self.factors) == len(self.terms)
        return tuple(pairs[one] for one in wanted) if plain and set(wanted) == set(pairs) else None

    @cached_property
    def tied_axes(self) -> tuple[tuple[int, int], ...]:
        """Pairs of axes on which one factor stands: what it is about stands on both, in one order.

        >>> read_spec("ic,cd,jd->ij", ["theta", "pi", "theta"]).tied_axes, read_spec("dk,kv->dv").tied_axes
        (((0, 1),), ())
        """
        found = []
        for name in self.factors:
            axes = [
                self.output.index(c) for p in self.places(name) for c in self.terms[p] if c in self.output
            ]
            if len(self.places(name)) == 2:
                found.append((min(axes), max(axes)))
        return tuple(found)

    @cached_property
    def first(self) -> int | None:
        """The term that alone has the first axis, and no other axis; None if there is no such term.

        Then mu[d, rest] = sum_l F[d, l] * Phi[l, rest], with Phi the einsum of all other terms.
        """
        having = [p for p, term in enumerate(self.terms) if self.output[0] in term]
        if len(having) == 1 and not set(self.terms[having[0]]) & set(self.output[1:]):
            return having[0]
        return None


def read_spec(text: Any, names: Iterable[str] | None = None) -> Spec:
    """The parts of an einsum, or an error that says what cannot be.

    >>> read_spec("dk,kv->dv")
    Spec(terms=('dk', 'kv'), output='dv', names=('factor_dk', 'factor_kv'))
    >>> read_spec("ic,cd,jd->ij", ["theta", "pi", "theta"]).factors
    ('theta', 'pi')
    """
    if not isinstance(text, str) or not _PATTERN.fullmatch(text.replace(" ", "")):
        raise ValueError(
            f"spec: expected factors with at least one index each, such as 'dk,kv->dv', got {text!r}"
        )
    left, output = text.replace(" ", "").split("->")
    terms = tuple(left.split(","))
    if len(terms) > _MOST_TERMS:
        raise ValueError(f"spec: expected at most {_MOST_TERMS} factors, got {len(terms):,}")
    for letters in (*terms, output):
        if len(set(letters)) < len(letters):
            raise ValueError(f"spec: expected different indices within {letters!r}, got one twice")
    for letter in output:
        if letter not in left:
            raise ValueError(
                f"spec: expected every index of the output in some factor, got {letter!r} in none"
            )
    spec = Spec(terms, output, _names(terms, names))
    for name in spec.factors:
        _check_tie(spec, name)
    return spec


def read_sizes(spec: Spec, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the summed letters, all of them and no others."""
    for letter in sizes:
        if letter in spec.output:
            raise ValueError(f"{letter}: expected no size, because it is an axis of the data, got one")
        if letter not in spec.latent:
            raise TypeError(f"{letter}: expected an option or a summed index of the spec, got neither")
    for letter in spec.latent:
        if letter not in sizes:
            example = f"{letter}=10"
            raise ValueError(f"{letter}: expected the size of this summed index, such as {example}, got none")
    return {letter: whole_number(letter, sizes[letter], 1) for letter in spec.latent}


def check_tied_sizes(spec: Spec, sizes: Mapping[str, int]) -> None:
    """A tied factor has one shape."""
    for name in spec.factors:
        shapes = [[sizes.get(c, 0) for c in spec.terms[p]] for p in spec.places(name)]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            one, two = (spec.terms[p] for p in spec.places(name))
            raise ValueError(
                f"names: expected one shape for the tied factor {name!r}, got different ones at {one!r} and {two!r}"
            )


def _names(terms: tuple[str, ...], names: Iterable[str] | None) -> tuple[str, ...]:
    if names is None:
        seen = [terms[: i + 1].count(term) for i, term in enumerate(terms)]
        return tuple(
            f"factor_{term}" + (f"_{n}" if n > 1 else "") for term, n in zip(terms, seen, strict=True)
        )
    given = (names,) if isinstance(names, str) else tuple(names)
    if len(given) != len(terms):
        raise ValueError(f"names: expected {len(terms)} names, one for each factor, got {len(given)}")
    for name in given:
        good = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        if not good or name in _TAKEN or len(name) == 1:
            raise ValueError(f"names: expected words of letters, two at least, such as 'theta', got {name!r}")
    return given


def _check_tie(spec: Spec, name: str) -> None:
    """What the row-after-row update can serve: a factor on two axes, one at each of its two terms."""
    terms = [spec.terms[p] for p in spec.places(name)]
    if len(terms) == 1:
        return
    axes = [[(i, c) for i, c in enumerate(term) if c in spec.output] for term in terms]
    fine = len(terms) == 2 and len(terms[0]) == len(terms[1]) and all(len(each) == 1 for each in axes)
    if not fine or axes[0][0][0] != axes[1][0][0] or axes[0][0][1] == axes[1][0][1]:
        raise ValueError(
            f"spec: expected a tied factor at two terms with one axis each, such as 'ic' and 'jd', "
            f"got {name!r} at {', '.join(map(repr, terms))}"
        )
    for p, term in enumerate(spec.terms):
        if spec.names[p] != name and {axes[0][0][1], axes[1][0][1]} & set(term) and len(term) > 1:
            raise ValueError(
                f"spec: expected the axes of the tied factor {name!r} in no other, or by themselves, got {term!r}"
            )


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

    >>> from countveil.models.einsum.spec import read_spec
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


@lru_cache(maxsize=256)
def state_type(factors: tuple[str, ...]) -> Any:
    """The class of the states with these factors.

    >>> state_type(("theta", "pi"))._fields
    ('theta', 'pi')
    """
    found: Any = namedtuple("FactorState", factors)  # type: ignore[misc]

    def reduce(self: Any) -> tuple[Any, ...]:
        return _rebuilt_state, (factors, *self)

    # Pickle looks a class up by its name, and this name stands for many.
    setattr(found, "__reduce__", reduce)  # noqa: B010 (mypy knows namedtuple's own)
    return found


def _rebuilt_state(factors: tuple[str, ...], *values: Any) -> Any:
    return state_type(factors)(*values)
