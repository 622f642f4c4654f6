"""Sums of terms that fall as Poisson probabilities do, in bounded time however large the counts are.

Up from y the terms are prod_{k=1..i} step/(y+k), down from it prod_{k=0..i-1} (y-k)/step, with ratios of at most 1
that fall. Where y is large and the step close to it, some 9*sqrt(y) of them count. The first are added up as they
are; where they have not become negligible then, neighbours hardly differ, and the rest g(a) + ... + g(b) is the
integral from a-1/2 to b+1/2 less (g'(b+1/2) - g'(a-1/2)) / 24 (Euler and Maclaurin), by Gauss and Legendre on
panels, with log g by its series in i/y: nothing cancels.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.runtime.compiled import compiled, inlined

_NEGLIGIBLE = 1e-18
# Sums from smaller counts end by themselves, within some tens of thousands of terms.
_LARGE = 2.0**24
_FIRST = 2048  # terms that are added up one by one; after them ratios are above 0.97
_PANELS = 12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@compiled
def sum_up(y, step, n):
    """Of i = 1..n, for step <= y + 1."""
    total, term, i = 0.0, 1.0, 1
    few = n if y < _LARGE else min(n, _FIRST)
    while i <= few and term > _NEGLIGIBLE * total:
        term *= step / (y + float(i))
        total += term
        i += 1
    if i > n or not term > _NEGLIGIBLE * total:
        return total
    return total + _rest(float(y), math.log1p((step - y) / y), float(i), float(n), 1.0)


@compiled
def sum_down(y, step, n):
    """Of i = 1..n, for step >= y and n <= y."""
    total, term, i = 0.0, 1.0, 1
    few = n if y < _LARGE else min(n, _FIRST)
    while i <= few and term > _NEGLIGIBLE * total:
        term *= (y - i + 1.0) / step
        total += term
        i += 1
    if i > n or not term > _NEGLIGIBLE * total:
        return total
    return total + _rest(float(y), -math.log1p((step - y) / y), float(i), float(n), -1.0)


@inlined
def _log_term(y, slope, i, sign):
    """(1+u) log(1+u) - u = u**2/2 - u**3/6 + u**4/12 - u**5/20 + ..., for u = i/y upwards and -i/y downwards."""
    u = sign * i / y
    curve = y * u * u * (0.5 - u * (1.0 / 6.0 - u * (1.0 / 12.0 - u / 20.0)))
    return i * slope - curve - 0.5 * math.log1p(u)


@compiled
def _rest(y, slope, first, last, sign):
    """The terms first..last."""
    begin = first - 0.5
    steepness = begin / y - slope  # of log g there, nearly
    # Beyond either of these g has fallen by a factor of 1e-18.
    end = min(last + 0.5, begin + 9.2 * math.sqrt(y), begin + (42.0 / steepness if steepness > 0.0 else y))
    half = 0.5 * (end - begin) / _PANELS
    total = 0.0
    for panel in range(_PANELS):
        middle = begin + (2 * panel + 1) * half
        for node in range(len(_NODES)):
            total += _WEIGHTS[node] * math.exp(_log_term(y, slope, middle + half * _NODES[node], sign))
    total *= half
    total += math.exp(_log_term(y, slope, begin, sign)) * _derivative(y, slope, begin, sign) / 24.0
    return total - math.exp(_log_term(y, slope, end, sign)) * _derivative(y, slope, end, sign) / 24.0


@inlined
def _derivative(y, slope, i, sign):
    """Of log g."""
    return slope - sign * math.log1p((sign * i + 0.5) / y)
