"""Upper bounds of all rates, by one product of matrices in half precision.

theta and phi are rounded UP to half precision (IEEE binary16, 11 significant bits). Tensor cores multiply them, add
up in single precision and round the result to the nearest half: a relative error of at most 2**-11 and K * 2**-23,
or an absolute one of 2**-25 below the smallest normal half, 2**-14. So

    mu <= max(h, 2**-15) * (1 + 2**-8)     for every rate mu and the half h that stands for it, K < 2**13.

Powers of 2 are traded between theta_.k and phi_k. first, so that their largest entries are alike: halves reach
from 6e-8 to 65504 only. What is beyond becomes infinite, and leaves its cells open; what is below becomes
2**-24.

Factors rounded to single precision, likewise balanced, are read in half the time of doubles where cells are drawn
one by one. Their products, added up in double precision, are the rates up to a relative error of 2**-22, far below
what draws can tell, and than what the bound leaves. Products below 1e-45 are lost: see where they are used.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import cuda, kernel
from countveil.runtime.compiled import inlined

#: Bits of an infinite half.
INFINITE = 0x7C00
#: By what a bound is larger than what it is made of.
SLACK = 1.0 + 2.0**-8
#: The number of components is rounded up to a multiple of this, the number of columns to a multiple of the other.
COMPONENTS, COLUMNS = 16, 128
#: Components from which the error of a product might exceed what the bound allows for.
MOST_COMPONENTS = 2**13
#: Singles are at most this: products of two stay finite.
LARGEST_SINGLE = 1e18

_SMALLEST_NORMAL = 2.0**-14
_UNIT = 2.0**24
_13 = np.uint32(13)


@inlined
def rounded_up(x):
    """The bits of the smallest half that is not below x >= 0."""
    if x < _SMALLEST_NORMAL:
        return np.uint32(math.ceil(x * _UNIT))  # at 2**10 these are the bits of the smallest normal half
    if x > 65504.0:
        return np.uint32(INFINITE)
    single = np.float32(x)
    bits = np.float32(single).view(np.uint32)
    if np.float64(single) < x:
        bits = np.uint32(bits + np.uint32(1))
    # Exponents of halves are less by 112; a carry from the fraction goes where it should.
    return np.uint32((np.uint32(bits + np.uint32(0x1FFF)) >> _13) - np.uint32(112 << 10))


@inlined
def bound_of(bits):
    """A float32 that is not below the half of these bits, nor below 2**-15: the half itself from 2**-14 up.

    A subnormal half m * 2**-24 becomes 2**-15 + m * 2**-25, which is larger; an infinite one 65536.
    """
    return np.uint32((np.uint32(bits) << _13) + np.uint32(112 << 23)).view(np.float32)


@inlined
def balance(largest_of_rows, largest_of_columns):
    """The power of 2 by which a component of theta is multiplied, and that of phi divided."""
    if largest_of_rows <= 0.0 or largest_of_columns <= 0.0:
        return 1.0
    apart = (math.frexp(largest_of_columns)[1] - math.frexp(largest_of_rows)[1]) // 2
    return math.ldexp(1.0, min(max(apart, -1000), 1000))


@inlined
def place(t, n):
    """t // n and t % n."""
    i = t // n
    return i, t - i * n


@cuda.jit(device=True)
def round_entry(i, k, factor, power, halves, singles):
    """One entry of a factor, balanced: the half above it, and the nearest single; beyond the factor they are 0."""
    x = 0.0
    if i < factor.shape[0] and k < factor.shape[1]:
        x = factor[i, k] * power
        if singles.shape[0] > 0:
            singles[i, k] = min(x, LARGEST_SINGLE)
    if i < halves.shape[0]:
        halves[i, k] = rounded_up(x)


@kernel
def round_both(
    n_rows,
    n_components,
    theta,
    phi,
    largest_of_rows,
    largest_of_columns,
    half_rows,
    half_columns,
    single_rows,
    single_columns,
    numbers,
):
    """Both factors in half and single precision, balanced, either of which may have no rows; no cells listed yet.

    Halves may have more rows and components than factors; ``n_rows`` and ``n_components`` are theirs.
    """
    t = cuda.grid(1)
    if t < len(numbers):
        numbers[t] = 0
    i, k = place(t, n_components)
    power = 1.0
    if k < theta.shape[1]:
        power = balance(largest_of_rows[0, k], largest_of_columns[0, k])
    if i < n_rows:
        round_entry(i, k, theta, power, half_rows, single_rows)
    else:
        round_entry(i - n_rows, k, phi, 1.0 / power, half_columns, single_columns)
