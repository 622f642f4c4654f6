"""The law of a factor entry that meets itself: a gamma density with a quadratic term."""

from __future__ import annotations

import math

from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import gamma
from countveil.kernels.uniform import uniform


@compiled
def quadratic_gamma(stream, shape, rate, square):  # type: ignore[no-untyped-def]
    """``(x, stream)``, density proportional to x**(shape-1) * exp(-rate*x - square*x**2), square >= 0.

    With m the root of 2*square*m**2 + rate*m = shape, -rate*x - square*x**2 is -(rate + 2*square*m)*x -
    square*(x-m)**2 plus a constant: propose from Gamma(shape, rate + 2*square*m), accept with
    exp(-square*(x-m)**2). At least exp(-1/2) of all proposals are accepted.
    """
    if square <= 0.0:
        return gamma(stream, shape, rate)
    m = 2.0 * shape / (rate + math.sqrt(rate * rate + 8.0 * square * shape))
    while True:
        x, stream = gamma(stream, shape, rate + 2.0 * square * m)
        u, stream = uniform(stream)
        if math.log(u) <= -square * (x - m) * (x - m):
            return x, stream
