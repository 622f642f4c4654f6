"""Does a call repeat the noise of another? The birthday test of the generator behind the noise.

A generator that starts from one of S values at every call gives the whole noise of a call again: among m calls
m*(m-1)/2 / S times on average, so at all with probability ``1 - exp(-m*(m-1)/(2*S))``. 200,000 calls find
S = 2**32 with probability 0.99. The same for every row of one matrix. Small calls and short rows might be drawn in
another way than large ones, so there are a tenth as many large calls, and as many long rows.

A value that is drawn once for each process is out of reach from inside one: the forked child that
``check_freshness`` looks at shows a state that is carried on, not how many there were to begin with.
"""

from __future__ import annotations

from math import inf, log, log2

import numpy as np

from countveil.auditing.check import POWER, Check, Mechanism, check_pvalue, noise_on
from countveil.auditing.independence import pair_pvalue
from countveil.auditing.law import fit_pvalue
from countveil.auditing.trials import SMALL, TYPES, any_half, kinds, mixed_counts, typed
from countveil.privacy import Guarantee

# Two right calls agree with chance (sum p**2)**12 = 2**-76 here, any two of 200,000 below 1e-12.
OFTEN = Guarantee(1, precision=20)
CELLS = 12
# A tenth as many calls have so many cells; and rows of a second matrix so many.
LARGE, LONG_ROW = ((1500,), (30, 50), (3, 20, 25)), 100


def check_calls(mechanism: Mechanism, calls: int, *, any_type: bool = False) -> list[Check]:
    """``calls`` small arrays of one to three axes, a tenth as many large ones, two matrices with as many rows.

    Calls are of every type in turn by chance, where that is served.
    """
    rng = np.random.default_rng()
    types = rng.choice(TYPES if any_type else ["int64"], calls)
    counts = mixed_counts((calls, CELLS), rng)
    small = np.empty((calls, 2, CELLS), dtype=np.int64)
    beginnings = np.empty((calls // 10, 2, 10 * CELLS), dtype=np.int64)  # of large calls: noise, and counts
    for i, row in enumerate(counts):
        call = typed(row.reshape(SMALL[i % len(SMALL)]), types[i])
        small[i] = _both_ways(noise_on(mechanism, OFTEN, call))
        counts[i] = call.reshape(-1)
    large = []
    for i in range(calls // 10):
        call = typed(mixed_counts(LARGE[i % len(LARGE)], rng), types[i])
        noise = noise_on(mechanism, OFTEN, call)
        large.append(_both_ways(noise))
        beginnings[i] = [one.ravel()[: 10 * CELLS] for one in (noise, call)]
    by_row, by_long_row = (
        noise_on(mechanism, OFTEN, mixed_counts((calls, width), rng))[:, None, :CELLS]
        for width in (CELLS, LONG_ROW)
    )
    return [
        _repeats(
            "calls",
            {"": small, "large": np.array(large)},
            {"": (len(SMALL), types), "large": (len(LARGE), types[: calls // 10])},
        ),
        _repeats("rows of a matrix", {"": by_row, "long": by_long_row}),
        check_pvalue(
            "law of small calls",
            _law(small[:, 0], counts, beginnings, any_half(rng)),
            "fits",
            "is another one",
        ),
    ]


def _both_ways(noise: np.ndarray) -> list[np.ndarray]:
    """Its beginning, which is enough, row after row and column after column: it may be laid out in either order."""
    return [noise.ravel(order)[:CELLS] for order in ("C", "F")]


def bits_found(*calls: int) -> float:
    """log2 of the starting values that so many calls find with POWER; of several numbers: each among its own."""
    pairs = sum(n * (n - 1) / 2 for n in calls)
    return log2(pairs / -log(1 - POWER)) if pairs else -inf


def _repeats(
    what: str, kinds: dict[str, np.ndarray], made: dict[str, tuple[int, np.ndarray]] | None = None
) -> Check:
    """Of calls or rows of each kind, (calls, orders, cells): the usual ones, and others.

    ``made``: in how many shapes, in turn, and of which types. A mechanism may draw each in a way of its own, as who
    goes row by row does, and then fewer pairs of calls can repeat each other.
    """
    told, finds, again = [], [], 0
    for kind, noise in kinds.items():
        some = max(
            len(noise) - len(set(map(bytes, np.ascontiguousarray(one)))) for one in noise.swapaxes(0, 1)
        )
        again += some
        number = f"{len(noise):,} {kind}".strip()
        told.append(f"{some:,} of {number} repeat another" if some else f"none of {number} repeats another")
        whose = f"{kind} ones" if kind else "each of them"
        found = f"a seed of {int(bits_found(len(noise)))} bits for {whose}"
        if made is not None:
            n_shapes, types = made[kind]
            alike = [np.sum(types[i::n_shapes] == one) for i in range(n_shapes) for one in set(types)]
            bits = bits_found(*alike)
            found += (
                f" ({int(bits) if bits >= 1 else 'none'} where other shapes or types have noise of their own)"
            )
        finds.append(found)
    return Check(f"noise of whole {what}", not again, ", ".join(told), finds=", ".join(finds))


def _law(noise: np.ndarray, counts: np.ndarray, large: np.ndarray, half: int) -> float:
    """In every shape, in the first and in the last cell, by what the count is, and from one call to the next."""
    parts = [noise, noise[:, 0], noise[:, -1], *(noise[i :: len(SMALL)] for i in range(len(SMALL)))]
    even, odd = noise[: len(noise) // 2 * 2].reshape(-1, 2, CELLS).swapaxes(0, 1)
    parts += [noise[kind] for kind in kinds(counts, half)]
    parts += [large[:, 0][kind] for kind in kinds(large[:, 1], half)]
    found = [
        *(fit_pvalue(part, OFTEN.rho) for part in parts),
        pair_pvalue(even.ravel(), odd.ravel(), OFTEN.rho),
    ]
    return min(found) * len(found)
