"""Errors name the parameter, what was expected and what came."""

import numpy as np
import pytest
from scipy import sparse

from countveil.counts import PrivateCounts
from countveil.privacy import Guarantee

GOOD = np.arange(6).reshape(3, 2)

BAD_VALUES = [
    ([[1.5]], ValueError, "values: expected whole numbers, got fractional values"),
    ([[np.nan]], ValueError, "values: expected whole numbers, got NaN or infinite values"),
    ([[-np.inf]], ValueError, "values: expected whole numbers, got NaN or infinite values"),
    ([[2.0**60]], ValueError, r"values: expected whole numbers, got values beyond 2\*\*53"),
    ([[-(2**63)]], ValueError, r"values: expected whole numbers, got values beyond 2\*\*53"),
    (np.array([2**63], dtype=np.uint64), ValueError, r"values: .* got values beyond 2\*\*53"),
    ([["a"]], TypeError, r"values: expected whole numbers, got non-numeric values \(str_\)"),
    ([[1], [1, 2]], ValueError, "values: expected rows of equal length"),
    ("text", TypeError, r"values: expected a numpy array or a scipy.sparse matrix, got str"),
    (
        np.zeros((3, 0)),
        ValueError,
        r"values: expected at least one cell, got an empty array of shape \(3, 0\)",
    ),
    (np.float64(3), TypeError, "values: expected a numpy array"),
    (np.array(3), ValueError, "values: expected an array with at least one axis, got a single number"),
    (sparse.csr_array([[0.5]]), ValueError, "values: expected whole numbers, got fractional values"),
    (sparse.coo_array([1, 2]), ValueError, "values: expected a sparse matrix with 2 axes, got 1"),
]


@pytest.mark.parametrize(("values", "error", "message"), BAD_VALUES)
def test_values(values, error, message):
    with pytest.raises(error, match=message):
        PrivateCounts(values, alpha=0.5)


@pytest.mark.parametrize("alpha", [1.5, 1.0, 1, -0.1, np.nan, np.inf])
def test_alpha_range(alpha):
    expected = f"alpha: expected a value strictly between 0 and 1, or 0 for a plain row, got {alpha:g}"
    with pytest.raises(ValueError, match=expected):
        PrivateCounts(GOOD, alpha=alpha)
    with pytest.raises(ValueError, match="alpha: expected a value strictly between 0 and 1"):
        PrivateCounts(GOOD, alpha=[0.5, alpha, 0.5])


@pytest.mark.parametrize("rho", [0.0, -1.0, np.nan, -np.inf])
def test_rho_range(rho):
    with pytest.raises(ValueError, match="rho: expected a value above 0, or inf for a plain row, got"):
        PrivateCounts(GOOD, rho=rho)


def test_plain_rows():
    hint = "for all: plain counts are no release, pass them to cv.fit as they are"
    for noise in ({"alpha": 0}, {"alpha": [0, 0, 0]}, {"alpha": np.zeros((3, 2))}, {"rho": np.inf}):
        with pytest.raises(ValueError, match=f"(alpha|rho): expected noise in some row, got (0|inf) {hint}"):
            PrivateCounts(GOOD, **noise)
    cells = np.where(GOOD == 3, 0, 0.5)
    with pytest.raises(
        ValueError, match="alpha: expected 0 for whole rows, by one value per row, got it for"
    ):
        PrivateCounts(GOOD, alpha=cells)
    message = "values: expected counts of at least 0 in plain rows .* got negative values$"
    with pytest.raises(ValueError, match=message):
        PrivateCounts([[1, 2], [-3, 4]], alpha=[0.5, 0])


@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 2), (3, 2, 1)])
def test_alpha_shape(shape):
    with pytest.raises(
        ValueError, match=r"alpha: expected one number, 3 \(one per row\) or an array of shape"
    ):
        PrivateCounts(GOOD, alpha=np.full(shape, 0.5))


def test_noise_is_given_exactly_once():
    with pytest.raises(ValueError, match="alpha, rho, guarantee: expected exactly one of them, got none"):
        PrivateCounts(GOOD)
    with pytest.raises(ValueError, match="expected exactly one of them, got alpha and rho"):
        PrivateCounts(GOOD, alpha=0.5, rho=1)
    with pytest.raises(ValueError, match="expected exactly one of them, got alpha and guarantee"):
        PrivateCounts(GOOD, alpha=0.5, guarantee=Guarantee(1))
    with pytest.raises(TypeError, match="guarantee: expected a Guarantee, got int"):
        PrivateCounts(GOOD, guarantee=3)
    for alpha in ("0.5", True, [None]):
        with pytest.raises(TypeError, match="alpha: expected a number or an array of numbers"):
            PrivateCounts(GOOD, alpha=alpha)


