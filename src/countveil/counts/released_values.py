"""Reading values released elsewhere, in blocks of rows; what lies under the mask is never looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.row_blocks import Block, row_ranges
from countveil.counts.whole_numbers import check_whole, numeric_array, sparse_rows


class ReleasedValues:
    """Signed released values (dense or sparse) with an optional mask, True = missing."""

    def __init__(self, values: Any, mask: Any, name: str = "values") -> None:
        self._name = name  # the parameter that errors speak of
        if isinstance(values, np.ma.MaskedArray):
            own = np.ma.getmaskarray(values)
            mask = own if mask is None else own | _boolean(mask, values.shape)
            values = values.data
        if sparse.issparse(values):
            self._values = sparse_rows(values, name)
        else:
            if mask is not None:
                values = _without_objects(values, np.asarray(mask))
            self._values = numeric_array(values, name)
        self.shape = tuple(int(n) for n in self._values.shape)
        self._mask = None if mask is None else _boolean(mask, self.shape)

    def blocks(self) -> Iterator[Block]:
        """Checked blocks; missing cells read 0."""
        for start, stop in row_ranges(self.shape):
            rows = self._values[start:stop]
            if sparse.issparse(rows):
                rows = rows.toarray()
            values, missing = rows.reshape(stop - start, -1), None
            if self._mask is not None:
                missing = self._mask[start:stop].reshape(values.shape)
                values = np.where(missing, values.dtype.type(0), values)
            check_whole(values, self._name, negative_allowed=True)
            yield Block(start, values.astype(np.int64, copy=False), missing)


def _boolean(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(mask)
    if array.dtype != bool:
        raise TypeError(f"mask: expected booleans, True where a cell is missing, got type {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"mask: expected shape {shape}, got {array.shape}")
    return array


def _without_objects(values: Any, mask: np.ndarray) -> Any:
    """Numbers again, where None or another placeholder under the mask made numpy fall back to objects."""
    array = np.asarray(values) if isinstance(values, list | tuple) else values
    if not isinstance(array, np.ndarray) or array.dtype != object or array.shape != mask.shape:
        return values
    return np.where(mask, 0, array).tolist()
