"""The Bessel distribution of Yuan and Kalbfleisch (2000)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.distributions.elementwise import bessel_log_ratios, draw_bessels, seed_from
from countveil.distributions.log_concave import LogConcaveLaw, Window, window
from countveil.kernels.bessel import bessel_mode


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
        return bessel_log_ratios(k, bessel_mode(int(v), a), int(v), 2 * math.log(a / 2))

    def _window(self, v: float, a: float) -> Window:
        return window(lambda k: self._log_ratio(k, v, a), bessel_mode(int(v), a))

    def _rvs(self, v: Any, a: Any, size: Any = None, random_state: Any = None) -> np.ndarray:
        return draw_bessels(seed_from(random_state), np.broadcast_to(v, size), np.broadcast_to(a, size))


bessel = Bessel(name="bessel", shapes="v, a")
