"""exp(-x) and the laws of the noise between two integers, from the series alone.

Shares nothing with the package, nor with mpmath or decimal: whole numbers and fractions, rounded outwards.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil


def exp_between(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2**bits * exp(-x) <= high.

    With m = ceil(x) and t = x/m <= 1 the series of exp(-t) alternates and its terms shrink, so two successive
    partial sums enclose it; exp(-x) is its m-th power.
    """
    m = max(1, ceil(x))
    t, inner = x / m, bits + 64
    term, total, n = Fraction(1), Fraction(1), 0
    while term * 2**inner >= 1:
        n += 1
        term *= t / n
        total += (-1) ** n * term
    ends = sorted([total, total + (-1) ** (n + 1) * term * t / (n + 1)])
    low, high = (ends[0] * 2**inner).__floor__(), ceil(ends[1] * 2**inner)
    one_low, one_high = low, high
    for _ in range(m - 1):
        low, high = low * one_low >> inner, -(-high * one_high >> inner)
    return low >> 64, -(-high >> 64)


def powers_between(x: Fraction, n: int, bits: int) -> list[tuple[int, int]]:
    """The same for exp(-x), exp(-2x), ..., exp(-n*x), in that order, from 0 on: first 2**bits itself."""
    low, high = exp_between(x, bits)
    found = [(1 << bits, 1 << bits)]
    for _ in range(n):
        last_low, last_high = found[-1]
        found.append((last_low * low >> bits, -(-last_high * high >> bits)))
    return found


def quotient(over: tuple[int, int], under: tuple[int, int], bits: int) -> tuple[int, int]:
    """Integers around 2**bits * over/under, both positive."""
    return (over[0] << bits) // under[1], -((-over[1] << bits) // under[0])


def floors_of(between: list[tuple[int, int]], bits: int, wanted: int) -> list[int]:
    """floor(2**wanted * P) of each, given 2**bits * P between two integers that must agree on it."""
    floors = [low >> bits - wanted for low, _ in between]
    assert floors == [high >> bits - wanted for _, high in between]
    return floors
