"""privatize: true counts in, a private release out."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from countveil.counts.cells.clamp import clamp
from countveil.counts.cells.layout import Block, Contents, row_ranges, without_cells
from countveil.counts.files.release import check_free, check_not_input, ids_in, stream_release
from countveil.counts.guarantees import RowGuarantees, read_guarantees
from countveil.counts.inputs import read_input
from countveil.counts.inputs.arrays import LabelledCounts
from countveil.counts.inputs.forms import SYMMETRIC
from countveil.counts.inputs.labels import refuse_other_numbers
from countveil.counts.inputs.options import InputOptions
from countveil.counts.ledger.ledger import Charge, Ledger, charged, check_ledger
from countveil.counts.places import local_path
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.record import new_record
from countveil.privacy import Guarantee

# Of fewer cells people see for themselves what came out.
_MANY = 1000
# Forms whose counts are found by declared names.
_BY_NAME = ("wide table", "long table", "texts", "directed graph", "undirected graph")


def privatize(
    counts: Any,
    epsilon: Any = None,
    precision: Any = 1,
    *,
    unit: str = "document",
    guarantee: Any = None,
    rows: Any = None,
    columns: Any = None,
    labels: Any = None,
    public_labels: bool = False,
    long: Any = None,
    index: Any = None,
    vocabulary: Any = None,
    weight: str | None = "weight",
    self_loops: bool = False,
    keep_negative: bool = False,
    ledger: Any = None,
    dataset: str | None = None,
) -> PrivateCounts:
    """Release counts privately: exact two-sided geometric noise on every cell, zeros included.

    ``x = y + tau`` with ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)`` and ``alpha = exp(-rho)``,
    ``rho = epsilon/precision``. For any two observations at L1 distance d no output is more than
    ``exp(d*rho)`` times likelier under one than under the other. The noise is drawn from the operating
    system's cryptographic source.

    What must not depend on the private data: epsilon, precision, the set of rows and columns, and the labels,
    which are released as they are. So where counts come with labels, ``rows`` and ``columns`` must be
    declared, or ``public_labels=True`` must say that anyone may know which labels occur. Entries outside what
    was declared are dropped without a word: a message would tell that they exist.

    Parameters
    ----------
    counts
        Whole numbers >= 0: a numpy array with any number of axes, nested lists or a scipy.sparse matrix
        (their shape is public); a pandas, polars or Arrow table; a networkx graph; a list of texts; or the
        name of a file: CSV, TSV, Parquet, Matrix Market, NPZ or NPY.
    epsilon, precision, unit
        The guarantee: observations (units) up to ``precision`` counts apart are hidden with ``epsilon``.
        A list of epsilons or precisions gives each row its own, in the order of the released rows (a mapping from
        labels is refused); not for networks, where a count belongs to two people. A person may have several
        rows: distances then sum over all of them, and the noise is the same.
    guarantee
        A Guarantee, or a list with one per row, in place of epsilon, precision and unit.
    rows, columns
        The labels of all rows and columns of the release, in its order. A name that the counts do not have
        makes a row or column of pure noise. For a graph ``rows`` are its nodes; with other ``columns``, rows
        are senders and columns recipients (new actors by known ones, say).
    labels
        The same for any number of axes: for each axis its labels or None, or {axis name: labels}. Names that the
        axes have mean these, in any order; others are new ones, in the order of the axes.
    public_labels
        True takes labels that were not declared from the counts. **Then the guarantee holds only if it is
        no secret which labels occur**, nor in which order a wide table or a list of texts has them: theirs is
        kept, and it may be that of the counts. Other labels that are found are sorted.
    long
        The names of a long table's columns, e.g. ``("sender", "receiver", "n")``, the last one with the
        counts, or None where every line counts once. Lines about the same cell add up; cells without a line
        are zeros and get noise.
    index
        The name of a wide table's column that holds the row labels. Otherwise they are a pandas index, or
        rows have no labels and go by order, as they do where pandas only numbers them. With ``rows`` that takes a
        table of the declared columns alone: any other column might hold the labels. An index that an Arrow table or
        a Parquet file only describes is no labels, because filters and sorts do not change what it says.
    vocabulary
        For texts: the words to count, declared beforehand, or scikit-learn's CountVectorizer with such a
        ``vocabulary``. Words outside it are left out.
    weight
        For a graph: the edge attribute with the count; edges without it count once. An attribute that no edge
        has is refused, except where edges have no attributes at all and each means 1. None counts every edge
        once, as in networkx.
    self_loops
        For a graph: whether to release the diagonal. Otherwise it is missing. An undirected graph is
        released once per pair, above the diagonal, and the other half is missing.
    keep_negative
        Keep negative released values for ``to_dense``; for known alpha they say nothing about the counts.

    ledger, dataset
        The file of a ledger, and the name in it of the data that are released: the release is entered there,
        and on disk, before any noise is drawn, or refused if it would exceed the budget. See ``cv.Ledger``.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.counts import privatize
    >>> release = privatize(np.zeros((2, 3), dtype=int), epsilon=50, rows=["a", "b"])
    >>> release.shape, release.guarantee.precision
    ((2, 3), 1)
    >>> import pandas as pd
    >>> letters = pd.DataFrame({"from": ["ann", "ann", "bo"], "to": ["bo", "bo", "ann"], "n": [40, 2, 7]})
    >>> people = ["ann", "bo", "cy"]
    >>> privatize(letters, epsilon=1, long=("from", "to", "n"), rows=people, columns=people).shape
    (3, 3)
    """
    options = InputOptions(labels, rows, columns, public_labels, long, index, vocabulary, weight, self_loops)
    check_ledger(ledger, dataset)
    given, promise = _prepare(counts, options, epsilon, precision, unit, guarantee)
    draft = _draft(given, promise)
    look = _Look(given)
    with charged(ledger, _charge(given, draft, dataset, None)):
        found = clamp(
            look.at(_noisy(given, promise), promise),
            draft.shape,
            draft.rho,
            clamped=False,
            keep_negative=keep_negative,
        )
    look.warn_of_noise_alone()
    return PrivateCounts._from_contents(draft._replace(**found._asdict()))


def privatize_to_file(
    counts: Any,
    path: str | os.PathLike[str],
    epsilon: Any = None,
    precision: Any = 1,
    *,
    unit: str = "document",
    guarantee: Any = None,
    keep_negative: bool = False,
    overwrite: bool = False,
    ledger: Any = None,
    dataset: str | None = None,
    **options: Any,
) -> Guarantee:
    """``privatize`` straight into a release file, block by block, for what does not fit into memory.

    A ``path`` that exists is refused before anything is read, unless ``overwrite=True``: a second release of the
    same counts tells more, and the first one would be lost. All other arguments are those of ``privatize``.
    Gives back the guarantee that holds for every row.

    >>> import tempfile, pathlib
    >>> from countveil.counts import load_release, privatize_to_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "release.parquet"
    ...     promise = privatize_to_file([[3, 0], [0, 4]], file, epsilon=2)
    ...     load_release(file).guarantee == promise
    True
    """
    unknown = set(options) - set(InputOptions._fields)
    if unknown:
        raise TypeError(f"privatize_to_file: expected the arguments of privatize, got {sorted(unknown)}")
    check_ledger(ledger, dataset)
    target = local_path(path)
    check_not_input(target, counts, None if ledger is None else Ledger(ledger).path)
    check_free(target, overwrite)
    given, promise = _prepare(counts, InputOptions(**options), epsilon, precision, unit, guarantee)
    draft = _draft(given, promise)
    charge = charged(
        ledger, _charge(given, draft, dataset, target), replaces=ids_in(target) if overwrite else ()
    )
    look = _Look(given)
    with ExitStack() as entered:

        def noisy() -> Iterator[Block]:
            # Only now: a file that cannot be written at all costs nothing.
            try:
                entered.enter_context(charge)
            except OSError as error:
                raise _NotChargedError(error) from error  # which is not about the release
            yield from look.at(_noisy(given, promise), promise)

        try:
            stream_release(
                target, draft, noisy(),
                list_observed=given.counts.mostly_missing,
                keep_negative=keep_negative, overwrite=overwrite,
            )  # fmt: skip
        except _NotChargedError as failed:
            raise failed.error from None
    look.warn_of_noise_alone()
    return promise.guarantee


class _Look:
    """At noisy counts, and at nothing else: what they tell is covered by their guarantee."""

    def __init__(self, given: LabelledCounts) -> None:
        # Others go by their places, and lose nothing.
        self.by_name = "declared" in given.declared and given.form in _BY_NAME
        self.n_cells, self.total, self.variance = 0, 0.0, 0.0

    def at(self, blocks: Iterable[Block], promise: RowGuarantees) -> Iterator[Block]:
        """The same blocks, one after the other."""
        levels = promise.rho(1)
        for block in blocks:
            seen = np.ones(block.values.shape, bool) if block.missing is None else ~block.missing
            number = seen.reshape(len(seen), -1).sum(axis=1)
            rho = levels[block.start : block.start + len(number)] if levels.ndim else levels
            self.n_cells += int(number.sum())
            self.total += float(block.values.sum(where=seen, dtype=np.float64))
            with np.errstate(over="ignore"):  # at a large rho there is no noise
                self.variance += float((number * 0.5 / np.sinh(0.5 * rho) ** 2).sum())
            yield block

    def warn_of_noise_alone(self) -> None:
        """Say so where many cells add up to nothing: labels that are spelt otherwise are dropped without a word."""
        noise = math.sqrt(self.variance)
        if self.by_name and self.n_cells >= _MANY and self.total <= 3.0 * noise:
            warnings.warn(
                "counts: nothing but noise can be seen in this release. All noisy counts add up to "
                f"{self.total:,.0f}, and noise alone to 0 +- {noise:,.0f}. There are few counts for so much noise, "
                "or the declared labels are not those in the counts: what is spelt otherwise, or of another type, "
                "is dropped without a word",
                category=NoiseAloneWarning,
                stacklevel=3,
            )


class NoiseAloneWarning(UserWarning):
    """``privatize`` released many cells, matched by name, in which nothing but noise can be seen.

    >>> issubclass(NoiseAloneWarning, UserWarning)
    True
    """


class _NotChargedError(Exception):
    """The ledger could not be written: by the error that said so."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