def test_mask():
    with pytest.raises(
        TypeError, match="mask: expected booleans, True where a cell is missing, got type int64"
    ):
        PrivateCounts(GOOD, alpha=0.5, mask=np.zeros((3, 2), dtype=np.int64))
    with pytest.raises(ValueError, match=r"mask: expected shape \(3, 2\), got \(2, 3\)"):
        PrivateCounts(GOOD, alpha=0.5, mask=np.zeros((2, 3), dtype=bool))


BAD_LABELS = [
    ((["a", "b"], None), ValueError, "labels: expected 3 row labels, got 2"),
    ((None, ["a", "b", "c"]), ValueError, "labels: expected 2 column labels, got 3"),
    ((["a", "b", "a"], None), ValueError, "labels: row label 'a' appears twice"),
    ((None, [1, "1"]), ValueError, "labels: column label '1' appears twice"),
    ((None,), ValueError, "labels: expected an entry for each of the 2 axes, got 1"),
    ((None, None, None), ValueError, "labels: expected an entry for each of the 2 axes, got 3"),
    (["abc", "de"], TypeError, "labels: expected a list of row labels or None, got str"),
    ("ab", TypeError, "labels: expected labels .* got str"),
    (({"a", None, "b"}, None), TypeError, "labels: expected a list of row labels, in order, got a set"),
    ((["a", None, "b"], None), TypeError, "labels: expected row labels that are text or numbers, got None"),
    ((None, ["a", float("nan")]), TypeError, "labels: expected column labels .* got float"),
    ((None, [b"a", b"b"]), TypeError, "labels: expected column labels .* got bytes"),
    ((3, None), TypeError, "labels: expected a list of row labels or None, got int"),
    ({"value": None, "word": None}, ValueError, "labels: expected axis names other than"),
    ({"A": None, "a": None}, ValueError, "labels: expected axis names other than"),
    ({"": None, "word": None}, ValueError, "labels: expected axis names that are text"),
    ({"document": ["a"], "word": None}, ValueError, "labels: expected 3 document labels, got 1"),
]


@pytest.mark.parametrize(("labels", "error", "message"), BAD_LABELS)
def test_labels(labels, error, message):
    with pytest.raises(error, match=message):
        PrivateCounts(GOOD, alpha=0.5, labels=labels)


def test_clamped():
    with pytest.raises(ValueError, match="clamped: expected no negative values when clamped=True, got some"):
        PrivateCounts([[-1, 1]], alpha=0.5, clamped=True)
    with pytest.raises(ValueError, match="keep_negative: expected False for clamped values, got True"):
        PrivateCounts([[1, 1]], alpha=0.5, clamped=True, keep_negative=True)


BAD_CELLS = [
    (
        np.zeros((2, 3), bool),
        ValueError,
        r"cells: expected a boolean array of shape \(3, 2\), got shape \(2, 3\)",
    ),
    (np.zeros((3, 2)), TypeError, "cells: expected a boolean array or a tuple"),
    (([0], [0], [0]), ValueError, "cells: expected 2 index arrays, one per axis, got 3"),
    (([0], [2]), ValueError, "cells: expected indices from 0 to 1 along axis 1, got 2"),
    (([-1], [0]), ValueError, "cells: expected indices from 0 to 2 along axis 0, got -1"),
    (([0.5], [0]), TypeError, "cells: expected whole numbers as indices, got type float64"),
    (([0, 1], [0, 1, 0]), ValueError, "cells: expected index arrays of equal length"),
]


@pytest.mark.parametrize(("cells", "error", "message"), BAD_CELLS)
def test_hide(cells, error, message):
    with pytest.raises(error, match=message):
        PrivateCounts(GOOD, alpha=0.5).hide(cells)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 4), (2, 1)])
def test_dense_block(start, stop):
    with pytest.raises(ValueError, match="start, stop: expected 0 <= start <= stop <= 3, got"):
        PrivateCounts(GOOD, alpha=0.5).dense_block(start, stop)
