"""A fitted network as a networkx graph."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


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
    graph = nx.DiGraph() if posterior.model.directed else nx.Graph()
    names = posterior._axis_labels(0 if columns is None else 1).tolist()
    for name, shares in zip(names, posterior.memberships()["mean"].to_numpy(), strict=True):
        each = {f"community_{c}": float(share) for c, share in enumerate(shares)}
        graph.add_node(name, community=int(np.argmax(shares)), **each)
    for block, rates in posterior.iter_rates():
        at, across = np.nonzero(rates >= least)
        senders = at + block.start
        kept = np.ones(len(at), bool) if posterior.model.directed else senders <= across
        if not posterior.model.self_loops:
            kept &= senders != across
        weights = rates[at[kept], across[kept]].tolist()
        pairs = zip(senders[kept].tolist(), across[kept].tolist(), weights, strict=True)
        graph.add_weighted_edges_from((names[i], names[j], weight) for i, j, weight in pairs)
    return graph