def _prepare(
    counts: Any, options: InputOptions, epsilon: Any, precision: Any, unit: str, guarantee: Any
) -> tuple[LabelledCounts, RowGuarantees]:
    if isinstance(counts, Number | Guarantee):  # then epsilon has the counts, and is not looked at
        raise TypeError(f"counts: expected counts, and epsilon after them, got a {type(counts).__name__}")
    promise = read_guarantees(epsilon, precision, unit, guarantee)  # first: it takes no time to find a fault
    given = read_input(counts, options)
    if given.form == SYMMETRIC:
        # scipy and R look at the counts to decide: what is released, one half or all, would tell of them.
        raise ValueError(
            "counts: expected a Matrix Market file of kind general, got a symmetric one, which may be so by its "
            "counts alone: save it as general (scipy.io.mmwrite(..., symmetry='general')), or give a network "
            "without directions as a graph (networkx.from_scipy_sparse_array), whose pairs get noise once"
        )
    if promise.rows is not None and given.form == "long table" and given.declared[0] == "from the data":
        # Found rows come sorted: nobody has seen the order in which they would get their levels.
        raise ValueError(
            f"{promise.parameter}: expected one value where rows are taken from a long table, got a list; rows= "
            "declares them in the order of the list"
        )
    for name, levels in (("epsilon", epsilon), ("precision", precision), ("guarantee", guarantee)):
        if hasattr(levels, "index") and not callable(levels.index):
            refuse_other_numbers(given.labels[0], name)
    return given, promise.to(given.counts.shape[0], pairs=given.has_pairs)


def _draft(given: LabelledCounts, promise: RowGuarantees) -> Contents:
    """All of the release that does not depend on the counts."""
    shape = given.counts.shape
    rho = promise.rho(len(shape))
    draft = without_cells(shape, given.axes, given.labels, rho, promise.guarantee, promise.rows)
    return draft._replace(records=(new_record(given.form, given.declared, given.stability),))


def _charge(given: LabelledCounts, draft: Contents, dataset: str | None, path: Path | None) -> Charge | None:
    """What the ledger is told, if there is one."""
    if dataset is None:
        return None
    assert draft.guarantee is not None
    axes = (given.rows_by, *draft.axes)
    # A count of a network is of two people, who may be in other rows of another release: such releases add.
    labels = (None,) * len(draft.labels) if given.has_pairs else draft.labels
    return Charge(dataset, draft.guarantee, draft.records[0].id, axes, labels, path)


def _noisy(given: LabelledCounts, promise: RowGuarantees) -> Iterator[Block]:
    for start, stop in row_ranges(given.counts.shape):
        noisy = promise.add_noise(given.counts.rows(start, stop), start)
        missing = given.counts.missing(start, stop)
        if missing is not None:
            noisy[missing] = 0
        yield Block(start, noisy, missing)
