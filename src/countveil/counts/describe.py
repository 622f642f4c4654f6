"""A release in one helpful line."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np

from countveil.counts.layout import Contents, n_plain_rows
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
    plain = n_plain_rows(contents)
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
    plain = n_plain_rows(contents)
    if plain:
        rows = f"{plain:,} of {contents.shape[0]:,} rows {'is' if plain == 1 else 'are'} PLAIN"
        lines.append(f"{rows}: true counts as they are, which nothing protects.")
    weakest = weakest_promise(contents)
    if weakest is None:
        lines.append(f"No guarantee is known: the noise is {_noise(contents)}, as whoever made it says.")
    elif plain:
        lines.append(f"The other rows:\n{weakest.explain()}")
    else:
        lines.append(weakest.explain())
    return "\n".join(lines)


def weakest_promise(contents: Contents) -> Guarantee | None:
    """What is promised to every row that has noise."""
    if contents.guarantee is not None or contents.row_guarantees is None:
        return contents.guarantee
    return max((g for g in contents.row_guarantees if g is not None), key=lambda g: g.rate)


def _up(epsilon: Fraction) -> str:
    """Four digits, rounded up: never more privacy than there is."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)).normalize():f}"


def _labelled(contents: Contents) -> str:
    named = [
        f"{axis}s" for axis, labels in zip(contents.axes, contents.labels, strict=True) if labels is not None
    ]
    return f"{' and '.join(named)} labelled" if named else "no labels"
