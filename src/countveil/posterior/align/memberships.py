"""Each row's shares of the topics or communities, and how far the means of single rows are pulled together.

Each row's shares of the topics are drawn towards those of rows in general, the more the less its counts tell:
noise, few counts, missing cells. That is right for every row, and for what its interval says. But means of such
means, by groups of rows that the model does not know, are too close to each other by as much.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from countveil.posterior.axes import positions
from countveil.posterior.diagnostics.modes import warn_of_modes

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

#: Where more of the spread of rows is lost in their means, ``memberships`` warns.
STRONG_POOLING = 0.5
#: Of fewer rows nobody can say how they spread.
_LEAST_ROWS = 20


def memberships_of(posterior: Posterior, rows: Any, interval: float) -> xr.Dataset:
    """Shares of the chosen rows, with intervals and, of topics, ``pooling``; warnings speak of who called."""
    kind = "communities" if "communities" in getattr(posterior.model, "aligned_as", ()) else "topics"
    aligned = posterior._aligned("memberships", kind)
    if kind == "communities":
        warn_of_modes(posterior, "memberships", stacklevel=4)
    chosen = positions("rows", rows, posterior._labels[0], posterior._shape[0])
    found: xr.Dataset = aligned.memberships(chosen, interval, posterior._axis_labels(0)[chosen])
    has_groups = getattr(posterior.model, "groups", None) is not None
    said = pooling_warning(found.attrs.get("pooling", math.nan), has_groups)
    if said is not None:
        warnings.warn(said, stacklevel=3)
    return found


def pooling(means: np.ndarray, variances: np.ndarray) -> float:
    """The part of the spread of rows that their posterior means do not show, 0 to 1; NaN for few rows.

    ``means`` and ``variances`` (rows, topics) are those of each row's shares over the draws. The spread of shares
    themselves is that of the means plus the mean variance (the law of total variance); means alone are less far
    apart by the part that the second has of both. It is 1 minus the reliability of the means, and in a normal
    model with known variances the weight of the common mean; Gelman and Pardoe (2006) call it the pooling factor.

    >>> pooling(np.tile([[0.2, 0.8], [0.8, 0.2]], (10, 1)), np.full((20, 2), 0.09))
    0.5
    """
    if len(means) < _LEAST_ROWS or means.shape[1] < 2:
        return math.nan
    shown, hidden = float(means.var(axis=0).sum()), float(variances.mean(axis=0).sum())
    return hidden / (shown + hidden) if shown + hidden > 0 else math.nan


def pooling_warning(lost: float, has_groups: bool) -> str | None:
    """What to say of means that lose so much of the spread of rows; None where it is not much."""
    if not lost > STRONG_POOLING:
        return None
    instead = "prevalence() compares" if has_groups else "TopicModel(groups=...) and prevalence() compare"
    return (
        f"memberships: the data say little about single rows, whose means lose {lost:.0%} of the spread between "
        f"rows. Differences between averages of them are too small; {instead} groups of rows (docs/groups.md)"
    )
