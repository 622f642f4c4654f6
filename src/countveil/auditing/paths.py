"""Does every way to a release give the noise it should? Through ``privatize`` and ``privatize_to_file``.

Each form is released with one guarantee for all: with each of the usual ones, with one of them for a person and for
a cell and, for a document and for a person, with one so strong that a cell without noise shows, and one with the
noise of another cell or of another release. It is released with a guarantee for every row, too (but graphs, whose
rows must share one), and all this with negative values and without. Every level must have its own law, whatever
kind of count it is added to, or stands beside where noise is strong, and just the cells that should be are
released. At the usual size matrices are so large that they are worked on in several blocks of rows.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse, stats

from countveil.auditing.check import FALSE_ALARM, POWER, Check, check_pvalue
from countveil.auditing.law import fit_pvalue, smallest_error
from countveil.auditing.strong_noise import copied_pvalue, one_in, raw_pvalue
from countveil.auditing.trials import any_half, kinds, mixed_counts
from countveil.counts import NoiseAloneWarning, PrivateCounts, load_release, privatize, privatize_to_file
from countveil.privacy import Guarantee

# Not stronger: the sum of a release's values must stay exact in a file.
STRONG = Guarantee(1, precision=10**9)
OF_PERSON = Guarantee(1, precision=10**9, unit="person")  # the same noise
OTHER_UNITS = ("person", "cell")
# Axes of a matrix, and steps; along the middle one of three axes, of which the last has so many places.
_LAST = 4
_BESIDE = [(axis, step) for axis in (0, 1) for step in (1, -1)]
_BESIDE_IN_THE_MIDDLE = [(1, _LAST), (1, -_LAST)]
# Rows and columns without a count, beside cells without one.
_EMPTY = 0.05
Promise = Guarantee | list[Guarantee]
Way = Callable[
    [np.ndarray, Promise, bool], PrivateCounts
]  # counts, guarantees, and whether to keep negative values


def check_paths(guarantees: Sequence[Guarantee], size: int) -> list[Check]:
    """Tables and graphs with some ``size`` cells, and other forms with three times as many; most are zeros."""
    rng = np.random.default_rng()
    # The unit changes no noise: one that is asked of a document is asked of the others, too.
    usual = [Guarantee(one.epsilon, one.precision) for one in guarantees]
    levels = [*usual, *[STRONG] * len(usual)]  # half of the rows: their cells are looked at one by one
    checks = []
    first = rng.permutation(len(usual))  # each of them for a person and a cell, in some form
    for number, (name, (path, kept)) in enumerate(_paths().items()):
        of_graph = path in _GRAPHS
        side = max(int((3 * size if path in _BLOCKS else size) ** 0.5), 20) // _LAST * _LAST
        counts = mixed_counts((side, side), rng)
        counts[rng.random(counts.shape) < 0.6] = 0
        counts[rng.random(side) < _EMPTY] = 0
        counts[:, rng.random(side) < _EMPTY] = 0
        # By chance: in turn they would be the same in every block whose number of rows is a multiple.
        by_row = [levels[i] for i in rng.permutation(np.arange(side) % len(levels))]
        others: list[Promise] = [
            *usual,
            *(_of_unit(unit, usual[first[number % len(usual)]]) for unit in OTHER_UNITS),
        ]
        others += [] if of_graph else [by_row]
        with warnings.catch_warnings():
            # Which there may well be: that is how strong a guarantee can be.
            warnings.simplefilter("ignore", NoiseAloneWarning)
            checks.append(_check(name, path, kept(side), counts, [STRONG, OF_PERSON, *others]))
    return checks


def _check(name: str, path: Way, kept: np.ndarray, counts: np.ndarray, promises: list[Promise]) -> Check:
    found: list[float] = []
    strong: list[np.ndarray] = []
    # Cells where a raw count would show by itself, with and without negative values; and those without a count.
    shows: dict[bool, list[int]] = {True: [], False: []}
    empty: list[int] = []
    fewest: dict[tuple[Guarantee, bool], int] = {}  # cells that a level has in a way
    rng = np.random.default_rng()
    half = any_half(rng)
    beside = [*_BESIDE, *(_BESIDE_IN_THE_MIDDLE if path is _array else ())]
    # One call comes twice: noise that is kept by all that a call is repeats itself.
    for promise, negative in [*itertools.product(promises, (True, False)), (STRONG, True), (STRONG, False)]:
        each = promise if isinstance(promise, list) else [promise] * len(counts)
        is_strong = np.array([one.rate == STRONG.rate for one in each])[:, None]
        released = np.ma.asarray(path(counts, promise, negative).to_dense()).reshape(counts.shape)
        if negative and not np.array_equal(~np.ma.getmaskarray(released), kept):
            return Check(f"through {name}", False, "other cells are released than should be")
        noise, seen = released.data - counts, kept
        if not negative:
            seen = kept & (released.data > 0)
            noise = np.where(seen, noise, noise_below(counts, np.array([[one.rho] for one in each]), rng))
            without = kept & is_strong & (counts == 0)
            empty += [int(without.sum())] * bool(is_strong.any())
            found.append(above_pvalue(released.data[without]))
        for level in dict.fromkeys(each):
            of_level = np.array([one == level for one in each])[:, None]
            here = kept & of_level
            found.append(fit_pvalue(noise[here], level.rho))
            fewest[level, negative] = min(int(here.sum()), fewest.get((level, negative), here.size))
            found += [fit_pvalue(noise[here & kind], level.rho) for kind in kinds(counts, half)]
            if level.rate == STRONG.rate:
                found += beside_pvalues(noise, here, counts, half, beside)
                strong.append(noise[seen & of_level])
                shows[negative].append(int((here & (negative | (counts > 0))).sum()))
    of_all = np.concatenate(strong)
    found += [raw_pvalue(of_all, STRONG.rho), copied_pvalue(of_all, STRONG.rho)]
    # All ways are looked at together, and one alone may leave cells without noise, or have another rate.
    share = one_in(of_all.size, STRONG.rho, len(found)) / of_all.size
    one, one_with = (int(share * min(shows[negative])) for negative in (True, False))
    good, bad = (
        "every cell and every row's level has its noise",
        "some cells do not have the noise they should",
    )
    errors = [
        smallest_error(level.rho, size, len(found), clamped=not negative)
        for (level, negative), size in fewest.items()
    ]
    rate = f"a rate that is off by {max(filter(None, errors)):.0%}, " if all(errors) else ""
    finds = (
        f"{rate}one cell in {one:,} without noise; without negative values one in {one_with:,} of those with a "
        f"count, and one in {one_clamped_in(min(empty), len(found)):,} of those without"
    )
    return check_pvalue(f"through {name}", min(found) * len(found), good, bad, finds=finds)


def beside_pvalues(
    noise: np.ndarray, kept: np.ndarray, counts: np.ndarray, half: int, beside: Sequence[tuple[int, int]]
) -> list[float]:
    """Noise has its law whatever the cells beside hold, along any axis: it may be right by its own count."""
    return [
        fit_pvalue(noise[kept & np.roll(kind, step, axis)], STRONG.rho)
        for kind in kinds(counts, half)
        for axis, step in beside
    ]


def noise_below(counts: np.ndarray, rho: np.ndarray | float, rng: np.random.Generator) -> np.ndarray:
    """Noise that may have taken these counts to 0 or below, so that a release without negative values has 0 there.

    ``P(-tau = y + k | tau <= -y)`` is ``(1 - alpha) * alpha**k``, whatever y is. In place of what was clamped it
    makes the noise of such a release one with the whole law again, of which the same is asked as of every other.
    """
    return 1 - counts - rng.geometric(-np.expm1(-rho), counts.shape)


def above_pvalue(released: np.ndarray) -> float:
    """Whether half of the cells without a count come out above 0: at so small a rho no noise is 0."""
    above = int((released > 0).sum())
    return float(stats.binomtest(above, released.size, 0.5).pvalue) if released.size else 1.0


def one_clamped_in(n_cells: int, tests: int) -> int:
    """One raw cell in so many is found by ``above_pvalue`` among so many cells whose count is 0.

    It is a 0 as half of the others are, so that only the number of these tells: a share s of raw ones has s/2 fewer
    positive cells, whose standard deviation is 1 / (2 sqrt(n)).
    """
    sds = stats.norm.isf(FALSE_ALARM / (2 * tests)) + stats.norm.ppf(POWER)
    return int(np.sqrt(n_cells) / sds)


def _paths() -> dict[str, tuple[Way, Callable[[int], np.ndarray]]]:
    """Name, how to release a square matrix of counts, and which of its cells are released."""
    found: dict[str, tuple[Way, Callable[[int], np.ndarray]]] = {
        "an array of three axes": (_array, _all),
        "a sparse matrix": (_sparse, _all),
        "a file": (_file, _all),
        "a wide table": (_wide, _all),
        "a long table": (_long, _all),
    }
    try:
        import networkx  # noqa: F401
    except ImportError:
        return found
    return found | {
        "a directed graph": (_directed, lambda n: ~np.eye(n, dtype=bool)),
        "an undirected graph": (_undirected, lambda n: np.triu(np.ones((n, n), dtype=bool), 1)),
    }


def _of_unit(unit: str, promise: Guarantee) -> Guarantee:
    return Guarantee(promise.epsilon, promise.precision, unit)


def _all(n: int) -> np.ndarray:
    return np.ones((n, n), dtype=bool)


def _array(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    return privatize(counts.reshape(len(counts), -1, _LAST), guarantee=promise, keep_negative=negative)


def _sparse(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    return privatize(sparse.csr_array(counts), guarantee=promise, keep_negative=negative)


def _file(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        privatize_to_file(counts, path, guarantee=promise, keep_negative=negative)
        return load_release(path)


def _wide(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    """Its rows and columns are named, declared in another order, and released in that of ``counts``."""
    import pandas as pd

    rows, columns = (_names(kind, n) for kind, n in zip(("row", "column"), counts.shape, strict=True))
    table = pd.DataFrame(counts, rows, columns).iloc[::-1, ::-1]
    return privatize(table, guarantee=promise, rows=rows, columns=columns, keep_negative=negative)


def _long(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    """Only cells with a count have a line."""
    import pandas as pd

    rows, columns = (_names(kind, n) for kind, n in zip(("row", "column"), counts.shape, strict=True))
    i, j = np.nonzero(counts)
    lines = {"row": np.array(rows)[i], "column": np.array(columns)[j], "n": counts[i, j]}
    by = ("row", "column", "n")
    options: dict[str, Any] = {"guarantee": promise, "keep_negative": negative}
    found: PrivateCounts = privatize(
        pd.DataFrame(lines)[::-1], long=by, rows=rows, columns=columns, **options
    )
    return found


def _names(kind: str, n: int) -> list[str]:
    """In an order that is not sorted."""
    return [f"{kind} {n - i}" for i in range(n)]


def _directed(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    return _graph("DiGraph", counts, promise, negative)


def _undirected(counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    return _graph("Graph", np.triu(counts), promise, negative)


def _graph(kind: str, counts: np.ndarray, promise: Promise, negative: bool) -> PrivateCounts:
    import networkx

    names = [f"node {i}" for i in range(len(counts))]
    graph: Any = getattr(networkx, kind)()
    graph.add_nodes_from(names)
    graph.add_weighted_edges_from((names[i], names[j], int(counts[i, j])) for i, j in np.argwhere(counts))
    return privatize(graph, rows=names, guarantee=promise, keep_negative=negative)


_BLOCKS = (_array, _sparse, _file)
_GRAPHS = (_directed, _undirected)
