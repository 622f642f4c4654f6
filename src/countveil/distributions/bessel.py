"""The Bessel distribution of Yuan and Kalbfleisch (2000)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.distributions.integer_law import LogConcaveLaw, Window, broadcast_flat, seed_from, window
from countveil.kernels.given_release.bessel import bessel as draw_bessel
from countveil.kernels.given_release.bessel import bessel_log_ratio, bessel_mode
from countveil.kernels.philox import open_stream
from countveil.runtime.compiled import compiled


class Bessel(LogConcaveLaw):
    r"""P(m) = (a/2)**(2m+v) / (m! (m+v)! I_v(a)), m = 0, 1, 2, ..., for an integer v >= 0 and a >= 0.

    If y1 ~ Poisson(p) and y2 ~ Poisson(q), then min(y1, y2) given |y1 - y2| = v is Bessel(v, 2*sqrt(p*q)).
    a = 0 puts all mass on 0. The normaliser is summed from the mode; I_v(a) itself overflows.

    >>> from countveil.distributions import bessel
    >>> round(float(bessel.pmf(0, v=2, a=3.0)), 6)
    0.501066
    """

    def _argcheck(self, v: Any, a: Any) -> Any:
        return (v >= 0) & (np.floor(v) == v) & (a >= 0) & np.isfinite(a)

    def _log_ratio(self, k: np.ndarray, v: float, a: float) -> np.ndarray:
        if a == 0:
            return np.where(k == 0, 0.0, -np.inf)
        return _bessel_log_ratios(k, bessel_mode(int(v), a), int(v), 2 * math.log(a / 2))

    def _window(self, v: float, a: float) -> Window:
        return window(lambda k: self._log_ratio(k, v, a), bessel_mode(int(v), a))

    def _rvs(self, v: Any, a: Any, size: Any = None, random_state: Any = None) -> np.ndarray:
        return _draw_bessels(seed_from(random_state), np.broadcast_to(v, size), np.broadcast_to(a, size))


@compiled
def _bessel_log_ratios(m, mode, v, log_quarter):  # type: ignore[no-untyped-def]
    """log P(m)/P(mode) of the Bessel law for an integer array ``m``."""
    out = np.empty(len(m))
    for i in range(len(m)):
        out[i] = bessel_log_ratio(m[i], mode, v, log_quarter)
    return out


@compiled
def _fill_bessels(seed, v, a, out):  # type: ignore[no-untyped-def]
    stream = open_stream(seed, 0, 0, 0, 0)
    for i in range(len(out)):
        out[i], stream = draw_bessel(stream, np.int64(v[i]), a[i])


def _draw_bessels(seed: int, v: Any, a: Any) -> np.ndarray:
    """The kernel ``bessel`` for every element."""
    flat, out = broadcast_flat(v, a)
    _fill_bessels(np.uint64(seed), *flat, out.reshape(-1))
    return out.astype(np.int64)


bessel = Bessel(name="bessel", shapes="v, a")
