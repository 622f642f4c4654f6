"""One order of components for all views of a posterior: topic 0 of the words is topic 0 of the authors.

A summed index that views share is one index, so its places are matched once: on all factors that stand on it and on
an axis, each component a distribution over every such axis. The largest come first, by the mean of their shares in
the expected counts of all views that have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.models import CommunityModel, SharedFactors
from countveil.models.joined_indices import JoinedIndex
from countveil.posterior.aligned_communities import community_traffic
from countveil.posterior.alignment import in_order, shares_of
from countveil.posterior.axis_factors import axis_draws, fixed_places, has_axis_factors


class SharedOrder:
    """The draws of all factors of a ``SharedFactors``, (chain, draw, ...); orders are found when asked for."""

    def __init__(self, model: SharedFactors, fields: Mapping[str, Any]) -> None:
        self._model, self._fields = model, fields
        self._found: dict[JoinedIndex, np.ndarray] = {}

    def of(self, view: str) -> np.ndarray | None:
        """For every draw the component at each place, (draws, components); None for views without components."""
        index = self._index(view)
        if index is None:
            return None
        if index not in self._found:
            self._found[index] = self._order(index)
        return self._found[index]

    def _index(self, view: str) -> JoinedIndex | None:
        model = self._model.views[view]
        if isinstance(model, CommunityModel):
            return self._model.index_of(view, "c")
        return self._model.index_of(view, model._spec.latent) if has_axis_factors(model) else None

    def _order(self, index: JoinedIndex) -> np.ndarray:
        weights, masses = {}, []
        for view, model in self._model.views.items():
            if self._index(view) != index:
                continue
            if isinstance(model, CommunityModel):
                theta, pi = (_all_draws(self._fields[name]) for name in ("theta", "pi"))
                traffic = community_traffic(theta, pi, model.directed, model.self_loops)
                masses.append(shares_of(traffic.sum(axis=1)))
                weights["theta"] = _distributions(theta)
                continue
            factors = axis_draws(model, self._fields)
            known = fixed_places(model, len(factors[0]))
            if known is not None:
                return known
            masses.append(shares_of(np.prod([f.sum(axis=1, dtype=np.float64) for f in factors], axis=0)))
            weights.update(zip(model._spec.per_axis or (), map(_distributions, factors), strict=True))
        return in_order(np.concatenate(list(weights.values()), axis=2), np.mean(masses, axis=0))[0].order


def _all_draws(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.reshape(-1, *array.shape[2:])


def _distributions(factor: np.ndarray) -> np.ndarray:
    """(draws, components, length), every one over its sum."""
    return shares_of(np.swapaxes(factor, 1, 2).astype(np.float64))
