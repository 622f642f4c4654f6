"""privatize: true counts in, a private release out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from countveil.counts.collect import collect
from countveil.counts.contents import Contents
from countveil.counts.labels import read_labels
from countveil.counts.noise_rate import check_guarantee
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.row_blocks import Block
from countveil.counts.true_counts import TrueCounts, blocks_of, read_true_counts
from countveil.privacy import Guarantee, add_noise


def privatize(
    counts: Any,
    epsilon: Any = None,
    precision: int = 1,
    *,
    unit: str = "document",
    guarantee: Guarantee | None = None,
    labels: Any = None,
    keep_negative: bool = False,
) -> PrivateCounts:
    """Release counts privately: exact two-sided geometric noise on every cell, zeros included.

    ``x = y + tau`` with ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)`` and ``alpha = exp(-rho)``,
    ``rho = epsilon/precision``. For any two observations at L1 distance d no output is more than
    ``exp(d*rho)`` times likelier under one than under the other. The noise is drawn from the operating
    system's cryptographic source.

    What must not depend on the private data: epsilon, precision, the set of rows and columns, and the labels,
    which are released as they are.

    Parameters
    ----------
    counts
        Whole numbers >= 0: a numpy array with any number of axes, nested lists, or a scipy.sparse matrix.
    epsilon, precision, unit
        The guarantee: observations (units) up to ``precision`` counts apart are hidden with ``epsilon``.
    guarantee
        A Guarantee, in place of epsilon, precision and unit.
    labels
        For each axis its labels or None; or a mapping {axis name: labels}. They are public.
    keep_negative
        Keep negative released values for ``to_dense``; for known alpha they say nothing about the counts.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.counts import privatize
    >>> release = privatize(np.zeros((2, 3), dtype=int), epsilon=50, labels=(["a", "b"], None))
    >>> release.shape, release.guarantee.precision
    ((2, 3), 1)
    """
    promise = _promise(epsilon, precision, unit, guarantee)
    source = read_true_counts(counts)
    axes, names = read_labels(labels, source.shape)
    rho = np.asarray(promise.rho, dtype=np.float64)
    found = collect(_noisy(source, promise), source.shape, rho, clamped=False, keep_negative=keep_negative)
    return PrivateCounts._from_contents(
        Contents(source.shape, axes, names, rho, *found, guarantee=promise, simulated=False)
    )


def _promise(epsilon: Any, precision: int, unit: str, guarantee: Guarantee | None) -> Guarantee:
    if (epsilon is None) == (guarantee is None):
        got = "none" if epsilon is None else "both"
        raise ValueError(f"epsilon, guarantee: expected exactly one of them, got {got}")
    if guarantee is None:
        return Guarantee(epsilon, precision, unit=unit)
    check_guarantee(guarantee)
    if (precision, unit) != (1, "document"):
        raise ValueError("guarantee: expected it alone, got precision or unit beside it")
    return guarantee


def _noisy(counts: TrueCounts, guarantee: Guarantee) -> Iterator[Block]:
    for start, _, rows in blocks_of(counts):
        yield Block(start, add_noise(rows, guarantee), None)
