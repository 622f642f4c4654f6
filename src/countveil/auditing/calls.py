"""Does a call repeat the noise of another? The birthday test of the generator behind the noise.

A generator that starts from one of S values at every call gives the whole noise of a call again: among m calls
m*(m-1)/2 / S times on average, so at all with probability ``1 - exp(-m*(m-1)/(2*S))``. 200,000 calls find
S = 2**32 with probability 0.99. The same for every row of one matrix.

A value that is drawn once for each process is out of reach from inside one: the forked child that
``check_freshness`` looks at shows a state that is carried on, not how many there were to begin with.
"""

from __future__ import annotations

from math import log, log2

import numpy as np

from countveil.auditing.check import POWER, Check, Mechanism, check_pvalue, noise_on
from countveil.auditing.independence import pair_pvalue
from countveil.auditing.law import fit_pvalue
from countveil.auditing.trials import SMALL, mixed_counts
from countveil.privacy import Guarantee

# Two right calls agree with chance (sum p**2)**12 = 2**-76 here, any two of 200,000 below 1e-12.
OFTEN = Guarantee(1, precision=20)
CELLS = 12


def check_calls(mechanism: Mechanism, calls: int) -> list[Check]:
    """``calls`` small arrays of one to three axes, and a matrix with as many rows."""
    rng = np.random.default_rng()
    counts = mixed_counts((calls, CELLS), rng)
    noise = np.empty_like(counts)
    for i, row in enumerate(counts):
        noise[i] = noise_on(mechanism, OFTEN, row.reshape(SMALL[i % len(SMALL)])).reshape(-1)
    by_row = noise_on(mechanism, OFTEN, mixed_counts((calls, CELLS), rng))
    return [
        _repeats("calls", noise),
        _repeats("rows of a matrix", by_row),
        check_pvalue("law of small calls", _law(noise), "fits", "is another one"),
    ]


def bits_found(calls: int) -> float:
    """log2 of the starting values that so many calls find with POWER."""
    return log2(calls * (calls - 1) / 2 / -log(1 - POWER))


def _repeats(what: str, noise: np.ndarray) -> Check:
    again = len(noise) - len(set(map(bytes, np.ascontiguousarray(noise))))
    told = f"none of {len(noise):,} repeats another" if not again else f"{again:,} repeat another"
    name, finds = f"noise of whole {what}", f"a seed of {int(bits_found(len(noise)))} bits"
    return Check(name, not again, told, finds=f"{finds} for each of them")


def _law(noise: np.ndarray) -> float:
    """In every shape, in the first and in the last cell, and from one call to the next."""
    parts = [noise, noise[:, 0], noise[:, -1], *(noise[i :: len(SMALL)] for i in range(len(SMALL)))]
    even, odd = noise[: len(noise) // 2 * 2].reshape(-1, 2, CELLS).swapaxes(0, 1)
    found = [
        *(fit_pvalue(part, OFTEN.rho) for part in parts),
        pair_pvalue(even.ravel(), odd.ravel(), OFTEN.rho),
    ]
    return min(found) * len(found)
