"""The look: one uniform per cell settles nearly all of them as y = 0.

P(y > 0) is at most mu * exp(-rho) where x <= 0 and at most mu * exp(rho) where x > 0 (``noise.geometric``), and
``draw_count_at`` gives 0 wherever its uniform u is not below that. With an upper bound of every mu most cells are
thus settled without their rate: what is read is one byte of code and two of bound. The others are listed, and drawn
with the SAME u (``cells``): the decision by the bound and the decision by the rate are one decision, so the draws
do not depend on how tight the bound is, nor on the order of the list.

The leading 16 bits of u are drawn here, eight cells from one block of Philox. u has 47 bits more, which only the
listed cells need: u is at least its leading bits, so a cell that these settle is settled. (That 16 bits are 0, and
say nothing, happens to one cell in 65,536.)

Rows are padded to a multiple of 128 columns. A thread looks at 32 cells of a row, eight in each of four runs of 256
that its warp reads side by side. A block of threads appends to the list once.
"""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import SLACK, bound_of, place
from countveil.inference.observed import find_cell
from countveil.kernels import steps
from countveil.kernels.philox import CHAIN_BITS, ROW_BITS, STEP_BITS
from countveil.runtime.compiled import inlined

#: Codes of cells: 0 for x <= 0, x itself, this for larger ones (to be looked up), and this for missing ones.
LARGE, MISSING = 254, 255
#: Cells of a block of Philox, of the run that a warp looks at side by side, and of all of its runs.
EIGHT, RUN, GROUP = 8, 256, 1024
#: Threads of a warp, and of a block.
WARP, THREADS = 32, 32 if SIMULATED else 256
#: Of a thread.
REGISTERS = 32

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint32(0x9E3779B9)
_WEYL_1 = np.uint32(0xBB67AE85)
_32 = np.uint64(32)
_STEP_SHIFT = np.uint64(ROW_BITS - 32)
_CHAIN_SHIFT = np.uint64(ROW_BITS - 32 + STEP_BITS)
assert CHAIN_BITS + STEP_BITS + ROW_BITS == 64
_16, _LOW = np.uint32(16), np.uint32(0xFFFF)
_ALL_MISSING = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTE, _HALF = np.uint64(0xFF), np.uint64(0xFFFF)
# As a float32: 2**23, whose last bits count whole numbers.
_WHOLE, _FROM = np.uint32(0x4B000000), np.float32(2.0**23)
#: Bounds are compared with the leading bits as whole numbers.
LEADING = 2.0**16
# Functions that take arrays are the device's own: the simulator's arrays are none of the CPU's.
_find_cell = cuda.jit(getattr(find_cell, "py_func", find_cell), device=True)


@inlined
def words_of(seed, chain, sweep, step, row, block):
    """A block of the stream (seed, chain, sweep, step, row): ``philox_block`` in 32 bits.

    A device multiplies two numbers of 32 bits in one instruction, and takes four for two of 64.
    """
    seed, row = np.uint64(seed), np.uint64(row)
    k0, k1 = np.uint32(seed), np.uint32(seed >> _32)
    c0, c1 = np.uint32(block), np.uint32(row)
    c2 = np.uint32((row >> _32) | (np.uint64(step) << _STEP_SHIFT) | (np.uint64(chain) << _CHAIN_SHIFT))
    c3 = np.uint32(sweep)
    for _ in range(10):
        p0 = _MULTIPLIER_0 * np.uint64(c0)
        p1 = _MULTIPLIER_1 * np.uint64(c2)
        c0 = np.uint32(np.uint32(p1 >> _32) ^ c1 ^ k0)
        c1 = np.uint32(p1)
        c2 = np.uint32(np.uint32(p0 >> _32) ^ c3 ^ k1)
        c3 = np.uint32(p0)
        k0 = np.uint32(k0 + _WEYL_0)
        k1 = np.uint32(k1 + _WEYL_1)
    return c0, c1, c2, c3


@inlined
def leading_bits(seed, chain, sweep, block, number):
    """Those of cell ``number``, 0 to 7, of a block."""
    a, b, c, d = words_of(seed, chain, sweep, steps.DEVICE_LOOK, block, 0)
    word = a if number < 2 else b if number < 4 else c if number < 6 else d
    return np.uint64(word & _LOW if number % 2 == 0 else word >> _16)


@inlined
def is_open(leading, code, half, up, down):
    """1 unless the leading bits of u settle the cell; ``up`` and ``down`` are those of ``factors_of``."""
    bound = bound_of(np.uint32(half)) * (up if code > 0 else down)
    u = np.uint32(np.uint32(leading) | _WHOLE).view(np.float32) - _FROM
    return np.uint32(1) if u < bound else np.uint32(0)


