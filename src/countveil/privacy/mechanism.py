"""The mechanism: counts in, privatized counts out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from countveil.privacy.geometric import two_sided_geometric
from countveil.privacy.guarantee import Guarantee
from countveil.privacy.random_source import Source, check_source, system_bits

_CHUNK = 2**15  # cells at a time: what is in work stays in the processor's cache


def add_noise(counts: npt.ArrayLike, guarantee: Guarantee) -> npt.NDArray[np.int64]:
    """Privatized counts: to every cell, zeros included, its own exact two-sided geometric noise.

    Domain: integer or boolean arrays of any shape and integer type; lists of whole numbers.
    Metric: the L1 distance sum_i abs(y_i - y'_i) between two observations (documents, cells or persons).
    Guarantee: for observations at distance d no set of releases is more than ``exp(guarantee.loss(d))`` times
    likelier under one than under the other; so ``exp(epsilon)`` times up to ``d = precision``.
    Noise: ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``, ``alpha = exp(-epsilon/precision)``, whole
    numbers, independent, from the operating system's cryptographic generator, and without rounding: no
    floating-point number takes part.

    Proof. Cells are independent, so a release x has P(x|y) / P(x|y') = prod_i alpha**(abs(x_i-y_i) -
    abs(x_i-y'_i)) <= prod_i alpha**-abs(y_i-y'_i) = exp(rho*d) = exp(loss(d)) by the triangle inequality,
    rho = epsilon/precision. Sum over the releases of a set.

    The result is int64 and never wraps: where a noisy count is beyond int64 everything is refused. That
    depends on the noisy counts alone, so it is covered by the guarantee; trying again is a second release.
    The shape and type of ``counts`` are taken to be public; ``counts`` is not changed. How long it takes
    depends on the noise: do not let those who see the release time it.

    >>> from countveil.privacy import Guarantee, add_noise
    >>> noisy = add_noise(np.zeros((2, 3), dtype=np.uint8), Guarantee(epsilon=1, precision=2))
    >>> noisy.shape, noisy.dtype
    ((2, 3), dtype('int64'))
    """
    if type(guarantee) is not Guarantee:  # another class might state another rate than it promises
        raise TypeError(f"guarantee: expected a Guarantee, got {type(guarantee).__name__}")
    return _release(counts, guarantee.rate, system_bits)


def _release(counts: npt.ArrayLike, rate: Fraction, source: Source) -> npt.NDArray[np.int64]:
    if isinstance(counts, (int, list, tuple)):
        _check_list(counts)
        return _release_integers(np.array(counts, dtype=object), rate, source)
    if isinstance(counts, np.ma.MaskedArray):
        raise TypeError("counts: expected an array without a mask, got a masked array")
    true = np.asarray(counts)
    if true.dtype.kind not in "iub":
        # The kind only: even a type can tell something of the values, as '<U7' does.
        raise TypeError(f"counts: expected whole numbers, got an array of {true.dtype.type.__name__}")
    unsigned = true.dtype.kind == "u" and true.dtype.itemsize == 8
    released = np.empty(true.shape, dtype=np.int64)
    into, flat, refused = released.reshape(-1), true.reshape(-1), False
    for start in range(0, flat.size, _CHUNK):
        y = flat[start : start + _CHUNK].astype(np.int64)  # uint64 from 2**63 up turns into y - 2**64
        noise = _noise(rate, y.size, source)
        x = into[start : start + _CHUNK]
        np.add(y, noise, out=x)
        # The sign bit says that a sum wrapped: x has neither the sign of y nor that of the noise. For
        # y - 2**64 a wrap is what brings x back into range, and its absence is what takes it out.
        wrapped = (y ^ x) & (noise ^ x)
        if unsigned:
            wrapped ^= y
        refused |= bool((wrapped < 0).any())  # go on to the end: no hint at where it was
    if refused:
        raise _beyond_int64()
    return released


def _noise(rate: Fraction, size: int, source: Source) -> npt.NDArray[np.int64]:
    """The noise of ``size`` cells, drawn between two health tests of the source."""
    before = check_source(source)
    noise = two_sided_geometric(rate, size, source)
    check_source(source, before)
    return noise


def _check_list(counts: object) -> None:
    """Refuse what a list would bring into order or lose by itself: masks, and labels of tables."""
    if isinstance(counts, (list, tuple)):
        for part in counts:
            _check_list(part)
    elif not (isinstance(counts, (int, np.generic)) or type(counts) is np.ndarray):
        raise TypeError("counts: expected whole numbers, got a list with something else in it")


def _release_integers(true: npt.NDArray[np.object_], rate: Fraction, source: Source) -> npt.NDArray[np.int64]:
    """Python integers have no largest value, so that even here refusal depends on the noisy counts alone."""
    if not all(isinstance(y, (int, np.integer, np.bool_)) for y in true.flat):
        raise TypeError("counts: expected whole numbers, got a list with something else in it")
    noise = _noise(rate, true.size, source)
    exact = [int(y) + int(tau) for y, tau in zip(true.flat, noise, strict=True)]
    if not all(-(2**63) <= x < 2**63 for x in exact):
        raise _beyond_int64()
    return np.array(exact, dtype=np.int64).reshape(true.shape)


def _beyond_int64() -> OverflowError:
    return OverflowError("counts: expected noisy counts within int64, got some beyond; nothing was released")
