"""Components of a tensor as people read them: for each the heaviest labels of every axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Components:
    """Aligned components, largest first.

    ``factors`` has for every axis a Dataset over (component, axis) with ``mean``, ``low`` and ``high`` of its
    distribution over that axis. ``share`` is the part of all expected counts that belongs to each component and
    ``agreement`` how alike it is in two different draws: arrays for the CP form; for a Tucker form every axis has
    components of its own, and ``core`` holds the part of every combination.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> from countveil.models import TensorModel
    >>> counts = np.zeros((3, 3, 2), int)
    >>> counts[:2, :2, 0], counts[2, 2, 1] = 60, 90
    >>> posterior = cv.fit(TensorModel(rank=2), counts, sweeps=200, seed=1, progress=False)
    >>> components = posterior.components(2)
    >>> components.table.columns.tolist()
    ['axis', 'component', 'rank', 'label', 'weight', 'low', 'high']
    >>> list(components.factors)
    ['axis0', 'axis1', 'axis2']
    """

    factors: Mapping[str, xr.Dataset]
    share: Mapping[str, np.ndarray]
    agreement: Mapping[str, np.ndarray]
    n_labels: int
    core: xr.Dataset | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The heaviest labels: axis, component, rank (from 0), label, weight, low, high."""
        parts = []
        for axis, weights in self.factors.items():
            mean = weights["mean"].to_numpy()
            top = np.argsort(-mean, axis=1, kind="stable")[:, : self.n_labels]
            n, m = top.shape
            component, rank = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
            chosen = (component, top.reshape(-1))
            values = {name: weights[name].to_numpy()[chosen] for name in ("mean", "low", "high")}
            label = weights[weights["mean"].dims[1]].to_numpy()[chosen[1]]
            columns = {"component": component, "rank": rank, "label": label, "weight": values.pop("mean")}
            parts.append(pd.DataFrame({"axis": axis, **columns, **values}))
        return pd.concat(parts, ignore_index=True)

    def __repr__(self) -> str:
        lines = []
        for axis, weights in self.factors.items():
            mean = weights["mean"].to_numpy()
            labels = weights[weights["mean"].dims[1]].to_numpy()
            lines.append(f"{axis}\ncomponent  share  agreement  labels")
            for k, row in enumerate(mean):
                top = np.argsort(-row, kind="stable")[: self.n_labels]
                listed = " ".join(str(labels[v]) for v in top)
                lines.append(f"{k:>9}  {self.share[axis][k]:5.1%}  {self.agreement[axis][k]:9.2f}  {listed}")
        return "\n".join(lines)
