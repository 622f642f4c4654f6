"""A seed of its own for every further use of one seed."""

from __future__ import annotations

import numpy as np


def derived_seed(seed: int | np.integer, purpose: str) -> np.uint64:
    """Another 64-bit seed for ``purpose``, by numpy's SeedSequence.

    A stream is (seed, chain, sweep, step, row). Whoever opens streams beside a fit, with the seed of that fit,
    would otherwise meet the numbers by which its draws were made.

    >>> len({int(derived_seed(1, purpose)) for purpose in ("transform", "noise", "transform")})
    2
    """
    words = np.random.SeedSequence([int(seed), *purpose.encode()]).generate_state(1, np.uint64)
    return np.uint64(words[0])


def view_seed(seed: int | np.integer, view: str) -> np.uint64:
    """The seed of one view's streams, where several arrays are fitted together."""
    return derived_seed(seed, f"view {view}")
