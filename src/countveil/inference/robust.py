"""Robust fitting: plain counts, seen as if they had been released with noise."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from countveil.counts import PrivateCounts
from countveil.counts.contents import Contents, NonPositive
from countveil.counts.nonpositive import RhoLevels
from countveil.inference.plain_counts import PlainCounts


def as_if_released(data: Any, alpha: Any) -> PrivateCounts:
    """Plain counts as a clamped release with noise ``alpha``.

    What was counted, x, is taken for ``max(y + tau, 0)`` with a Poisson count y of the model and
    ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``. The tails of tau are heavier than Poisson ones where
    rates are small, so a single odd count pulls the rates less. Clamped, because counts are never negative:
    with two-sided noise every exact zero would speak against the noise.
    """
    if not isinstance(data, PlainCounts):
        raise ValueError("robust: expected None for a release, which has noise of its own, got a number")
    if not isinstance(alpha, Real) or isinstance(alpha, bool) or not 0 < float(alpha) < 1:
        raise ValueError(f"robust: expected a number strictly between 0 and 1, got {alpha!r}")
    rho = np.asarray(-np.log(float(alpha)))
    levels = RhoLevels(rho, data.shape)
    nonpositive = NonPositive(levels.values, levels.count((data.positive, data.missing)), None)
    return PrivateCounts._from_contents(
        Contents(
            data.shape, data.axes, data.labels, rho, data.positive, data.missing, nonpositive, None,
            guarantee=None, simulated=False,
        )
    )  # fmt: skip
