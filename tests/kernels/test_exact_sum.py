"""Sums that have the same bits for every order and split of their terms."""

import math

import numpy as np
import pytest

from countveil.kernels.exact_sum import exact_sums
from countveil.kernels.gamma import SMALLEST
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED

IN_PLACE = Workers(1)
RNG = np.random.default_rng(SEED)
ROWS = 3000
TERMS = {
    "uniform": RNG.random((ROWS, 3)),
    "gamma": RNG.gamma(0.1, 1.0, (ROWS, 3)),
    "columns of different size": RNG.random((ROWS, 3)) * [1e-200, 1.0, 1e200],
    "whole numbers": RNG.integers(0, 1000, (ROWS, 3)).astype(float),
    "many orders of magnitude": 10.0 ** RNG.uniform(-30, 0, (ROWS, 3)),
    "one large term": np.where(np.arange(ROWS)[:, None] == 77, 1.0, RNG.random((ROWS, 3)) * 1e-12),
    "large": RNG.random((ROWS, 3)) * 1e300,
    "small": RNG.random((ROWS, 3)) * 1e-280,
}


@pytest.mark.parametrize("name", TERMS)
def test_sums_are_exact_to_the_last_digits(name):
    terms = TERMS[name]
    exact = [math.fsum(column) for column in terms.T]
    # What a term loses is measured by the largest one: many small terms beside it lose a little more together.
    lost = ROWS * 2.0**-59 if name == "one large term" else 0.0
    np.testing.assert_allclose(exact_sums(terms, IN_PLACE), exact, rtol=1e-15, atol=lost)


class Cut(Workers):
    """Rows cut into parts of some size, taken in some order by two workers in turn."""

    SMALL_WORK = 0  # nothing is too little for two

    def __init__(self, size, order=1):
        super().__init__(1)
        self.threads, self._size, self._order = 2, size, order

    def run_with_worker(self, n_rows, function, small=0):
        for i, start in enumerate(list(range(0, n_rows, self._size))[:: self._order]):
            function(i % 2, start, min(start + self._size, n_rows))


def float_sums(terms):
    """In the order of rows, as a plain loop adds."""
    return np.cumsum(terms, axis=0)[-1]


@pytest.mark.parametrize("name", TERMS)
def test_no_order_and_no_split_changes_a_bit(name):
    terms = TERMS[name]
    expected = exact_sums(terms, IN_PLACE)
    orders = [np.arange(ROWS)[::-1], *(np.random.default_rng(i).permutation(ROWS) for i in range(5))]
    for order in orders:
        assert np.array_equal(exact_sums(np.ascontiguousarray(terms[order]), IN_PLACE), expected)
    for size in (1, 2, 7, 1000, ROWS - 1, ROWS):
        for order in (1, -1):
            assert np.array_equal(exact_sums(terms, Cut(size, order)), expected)
    for threads in (2, 3, 8):
        with Workers(threads) as workers:
            assert np.array_equal(exact_sums(terms, workers), expected)
    if name != "whole numbers":
        found = {tuple(float_sums(terms[order])) for order in orders}
        assert len(found) > 1, "plain sums depend on the order: the test above would see it"


@pytest.mark.parametrize("name", TERMS)
def test_weights_are_multiplied_in_bit_by_bit(name):
    terms, by_row = TERMS[name], np.random.default_rng(SEED).gamma(0.5, 1.0, ROWS)
    for weights in (by_row, np.array([0.37])):
        expected = exact_sums(terms * weights[:, None], IN_PLACE)
        for workers in (IN_PLACE, Cut(7), Cut(1000, -1)):
            assert np.array_equal(exact_sums(terms, workers, weights), expected)
    assert not np.array_equal(exact_sums(terms, IN_PLACE, by_row), exact_sums(terms, IN_PLACE))


def test_no_terms_and_nothing_but_zeros():
    assert np.array_equal(exact_sums(np.zeros((50, 2)), IN_PLACE), [0.0, 0.0])
    assert np.array_equal(exact_sums(np.zeros((0, 2)), IN_PLACE), [0.0, 0.0])
    assert exact_sums(np.ones((5, 0)), IN_PLACE).shape == (0,)


@pytest.mark.parametrize("x", [1e-280, 0.1, 1 / 3, 1.0, 2.0**60, 1e300, np.nextafter(1.0, 0.0)])
def test_one_term_is_itself(x):
    found = exact_sums(np.array([[x]]), IN_PLACE)
    assert found[0] == x


@pytest.mark.parametrize("x", [1e-280, 0.1, 1 / 3, 1.0, 1e300])
def test_a_million_equal_terms(x):
    n = 2**20
    found = exact_sums(np.full((n, 1), x), IN_PLACE)
    assert found[0] == pytest.approx(n * x, rel=1e-15, abs=0)


@pytest.mark.parametrize("x", [5e-324, 1e-310, SMALLEST, 2.3e-308, 1e-300])
def test_terms_near_the_smallest_number(x):
    # Rounded down to multiples of 2**-1023: nothing worse than that, and never more than the true sum.
    terms = x * np.ones((1000, 1))
    found = exact_sums(terms, IN_PLACE)
    assert 0 <= found[0] <= math.fsum(terms[:, 0])
    assert math.fsum(terms[:, 0]) - found[0] <= 1000 * 2.0**-1023
    if x >= SMALLEST:
        assert found[0] >= 0.5 * math.fsum(terms[:, 0])
    for workers in (Cut(1), Cut(33, -1)):
        assert np.array_equal(exact_sums(terms, workers), found)


def test_the_largest_term_decides_what_counts():
    # Each term is exact to 2**-59 of the largest one, however many there are.
    terms = np.concatenate([[1.0], np.full(2**16, 2.0**-61)])[:, None]
    found = exact_sums(terms, IN_PLACE)[0]
    assert abs(found - math.fsum(terms[:, 0])) <= len(terms) * 2.0**-59
