"""Standard normal draws by the ziggurat.

Marsaglia and Tsang, "The ziggurat method for generating random variables" (2000), in the form of Doornik
(2005): 256 layers of equal area ``AREA``; layer i spans |x| < X[i]. The layer comes from the low 8 bits of a
word and the position from its high 53, which are independent (Doornik's correction).
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.philox import next_word
from countveil.kernels.uniform import uniform
from countveil.runtime.compiled import inlined

LAYERS = 256
#: Where the tail begins: the root at which 256 layers of equal area close at the top (tested).
TAIL = 3.6541528853610088


def _edges() -> np.ndarray:
    area = TAIL * math.exp(-0.5 * TAIL**2) + math.sqrt(math.pi / 2) * math.erfc(TAIL / math.sqrt(2))
    x = np.zeros(LAYERS + 1)
    x[0] = area / math.exp(-0.5 * TAIL**2)  # the base layer as wide as if it were a rectangle
    x[1] = TAIL
    for i in range(2, LAYERS):
        x[i] = math.sqrt(-2.0 * math.log(area / x[i - 1] + math.exp(-0.5 * x[i - 1] ** 2)))
    return x


X = _edges()
DENSITY = np.exp(-0.5 * X**2)
_LAYER_BITS = np.uint64(LAYERS - 1)
_11 = np.uint64(11)
_SCALE = 2.0**-52


@inlined
def normal(stream):
    """``(x, stream)``, x standard normal."""
    word, stream = next_word(stream)
    return normal_at(word, stream)


@inlined
def normal_at(word, stream):
    """``normal`` where the first word was drawn by the caller."""
    while True:
        layer = np.int64(word & _LAYER_BITS)
        x = (np.int64(word >> _11) * _SCALE - 1.0) * X[layer]
        if abs(x) < X[layer + 1]:
            return x, stream
        if layer == 0:
            # The base layer's area beyond TAIL is the tail itself: stay until it yields (Marsaglia 1964).
            while True:
                u, stream = uniform(stream)
                v, stream = uniform(stream)
                beyond = -math.log(u) / TAIL
                if -2.0 * math.log(v) > beyond * beyond:
                    return math.copysign(TAIL + beyond, x), stream
        # The wedge: a uniform height between the layer's floor and its ceiling.
        u, stream = uniform(stream)
        if DENSITY[layer] + u * (DENSITY[layer + 1] - DENSITY[layer]) < math.exp(-0.5 * x * x):
            return x, stream
        word, stream = next_word(stream)
