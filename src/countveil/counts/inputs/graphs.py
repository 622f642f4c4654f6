"""networkx graphs: nodes are rows and columns, weights are counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.cells.layout import Cells
from countveil.counts.inputs.arrays import LabelledCounts, ListedCounts, Values, sparse_cells
from countveil.counts.inputs.forms import FORMS
from countveil.counts.inputs.labels import LabelIndex, label_index, origin, read_labels, tell_of_unlabelled
from countveil.counts.inputs.options import InputOptions
from countveil.counts.inputs.spellings import as_now, object_array


class GraphCounts(ListedCounts):
    """Counts between pairs. What is not released: the diagonal, and half of an undirected graph."""

    def __init__(self, n: int, ends: list[np.ndarray], read: Values, directed: bool, loops: bool) -> None:
        self._directed, self._loops = directed, loops
        self.mostly_missing = not directed and not loops  # n*(n+1)/2 of n*n cells
        if not directed:  # each pair once, at its place above the diagonal
            outside = np.minimum(*ends) < 0
            ends = [np.where(outside, -1, np.minimum(*ends)), np.maximum(*ends)]
        if not loops:
            ends = [np.where(ends[0] == ends[1], -1, ends[0]), ends[1]]
        super().__init__((n, n), ends, read)

    def mirrored(self) -> Cells:
        """The cells above 0 on both sides of the diagonal, for a fit of plain counts."""
        above = self._counts
        return sparse_cells(sparse.csr_array(above + sparse.triu(above, 1).T))

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        if self._directed and self._loops:
            return None
        row, column = np.arange(start, stop)[:, None], np.arange(self.shape[1])
        hidden = np.zeros((stop - start, self.shape[1]), bool) if self._loops else row == column
        return hidden if self._directed else hidden | (column < row)


class PartOfGraph(ListedCounts):
    """Counts from some nodes to others. What is not released: a node's count with itself."""

    def __init__(
        self, rows: LabelIndex, columns: LabelIndex, ends: list[np.ndarray], read: Values, loops: bool
    ) -> None:
        same = rows.places_in(columns)
        self._same = None if loops or (same < 0).all() else same
        if self._same is not None:
            ends = [np.where((ends[0] >= 0) & (same[ends[0]] == ends[1]), -1, ends[0]), ends[1]]
        super().__init__((len(rows), len(columns)), ends, read)

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        return None if self._same is None else self._same[start:stop, None] == np.arange(self.shape[1])


def read_graph(graph: Any, options: InputOptions) -> LabelledCounts:
    """Check a graph and bring it into the declared nodes. Edges between the same two nodes add up."""
    options.expect("a graph", "weight", "self_loops")
    if options.weight is not None and not isinstance(options.weight, str):
        raise TypeError(
            f"weight: expected the name of an edge attribute or None, got {type(options.weight).__name__}"
        )
    axes, (declared_rows, declared_columns) = options.declared(2)
    found = object_array(graph.nodes)
    rows = label_index(declared_rows, found, "node", "rows", public=options.public_labels)
    if declared_rows is None:
        tell_of_unlabelled(rows.places(found), "rows")
    columns = rows if declared_columns is None else LabelIndex(declared_columns, "node")
    _check_spellings(rows, columns)
    edges = list(graph.edges(data=True))
    directed = bool(graph.is_directed())
    values = partial(_counts, edges, options.weight)
    tails, heads = (object_array(edge[i] for edge in edges) for i in (0, 1))
    counts: ListedCounts
    if np.array_equal(rows.labels, columns.labels):
        ends = [rows.places(tails), rows.places(heads)]
        counts = GraphCounts(len(rows), ends, values, directed, options.self_loops)
    else:
        ends = [rows.places(tails), columns.places(heads)]
        if not directed:
            if (rows.places_in(columns) >= 0).any():
                # A pair of such nodes would be released twice, each time with noise of its own.
                raise ValueError(
                    "columns: expected for an undirected graph the nodes of rows, or none of them, got some"
                )
            turned = [rows.places(heads), columns.places(tails)]  # at most one of the two lies inside
            forward = (ends[0] >= 0) & (ends[1] >= 0)
            ends = [np.where(forward, one, other) for one, other in zip(ends, turned, strict=True)]
        counts = PartOfGraph(rows, columns, ends, values, options.self_loops)
    names, labels = read_labels((rows.labels, columns.labels.copy()), counts.shape, axes)
    form = "directed graph" if directed else "undirected graph"
    along_rows = origin(declared_rows, found=True)
    along_columns = along_rows if declared_columns is None else origin(declared_columns)
    said = str(FORMS[form].stability)
    return LabelledCounts(counts, names, labels, form, (along_rows, along_columns), said)


def _check_spellings(rows: LabelIndex, columns: LabelIndex) -> None:
    """Refuse a node by two names: node 7 is "7" and "7.0", and nobody would see that it is one person."""
    known = {as_now(label): label for label in columns.labels}
    for label in rows.labels:
        other = known.get(as_now(label), label)
        if other != label:
            raise ValueError(
                f"columns: expected one name for a node on both sides, got {other!r} for {label!r}"
            )


def _counts(all_edges: list[tuple], weight: Any, inside: np.ndarray) -> np.ndarray:
    """What each edge inside the declared pairs counts: its attribute ``weight``, or 1."""
    edges = [all_edges[i] for i in np.flatnonzero(inside)]
    if weight is None or (weight == InputOptions().weight and not any(edge[2] for edge in edges)):
        return np.ones(len(edges), np.int64)
    if edges and not any(weight in edge[2] for edge in edges):
        # Which attributes there are stays unsaid. That this one is nowhere is a fault of kind.
        raise ValueError(
            f"weight: expected an attribute of the edges, got {weight!r}, which no edge has; name the one with "
            'the counts, such as weight="messages", or pass weight=None to count every edge once'
        )
    weights = [edge[2].get(weight, 1) for edge in edges]
    if not all(isinstance(w, int | float | np.integer | np.floating | np.bool_) for w in weights):
        raise TypeError("counts: expected edge weights that are whole numbers, got something else")
    if any(abs(w) > 2**62 for w in weights if isinstance(w, int)):
        raise ValueError("counts: expected whole numbers of at least 0, got values beyond 2**53")
    return np.array(weights) if weights else np.zeros(0, np.int64)
