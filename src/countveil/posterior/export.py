"""Answers for other tools: plain tables for pandas, R and spreadsheets; networks for networkx."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


CHOICES = (
    "topics", "memberships", "prevalence", "blocks", "components", "scales", "rates", "true_counts", "scalars",
)  # fmt: skip
#: Answers that have a table already.
_TABLES = ("topics", "prevalence", "components")


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
