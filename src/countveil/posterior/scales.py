"""How much there is: of every place of an axis, and in all.

**Scales**: those that a prior with inferred means has found. They are its parameters, what it expects of an entry
at a place, and their intervals are not intervals of how much the place has.

Only their proportions mean something: factors trade their scales. So every draw is divided by its geometric mean,
and a scale of 2 is twice that of a typical place. A place may have several: what an actor receives goes with its
activity and with what it receives relative to that.

**Totals**: a release tells its total by itself, without a model (``PrivateCounts.total``). A fit that disagrees has
a prior that wins over the data (a ``shape`` that says that entries are sparser than they are makes totals too
small, whatever the scales), or counts that are no Poisson counts: bursts. Where rates are small and noise is
strong the likelihood of a cell hardly sees more than whether its count is positive, so that a Poisson model takes a
burst of five for little more than one count. The total of a fit is then too small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from countveil.counts import PrivateCounts
from countveil.counts.cells.layout import row_indices
from countveil.inference.problem import modelled_part
from countveil.posterior.axes import free_names
from countveil.posterior.diagnostics.summary import interval_dataset, mean_and_interval

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


def scales_of(posterior: Posterior, axis: Any, interval: float) -> xr.Dataset:
    """Mean and interval of the scales along one axis, given by its name or its place."""
    model, axes = posterior.model, posterior._axes
    if not hasattr(model, "_inferred"):
        raise TypeError(f"scales: expected the posterior of a factorization, got {type(model).__name__}")
    place = _place(axis, axes)
    name = free_names(axes, {"mean", "low", "high", "sd"})[place]
    coordinates = {name: posterior._axis_labels(place)}
    if posterior._running is not None and scales_name(place) in posterior._running:
        moments = posterior._running.pooled(scales_name(place)).items()
        return xr.Dataset({moment: ((name,), values) for moment, values in moments}, coordinates)
    draws = scale_draws(model, posterior.tree["posterior"], model._spec.output[place])
    if draws is None:
        raise ValueError(
            f"scales: expected an axis whose scales were inferred, got {axes[place]!r}; a model with a number for "
            "its rate has the same prior for every entry"
        )
    found = mean_and_interval(relative_scales(draws), interval)
    return interval_dataset((name,), found, coordinates, interval)


def scales_name(axis: int) -> str:
    """Of the running means of relative scales."""
    return f"scales{axis}"


def relative_scales(draws: np.ndarray) -> np.ndarray:
    """Every draw over its geometric mean.

    >>> relative_scales(np.array([[1.0, 4.0]]))
    array([[0.5, 2. ]])
    """
    logs = np.log(draws)
    return np.exp(logs - logs.mean(axis=1, keepdims=True))


def scale_draws(model: Any, fields: Any, letter: str) -> np.ndarray | None:
    """(draws, places) scales along the axis of a letter, of fields (chain, draw, ...); None if there are none."""
    spec, found = model._spec.by_axis, None
    for term, name in zip(spec.terms, spec.names, strict=True):
        inferred = model._inferred.get(name)
        if inferred is None or term[0] != letter:
            continue
        field = f"{name}_scale" if inferred.scales else name if term == letter else None
        if field is not None:
            each = np.asarray(fields[field]).astype(np.float64)
            each = np.maximum(each.reshape(-1, each.shape[-1]), np.finfo(np.float32).tiny)
            found = each if found is None else found * each
    return found


def _place(axis: Any, axes: tuple[str, ...]) -> int:
    if isinstance(axis, str) and axis in axes:
        return axes.index(axis)
    if isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(axes):
        return axis
    known = ", ".join(map(repr, axes))
    raise ValueError(f"axis: expected one of {known}, or a number below {len(axes)}, got {axis!r}")


#: Missing cells whose rates are summed in a draw, rates in all draws, and draws that are looked at at least.
_MOST_LOOKED_AT, _RATES_IN_ALL, _FEWEST_DRAWS = 2_000_000, 20_000_000, 10


def _counts(number: float) -> str:
    """As people write counts: whole from a hundred on, else two digits.

    >>> _counts(1_511_800.4), _counts(81.2), _counts(0.123), _counts(0.0)
    ('1,511,800', '81', '0.12', '0')
    """
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.2g}"


class Totals(NamedTuple):
    """The sum of the true counts of the cells that were fitted, as a release tells it and as a fit has it."""

    release: float  # unbiased, whatever the model
    release_sd: float
    fit: float
    fit_sd: float
    left_out: int = 0  # observed cells that are no part of the model, such as a network's diagonal

    @property
    def agree(self) -> bool:
        """Whether they differ by less than 5 %, or by less than five standard deviations."""
        apart = abs(self.fit - self.release)
        return apart <= max(0.05 * abs(self.release), 5.0 * math.hypot(self.release_sd, self.fit_sd))

    def __str__(self) -> str:
        without = ""
        if self.left_out:
            without = (
                f" (without the {self.left_out:,} cells that the model leaves out, which release.total() has)"
            )
        text = (
            f"Counts in all{without}: {_counts(self.release)} +- {_counts(self.release_sd)} by the release, "
            f"{_counts(self.fit)} +- {_counts(self.fit_sd)} by the fit."
        )
        if self.agree:
            return text
        if self.fit < self.release:
            return f"{text} The fit has too few: bursts, or a shape that is too small (docs/priors.md)."
        return (
            f"{text} The fit has too many: a prior that fights the data, or too few sweeps (docs/priors.md)."
        )


def totals_of(posterior: Posterior) -> Totals | None:
    """Both totals over the observed cells; None where there is no release with noise of a known kind."""
    given = posterior._data
    if not isinstance(given, PrivateCounts):
        return None
    data = modelled_part(posterior.model, given)
    fits = _observed_totals(posterior, given, data.n_observed)
    if fits is None:
        return None
    sd = float(fits.std(ddof=1)) if fits.size > 1 else 0.0
    left_out = given.n_observed - data.n_observed
    return Totals(data.total(), math.sqrt(_variance_of_total(data)), float(fits.mean()), sd, left_out)


def _variance_of_total(release: PrivateCounts) -> float:
    """Unbiased estimate of the variance of ``release.total()``, given the true counts.

    With g = alpha/(1-alpha), a cell with noise tau adds y + tau to the total if that is positive, else -g. Given
    x <= 0, -tau is y + a geometric of mean g and variance v = alpha/(1-alpha)**2. E tau**2 = 2 v, of which such a
    cell keeps (y + g)**2 and loses v: the mean square of the error is 2 v - v P(x <= 0). Its unbiased estimate is
    2 v for each positive cell and v for each other.
    """
    rows, cells = release.shape[0], release.positive
    with np.errstate(over="ignore"):  # a rho so large that there is no noise
        if release.rho.ndim == 0:
            of_positive = np.full(len(cells.columns), release.rho)
        elif release.rho.size == rows:
            of_positive = np.repeat(release.rho.reshape(rows), np.diff(cells.row_starts))
        else:
            of_positive = release.rho.reshape(rows, -1)[row_indices(cells.row_starts), cells.columns]
        of_others = release.nonpositive.number / np.sinh(0.5 * release.nonpositive.rho) ** 2
        return float(0.5 * np.sum(np.sinh(0.5 * of_positive) ** -2.0) + 0.25 * of_others.sum())


def _observed_totals(posterior: Posterior, given: PrivateCounts, n_observed: int) -> np.ndarray | None:
    """The rate of all observed cells: that of all, without those that are missing, in every draw or in some.

    None where cells are missing and no draws of states were kept: what those have is not known then.
    """
    fits, kept = posterior.tree["sample_stats"]["total_rate"].to_numpy(), posterior._kept
    cells, missing = kept.cells, given.missing
    if missing is None or not len(missing.columns) or n_observed == cells.n_with_counts:
        return fits
    if not kept.are_whole or not hasattr(posterior.model, "rates_at"):
        return None
    width = math.prod(given.shape[1:])
    rows = row_indices(missing.row_starts)
    inside = cells.have_counts(rows, missing.columns)
    if cells.mirrored:  # a pair is one cell, above the diagonal
        inside &= rows <= missing.columns
    flat = (rows * width + missing.columns)[inside]
    chosen = flat
    if len(flat) > _MOST_LOOKED_AT:
        chosen = np.random.default_rng(0).choice(flat, _MOST_LOOKED_AT, replace=False)
    at, weight = np.divmod(chosen, width), len(flat) / max(len(chosen), 1)
    n_draws = min(len(kept), max(_FEWEST_DRAWS, _RATES_IN_ALL // max(len(chosen), 1)))
    found = []
    for draw in np.linspace(0, len(kept) - 1, n_draws).astype(int):
        place = np.unravel_index(draw, kept.sizes)
        found.append(fits[place] - weight * float(posterior.model.rates_at(kept.state(place), *at).sum()))
    return np.array(found)
