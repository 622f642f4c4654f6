"""combine_releases: the same counts released several times, as one source for a fit."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from countveil.counts.cells.layout import Places, flat_cells, n_rows_and_width, places_at, same_arrays
from countveil.counts.guarantees import distinct
from countveil.counts.inputs.labels import check_same_labels, common_axes
from countveil.counts.private_counts import PrivateCounts
from countveil.privacy import Guarantee

# Independent releases that agree in every cell by chance: rarer than this, they are one release given twice.
_CHANCE = 1e-9


class CombinedReleases:
    """Several releases of the same counts; ``cv.fit`` takes it in place of a release. See ``combine_releases``.

    Examples
    --------
    >>> import countveil as cv
    >>> first, second = (cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=seed) for seed in (0, 1))
    >>> both = cv.combine_releases(first, second)
    >>> both.releases == (first, second), both.n_observed, both.hide(([0], [0])).n_missing
    (True, 4, 1)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, releases: tuple[PrivateCounts, ...]) -> None:
        """``releases`` as ``combine_releases`` has checked them."""
        self.releases = releases
        self.shape = releases[0].shape
        self.axes = common_axes(releases, "releases")
        self.labels: tuple[np.ndarray | None, ...] = tuple(
            check_same_labels(releases, axis, "releases") for axis in range(len(self.shape))
        )

    @cached_property
    def row_guarantees(self) -> tuple[Guarantee | None, ...] | None:
        """What all releases together promise about each row, where rows differ; else None.

        The losses add: ``loss(d) = d * sum_r epsilon_r/precision_r``.
        """
        each = self._composed
        return None if each is None or len(each) == 1 else each

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What all releases together promise about every row; None if one of them promises nothing."""
        if self._composed is None:
            return None
        weakest, unit = max(distinct(self._composed), key=lambda g: g.rate), self.releases[0].guarantee
        assert unit is not None
        return Guarantee(weakest.epsilon, weakest.precision, unit.unit)

    @cached_property
    def _composed(self) -> tuple[Guarantee, ...] | None:
        """For every row, or one for all."""
        each: tuple[Any, ...] = ()
        for release in self.releases:
            if release.guarantee is None:
                return None
            promised: tuple[Any, ...] = release.row_guarantees or (release.guarantee,)
            if each:
                n_rows = max(len(each), len(promised))
                each, promised = (one * n_rows if len(one) == 1 else one for one in (each, promised))
                each = _together_by_row(each, promised)
            else:
                each = promised
        return each[:1] if len(set(distinct(each))) == 1 else each

    @property
    def simulated(self) -> bool:
        """True if one of them is, and protects nobody."""
        return any(release.simulated for release in self.releases)

    @cached_property
    def missing(self) -> Places | None:
        """The cells that are missing in every release, by rows, or None."""
        if any(release.missing is None for release in self.releases):
            return None
        width = n_rows_and_width(self.shape)[1]
        cells = [flat_cells(release.missing, width) for release in self.releases]
        common = cells[0]
        for other in cells[1:]:
            common = np.intersect1d(common, other, assume_unique=True)
        return places_at(common, self.shape) if len(common) else None

    @property
    def n_missing(self) -> int:
        """Number of cells that are missing in every release."""
        return 0 if self.missing is None else len(self.missing.columns)

    @property
    def n_observed(self) -> int:
        """Number of cells that at least one release shows."""
        return math.prod(self.shape) - self.n_missing

    def total(
        self,
        total_of: Callable[[PrivateCounts], float] = PrivateCounts.total,
        of_all: Callable[[np.ndarray], np.ndarray] = np.asarray,
    ) -> float:
        """Unbiased estimate of the sum of the true counts over observed cells.

        A cell counts by the mean of what the releases that show it say (``PrivateCounts.total``). Where this has
        only some of the rows, ``total_of`` sums over all of them, and ``of_all`` has the numbers of all parts.
        """
        width, n_releases = n_rows_and_width(self.shape)[1], len(self.releases)
        masks = [flat_cells(each.missing, width) for each in self.releases]
        hidden, times = np.unique(np.concatenate(masks), return_counts=True)

        def summed(cells: np.ndarray) -> float:
            """Over all releases, without these cells."""
            places = np.unravel_index(cells, self.shape)
            return math.fsum(total_of(one.hide(places) if len(cells) else one) for one in self.releases)

        everywhere = summed(hidden)
        found = [everywhere / n_releases]
        for n_hidden in of_all(np.unique(times[times < n_releases])).tolist():
            found.append((summed(hidden[times != n_hidden]) - everywhere) / (n_releases - n_hidden))
        return math.fsum(found)

    def hide(self, cells: Any) -> CombinedReleases:
        """The same with these cells missing in every release; ``cells`` as in ``PrivateCounts.hide``."""
        return CombinedReleases(tuple(release.hide(cells) for release in self.releases))

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Refused: the releases are what there is to keep."""
        raise ValueError(
            "save: expected one release, got several combined; save each release, and combine again"
        )

    def __eq__(self, other: object) -> bool:
        """Whether both combine equal releases in the same order."""
        return self.releases == other.releases if isinstance(other, CombinedReleases) else NotImplemented

    def __repr__(self) -> str:
        size = " x ".join(f"{n:,}" for n in self.shape)
        each = "\n".join(f"  {release!r}" for release in self.releases)
        return f"CombinedReleases({size}, the same counts released {len(self.releases)} times:\n{each})"


def _together(one: Guarantee, other: Guarantee) -> Guarantee:
    """Both losses of a row; of a person's where both are (``guarantees.for_rows``)."""
    if one.unit == other.unit:
        return one.compose(other)
    row = [Guarantee(g.epsilon, g.precision) for g in (one, other)]
    return row[0].compose(row[1])


