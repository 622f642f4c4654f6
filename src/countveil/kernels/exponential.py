"""Exponential draws with mean 1."""

from __future__ import annotations

import math

from countveil.kernels.compiled import inlined
from countveil.kernels.uniform import uniform


@inlined
def exponential(stream):
    """``(e, stream)``, P(e > x) = exp(-x), by inversion: e = -log(u)."""
    u, stream = uniform(stream)
    return -math.log(u), stream
