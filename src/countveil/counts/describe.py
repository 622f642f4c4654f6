"""A release in one helpful line."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np

from countveil.counts.contents import Contents


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
    if contents.simulated:
        parts.append("SIMULATED: not private")
    return f"PrivateCounts({', '.join(parts)})"


def _noise(contents: Contents) -> str:
    if contents.guarantee is not None:
        upto = "" if contents.row_guarantees is None else "up to "
        return f"{upto}epsilon {_up(contents.guarantee.epsilon)} at precision {contents.guarantee.precision}"
    alpha = np.exp(-contents.rho)
    if contents.rho.ndim == 0:
        return f"alpha {alpha:.4g}"
    per = "cell" if contents.rho.shape == contents.shape else "row"
    return f"alpha {alpha.min():.4g} to {alpha.max():.4g} by {per}"


def _up(epsilon: Fraction) -> str:
    """Four digits, rounded up: never more privacy than there is."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)).normalize():f}"


def _labelled(contents: Contents) -> str:
    named = [
        f"{axis}s" for axis, labels in zip(contents.axes, contents.labels, strict=True) if labels is not None
    ]
    return f"{' and '.join(named)} labelled" if named else "no labels"
