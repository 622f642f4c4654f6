"""PrivateCounts: a release of privatized counts, as compact as the truth allows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from countveil.counts.cells.clamp import clamp
from countveil.counts.cells.hide import hidden
from countveil.counts.cells.layout import (
    Cells,
    Contents,
    NonPositive,
    Places,
    dense_rows,
    read_only,
    same_arrays,
    to_dense,
)
from countveil.counts.describe import explanation, one_line, release_dict
from countveil.counts.files.release import check_parquet, read_release, write_release
from countveil.counts.files.rows import read_rows
from countveil.counts.files.scratch import check_scratch
from countveil.counts.inputs.arrays import ReleasedValues
from countveil.counts.inputs.forms import FORMS
from countveil.counts.inputs.labels import read_labels, shares_labels
from countveil.counts.noise_parameter import read_rho
from countveil.counts.places import place_of
from countveil.counts.record import Record
from countveil.privacy import Guarantee


class PrivateCounts:
    """An immutable release of counts with two-sided geometric noise.

    ``x = y + tau`` for true counts y, with ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``. Given alpha,
    ``max(x, 0)`` is sufficient for y under any model of non-negative counts: by Bayes' rule
    ``P(y|x) ∝ P(y) * alpha**abs(x-y)``, and for ``x <= 0`` the factor ``alpha**(y-x)`` depends on x by a
    constant only. So values are clamped here and only observed positive cells are held. Two releases that
    agree after clamping are equal.

    Parameters
    ----------
    values
        Whole numbers, negative ones included, with any number of axes: numpy array, nested lists, or a
        scipy.sparse matrix (absent means 0).
    alpha, rho, guarantee
        Exactly one of them: the noise parameter ``alpha`` in (0, 1), or ``rho = -log(alpha)``, each one
        number, one per row, or one per cell; or the Guarantee under which the values were released. A row
        with alpha = 0 (rho = inf) is plain: its values are true counts, which nothing protects. See
        ``stack_rows`` for a release and public counts one below the other.
    mask
        Booleans of the shape of ``values``. **True marks a MISSING cell**, as in numpy.ma. Values under the
        mask are never looked at. A numpy masked array brings its own mask.
    labels
        For each axis its labels or None, e.g. ``(documents, words)``; or a mapping {axis name: labels}, in which
        "row" and "column" mean these, and others are new names, in the order of the axes.
    clamped
        Whether negative values were set to 0 before they came here. By default: exactly if there are none.
        It matters only when alpha is to be inferred (see ``nonpositive``).
    keep_negative
        Keep the negative values too, for ``to_dense``.

    Examples
    --------
    >>> from countveil.counts import PrivateCounts
    >>> release = PrivateCounts([[3, -1], [0, 2]], alpha=0.5, labels=(["a", "b"], None))
    >>> release
    PrivateCounts(2 x 2, alpha 0.5, 2 positive cells, none missing, rows labelled)
    >>> release.to_dense()
    array([[3, 0],
           [0, 2]])
    >>> release == PrivateCounts([[3, 0], [-4, 2]], alpha=0.5, labels=(["a", "b"], None))
    True
    """

    __slots__ = ("_contents",)
    __hash__ = None  # type: ignore[assignment]
    _contents: Contents

    def __init__(
        self,
        values: Any,
        alpha: Any = None,
        *,
        rho: Any = None,
        mask: Any = None,
        labels: Any = None,
        guarantee: Guarantee | None = None,
        clamped: bool | None = None,
        keep_negative: bool = False,
    ) -> None:
        if clamped and keep_negative:
            raise ValueError("keep_negative: expected False for clamped values, got True")
        source = ReleasedValues(values, mask)
        shape = source.shape
        rates = read_rho(alpha, rho, guarantee, shape)
        axes, names = read_labels(labels, shape)
        found = clamp(source.blocks(), shape, rates, clamped=clamped, keep_negative=keep_negative)
        self._hold(Contents(shape, axes, names, rates, *found, guarantee=guarantee, simulated=False))

    @classmethod
    def _from_contents(cls, contents: Contents) -> PrivateCounts:
        """A release of contents that were checked elsewhere."""
        release = cls.__new__(cls)
        release._hold(contents)
        return release

    def _hold(self, contents: Contents) -> None:
        read_only(contents)
        object.__setattr__(self, "_contents", contents)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{name}: a PrivateCounts cannot be changed; hide() gives a new one")

    def __reduce__(self) -> tuple:
        return PrivateCounts._from_contents, (self._contents,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis."""
        return self._contents.shape

    @property
    def axes(self) -> tuple[str, ...]:
        """Name of every axis."""
        return self._contents.axes

    @property
    def labels(self) -> tuple[np.ndarray | None, ...]:
        """For every axis its labels (an object array of text) or None."""
        return self._contents.labels

    @property
    def guarantee(self) -> Guarantee | None:
        """What the release promises about every row; None if it was made elsewhere, is only simulated, or has
        plain rows.
        """
        return self._contents.guarantee

    @property
    def row_guarantees(self) -> tuple[Guarantee | None, ...] | None:
        """What it promises about each row, where rows were given different promises; else None.

        The entry of a plain row is None: it has no promise.
        """
        return self._contents.row_guarantees

    @property
    def records(self) -> tuple[Record, ...]:
        """How it came about: the record of every call of ``privatize`` it is made of, with the release's id.

        >>> from countveil.counts import privatize
        >>> record = privatize([[1, 0], [0, 2]], epsilon=1, rows=["a", "b"]).records[0]
        >>> record.form, record.labels, len(record.id)
        ('array', ('declared', 'none'), 32)
        """
        return self._contents.records

    def guarantee_for(self, rows: Iterable[int]) -> Guarantee:
        """What the release promises a person to whom all these rows belong.

        The distance between two versions of a person's data is summed over all their rows, and the loss is
        ``sum_rows d_row * rate_row <= d * max(rate_row)``: the weakest promise among the rows holds as it is. In a
        network, known by its form or by a label on two axes, what a person received lies in the rows of others, so
        that the weakest promise of all rows is theirs.

        >>> from countveil.counts import privatize
        >>> release = privatize([[1, 0], [0, 2], [3, 0]], epsilon=[1, 2, 1])
        >>> release.guarantee_for([0, 1])
        Guarantee(epsilon='2', precision=1, unit='person')
        """
        each = self.row_guarantees
        if self.guarantee is None and each is None:
            raise ValueError("rows: expected a release with a guarantee, got one that was made without")
        chosen = list(rows)
        if not chosen or not all(
            type(r) is not bool and isinstance(r, int | np.integer) and 0 <= r < self.shape[0] for r in chosen
        ):
            raise ValueError(f"rows: expected row numbers from 0 to {self.shape[0] - 1}, got something else")
        names = self.labels[0]
        if names is not None and any(names[r] != str(r) and str(r) in names for r in chosen):
            raise ValueError(
                "rows: expected row numbers, got one that is the label of another row, which may be meant; "
                "release.row_guarantees has the promises of all rows in their order"
            )
        by_form = any(record.form in FORMS and FORMS[record.form].pairs for record in self.records)
        if each is not None and (by_form or self._shares_people):
            chosen = list(range(self.shape[0]))
        if each is None:
            weakest = self.guarantee
        else:
            promised = [g for g in (each[r] for r in chosen) if g is not None]
            if len(promised) < len(chosen):
                raise ValueError("rows: expected rows with noise, got plain ones, which nothing protects")
            weakest = max(promised, key=lambda g: g.rate)
        assert weakest is not None
        return Guarantee(weakest.epsilon, weakest.precision, unit="person")

    @property
    def _shares_people(self) -> bool:
        """Whether a label stands on two axes, or did before rows got other names."""
        return shares_labels(self.labels) or any(record.pairs for record in self.records)

    @property
    def plain_rows(self) -> np.ndarray:
        """Which rows are plain (alpha = 0), true counts that nothing protects: booleans, one per row.

        >>> PrivateCounts([[3, -1], [0, 2]], alpha=[0.5, 0]).plain_rows
        array([False,  True])
        """
        rho = self.rho
        if rho.ndim == 0 or rho.size > self.shape[0]:  # one noise for all, or per cell: no row is plain
            return np.zeros(self.shape[0], dtype=bool)
        return np.isinf(rho).reshape(-1)

    def to_dict(self) -> dict[str, Any]:
        """What the release says of itself, for JSON: numbers are exact, as text. No counts.

        >>> from countveil.counts import privatize
        >>> said = privatize([[1, 0], [0, 2]], epsilon=1).to_dict()
        >>> said["shape"], said["guarantee"]["epsilon"], said["records"][0]["form"]
        ([2, 2], '1', 'array')
        """
        return release_dict(self._contents)

    def explain(self) -> str:
        """What this release promises, and what it does not protect, in plain lines.

        >>> print(PrivateCounts([[3, -1], [0, 2]], alpha=[0.5, 0]).explain())
        1 of 2 rows is PLAIN: true counts as they are, which nothing protects.
        No guarantee is known: the noise is alpha 0.5 by row, as whoever made it says.
        """
        return explanation(self._contents)

    @property
    def simulated(self) -> bool:
        """True if this came from ``simulate_release`` and protects nobody."""
        return self._contents.simulated

    @property
    def rho(self) -> np.ndarray:
        """-log(alpha), an array that broadcasts against ``shape``: 0-d, (n_rows, 1, ...), or full shape.

        Infinite for plain rows.
        """
        return self._contents.rho

    @property
    def alpha(self) -> np.ndarray:
        """exp(-rho), with the shape of ``rho``."""
        return np.exp(-self.rho)

    @property
    def positive(self) -> Cells:
        """The observed cells x > 0: (row_starts, columns, values), all but the first axis flattened."""
        return self._contents.positive

    @property
    def missing(self) -> Places | None:
        """The missing cells, by rows: (row_starts, columns), or None."""
        return self._contents.missing

    @property
    def nonpositive(self) -> NonPositive:
        """Per distinct rho the number of observed cells x <= 0 and the sum of their |x| (None if unknown)."""
        return self._contents.nonpositive

    @property
    def negative(self) -> Cells | None:
        """With ``keep_negative=True`` the observed cells x < 0, values as |x|; else None."""
        return self._contents.negative

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return 0 if self.missing is None else len(self.missing.columns)

    @property
    def n_observed(self) -> int:
        """Number of cells that are not missing."""
        return math.prod(self.shape) - self.n_missing

    def total(self) -> float:
        """Unbiased estimate of the sum of the true counts over observed cells.

        ``sum_{x>0} x - sum_{x<=0} alpha/(1-alpha)``: given ``x <= 0``, ``|x|`` is geometric with mean
        ``alpha/(1-alpha) = 1/expm1(rho)`` whatever the true count, and the mean of x itself is that count.

        A release knows no model: of a network the diagonal is counted too. ``Posterior.totals()`` has the cells
        that were fitted.
        """
        with np.errstate(over="ignore"):  # a rho so large that nothing is subtracted
            below = self.nonpositive.number / np.expm1(self.nonpositive.rho)
        return float(self.positive.values.sum(dtype=np.float64) - below.sum())

    def to_dense(self, missing: float | None = None) -> np.ndarray:
        """All values as one array, clamped at 0 (signed if negatives were kept).

        Missing cells give a numpy masked array, or are filled with ``missing`` (NaN makes it floats).
        """
        return to_dense(self._contents, missing)

    def dense_block(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows ``start`` to ``stop``: clamped values (missing cells 0), and whether each is observed."""
        return dense_rows(self._contents, start, stop)

    def rho_block(self, start: int, stop: int) -> np.ndarray:
        """The part of ``rho`` that broadcasts against ``dense_block(start, stop)``."""
        return self.rho if self.rho.ndim == 0 else self.rho[start:stop]

    def hide(self, cells: Any) -> PrivateCounts:
        """A new release with these cells missing too, their values dropped.

        ``cells``: a boolean array of ``shape`` (True = hide), or a tuple with one index array per axis, as
        ``numpy.nonzero`` gives it.

        >>> release = PrivateCounts([[3, -1], [0, 2]], alpha=0.5)
        >>> release.hide(([0, 1], [0, 1])).to_dense(missing=-1)
        array([[-1,  0],
               [ 0, -1]])
        """
        return PrivateCounts._from_contents(hidden(self._contents, cells))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release to one Parquet file, which ``load_release`` and any Parquet reader can read.

        With more than 100,000 labels it is a folder of Parquet files. Either is complete or not there: until then
        it lies in a hidden folder that only its owner can enter. A name that is taken is refused: a release that
        is lost must be made anew, and the losses add. ``overwrite=True`` replaces what is there, in one step.
        """
        write_release(self._contents, path, overwrite=overwrite)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same about the true counts, given alpha. Neither cells below 0 nor records count."""
        if not isinstance(other, PrivateCounts):
            return NotImplemented
        ours, theirs = self._contents, other._contents
        said = theirs._replace(nonpositive=ours.nonpositive, negative=ours.negative, records=ours.records)
        return same_arrays(ours, said)

    def __repr__(self) -> str:
        return one_line(self._contents)


def load_release(
    path: str | os.PathLike[str], *, scratch: str | os.PathLike[str] | None = None
) -> PrivateCounts:
    """Read a release, file or folder, that ``save`` or ``privatize_to_file`` wrote, checking all of it.

    A file that is damaged, foreign or of a newer version raises ReleaseFileError, a missing one
    FileNotFoundError. ``path`` may be an address, "s3://bucket/release.parquet", that pyarrow's filesystems open
    (docs/release_format.md); one that cannot be reached raises OSError.

    ``scratch`` is for a release that is larger than memory: a folder on a disk with room. The cells are unpacked to
    files there that have no name, and are read from them when they are needed (docs/long_runs.md). Cells below 0
    that were kept are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from countveil.counts import PrivateCounts, load_release
    >>> release = PrivateCounts([[3, -1], [0, 2]], alpha=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "letters.parquet"
    ...     release.save(file)
    ...     load_release(file) == release
    True
    """
    if scratch is None:
        return PrivateCounts._from_contents(read_release(path))
    folder = check_scratch(scratch)
    place = place_of(path)
    check_parquet(place)
    return PrivateCounts._from_contents(read_rows(place, scratch=folder))