@inlined
def two_open(word, codes, halves, up, down):
    """Marks of two cells, whose bits lie side by side in each of the three."""
    first = is_open(word & _LOW, codes & _BYTE, halves & _HALF, up, down)
    second = is_open(
        word >> _16, (codes >> np.uint64(8)) & _BYTE, (halves >> np.uint64(16)) & _HALF, up, down
    )
    return np.uint32(first | (second << np.uint32(1)))


@inlined
def eight_open(seed, chain, sweep, block, codes, halves, more, up, down):
    """Marks of eight cells: ``codes`` are eight bytes, ``halves`` and ``more`` four halves each."""
    codes, halves, more = np.uint64(codes), np.uint64(halves), np.uint64(more)
    a, b, c, d = words_of(seed, chain, sweep, steps.DEVICE_LOOK, block, 0)
    marks = two_open(a, codes, halves, up, down)
    marks |= two_open(b, codes >> np.uint64(16), halves >> np.uint64(32), up, down) << np.uint32(2)
    marks |= two_open(c, codes >> np.uint64(32), more, up, down) << np.uint32(4)
    marks |= two_open(d, codes >> np.uint64(48), more >> np.uint64(32), up, down) << np.uint32(6)
    return np.uint32(marks)


def factors_of(highest_rho, lowest_rho):
    """By what bounds of a row's rates are multiplied: where x > 0, and where x <= 0.

    A hair above exp(rho) and exp(-rho), so that rounding to single precision and a product in it cannot lead below;
    and large enough that what is infinite in half precision is never settled.
    """
    with np.errstate(over="ignore", under="ignore"):
        up = np.exp(highest_rho) * (SLACK * LEADING * (1.0 + 1e-6))
        down = np.maximum(np.exp(-lowest_rho), 2.0**-16) * (SLACK * LEADING * (1.0 + 1e-6))
        return up.astype(np.float32), down.astype(np.float32)


@kernel(registers=REGISTERS)
def look(key, first_row, n_rows, codes, halves, up, down, number, listed):
    """List the open cells of rows first_row .. first_row + n_rows, as places in these rows of padded width.

    ``codes`` come as uint64, and ``halves`` (of these rows) too. ``number`` counts what is listed.
    """
    of_block = cuda.shared.array(1, np.int32)
    base = cuda.shared.array(1, np.int32)
    n_blocks = codes.shape[1]
    n_groups = (n_blocks * EIGHT + GROUP - 1) // GROUP
    warp, lane = place(cuda.grid(1), WARP)
    d, group = place(warp, n_groups)
    if cuda.threadIdx.x == 0:
        of_block[0] = 0
    cuda.syncthreads()
    found = np.uint32(0)
    if d < n_rows:
        row = first_row + d
        seed, chain, sweep = key[0], key[1], key[2]
        above, below = up[row], down[row]
        for run in range(GROUP // RUN):
            block = (group * GROUP + run * RUN) // EIGHT + lane
            if block < n_blocks:
                of_cells = codes[row, block]
                if of_cells != _ALL_MISSING:
                    marks = eight_open(
                        seed, chain, sweep, row * n_blocks + block,
                        of_cells, halves[d, 2 * block], halves[d, 2 * block + 1], above, below,
                    )  # fmt: skip
                    found |= np.uint32(marks << np.uint32(EIGHT * run))
    n_mine, to = cuda.popc(found), 0
    if n_mine > 0:
        to = cuda.atomic.add(of_block, 0, n_mine)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        base[0] = cuda.atomic.add(number, 0, of_block[0])
    cuda.syncthreads()
    to += base[0]
    start = d * n_blocks * EIGHT + group * GROUP + lane * EIGHT
    while found != 0:
        bit = cuda.ffs(found) - 1
        found = np.uint32(found & (found - np.uint32(1)))
        listed[to] = start + (bit // EIGHT) * RUN + bit % EIGHT
        to += 1


@kernel
def clear_codes(width, codes):
    """Observed everywhere, x <= 0, but for columns that only fill a row up."""
    d, v = place(cuda.grid(1), codes.shape[1])
    if d < codes.shape[0]:
        codes[d, v] = 0 if v < width else MISSING


@cuda.jit(device=True)
def row_of(starts, i):
    """The row of the listed cell i."""
    low, high = 0, len(starts) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= i:
            low = middle
        else:
            high = middle
    return low


@kernel
def write_codes(starts, columns, values, codes):
    """The listed cells: ``values`` are theirs, or one for all."""
    i = cuda.grid(1)
    if i < len(columns):
        x = values[i] if len(values) > 1 else values[0]
        codes[row_of(starts, i), columns[i]] = min(x, LARGE) if x >= 0 else MISSING


@cuda.jit(device=True)
def released(d, v, codes, starts, columns, values):
    """What was released of a cell: 0 for x <= 0, -1 if it is missing."""
    code = np.int64(codes[d, v])
    if code < LARGE:
        return code
    if code == MISSING:
        return np.int64(-1)
    return np.int64(values[_find_cell(columns, starts[d], starts[d + 1], v)])
