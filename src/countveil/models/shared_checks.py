"""What views must have in common to share factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.models.factor_model import FactorModel


def check_views(views: Mapping[str, Any]) -> None:
    """Models that can be views, or an error that says which factor of which view cannot be shared."""
    if not views:
        raise ValueError(
            "views: expected at least one, such as words=Factorization('dk,kv->dv', k=5), got none"
        )
    for name, view in views.items():
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"views: expected names such as 'words', got {name!r}")
        if not isinstance(view, FactorModel):
            raise TypeError(
                f"{name}: expected a Factorization, TensorModel or CommunityModel, got {type(view).__name__}"
            )
    first: dict[str, str] = {}  # factor -> the view that has it first
    shared = set()
    for name, view in views.items():
        for factor in view._spec.factors:
            other = first.setdefault(factor, name)
            if other != name:
                _check_alike(factor, other, views[other], name, view)
                shared.add(factor)
    for name, view in views.items():
        if len(views) > 1 and not shared & set(view._spec.factors):
            raise ValueError(
                f"{name}: expected a factor with the name of one in another view, got "
                f"{', '.join(view._spec.factors)}"
            )


def _check_alike(factor: str, name: str, view: FactorModel, other_name: str, other: FactorModel) -> None:
    where = f"{other_name}: expected the shared factor {factor!r} with"
    terms = view._spec.term(factor), other._spec.term(factor)
    kinds = [
        "".join("a" if letter in model._spec.output else "s" for letter in term)
        for model, term in zip((view, other), terms, strict=True)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{where} axes and summed indices as in {name} ({terms[0]!r} of {view._spec.output!r}), "
            f"got {terms[1]!r} of {other._spec.output!r}"
        )
    sizes = [
        [model._sizes[letter] for letter in term if letter in model._sizes]
        for model, term in zip((view, other), terms, strict=True)
    ]
    if sizes[0] != sizes[1]:
        raise ValueError(f"{where} the sizes {_listed(sizes[0])} as in {name}, got {_listed(sizes[1])}")
    for what, one, two in zip(
        ("shape", "rate", "symmetry"), view._prior(factor), other._prior(factor), strict=True
    ):
        if one != two:
            raise ValueError(f"{where} the prior's {what} {one} as in {name}, got {two}")
    for what, given, given_other in (
        ("fixed", view._fixed, other._fixed),
        ("start", view._start, other._start),
    ):
        if (factor in given) != (factor in given_other):
            has = {True: "values", False: "none"}
            raise ValueError(
                f"{where} {what}= as in {name} ({has[factor in given]}), got {has[factor in given_other]}"
            )
        if factor in given and not np.array_equal(given[factor], given_other[factor]):
            raise ValueError(f"{where} the {what}= values as in {name}, got others")


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
