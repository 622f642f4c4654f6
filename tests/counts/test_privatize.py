"""privatize: noise everywhere, the right law, and no word about the true counts."""

import traceback

import numpy as np
import pytest
from scipy import sparse, stats

from countveil.counts import PrivateCounts, privatize
from countveil.privacy import Guarantee
from goodness_of_fit import FALSE_ALARM, discrete_pvalue, fits, rejects
from privacy.noise_law import cdf


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_zeros_get_noise_too(form):
    # A zero cell turns positive with probability alpha/(1 + alpha), so their number is binomial. The noise
    # cannot be seeded: at this false-alarm rate the test fails once in a million runs.
    n, alpha = 400_000, float(np.exp(-1.0))
    empty = np.zeros((400, 1000), dtype=np.int64)
    empty[0, 0] = 1000
    release = privatize(form(empty), epsilon=1)
    positive = len(release.positive.values) - 1
    assert fits(stats.binomtest(positive, n - 1, alpha / (1 + alpha)).pvalue)
    wrong = 0.9 * alpha
    assert rejects(stats.binomtest(positive, n - 1, wrong / (1 + wrong)).pvalue)
    assert release.to_dense()[0, 0] > 900


def test_every_block_gets_its_own_noise():
    release = privatize(sparse.csr_array((3000, 1000)), epsilon=1)  # three blocks
    rows = release.to_dense()
    assert not np.array_equal(rows[:1000], rows[1000:2000])
    assert stats.chisquare(np.diff(release.positive.row_starts)).pvalue > FALSE_ALARM


def test_noise_has_the_stated_law():
    release = privatize(np.full((300, 1000), 5), epsilon="3/2", precision=2, keep_negative=True)
    noise = release.to_dense().ravel() - 5
    assert fits(discrete_pvalue(noise, cdf(0.75)))
    assert rejects(discrete_pvalue(noise, cdf(1.1 * 0.75)))


def test_release_carries_its_guarantee():
    promise = Guarantee(3, 2, unit="cell")
    release = privatize(np.eye(3, dtype=int), 3, 2, unit="cell", labels=(list("abc"), None))
    assert release.guarantee == promise
    assert release.rho == promise.rho
    assert not release.simulated
    assert release.labels[0].tolist() == ["a", "b", "c"]
    assert privatize(np.eye(3, dtype=int), guarantee=promise).guarantee == promise


def test_negative_values_are_dropped_at_once_unless_kept():
    counts = np.zeros((50, 50), dtype=np.uint8)
    assert privatize(counts, 1).to_dense().min() == 0
    assert privatize(counts, 1).negative is None
    assert privatize(counts, 1, keep_negative=True).to_dense().min() < 0
    assert privatize(counts, 1).nonpositive.total[0] > 0


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4)])
def test_any_number_of_axes(shape):
    counts = np.arange(np.prod(shape)).reshape(shape) * 1000
    release = privatize(counts, 100)
    assert isinstance(release, PrivateCounts)
    assert np.abs(release.to_dense() - counts).max() < 10


def test_forms_of_true_counts():
    counts = np.array([[0, 700], [900, 0]])
    for form in (
        counts.tolist(),
        counts.astype(float),
        sparse.csc_array(counts.astype(np.float32)),
        counts > 0,
    ):
        assert privatize(form, 500).shape == (2, 2)


def test_the_callers_matrix_is_left_alone():
    given = sparse.csr_array((np.array([1, 2, 3]), np.array([1, 0, 0]), np.array([0, 3])), shape=(1, 2))
    before = given.data.copy(), given.indices.copy()
    privatize(given, 1)
    assert (given.data.tolist(), given.indices.tolist()) == (before[0].tolist(), before[1].tolist())


SECRET = 271828
FAULTS = [
    ("negative values", [[SECRET, -SECRET], [0, 1]]),
    ("fractional values", [[SECRET + 0.5, 1.0], [0, 1]]),
    ("NaN or infinite", [[float(SECRET), np.nan], [0, 1]]),
    ("NaN or infinite", [[float(SECRET), np.inf], [0, 1]]),
    ("values beyond", [[SECRET * 10**12, 1], [0, 1]]),
    ("non-numeric", [[f"{SECRET}", "x"], ["y", "z"]]),
    ("non-numeric", [[SECRET * 10**30, 1], [0, 1]]),
    ("non-numeric", np.array([[SECRET, None]], dtype=object)),
    ("non-numeric", [[SECRET + 1j, 1]]),
    ("do not form an array", [[SECRET, 1], [2]]),
]


@pytest.mark.parametrize(("kind", "counts"), FAULTS)
def test_faults_in_true_counts_are_named_by_kind_only(kind, counts):
    for form in (counts, np.array(counts) if "array" not in kind else counts):
        with pytest.raises((ValueError, TypeError), match=kind) as caught:
            privatize(form, 1)
        told = "".join(traceback.format_exception(caught.value))
        error = caught.value
        while error is not None:  # nor by way of what it was raised from
            told, error = told + str(error) + repr(error.args), error.__context__
        assert str(SECRET) not in told


@pytest.mark.parametrize("value", [-SECRET, SECRET + 0.5, np.nan, np.inf])
def test_faults_in_sparse_true_counts(value):
    with pytest.raises(ValueError, match="counts: expected whole numbers of at least 0, got") as caught:
        privatize(sparse.csr_array([[0, value], [0, 0]]), 1)
    assert str(SECRET) not in str(caught.value)


def test_other_bad_input():
    good = np.eye(2, dtype=int)
    for bad in (np.zeros((0, 3)), np.zeros((3, 0)), sparse.csr_array((0, 3)), [[]]):
        with pytest.raises(ValueError, match="counts: expected at least one cell, got an empty array"):
            privatize(bad, 1)
    with pytest.raises(ValueError, match="counts: expected an array with at least one axis"):
        privatize(np.array(3), 1)
    with pytest.raises(TypeError, match=r"counts: expected a numpy array or a scipy.sparse matrix, got dict"):
        privatize({"a": 1}, 1)
    with pytest.raises(TypeError, match="counts: expected an array without a mask"):
        privatize(np.ma.MaskedArray(good), 1)
    with pytest.raises(ValueError, match="epsilon: expected"):
        privatize(good, 0)
    for precision in (0, 1.5):
        with pytest.raises(ValueError, match="precision: expected"):
            privatize(good, 1, precision)
    with pytest.raises(ValueError, match="epsilon, guarantee: expected exactly one of them, got none"):
        privatize(good)
    with pytest.raises(ValueError, match="epsilon, guarantee: expected exactly one of them, got both"):
        privatize(good, 1, guarantee=Guarantee(1))
    with pytest.raises(ValueError, match="guarantee: expected it alone"):
        privatize(good, precision=2, guarantee=Guarantee(1))
    with pytest.raises(TypeError, match="guarantee: expected a Guarantee, got float"):
        privatize(good, guarantee=1.0)
    with pytest.raises(ValueError, match="labels: expected 2 row labels, got 1"):
        privatize(good, 1, labels=(["a"], None))


def test_labels_of_places_have_an_order():
    with pytest.raises(TypeError, match="labels: expected a list of row labels, in order, got a set"):
        privatize([[3], [40]], epsilon=1, rows={"ann", "bo"})
