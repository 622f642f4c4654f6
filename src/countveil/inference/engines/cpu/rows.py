"""What algorithms do with a row: its rates, what was released in it, and its tokens shared out and counted.

**Codes.** A proposed token must find out quickly what was released in its cell. A byte says it: 0 for x <= 0, the
value up to 253, LARGE for more (looked up in the listed cells then), UNSEEN for a missing cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.counts.files.scratch import is_mapped
from countveil.inference.engines.cpu.products import LANES, running_sums, sum_of_products
from countveil.inference.observed import Observed, find_cell
from countveil.kernels.binomial import binomial
from countveil.kernels.given_release.geometric import FEW_TOKENS
from countveil.kernels.uniform import uniform
from countveil.models.einsum.exposure import ordered_sum
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

LARGE = 254
UNSEEN = 255

_ZERO, _ONE, _LANES = np.uint64(0), np.uint64(1), np.uint64(LANES)


class Factors(NamedTuple):
    """The factors of the matrix form, (rows, K) and (columns, K)."""

    theta: np.ndarray
    phi: np.ndarray


class Sums(NamedTuple):
    """Allocated tokens: of all rows, and what one worker adds to the columns."""

    rows: np.ndarray  # int32 or int64 (rows, K)
    columns: np.ndarray  # int32 or int64 (columns, K)


class Counters:
    """What tokens are counted in: one array for the rows, one per worker for the columns."""

    def __init__(self, factors: Factors, released: float, workers: Workers) -> None:
        theta, phi = factors
        kind = counter_type(released, theta, phi)
        self.rows = np.zeros(theta.shape, dtype=kind)
        self._columns = np.zeros((workers.threads, *phi.shape), dtype=kind)

    def of(self, worker: int) -> Sums:
        """Where one worker adds."""
        return Sums(self.rows, self._columns[worker])

    def columns(self, workers: Workers) -> np.ndarray:
        """The sum over all workers, and over all shards; they must be done."""
        return of_all_rows(added_up(self._columns), workers)


def counter_type(released: float, theta: np.ndarray, phi: np.ndarray) -> type[np.signedinteger]:
    """int32 where it holds all tokens of a sweep many times over, else int64.

    A true count beyond its release is at most about its rate, so that there are hardly more tokens than the
    released total and the total rate together.
    """
    expected = released + float(ordered_sum(theta) @ ordered_sum(phi))
    return np.int32 if expected < 2**28 else np.int64


def added_up(parts: np.ndarray) -> np.ndarray:
    """The sum over the first axis, in the place of its first entry."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def of_all_rows(tokens: np.ndarray, workers: Workers) -> np.ndarray:
    """Tokens of columns added up over all shards, in the same type where it holds them."""
    if not workers.of_rows.has_others:
        return tokens
    total = workers.of_rows.total(tokens)
    # Numba compiles whoever takes them anew for another type.
    return total.astype(tokens.dtype) if total.max(initial=0) <= np.iinfo(tokens.dtype).max else total


def released_total(data: Observed) -> float:
    """The sum of the positive releases: once, because there may be millions of them."""
    return float(data.values.sum(dtype=np.float64))


def code_matrix(data: Observed) -> np.ndarray:
    """All codes (rows, width) where that is smaller than the listed cells; else an empty array (0, 0).

    So for data on disk: the codes would lie in memory.
    """
    listed = data.columns.nbytes + data.values.nbytes + data.missing_columns.nbytes
    small = data.n_rows * data.width <= listed and not is_mapped(data.columns)
    codes = np.zeros((data.n_rows, data.width) if small else (0, 0), dtype=np.uint8)
    _fill_codes(data, codes)
    return codes


@compiled
def _fill_codes(data, codes):
    for d in range(len(codes)):
        open_codes(d, data, codes[d])


@compiled
def open_codes(d, data, codes):
    """Write row d into ``codes``."""
    columns, values, missing = data.columns, data.values, data.missing_columns
    codes[:] = 0
    for i in range(data.row_starts[d], data.row_starts[d + 1]):
        codes[columns[i]] = min(values[i], LARGE)
    for i in range(data.missing_starts[d], data.missing_starts[d + 1]):
        codes[missing[i]] = UNSEEN


@compiled
def value_of(code, d, v, row_starts, columns, values):
    """The released value behind a positive code.

    Where all cells come by, callers ask only for LARGE ones: whoever is handed an array counts that, in memory that
    all threads share, before it is known that most are not needed. That took a tenth of a sweep.
    """
    if code != LARGE:
        return np.int64(code)
    return np.int64(values[find_cell(columns, row_starts[d], row_starts[d + 1], v)])


@compiled
def fill_rates(d, theta, phi, rates):
    """rates[v] = sum_k theta_dk phi_kv, topic after topic: vectorised over v, and always in the same order."""
    for v in range(len(rates)):
        rates[v] = 0.0
    for k in range(theta.shape[1]):
        weight = theta[d, k]
        for v in range(len(rates)):
            rates[v] += weight * phi[k, v]


@inlined
def cell_rate(d, v, theta, phi):
    """sum_k theta_dk phi_kv."""
    return sum_of_products(theta, d, phi, v)


