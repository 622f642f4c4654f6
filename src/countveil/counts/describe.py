"""A release in one helpful line."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from countveil.counts.cells.layout import Contents
from countveil.counts.guarantees import distinct
from countveil.counts.inputs.forms import FORMS, a_form
from countveil.counts.noise_parameter import as_good_as_plain
from countveil.counts.shown_text import visible
from countveil.privacy import Guarantee


def one_line(contents: Contents) -> str:
    """Shape, noise, how many cells are positive and missing, what is labelled, and whether it is private."""
    positive = len(contents.positive.columns)
    missing = 0 if contents.missing is None else len(contents.missing.columns)
    parts = [
        " x ".join(f"{n:,}" for n in contents.shape),
        _noise(contents),
        f"{positive:,} positive cell{'' if positive == 1 else 's'}",
        f"{missing:,} missing" if missing else "none missing",
        _labelled(contents),
    ]
    plain = int(_plain_rows(contents).sum())
    if plain:
        parts.append(f"{plain:,} row{'s' * (plain > 1)} PLAIN: not protected")
    if contents.simulated:
        parts.append("SIMULATED: not private")
    return f"PrivateCounts({', '.join(parts)})"


def _noise(contents: Contents) -> str:
    weakest = weakest_promise(contents)
    if weakest is not None:
        upto = "" if contents.row_guarantees is None else "up to "
        return f"{upto}epsilon {_up(weakest.epsilon)} at precision {weakest.precision}"
    alpha = np.exp(-contents.rho[np.isfinite(contents.rho)])
    if contents.rho.ndim == 0:
        return f"alpha {alpha[0]:.4g}"
    per = "cell" if contents.rho.shape == contents.shape else "row"
    return f"{_range(alpha)} by {per}"


def _range(alpha: np.ndarray) -> str:
    low, high = alpha.min(), alpha.max()
    return f"alpha {low:.4g}" if low == high else f"alpha {low:.4g} to {high:.4g}"


def explanation(contents: Contents) -> str:
    """What is promised, to whom not, and what is not protected at all, in plain lines."""
    lines = []
    if contents.simulated:
        lines.append("SIMULATED: this protects nobody. Who knows the seed can take the noise away.")
    bare = _plain_rows(contents)
    plain = int(bare.sum())
    if plain:
        rows = f"{plain:,} of {contents.shape[0]:,} rows {'is' if plain == 1 else 'are'} PLAIN"
        lines.append(f"{rows}: true counts as they are, which nothing protects.")
    weakest = weakest_promise(contents, bare)
    if weakest is None:
        lines.append(f"No guarantee is known: the noise is {_noise(contents)}, as whoever made it says.")
    elif plain < contents.shape[0] and plain:
        lines.append(f"The other rows:\n{weakest.explain()}")
    else:
        lines.append(weakest.explain())
    lines += _form_lines(contents, "" if weakest is None else weakest.unit)
    return "\n".join([*lines, *_record_lines(contents)])


def weakest_promise(contents: Contents, without: np.ndarray | None = None) -> Guarantee | None:
    """What is promised to every row that has noise, but those in ``without`` (booleans) if there are others."""
    each = contents.row_guarantees
    if each is None or (contents.guarantee is not None and (without is None or not without.any())):
        return contents.guarantee  # perhaps to a person, whatever rows they have
    left = each if without is None else [g for g, out in zip(each, without, strict=True) if not out]
    return max(distinct(left) or distinct(each), key=lambda g: g.rate)


def _plain_rows(contents: Contents) -> np.ndarray:
    """The rows that are plain, or as good as that: with a noise that changes nothing."""
    n_rows, rho = contents.shape[0], contents.rho
    missing = 0 if contents.missing is None else len(contents.missing.columns)
    bare = as_good_as_plain(
        rho, max(1, math.prod(contents.shape) - missing)
    )  # where all is missing, nothing is
    if rho.ndim == 0:
        return np.full(n_rows, bare)
    return np.any(bare.reshape(n_rows, -1), axis=1)


def _up(epsilon: Fraction) -> str:
    """Four digits, rounded up: never more privacy than there is."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{context.normalize(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))):f}"


def _labelled(contents: Contents) -> str:
    named = [
        f"{visible(axis)}s"
        for axis, labels in zip(contents.axes, contents.labels, strict=True)
        if labels is not None
    ]
    return f"{' and '.join(named)} labelled" if named else "no labels"


def _form_lines(contents: Contents, unit: str) -> list[str]:
    """What a row and a cell are, and how many counts one thing in the input moves, for each form that came."""
    said = sorted({(record.form, record.stability) for record in contents.records})
    return [line for form, stability in said for line in _lines_of_form(form, stability, unit)]


def _lines_of_form(form: str, stability: str, unit: str) -> list[str]:
    lines = []
    if form in FORMS:
        known = FORMS[form]
        if form != "texts":  # where the vectorizer decides, the word of whoever made it is all there is
            stability = str(known.stability)
        lines.append(f"The counts came as {a_form(form)}: a row is {known.row}, a cell is {known.cell}.")
        if known.pairs and unit != "cell":
            lines.append("A count belongs to two people: what a person received is in the rows of others.")
    return [*lines, visible(stability) if form in FORMS else f"Whoever made it says: {visible(stability)}"]


def _record_lines(contents: Contents) -> list[str]:
    """How it came about, in words."""
    lines = []
    for record in contents.records:
        lines.append(
            f"Release {record.id}, made by {visible(record.software)} from {visible(a_form(record.form))}."
        )
        for axis, labels in zip(contents.axes, record.labels, strict=True):
            lines.append(f"  {visible(axis)}: {visible(_LABELS.get(labels, labels))}")
    return lines


_LABELS = {
    "declared": "labels were declared beforehand",
    "from the data": "labels were taken from the counts: whoever made the release says that they are no secret",
    "none": "no labels",
}


def release_dict(contents: Contents) -> dict[str, Any]:
    """What a release says of itself, for JSON."""
    promises = contents.row_guarantees
    said = {id(None): None, **{id(g): g.to_dict() for g in distinct(promises or ())}}
    return {
        "shape": list(contents.shape),
        "axes": list(contents.axes),
        "labelled": [labels is not None for labels in contents.labels],
        "positive_cells": len(contents.positive.columns),
        "missing_cells": 0 if contents.missing is None else len(contents.missing.columns),
        "plain_rows": int(_plain_rows(contents).sum()),
        "simulated": contents.simulated,
        "guarantee": None if contents.guarantee is None else contents.guarantee.to_dict(),
        "row_guarantees": None if promises is None else [said[id(g)] for g in promises],
        "records": [record.to_dict() for record in contents.records],
    }
