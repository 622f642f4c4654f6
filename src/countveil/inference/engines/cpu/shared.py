"""Several views of shared factors: each view's tokens by its own engine, then each factor once.

Given the factors the views are independent, so each draws its true counts by itself, from streams of its own (a
seed derived from the chain's for every view). The factors are drawn from the streams of the chain's own seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countveil.inference.derived_seed import view_seed
from countveil.inference.engines.choose import choose_engine
from countveil.inference.engines.cpu.own_model import OwnModel
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.shared_data import ViewData
from countveil.models.factor_model import FactorModel, FactorSums
from countveil.models.pair_cells import PairCells
from countveil.models.row_work import RowWork
from countveil.models.shared_factors import SharedFactors, SharedSums
from countveil.models.sweep_key import SweepKey


class SharedViews:
    """Engine for SharedFactors, with released and plain views side by side."""

    def __init__(
        self,
        model: SharedFactors,
        data: Mapping[str, ViewData],
        method: str,
        engine: str,
    ) -> None:
        self._model = model
        self._shapes = {name: each.shape for name, each in data.items()}
        released = {name for name, each in data.items() if not isinstance(each, PlainCounts)}
        # Plain views have nothing to invert; the method is for the others, if there are any.
        self._engines = {
            name: choose_engine(
                view, data[name], method if name in released or not released else "exact", engine
            )
            for name, view in model.views.items()
        }
        self._pairs: Mapping[str, PairCells] | None = None

    def sweep(self, state: Any, key: SweepKey, row_work: RowWork) -> tuple[Any, SharedSums]:
        """Draw the true counts of every view, share them out, then draw the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: Any, key: SweepKey, row_work: RowWork) -> SharedSums:
        """Draw the true counts of every view: the tokens of every factor."""
        found = {}
        for name, view in self._model.views.items():
            own = key._replace(seed=view_seed(key.seed, name))
            found[name] = _sums_of(
                self._engines[name], view, self._model.view_state(name, state), own, row_work
            )
        if self._pairs is None:  # which cells are observed never changes
            self._pairs = self._model.pairs(found, self._shapes)
        return SharedSums(found, self._pairs)


def _sums_of(engine: Any, view: FactorModel, state: Any, key: SweepKey, row_work: RowWork) -> FactorSums:
    if isinstance(engine, OwnModel):  # a spec that does not unfold: cell by cell
        return view.share_counts(state, engine.counts(state, key, row_work), key, row_work)
    return engine.sums(state, key, row_work)
