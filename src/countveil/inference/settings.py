"""The settings of a fit, checked before any work starts."""

from __future__ import annotations

import os
import secrets
import warnings
from dataclasses import dataclass

import numpy as np

from countveil.kernels.philox import MAX_CHAINS, MAX_SWEEPS
from countveil.models.count_model import whole_number

METHODS = ("exact", "bessel", "naive")
#: Hardware; each is a folder in ``engines``.
ENGINES = ("auto", "cpu")
ALGORITHMS = ("auto", "tokens", "integrated", "fibers", "cells")


@dataclass(frozen=True)
class Settings:
    """How long, how often, from which seed, by which method, and on what.

    ``sweeps`` includes burn-in; every chain keeps ``(sweeps - burn_in) // thin`` draws.
    """

    sweeps: int
    burn_in: int
    thin: int
    chains: int
    seed: int
    method: str
    engine: str
    threads: int
    algorithm: str = "auto"

    @property
    def kept(self) -> int:
        """Draws kept per chain."""
        return (self.sweeps - self.burn_in) // self.thin

    def keeps(self, sweep: int) -> bool:
        """Whether the draw of this sweep, counted from 1, is kept."""
        past = sweep - self.burn_in
        return past > 0 and past % self.thin == 0


def check_settings(
    *,
    sweeps: int,
    burn_in: int | None,
    thin: int,
    chains: int,
    seed: int | None,
    method: str,
    engine: str,
    threads: int | None,
    algorithm: str = "auto",
) -> Settings:
    """Settings with their defaults filled in, or an error that names the parameter."""
    sweeps = whole_number("sweeps", sweeps, 1, MAX_SWEEPS - 1)
    burn_in = sweeps // 2 if burn_in is None else whole_number("burn_in", burn_in, 0)
    if burn_in >= sweeps:
        raise ValueError(f"burn_in: expected fewer than the {sweeps} sweeps, got {burn_in}")
    thin = whole_number("thin", thin, 1)
    if thin > sweeps - burn_in:
        raise ValueError(f"thin: expected at most sweeps - burn_in = {sweeps - burn_in}, got {thin}")
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    if engine in ("tokens", "cells") and algorithm == "auto":
        warnings.warn(
            f"engine={engine!r} names an algorithm: write algorithm={engine!r}",
            DeprecationWarning,
            stacklevel=4,
        )
        engine, algorithm = "auto", engine
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm: expected one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    return Settings(
        sweeps=sweeps,
        burn_in=burn_in,
        thin=thin,
        chains=whole_number("chains", chains, 1, MAX_CHAINS),
        seed=secrets.randbits(63) if seed is None else whole_number("seed", seed, 0, 2**64 - 1),
        method=method,
        engine=engine,
        threads=_available_cores() if threads is None else whole_number("threads", threads, 1, 1024),
        algorithm=algorithm,
    )


def derived_seed(seed: int | np.integer, purpose: str) -> np.uint64:
    """Another 64-bit seed for ``purpose``, by numpy's SeedSequence.

    A stream is (seed, chain, sweep, step, row). Whoever opens streams beside a fit, with the seed of that fit,
    would otherwise meet the numbers by which its draws were made.

    >>> len({int(derived_seed(1, purpose)) for purpose in ("transform", "view words", "transform")})
    2
    """
    words = np.random.SeedSequence([int(seed), *purpose.encode()]).generate_state(1, np.uint64)
    return np.uint64(words[0])


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
