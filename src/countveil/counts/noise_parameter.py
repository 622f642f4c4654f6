"""The noise of every cell, kept as rho = -log(alpha).

The noise law is ``P(tau) = (1 - alpha)/(1 + alpha) * alpha**abs(tau)``. Near alpha = 0 and alpha = 1 doubles
run out for alpha but not for rho, and ``1 - alpha = -expm1(-rho)`` and ``alpha/(1 - alpha) = 1/expm1(rho)``
stay accurate, so rho is kept.

A row with alpha = 0, rho = inf, is **plain**: its values are the counts themselves, and nothing protects them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.counts.foreign import refuse_labels
from countveil.privacy import Guarantee

#: Below it one count in a hundred would fit 64 bits with its noise, and a fit would ask for any memory.
_SMALLEST = 2.0**-70


def read_rho(alpha: Any, rho: Any, guarantee: Guarantee | None, shape: tuple[int, ...]) -> np.ndarray:
    """The one given of alpha, rho, guarantee as rho: 0-d, one per row (n_rows, 1, ...), or full shape."""
    given = [
        name
        for name, value in (("alpha", alpha), ("rho", rho), ("guarantee", guarantee))
        if value is not None
    ]
    if len(given) != 1:
        raise ValueError(
            f"alpha, rho, guarantee: expected exactly one of them, got {' and '.join(given) or 'none'}"
        )
    if guarantee is not None:
        check_guarantee(guarantee)
        return np.asarray(guarantee.rho, dtype=np.float64)
    if alpha is not None:
        values = _numbers(alpha, "alpha")
        right = (values >= 0) & (values < 1)
        _check_range(values, right, "alpha", "strictly between 0 and 1, or 0 for a plain row")
        with np.errstate(divide="ignore"):
            values = np.asarray(-np.log(values))  # numpy makes a 0-d result a scalar
    else:
        values = _numbers(rho, "rho").copy()
        _check_range(values, values > 0, "rho", "above 0, or inf for a plain row")
        _check_range(values, values >= _SMALLEST, "rho", "at which noise fits 64 bits, 2**-70 or more")
    return _with_plain_rows(_by_row(values, given[0], shape), given[0])


def as_good_as_plain(rho: np.ndarray, n_cells: int) -> np.ndarray:
    """Where noise changes any of ``n_cells`` counts with a chance below 2**-64, so that nothing protects them.

    One count is changed with chance ``P(tau != 0) = 2*alpha/(1+alpha)``.

    >>> as_good_as_plain(np.array([1.0, 50.0, np.inf]), n_cells=100)
    array([False,  True,  True])
    """
    alpha = np.exp(-rho)
    return n_cells * 2 * alpha / (1 + alpha) < 2.0**-64


def check_guarantee(guarantee: Any) -> None:
    """Refuse anything but a Guarantee itself."""
    if type(guarantee) is not Guarantee:
        raise TypeError(f"guarantee: expected a Guarantee, got {type(guarantee).__name__}")


def _numbers(given: Any, name: str) -> np.ndarray:
    refuse_labels(given, name)
    array = np.asarray(given)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected a number or an array of numbers, got {type(given).__name__}")
    return array.astype(np.float64)


def _check_range(values: np.ndarray, right: np.ndarray, name: str, expected: str) -> None:
    if not right.all():
        wrong = float(values[~right].flat[0])
        raise ValueError(f"{name}: expected a value {expected}, got {wrong:g}")


def _with_plain_rows(rho: np.ndarray, name: str) -> np.ndarray:
    """Refuse plain cells within a row, and releases without any noise."""
    plain = np.isinf(rho)
    if not plain.any():
        return rho
    value = "0" if name == "alpha" else "inf"
    if plain.all():
        raise ValueError(
            f"{name}: expected noise in some row, got {value} for all: plain counts are no release, "
            "pass them to cv.fit as they are"
        )
    if rho.size > len(rho):
        raise ValueError(f"{name}: expected {value} for whole rows, by one value per row, got it for cells")
    return rho


def _by_row(values: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    per_row = (shape[0],) + (1,) * (len(shape) - 1)
    if values.ndim == 0 or values.shape in (shape, per_row):
        return values
    if values.shape == shape[:1]:
        return values.reshape(per_row)
    raise ValueError(
        f"{name}: expected one number, {shape[0]} (one per row) or an array of shape {shape}, "
        f"got shape {values.shape}"
    )
