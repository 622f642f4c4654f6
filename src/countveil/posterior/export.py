"""Answers for other tools: plain tables for pandas, R and spreadsheets; networks for networkx."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from countveil.posterior.axes import LARGEST_ANSWER

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


CHOICES = (
    "topics", "memberships", "prevalence", "blocks", "components", "scales", "rates", "true_counts", "scalars",
)  # fmt: skip
#: Answers that have a table already.
_TABLES = ("topics", "prevalence", "components")
#: Answers with a line for every cell.
_CELLS = ("rates", "true_counts")
#: Of a table that is written: some 100 MB.
LINES_AT_ONCE = 2**19


def to_table(posterior: Posterior, what: str, options: dict[str, Any]) -> pd.DataFrame:
    """One of the CHOICES as a long table: one row per cell, word, or draw."""
    if what not in CHOICES:
        raise ValueError(f"what: expected one of {', '.join(CHOICES)}, got {what!r}")
    if what == "scalars":
        if options:
            raise TypeError(f"options: expected none for 'scalars', got {', '.join(options)}")
        return posterior.tree["sample_stats"].to_dataset().to_dataframe().reset_index()
    found = getattr(posterior, what)(**options)
    return found.table if what in _TABLES else found.to_dataframe().reset_index()


def table_blocks(posterior: Posterior, what: str) -> Iterator[pd.DataFrame]:
    """The lines of ``to_table``, some after the others: labels take ten times the room of what they name.

    Cells are asked for some at a time, too: of a small run they may be many.
    """
    if what in _CELLS:
        n_cells, most = math.prod(posterior._shape), LARGEST_ANSWER // 8
        if n_cells > most:
            raise ValueError(
                f"what: expected at most {most:,} lines, got {n_cells:,} of {what}; {what}(rows, columns) of the "
                "posterior gives some of them"
            )
        for rows, *others in _blocks(posterior._shape, LINES_AT_ONCE):
            columns = others[0] if len(others) == 1 else tuple(others) or None
            yield to_table(posterior, what, {"rows": rows, "columns": columns})
    elif what in CHOICES and what not in (*_TABLES, "scalars"):
        found = getattr(posterior, what)()
        dims = list(found.dims)
        for block in _blocks(tuple(found.sizes[dim] for dim in dims), LINES_AT_ONCE):
            yield found.isel(dict(zip(dims, block, strict=True))).to_dataframe().reset_index()
    else:
        yield to_table(posterior, what, {})


def _blocks(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Parts of an array in order, of at most so many cells.

    >>> [tuple((one.start, one.stop) for one in block) for block in _blocks((2, 3), 2)]
    [((0, 1), (0, 2)), ((0, 1), (2, 3)), ((1, 2), (0, 2)), ((1, 2), (2, 3))]
    """
    width = math.prod(shape[1:])
    step = max(1, most // width)
    for start in range(0, shape[0], step):
        here = slice(start, min(start + step, shape[0]))
        if width <= most:
            yield here, *(slice(0, n) for n in shape[1:])
        else:
            yield from ((here, *others) for others in _blocks(shape[1:], most))


def to_graph(posterior: Posterior, least: float) -> Any:
    """Actors with their communities, and the mean rate of every pair that is part of the model."""
    if isinstance(least, bool) or not isinstance(least, Real) or not least >= 0:
        raise ValueError(f"least: expected a number of at least 0, got {least!r}")
    rows, columns = posterior._labels
    if rows is not None and columns is not None and not np.array_equal(rows, columns):
        raise ValueError(
            "to_networkx: expected the same labels on both axes of a network, got different ones"
        )
    try:
        import networkx as nx
    except ImportError as error:
        raise ImportError("to_networkx needs networkx: pip install networkx") from error
    cells = posterior._kept.cells
    graph = nx.Graph() if cells.mirrored else nx.DiGraph()
    names = posterior._axis_labels(0 if columns is None else 1).tolist()
    for name, shares in zip(names, posterior.memberships()["mean"].to_numpy(), strict=True):
        each = {f"community_{c}": float(share) for c, share in enumerate(shares)}
        graph.add_node(name, community=int(np.argmax(shares)), **each)
    for block, rates in posterior.iter_rates():
        at, across = np.nonzero(rates >= least)
        senders = at + block.start
        kept = senders <= across if cells.mirrored else np.ones(len(at), bool)
        outside = cells.outside(np.arange(block.start, block.stop))
        if outside is not None:
            kept &= ~outside[at, across]
        weights = rates[at[kept], across[kept]].tolist()
        pairs = zip(senders[kept].tolist(), across[kept].tolist(), weights, strict=True)
        graph.add_weighted_edges_from((names[i], names[j], weight) for i, j, weight in pairs)
    return graph
