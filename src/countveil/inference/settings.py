"""The settings of a fit, checked before any work starts."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

from countveil.models.parameters import whole_number
from countveil.models.sweep_key import MAX_CHAINS, MAX_SWEEPS

METHODS = ("exact", "bessel", "naive")
ENGINES = ("auto", "tokens", "cells")


@dataclass(frozen=True)
class Settings:
    """How long, how often, from which seed, and by which method.

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

    @property
    def kept(self) -> int:
        """Draws kept per chain."""
        return (self.sweeps - self.burn_in) // self.thin


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
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
    return Settings(
        sweeps=sweeps,
        burn_in=burn_in,
        thin=thin,
        chains=whole_number("chains", chains, 1, MAX_CHAINS),
        seed=secrets.randbits(63) if seed is None else whole_number("seed", seed, 0, 2**64 - 1),
        method=method,
        engine=engine,
        threads=_available_cores() if threads is None else whole_number("threads", threads, 1, 1024),
    )


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
