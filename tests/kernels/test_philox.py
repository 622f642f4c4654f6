"""The random stream: known answers, packing, widths, independence of neighbouring streams."""

import numba
import numpy as np
import pytest
from scipy import stats

from countveil.kernels.philox import check_stream, next_word, open_stream, philox_block
from countveil.kernels.uniform import uniform
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

# The known answers published with Random123 for philox4x32-10: key, counter, result.
KNOWN_ANSWERS = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@numba.njit
def first_words(seed, chain, sweep, step, row, n):
    out = np.empty(n, dtype=np.uint64)
    stream = open_stream(seed, chain, sweep, step, row)
    for i in range(n):
        out[i], stream = next_word(stream)
    return out


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN_ANSWERS)
def test_known_answers(key, counter, expected):
    assert philox_block(*map(np.uint64, key + counter)) == expected


def test_the_counter_packs_the_fields_as_documented():
    seed, chain, sweep, step, row = 0x0123456789ABCDEF, 0xABC, 0xDEADBEEF, 0x5A, 0xFEDCBA98765
    words = first_words(np.uint64(seed), chain, sweep, step, row, 4)
    key = (seed & 0xFFFFFFFF, seed >> 32)
    for block in range(2):
        counter = (block, row & 0xFFFFFFFF, (row >> 32) | step << 12 | chain << 20, sweep)
        a, b, c, d = (int(w) for w in philox_block(*map(np.uint64, key + counter)))
        assert [int(w) for w in words[2 * block : 2 * block + 2]] == [a << 32 | b, c << 32 | d]


@pytest.mark.parametrize(
    ("field", "bits"), [("seed", 64), ("chain", 12), ("sweep", 32), ("step", 8), ("row", 44)]
)
def test_a_field_beyond_its_width_is_refused(field, bits):
    fields = {"seed": 0, field: 2**bits - 1}
    check_stream(**fields)
    for value in (2**bits, -1):
        with pytest.raises(
            ValueError, match=rf"{field}: expected an integer from 0 to 2\*\*{bits} - 1, got {value}"
        ):
            check_stream(**{**fields, field: value})


def test_fields_change_the_stream():
    base = {"seed": 1, "chain": 1, "sweep": 1, "step": 1, "row": 1}
    seen = {tuple(first_words(*base.values(), 2))}
    for field in base:
        seen.add(tuple(first_words(*{**base, field: 2}.values(), 2)))
    assert len(seen) == 6


@numba.njit
def first_uniforms(seed, vary_row, n):
    out = np.empty(n)
    for i in range(n):
        stream = open_stream(seed, 0, 0 if vary_row else i, 0, i if vary_row else 0)
        out[i], stream = uniform(stream)
    return out


@pytest.mark.parametrize("vary_row", [True, False])
def test_neighbouring_streams_are_independent(vary_row):
    u = first_uniforms(SEED, vary_row, 200_000)
    assert fits(continuous_pvalue(u, stats.uniform.cdf))
    assert rejects(continuous_pvalue(u**1.1, stats.uniform.cdf))
    for lag in (1, 2, 64):
        correlation = np.corrcoef(u[:-lag], u[lag:])[0, 1] * np.sqrt(len(u))
        assert fits(2 * stats.norm.sf(abs(correlation)))
