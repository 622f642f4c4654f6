"""networkx graphs: nodes are rows and columns, weights are counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from countveil.counts.form import Form, Given
from countveil.counts.labels import read_labels
from countveil.counts.true_counts import ListedCounts
from countveil.counts.universe import universe


class GraphCounts(ListedCounts):
    """Counts between pairs. What is not released: the diagonal, and half of an undirected graph."""

    def __init__(
        self, n: int, ends: list[np.ndarray], values: np.ndarray, directed: bool, loops: bool
    ) -> None:
        self._directed, self._loops = directed, loops
        self.mostly_missing = not directed and not loops  # n*(n+1)/2 of n*n cells
        if not directed:  # each pair once, at its place above the diagonal
            outside = np.minimum(*ends) < 0
            ends = [np.where(outside, -1, np.minimum(*ends)), np.maximum(*ends)]
        if not loops:
            ends = [np.where(ends[0] == ends[1], -1, ends[0]), ends[1]]
        super().__init__((n, n), ends, values)

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        if self._directed and self._loops:
            return None
        row, column = np.arange(start, stop)[:, None], np.arange(self.shape[1])
        hidden = np.zeros((stop - start, self.shape[1]), bool) if self._loops else row == column
        return hidden if self._directed else hidden | (column < row)


def read_graph(graph: Any, form: Form) -> Given:
    """Check a graph and bring it into the declared nodes. Edges between the same two nodes add up."""
    form.expect("a graph", "weight", "self_loops")
    axes, (rows, columns) = form.declared(2)
    rows = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, str) else rows
    if columns is not None and (not isinstance(columns, Iterable) or list(columns) != rows):
        raise ValueError("columns: expected none or the same nodes as in rows, got others")
    nodes = universe(rows, _objects(graph.nodes), "node", "rows", public=form.public_labels)
    edges = list(graph.edges(data=form.weight, default=1))
    ends = [nodes.places(_objects(edge[i] for edge in edges)) for i in (0, 1)]
    counts = GraphCounts(len(nodes), ends, _weights(edges), bool(graph.is_directed()), form.self_loops)
    labels = (nodes.labels, nodes.labels.copy())
    return Given(
        counts, *read_labels(labels if axes is None else dict(zip(axes, labels, strict=True)), counts.shape)
    )


def _weights(edges: list[tuple]) -> np.ndarray:
    weights = [edge[2] for edge in edges]
    if not all(isinstance(w, int | float | np.integer | np.floating | np.bool_) for w in weights):
        raise TypeError("counts: expected edge weights that are whole numbers, got something else")
    if any(abs(w) > 2**62 for w in weights if isinstance(w, int)):
        raise ValueError("counts: expected whole numbers of at least 0, got values beyond 2**53")
    return np.array(weights) if weights else np.zeros(0, np.int64)


def _objects(things: Any) -> np.ndarray:
    listed = list(things)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array
