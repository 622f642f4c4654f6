"""Many draws of a scalar kernel from a plain ``njit`` loop, as any caller would write it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numba
import numpy as np

from countveil.kernels.philox import open_stream


@cache
def _loop(kernel: Callable) -> Callable:
    @numba.njit
    def loop(seed, out, *parameters):
        stream = open_stream(seed, 0, 0, 0, 0)
        for i in range(len(out)):
            out[i], stream = kernel(stream, *parameters)

    return loop


def draw_many(
    kernel: Callable, *parameters: float, size: int, seed: int, dtype: type = np.int64
) -> np.ndarray:
    """``size`` draws of ``kernel(stream, *parameters)`` along one stream."""
    out = np.empty(size, dtype=dtype)
    _loop(kernel)(seed, out, *parameters)
    return out
