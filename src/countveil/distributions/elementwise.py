"""Compiled kernels over numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.kernels.bessel import bessel, bessel_log_ratio
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import count_log_ratio, draw_count
from countveil.kernels.log_marginal import log_counts_beyond, log_counts_up_to, log_marginal
from countveil.kernels.philox import open_stream

# Each loop fills `out` from flat arrays of one length; `_broadcast` prepares them.


def _broadcast(*arrays: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Flat float64 copies of the broadcast arrays, and an output of the broadcast shape."""
    wide = np.broadcast_arrays(*arrays)
    return [np.ascontiguousarray(a, dtype=np.float64).ravel() for a in wide], np.empty(wide[0].shape)


@compiled
def _fill_log_marginal(x, mu, rho, out):
    for i in range(len(out)):
        out[i] = log_marginal(np.int64(x[i]), mu[i], rho[i])


def log_marginals(x: Any, mu: Any, rho: Any) -> np.ndarray:
    """``log_marginal`` of every cell."""
    flat, out = _broadcast(x, mu, rho)
    _fill_log_marginal(*flat, out.reshape(-1))
    return out


@compiled
def _fill_parts(t, mu, rho, up_to, beyond):
    for i in range(len(t)):
        up_to[i] = log_counts_up_to(np.int64(t[i]), mu[i], rho[i])
        beyond[i] = log_counts_beyond(np.int64(t[i]), mu[i], rho[i])


def log_marginal_parts(t: Any, mu: Any, rho: Any) -> tuple[np.ndarray, np.ndarray]:
    """``log_counts_up_to`` and ``log_counts_beyond`` of every cell."""
    flat, up_to = _broadcast(t, mu, rho)
    beyond = np.empty_like(up_to)
    _fill_parts(*flat, up_to.reshape(-1), beyond.reshape(-1))
    return up_to, beyond


@compiled
def count_log_ratios(y, mode, t, log_mu, rho):
    """log P(y)/P(mode) of the count conditional for an integer array ``y``."""
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = count_log_ratio(y[i], mode, t, log_mu, rho)
    return out


@compiled
def bessel_log_ratios(m, mode, v, log_quarter):
    """log P(m)/P(mode) of the Bessel law for an integer array ``m``."""
    out = np.empty(len(m))
    for i in range(len(m)):
        out[i] = bessel_log_ratio(m[i], mode, v, log_quarter)
    return out


def seed_from(random_state: Any) -> int:
    """A seed for a kernel's stream out of the generator that scipy passes to ``rvs``."""
    return int.from_bytes(random_state.bytes(8), "little")


@compiled
def _fill_counts(seed, x, mu, rho, out):
    stream = open_stream(seed, 0, 0, 0, 0)
    for i in range(len(out)):
        out[i], stream = draw_count(stream, np.int64(x[i]), mu[i], rho[i])


def draw_counts(seed: int, x: Any, mu: Any, rho: Any) -> np.ndarray:
    """``draw_count`` for every cell."""
    flat, out = _broadcast(x, mu, rho)
    _fill_counts(np.uint64(seed), *flat, out.reshape(-1))
    return out.astype(np.int64)


@compiled
def _fill_bessels(seed, v, a, out):
    stream = open_stream(seed, 0, 0, 0, 0)
    for i in range(len(out)):
        out[i], stream = bessel(stream, np.int64(v[i]), a[i])


def draw_bessels(seed: int, v: Any, a: Any) -> np.ndarray:
    """``bessel`` for every element."""
    flat, out = _broadcast(v, a)
    _fill_bessels(np.uint64(seed), *flat, out.reshape(-1))
    return out.astype(np.int64)
