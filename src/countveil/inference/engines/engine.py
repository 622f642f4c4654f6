"""The seam between a chain and the machinery that draws its true counts."""

from __future__ import annotations

from typing import Any, Protocol

from countveil.models.count_model import State
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey


class Engine(Protocol):
    """Draws the true counts of one chain, given its state, and hands the model what it needs of them."""

    def sweep(self, state: State, key: SweepKey, row_work: RowWork) -> tuple[State, Any]:
        """One sweep: the new state, and the sums it was drawn from (None if there are none)."""