def _together_by_row(each: tuple[Guarantee, ...], others: tuple[Guarantee, ...]) -> tuple[Guarantee, ...]:
    """By identity: millions of rows share few promises, and to add fractions takes long."""
    pairs: dict[tuple[int, int], Guarantee] = {}
    for one, other in zip(each, others, strict=True):
        if (id(one), id(other)) not in pairs:
            pairs[id(one), id(other)] = _together(one, other)
    return tuple(pairs[id(one), id(other)] for one, other in zip(each, others, strict=True))


def combine_releases(*releases: PrivateCounts | CombinedReleases) -> CombinedReleases:
    """Several releases of the same counts, each with noise of its own, to be fitted together.

    A cell released as x_1, ..., x_R has one true count y, with
    ``P(y | x) ∝ P(y) * prod_r alpha_r**abs(x_r - y)``: two looks at one count, not two counts. Releases may differ
    in noise (for all cells or by row) and in missing cells: what is missing in one and not in another is
    observed. What people lose adds up: the guarantee of the result is the sum.

    This is for releases whose noise is independent: made by two calls of ``privatize``. One release given
    twice would count as two, and is refused where chance cannot explain it. For different rows over the same
    columns see ``stack_rows``.

    Parameters
    ----------
    releases
        ``PrivateCounts`` of one shape and, where they have labels, the same ones. Noise must not vary within a
        row, and no row may be plain.

    Examples
    --------
    >>> import countveil as cv
    >>> counts = [[9, 0], [0, 8]]
    >>> first = cv.privatize(counts, epsilon=1)
    >>> second = cv.privatize(counts, epsilon=2)
    >>> both = cv.combine_releases(first, second)
    >>> both.guarantee
    Guarantee(epsilon='3', precision=1, unit='document')
    >>> cv.fit(cv.TopicModel(n_topics=2), both, sweeps=40, thin=2, seed=1, progress=False)
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 10 draws)
    """
    flat: list[PrivateCounts] = []
    for given in releases:
        if isinstance(given, CombinedReleases):
            flat += given.releases
        elif isinstance(given, PrivateCounts):
            flat.append(given)
        else:
            hint = "; combine_releases(*releases)" if isinstance(given, list | tuple) else ""
            raise TypeError(f"releases: expected PrivateCounts, got {type(given).__name__}{hint}")
    if len(flat) < 2:
        got = "one, which cv.fit takes as it is" if flat else "none"
        raise ValueError(f"releases: expected at least two of the same counts, got {got}")
    for release in flat:
        _check(release, flat[0].shape)
    units = sorted({r.guarantee.unit for r in flat if r.guarantee is not None})
    if len(units) > 1:
        raise ValueError(f"releases: expected guarantees for one unit, got {' and '.join(units)}")
    for place, release in enumerate(flat):
        for other in flat[:place]:
            if is_same_release(release, other):
                raise ValueError("releases: expected releases with noise of their own, got one of them twice")
    return CombinedReleases(tuple(flat))


def _check(release: PrivateCounts, shape: tuple[int, ...]) -> None:
    if release.shape != shape:
        raise ValueError(f"releases: expected one shape, got {shape} and {release.shape}")
    if release.rho.size > shape[0]:
        raise ValueError("releases: expected noise that does not vary within a row, got noise per cell")
    if release.plain_rows.any():
        raise ValueError("releases: expected noise in every row, got plain rows, whose counts are known")


def is_same_release(one: PrivateCounts, other: PrivateCounts) -> bool:
    """Whether they are one: by their records, or since they agree where both show and chance cannot explain it."""
    if one is other or {r.id for r in one.records} & {r.id for r in other.records}:
        return True
    if one.shape != other.shape or max(one.rho.size, other.rho.size) > one.shape[0]:
        return False
    n_rows, width = n_rows_and_width(one.shape)
    if same_arrays(one.missing, other.missing):  # the usual case, and a quick one
        n_missing = 0 if one.missing is None else np.diff(one.missing.row_starts)
        seen = np.broadcast_to(width - n_missing, n_rows)
        same = same_arrays(one.positive, other.positive)
        return same and _chance_to_agree(one, other, seen) < math.log(_CHANCE)
    hidden = np.union1d(flat_cells(one.missing, width), flat_cells(other.missing, width))
    shown = []
    for release in (one, other):
        flat = flat_cells(release.positive, width)
        keep = ~np.isin(flat, hidden)
        shown.append((flat[keep], release.positive.values[keep]))
    if not all(np.array_equal(a, b) for a, b in zip(*shown, strict=True)):
        return False
    seen = width - np.bincount(hidden // width, minlength=n_rows)
    return _chance_to_agree(one, other, seen) < math.log(_CHANCE)


def shows_too_little(release: PrivateCounts) -> bool:
    """Whether another may agree with it by chance, whatever its noise: a cell does with a chance above 1/4."""
    return release.n_observed * math.log(4) < -math.log(_CHANCE)


def _chance_to_agree(one: PrivateCounts, other: PrivateCounts, seen: np.ndarray) -> float:
    """At most this is the log-probability that independent releases agree in so many cells of each row.

    A clamped cell agrees most likely where the true count is 0: with ``1/((1+a)(1+b))`` at 0, and with
    ``c_a * c_b * (a*b)**x`` at x = 1, 2, ..., for noise of alpha a and b.
    """
    a, b = (np.broadcast_to(release.alpha.reshape(-1), seen.shape) for release in (one, other))
    positive = (1 - a) / (1 + a) * (1 - b) / (1 + b) * a * b / np.maximum(1 - a * b, 1e-300)
    return float(np.sum(seen * np.log(1 / ((1 + a) * (1 + b)) + positive)))
