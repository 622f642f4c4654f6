"""One order of components for all views of a posterior: topic 0 of the words is topic 0 of the authors.

A summed index that views share is one index, so its places are matched once: on all factors that stand on it and on
an axis, each component a distribution over every such axis. The largest come first, by the mean of their shares in
the expected counts of all views that have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.models import SharedFactors
from countveil.models.einsum.spec import JoinedIndex
from countveil.posterior.align import ALIGNERS, aligned_as
from countveil.posterior.align.matching import in_order, shares_of


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
        kinds = aligned_as(model)
        letter = ALIGNERS[kinds[0]].summed_index(model) if kinds else None
        return None if letter is None else self._model.index_of(view, letter)

    def _order(self, index: JoinedIndex) -> np.ndarray:
        weights: dict[str, np.ndarray] = {}
        masses = []
        for view, model in self._model.views.items():
            if self._index(view) == index:
                found = ALIGNERS[aligned_as(model)[0]].matched(model, self._fields)
                if found.order is not None:
                    return found.order
                masses.append(shares_of(found.mass))
                weights.update(found.weights)
        return in_order(np.concatenate(list(weights.values()), axis=2), np.mean(masses, axis=0))[0].order
