"""The settings of a fit, checked before any work starts."""

from __future__ import annotations

import json
import math
import os
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import numpy as np

from countveil.kernels.philox import MAX_CHAINS, MAX_SWEEPS
from countveil.models.count_model import whole_number

METHODS = ("exact", "bessel", "naive")
#: Hardware; each is a folder in ``engines``.
ENGINES = ("auto", "cpu", "cuda", "mpi", "ray")
#: What is kept of the draws, see ``fit``.
KEEPS = ("all", "columns", "summaries")
ALGORITHMS = ("auto", "tokens", "integrated", "fibers", "cells", "cuda")
STARTS = ("auto", "collapsed", "plain")
#: Why chains end at their planned end, rather than by an "interrupt" or when their "time" is up.
COMPLETE = ("sweeps", "precision")
#: What a run says beside its settings: how long it took, and why it ended. No draw depends on them.
OUTCOMES = ("seconds", "interrupted", "stopped")

#: The first look at the precision of a run comes after so many draws of every chain, each next one a tenth later.
_FIRST_LOOK = 20


@dataclass(frozen=True)
class Ray:
    """The Ray engine, ``fit(..., engine=Ray(...))``: rows are spread over actors of a cluster (docs/cluster.md).

    Parameters
    ----------
    address
        Of the cluster: as ``ray.init`` has it. None: the one that this process has joined, or a new one here.
    shards
        Number of actors. None: one for every machine of the cluster. Each has ``threads`` cores.

    Examples
    --------
    >>> Ray(shards=4)
    Ray(address=None, shards=4)
    """

    address: str | None = None
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and not isinstance(self.address, str):
            raise TypeError(
                f"address: expected text such as 'auto' or 'ray://head:10001', got {self.address!r}"
            )
        if self.shards is not None:
            whole_number("shards", self.shards, 1)


@dataclass(frozen=True)
class Settings:
    """How long, how often, from which seed, by which method, and on what.

    ``sweeps`` includes burn-in; every chain keeps ``(sweeps - burn_in) // thin`` draws. Where a precision is asked
    for (``until_ess``, ``until_r_hat``) they may end before.
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
    start: str = "plain"  # what runs had before there was a choice
    until_ess: float | None = None
    until_r_hat: float | None = None
    keep: str = "all"
    address: str | None = None  # of the Ray engine, see ``Ray``
    shards: int | None = None

    @property
    def kept(self) -> int:
        """Draws kept per chain."""
        return (self.sweeps - self.burn_in) // self.thin

    @property
    def asks_precision(self) -> bool:
        """Whether the chains may end once they are precise enough."""
        return self.until_ess is not None or self.until_r_hat is not None

    def keeps(self, sweep: int) -> bool:
        """Whether the draw of this sweep, counted from 1, is kept."""
        past = sweep - self.burn_in
        return past > 0 and past % self.thin == 0

    def looks(self, sweep: int) -> bool:
        """Whether the precision is looked at after this sweep: it depends on the settings alone, never on time.

        >>> settings = check_settings(sweeps=100, burn_in=10, thin=2, chains=2, seed=1, method="exact",
        ...                           engine="auto", threads=1, until={"ess": 50})
        >>> [(sweep - 10) // 2 for sweep in range(101) if settings.looks(sweep)]
        [20, 22, 25, 28, 31, 35, 39, 43, 45]
        """
        if not self.asks_precision or not self.keeps(sweep):
            return False
        draws, look = (sweep - self.burn_in) // self.thin, _FIRST_LOOK
        while look < draws:
            look = math.ceil(1.1 * look)
        return draws in (look, self.kept)


def check_settings(
    *,
    sweeps: int,
    burn_in: int | None,
    thin: int,
    chains: int,
    seed: int | None,
    method: str,
    engine: str | Ray,
    threads: int | None,
    algorithm: str = "auto",
    start: str = "auto",
    until: Mapping[str, float] | None = None,
    keep: str = "all",
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
    cluster = engine if isinstance(engine, Ray) else Ray()
    engine = "ray" if isinstance(engine, Ray) else engine
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
    if start not in STARTS:
        raise ValueError(f"start: expected one of {', '.join(STARTS)}, got {start!r}")
    chains = whole_number("chains", chains, 1, MAX_CHAINS)
    if keep not in KEEPS:
        raise ValueError(f"keep: expected one of {', '.join(KEEPS)}, got {keep!r}")
    return Settings(
        sweeps=sweeps,
        burn_in=burn_in,
        thin=thin,
        chains=chains,
        seed=secrets.randbits(63) if seed is None else whole_number("seed", seed, 0, 2**64 - 1),
        method=method,
        engine=engine,
        threads=available_cores() if threads is None else whole_number("threads", threads, 1, 1024),
        algorithm=algorithm,
        start=start,
        **_check_until(until, chains),
        keep=keep,
        address=cluster.address,
        shards=cluster.shards,
    )


def described_settings(settings: Settings, seconds: float, stopped: str) -> str:
    """What a run says of itself, in JSON."""
    # Most runs are not told to end at a precision, and do not speak of it.
    own = {name: value for name, value in asdict(settings).items() if value is not None}
    outcome = {"seconds": seconds, "interrupted": stopped not in COMPLETE, "stopped": stopped}
    return json.dumps(own | outcome)


def stored_settings(stored: Mapping[str, Any]) -> Settings:
    """Those of a run, from what it says of itself."""
    return Settings(**{name: value for name, value in stored.items() if name not in OUTCOMES})


def check_seconds(name: str, seconds: Any) -> float:
    """A length of time, or an error that names the parameter."""
    if not isinstance(seconds, Real) or isinstance(seconds, bool) or not 0 <= float(seconds) < math.inf:
        raise ValueError(f"{name}: expected a number >= 0, got {seconds!r}")
    return float(seconds)


def _check_until(until: Any, chains: int) -> dict[str, float]:
    """The precision at which a run may end."""
    if until is None:
        return {}
    wanted = "until: expected a dict with 'ess', 'r_hat' or both, such as {'ess': 400, 'r_hat': 1.01}"
    if not isinstance(until, Mapping) or not until or not until.keys() <= {"ess", "r_hat"}:
        raise ValueError(f"{wanted}, got {until!r}")
    for name, above in (("ess", 0.0), ("r_hat", 1.0)):
        value = until.get(name, math.inf)
        if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > above:
            raise ValueError(f"until: expected a number above {above:g} for {name!r}, got {value!r}")
    if "r_hat" in until and chains == 1:
        raise ValueError("until: expected chains=2 or more for 'r_hat', which compares chains, got 1")
    return {f"until_{name}": float(value) for name, value in until.items()}


def derived_seed(seed: int | np.integer, purpose: str) -> np.uint64:
    """Another 64-bit seed for ``purpose``, by numpy's SeedSequence.

    A stream is (seed, chain, sweep, step, row). Whoever opens streams beside a fit, with the seed of that fit,
    would otherwise meet the numbers by which its draws were made.

    >>> len({int(derived_seed(1, purpose)) for purpose in ("transform", "view words", "transform")})
    2
    """
    words = np.random.SeedSequence([int(seed), *purpose.encode()]).generate_state(1, np.uint64)
    return np.uint64(words[0])


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
