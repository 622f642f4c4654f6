"""Where a chain of a factorization starts: at the data's scale, with scales where the margins see them.

A draw from the prior can be wrong by orders of magnitude and is almost all zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from countveil.kernels.philox import SweepKey
from countveil.models.count_model import Data, mean_rate
from countveil.models.einsum.margins import Margins, relative_totals
from countveil.models.einsum.prior import ROWS_PER_FACTOR, start_means
from countveil.models.einsum.update import mirrored, start_factor
from countveil.runtime.workers import Workers

if TYPE_CHECKING:
    from countveil.models.einsum.model import EinsumModel


def starting_state(
    model: EinsumModel, data: Data, key: SweepKey, workers: Workers, margins: Margins | None
) -> Any:
    """Exponential factors, scaled alike so that the total rate is the data's (unbiased) total."""
    layout = model._layout(model.check_shape(data.shape))
    held = {
        name: first_factor(model, name, shape, key, number, workers.of(name).first_row)
        for number, (name, shape) in enumerate(zip(model._spec.factors, layout.shapes, strict=True))
    }
    if margins is not None:
        scale_rows(model, held, margins, workers=workers)
    given = {*model._fixed, *model._start}
    free = sum(name not in given for name in model._spec.names)
    now = model._total(held, workers) / workers.of_rows.number(math.prod(data.shape))
    if free and now > 0:
        scale = (mean_rate(data) / now) ** (1.0 / free)
        held = {name: a if name in given else a * scale for name, a in held.items()}
    return model._state(held | start_means(model._inferred, held, workers))


def first_factor(
    model: EinsumModel, name: str, shape: tuple[int, ...], key: SweepKey, number: int, first_row: int = 0
) -> np.ndarray:
    """A factor (by axis) at the start: as given, or drawn, up to scale."""
    given = model._fixed.get(name, model._start.get(name))
    if given is None and name in model._inferred and model._inferred[name].is_scale:
        return np.ones(shape)
    if given is None:
        drawn = model._first_values(name, start_factor(key, number * ROWS_PER_FACTOR + first_row, shape))
        return mirrored(drawn) if model._prior(name).symmetric else drawn
    turn = next(turn for factor, turn, _ in model._spec.turns if factor == name)
    found = given.transpose(turn)
    if found.shape != shape:
        kind = "fixed" if name in model._fixed else "start"
        expected = model._state_shape(name, shape)
        raise ValueError(f"{kind}: expected shape {expected} for {name!r}, got {given.shape}")
    return np.array(found)


def scale_rows(
    model: EinsumModel,
    held: dict[str, np.ndarray],
    margins: Margins,
    factors: Sequence[str] | None = None,
    workers: Workers | None = None,
) -> None:
    """Multiply the rows of factors that have scales by what the margins tell, in place."""
    spec, shape = model._spec.by_axis, model._shape_of(held)
    for name, one in model._inferred.items():
        if not one.scales or name in model._start or (factors is not None and name not in factors):
            continue
        axes = [spec.output.index(spec.terms[place][0]) for place in spec.places(name)]
        told = [margins.of_axis(axis, shape) for axis in axes]
        totals, variances = (np.sum(each, axis=0) for each in zip(*told, strict=True))
        scales = relative_totals(totals, variances, None if workers is None else workers.of(name))
        held[name] *= scales.reshape(-1, *[1] * (held[name].ndim - 1))


def prior_total(model: EinsumModel, shape: tuple[int, ...]) -> tuple[float, float] | None:
    """What a prior with fixed rates expects the sum of all rates to be, and about the sd of its logarithm.

    None where means are inferred, or factors fixed: then the data, or the user, say it.
    """
    spec, layout = model._spec, model._layout(shape)
    if model._inferred or model._fixed:
        return None
    expected, spread = float(layout.size(spec.latent + spec.output)), 0.0
    for name, size in zip(spec.factors, layout.shapes, strict=True):
        shape_, rate = model._prior(name)[:2]
        assert rate is not None
        expected *= (shape_ / rate) ** len(spec.places(name))
        # Of a single component; of all together it is smaller.
        spread += len(spec.places(name)) ** 2 / (shape_ * size[0])
    return expected, math.sqrt(spread)
