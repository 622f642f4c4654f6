"""The law of the noise in plain floats and in mpmath, and sources of bits that are not the system's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import mpmath
import numpy as np

from goodness_of_fit import SEED


def cdf(rho: float) -> Callable[[np.ndarray], np.ndarray]:
    """P(tau <= k) for P(tau) = (1-a)/(1+a) * a**abs(tau), a = exp(-rho)."""

    def at(k: np.ndarray) -> np.ndarray:
        tail = np.exp(-rho * np.where(k < 0, -k, k + 1.0)) / (1 + np.exp(-rho))
        return np.where(k < 0, tail, 1 - tail)

    return at


def geometric_cdf(rho: float) -> Callable[[np.ndarray], np.ndarray]:
    """P(g <= k) for P(g) = (1-a) * a**g on g = 0, 1, ..."""
    return lambda k: np.where(k < 0, 0.0, -np.expm1(-rho * (k + 1.0)))


def threshold(rate: mpmath.mpf, k: int) -> mpmath.mpf:
    """P(tau <= k) in mpmath, at its current precision."""
    a = mpmath.exp(-rate)
    return a**-k / (1 + a) if k < 0 else 1 - a ** (k + 1) / (1 + a)


def repeatable_bits(stream: int = 0) -> Callable[[int], bytes]:
    """Fair bits that are the same in every run: for testing what is made of the bits."""
    return np.random.default_rng([SEED, stream]).bytes


def scripted_bits(answers: Iterable[bytes]) -> Callable[[int], bytes]:
    """Exactly these answers, in this order; a request of another length is an error."""
    rest = iter(answers)

    def source(count: int) -> bytes:
        answer = next(rest)
        assert len(answer) == count
        return answer

    return source