@compiled
def scratch_size(n_topics):
    """Room that ``allocate`` needs: running sums of the products, where each lane begins, and a row of theta."""
    return n_topics // LANES * LANES + 2 * LANES + n_topics


@inlined
def allocate_few(stream, d, v, count, theta, phi, scratch, row_topic, column_topic):
    """Share a cell's count out over the topics in proportion to theta_dk phi_kv, and add it to both sums.

    A token is a point of the line on which the products lie end to end: lane after lane (see ``products``),
    within a lane topic after topic. All ends up to the point are counted, without a branch, so that the processor
    works on several tokens at once.
    """
    # Unsigned, because numba checks a signed index for being negative.
    d, v = np.uint64(d), np.uint64(v)
    total = lay_out(d, v, theta, phi, scratch)
    for _ in range(count):
        u, stream = uniform(stream)
        k = pick(u, total, d, v, theta, phi, scratch)
        row_topic[d, k] += 1
        column_topic[v, k] += 1
    return stream


@inlined
def lay_out(d, v, theta, phi, scratch):
    """The products theta_dk phi_kv end to end: running sums within a lane, and where each lane starts."""
    last = np.uint64(theta.shape[1]) // _LANES * _LANES
    running_sums(theta, d, phi, v, scratch)
    total = 0.0
    for lane in range(_LANES):
        scratch[last + _LANES + lane] = total
        total += scratch[last + lane]
    return total


@inlined
def pick(u, total, d, v, theta, phi, scratch):
    """The topic at the point u * total of the line that was laid out."""
    last = np.uint64(theta.shape[1]) // _LANES * _LANES
    starts = last + _LANES
    point = u * total
    lane = _ZERO
    for other in range(_ONE, _LANES):
        lane += _ONE if point >= scratch[starts + other] else _ZERO
    point -= scratch[starts + lane]
    k = lane
    for end in range(lane, last, _LANES):
        k += _LANES if scratch[end] <= point else _ZERO
    return k if k < last else _checked(k, u, d, v, theta, phi)


@compiled
def _checked(k, u, d, v, theta, phi):
    """k, unless rounding led past the end or to a product of zero: the last positive one then.

    Products that have all underflowed to zero count as equal: a token must go somewhere.
    """
    n = np.uint64(theta.shape[1])
    if k < n and theta[d, k] * phi[v, k] > 0.0:
        return k
    for back in range(n):
        if theta[d, n - _ONE - back] * phi[v, n - _ONE - back] > 0.0:
            return n - _ONE - back
    return np.uint64(u * n)


@compiled
def allocate_many(stream, d, v, count, theta, phi, scratch, row_topic, column_topic):
    """``allocate_few`` for large counts: binomials, topic after topic, until few tokens are left.

    The order of the topics is free as long as the tokens have no say in it: each is drawn in proportion to the
    products that are left. So the largest mostly comes first, without a search, and often takes all tokens.
    """
    d, v, n = np.uint64(d), np.uint64(v), theta.shape[1]
    total = lay_out(d, v, theta, phi, scratch)
    k, drawn, stream = _one_topic(stream, total, d, v, count, theta, phi, scratch)
    row_topic[d, k] += drawn
    column_topic[v, k] += drawn
    count -= drawn
    if count == 0:
        return stream
    left = scratch[len(scratch) - n :].reshape(1, n)
    for other in range(n):
        left[0, other] = theta[d, other]
    left[0, k] = 0.0 if total > 0.0 else left[0, k]
    total = lay_out(_ZERO, v, left, phi, scratch)
    while count > FEW_TOKENS and total > 0.0:
        k, drawn, stream = _one_topic(stream, total, _ZERO, v, count, left, phi, scratch)
        row_topic[d, k] += drawn
        column_topic[v, k] += drawn
        count -= drawn
        left[0, k] = 0.0
        total = lay_out(_ZERO, v, left, phi, scratch)
    for _ in range(count):
        u, stream = uniform(stream)
        k = pick(u, total, _ZERO, v, left, phi, scratch)
        row_topic[d, k] += 1
        column_topic[v, k] += 1
    return stream


@inlined
def _one_topic(stream, total, d, v, count, theta, phi, scratch):
    """A topic, and how many of the tokens it takes.

    A single product that is left is the total to the last bit, and takes all. Where all have underflowed to zero no
    topic takes any: tokens go one by one then (``_checked``).
    """
    u, stream = uniform(stream)
    k = pick(u, total, d, v, theta, phi, scratch)
    share = theta[d, k] * phi[v, k] / total if total > 0.0 else 0.0
    drawn, stream = binomial(stream, count, share)
    return k, drawn, stream


@compiled
def allocate(stream, d, v, count, theta, phi, scratch, row_topic, column_topic):
    """Either way. A loop over many cells asks for itself: two ways in one place make it slower."""
    if count > FEW_TOKENS:
        return allocate_many(stream, d, v, count, theta, phi, scratch, row_topic, column_topic)
    return allocate_few(stream, d, v, count, theta, phi, scratch, row_topic, column_topic)
