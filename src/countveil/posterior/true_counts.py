"""The posterior of true counts: for every kept draw of the rates, a draw of the count given its release."""

from __future__ import annotations

import numpy as np

from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson

MISSING = -1


@compiled
def draw_true_counts(seed, chain, draw, values, rates, rho, out):
    """out[i]: the count of a cell released as values[i]; MISSING cells are Poisson; plain ones (rho inf) known."""
    for i in range(len(values)):
        stream = open_stream(seed, chain, draw, steps.TRUE_COUNTS, i)
        if values[i] == MISSING:
            out[i], stream = poisson(stream, rates[i])
        elif np.isinf(rho[i]):
            out[i] = values[i]
        else:
            out[i], stream = draw_count(stream, values[i], rates[i], rho[i])
