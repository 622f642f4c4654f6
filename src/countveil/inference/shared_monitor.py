"""Scalars of several views: those of each, and the log joint of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countveil.inference.monitor import Monitor
from countveil.inference.shared_data import ViewData
from countveil.models.shared_factors import SharedFactors, SharedSums


class SharedMonitor:
    """``log_likelihood_VIEW`` and ``total_rate_VIEW`` of every view, and ``log_joint``."""

    def __init__(self, model: SharedFactors, data: Mapping[str, ViewData]) -> None:
        self._model = model
        self._monitors = {name: Monitor(view, data[name]) for name, view in model.views.items()}

    def scalars(self, state: Any, sums: SharedSums) -> dict[str, float]:
        """All monitored scalars of one state."""
        found = {}
        for name, monitor in self._monitors.items():
            own = monitor.scalars(self._model.view_state(name, state), None)
            found.update({f"{scalar}_{name}": value for scalar, value in own.items()})
        return {**found, "log_joint": self._model.log_joint(state, sums)}


def scalars_of_view(monitored: Mapping[str, Any], view: str) -> dict[str, Any]:
    """Those of one view, by their usual names."""
    names = ("log_likelihood", "total_rate")
    return {name: monitored[f"{name}_{view}"] for name in names}
