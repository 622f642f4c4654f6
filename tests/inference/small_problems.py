"""Small observations without going through the public classes, which are tested elsewhere."""

from __future__ import annotations

import numpy as np

from countveil.inference.observations import Observations


def observations(values, rho=None, cell_rho=None, missing=None, dtype=np.int64):
    """Observations of a small matrix; plain counts if no noise is given."""
    missing = np.zeros(values.shape, dtype=bool) if missing is None else missing
    positive = (values > 0) & ~missing
    row_rho = np.zeros(0)
    if rho is not None or cell_rho is not None:
        row_rho = np.broadcast_to(np.nan if rho is None else rho, len(values)).copy()
    return Observations(
        *values.shape,
        np.concatenate([[0], np.cumsum(positive.sum(axis=1))]),
        np.nonzero(positive)[1].astype(np.int32),
        values[positive].astype(dtype),
        np.concatenate([[0], np.cumsum(missing.sum(axis=1))]),
        np.nonzero(missing)[1].astype(np.int32),
        row_rho,
        np.zeros((0, 0)) if cell_rho is None else np.asarray(cell_rho, dtype=float),
    )
