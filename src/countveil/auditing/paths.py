"""Does every way to a release give the noise it should? Through ``privatize`` and ``privatize_to_file``.

Each form is released with one guarantee for all, so strong that a cell without noise shows, and with another one
for every row; graphs, whose rows must share one, with each of them. Every level must have its own law, and just the
cells that should be are released.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from countveil.auditing.check import Check, check_pvalue
from countveil.auditing.law import fit_pvalue
from countveil.auditing.strong_noise import copied_pvalue, one_in, raw_pvalue
from countveil.auditing.trials import mixed_counts
from countveil.counts import PrivateCounts, load_release, privatize, privatize_to_file
from countveil.privacy import Guarantee

# Not stronger: the sum of a release's values must stay exact in a file.
STRONG = Guarantee(1, precision=10**9)
Promise = Guarantee | list[Guarantee]
Way = Callable[[np.ndarray, Promise], PrivateCounts]


def check_paths(guarantees: Sequence[Guarantee], size: int) -> list[Check]:
    """Every form of input with some ``size`` cells, most of them zeros."""
    rng = np.random.default_rng()
    side = max(int(size**0.5), 20) // 4 * 4
    counts = mixed_counts((side, side), rng)
    counts[rng.random(counts.shape) < 0.6] = 0
    # The unit changes no noise, and only rows and cells have levels by row.
    levels = [*(Guarantee(one.epsilon, one.precision) for one in guarantees), STRONG]
    by_row = [levels[i % len(levels)] for i in range(side)]
    return [
        _check(
            name, path, kept(side), counts, [STRONG, by_row] if path not in _GRAPHS else [STRONG, *guarantees]
        )
        for name, (path, kept) in _paths().items()
    ]


def _check(name: str, path: Way, kept: np.ndarray, counts: np.ndarray, promises: list[Promise]) -> Check:
    found: list[float] = []
    n_strong = 0
    for promise in promises:
        released = np.ma.asarray(path(counts, promise).to_dense()).reshape(counts.shape)
        if not np.array_equal(~np.ma.getmaskarray(released), kept):
            return Check(f"through {name}", False, "other cells are released than should be")
        noise = released.data - counts
        each = promise if isinstance(promise, list) else [promise] * len(counts)
        for level in dict.fromkeys(each):
            rows = [one == level for one in each]
            part = noise[rows][kept[rows]]
            found.append(fit_pvalue(part, level.rho))
            if level.rate == STRONG.rate:
                found += [raw_pvalue(part, STRONG.rho), copied_pvalue(part, STRONG.rho)]
                n_strong = max(n_strong, part.size)
    good, bad = (
        "every cell and every row's level has its noise",
        "some cells do not have the noise they should",
    )
    finds = f"one cell in {one_in(n_strong, STRONG.rho, len(found)):,} without noise"
    return check_pvalue(f"through {name}", min(found) * len(found), good, bad, finds=finds)


def _paths() -> dict[str, tuple[Way, Callable[[int], np.ndarray]]]:
    """Name, how to release a square matrix of counts, and which of its cells are released."""
    found: dict[str, tuple[Way, Callable[[int], np.ndarray]]] = {
        "an array of three axes": (_array, _all),
        "a sparse matrix": (_sparse, _all),
        "a file": (_file, _all),
    }
    try:
        import networkx  # noqa: F401
    except ImportError:
        return found
    return found | {
        "a directed graph": (_directed, lambda n: ~np.eye(n, dtype=bool)),
        "an undirected graph": (_undirected, lambda n: np.triu(np.ones((n, n), dtype=bool), 1)),
    }


def _all(n: int) -> np.ndarray:
    return np.ones((n, n), dtype=bool)


def _array(counts: np.ndarray, promise: Promise) -> PrivateCounts:
    return privatize(counts.reshape(len(counts), -1, 4), guarantee=promise, keep_negative=True)


def _sparse(counts: np.ndarray, promise: Promise) -> PrivateCounts:
    return privatize(sparse.csr_array(counts), guarantee=promise, keep_negative=True)


def _file(counts: np.ndarray, promise: Promise) -> PrivateCounts:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        privatize_to_file(counts, path, guarantee=promise, keep_negative=True)
        return load_release(path)


def _directed(counts: np.ndarray, promise: Promise) -> PrivateCounts:
    return _graph("DiGraph", counts, promise)


def _undirected(counts: np.ndarray, promise: Promise) -> PrivateCounts:
    return _graph("Graph", np.triu(counts), promise)


def _graph(kind: str, counts: np.ndarray, promise: Promise) -> PrivateCounts:
    import networkx

    names = [f"node {i}" for i in range(len(counts))]
    graph: Any = getattr(networkx, kind)()
    graph.add_nodes_from(names)
    graph.add_weighted_edges_from((names[i], names[j], int(counts[i, j])) for i, j in np.argwhere(counts))
    return privatize(graph, rows=names, guarantee=promise, keep_negative=True)


_GRAPHS = (_directed, _undirected)
