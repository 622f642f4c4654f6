"""Two-sided geometric noise, exact for every rate in the supported range.

Tables hold a few hundred outcomes. What lies beyond is reached by two properties of a geometric variable g
with ratio a = exp(-rate), P(g) = (1-a) * a**g:

* no memory: given g >= m, g - m has the law of g. So "at least m" may be an outcome of a table, to which a
  fresh g is then added. Tables are wide enough that this happens less than once in 10**8 draws.
* independent digits: a**(BASE*q + r) = (a**BASE)**q * a**r, so in g = BASE*q + r the lowest digit r is
  a geometric cut to 0 .. BASE-1, independent of q, and q is geometric with BASE times the rate.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import ceil

import numpy as np
import numpy.typing as npt

from countveil.privacy import law
from countveil.privacy.law import BASE
from countveil.privacy.random_source import Source, check_source, dead_source
from countveil.privacy.thresholds import Table

_REACH = 20  # a table ends where a**m <= exp(-20) = 2e-9
# Tables that one draw may go through. Fair bits ask for more with chance exp(-20 * 50,000) = exp(-10**6), whatever
# the counts, and other bits not for ever. They reach 2 * 10**6 / rate <= 2 * 10**18, so that nothing wraps.
_ROUNDS = 50_000


def two_sided_geometric(rate: Fraction, size: int, source: Source) -> npt.NDArray[np.int64]:
    """``size`` independent draws of P(tau) = (1-a)/(1+a) * a**abs(tau), a = exp(-rate)."""
    if not _fits(rate):
        # The difference of two independent geometrics: sum_g (1-a)**2 * a**(2*g+abs(tau)) is that law.
        return _one_sided(rate, size, source) - _one_sided(rate, size, source)
    width, table = _two_sided_table(rate)
    noise = table.draw(size, source).astype(np.int64)
    ends = np.flatnonzero(np.abs(noise) == width)  # the outcomes -width and width mean "or beyond"
    if ends.size:
        noise[ends] += np.sign(noise[ends]) * _one_sided(rate, ends.size, source)
    return noise


def _one_sided(rate: Fraction, size: int, source: Source) -> npt.NDArray[np.int64]:
    """``size`` independent draws of P(g) = (1-a) * a**g, digit by digit from the lowest."""
    total = np.zeros(size, dtype=np.int64)
    scale = 1
    while not _fits(scale * rate):
        total += scale * _digit_table(scale * rate).draw(size, source).astype(np.int64)
        scale *= BASE
    width, table = _one_sided_table(scale * rate)  # the rest is one geometric, not cut
    drawn = table.draw(size, source).astype(np.int64)
    total += scale * drawn
    on = np.flatnonzero(drawn == width)  # "width or beyond": add a fresh one, and again if need be
    for _ in range(_ROUNDS):
        if not on.size:
            return total
        check_source(source)  # this rare, a source that is stuck is likelier
        drawn = table.draw(on.size, source).astype(np.int64)
        total[on] += scale * drawn
        on = on[drawn == width]
    raise dead_source()


def _fits(rate: Fraction) -> bool:
    """Does a table of BASE outcomes reach far enough?"""
    return rate * BASE >= _REACH


# Tables depend on the rate alone, which is public, so they may outlive a call.
@lru_cache(maxsize=32)
def _two_sided_table(rate: Fraction) -> tuple[int, Table]:
    width = ceil(_REACH / rate)
    return width, Table(partial(law.two_sided, rate), -width, width)


@lru_cache(maxsize=32)
def _one_sided_table(rate: Fraction) -> tuple[int, Table]:
    width = ceil(_REACH / rate)
    return width, Table(partial(law.geometric, rate), 0, width)


@lru_cache(maxsize=128)
def _digit_table(rate: Fraction) -> Table:
    return Table(partial(law.digit, rate), 0, BASE - 1)
