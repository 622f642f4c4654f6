"""The key of one sweep's randomness."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.philox import CHAIN_BITS, SWEEP_BITS


class SweepKey(NamedTuple):
    """Seed, chain and sweep: the same key gives the same draws, however the work is split."""

    seed: np.uint64
    chain: int
    sweep: int

    def generator(self) -> np.random.Generator:
        """A numpy generator for a user's own model, keyed by seed, chain and sweep.

        numpy's Philox is another one (4x64), and its key is twice as wide: it never meets the streams of
        the kernels.
        """
        low = (self.chain << SWEEP_BITS) | self.sweep
        key = np.array([self.seed, low], dtype=np.uint64)  # a list would go through float64
        return np.random.Generator(np.random.Philox(key=key))


MAX_CHAINS = 2**CHAIN_BITS
MAX_SWEEPS = 2**SWEEP_BITS
