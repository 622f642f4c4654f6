"""What a PrivateCounts holds, and that nothing else can get in."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from countveil.counts import PrivateCounts
from countveil.privacy import Guarantee

SIGNED = np.array([[3, -2, 0, 7], [0, -1, -5, 0], [1, 300, -4, 2]])
MASK = np.array([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], dtype=bool)


def test_only_positive_cells_are_held():
    release = PrivateCounts(SIGNED, alpha=0.5)
    assert release.positive.row_starts.tolist() == [0, 2, 2, 5]
    assert release.positive.columns.tolist() == [0, 3, 0, 1, 3]
    assert release.positive.values.tolist() == [3, 7, 1, 300, 2]
    assert release.positive.values.dtype == np.uint16
    assert release.positive.columns.dtype == np.int32
    assert release.missing is None
    assert release.negative is None
    np.testing.assert_array_equal(release.to_dense(), np.maximum(SIGNED, 0))


def test_clamped_and_unclamped_values_are_equal():
    signed, clamped = PrivateCounts(SIGNED, alpha=0.5), PrivateCounts(np.maximum(SIGNED, 0), alpha=0.5)
    assert signed == clamped
    assert signed.total() == clamped.total()
    assert signed.nonpositive.number.tolist() == clamped.nonpositive.number.tolist() == [7]
    assert signed.nonpositive.total.tolist() == [12]
    assert clamped.nonpositive.total is None
    assert PrivateCounts([[1, 0]], alpha=0.5, clamped=False).nonpositive.total.tolist() == [0]


def test_different_releases_differ():
    release = PrivateCounts(SIGNED, alpha=0.5)
    other = SIGNED.copy()
    other[0, 0] = 4
    assert release != PrivateCounts(other, alpha=0.5)
    assert release != PrivateCounts(SIGNED, alpha=0.4)
    assert release != PrivateCounts(SIGNED, alpha=0.5, mask=MASK)
    assert release != PrivateCounts(SIGNED, alpha=0.5, labels=(list("abc"), None))
    assert release != PrivateCounts(SIGNED.T, alpha=0.5)
    assert release != "release"


@pytest.mark.parametrize(
    "form",
    [
        np.ndarray.tolist,
        lambda a: a.astype(float),
        lambda a: a.astype(np.int16),
        np.asfortranarray,
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
        sparse.lil_array,
    ],
)
def test_every_form_of_values_gives_the_same_release(form):
    assert PrivateCounts(form(SIGNED), alpha=0.5) == PrivateCounts(SIGNED, alpha=0.5)


def test_sparse_entries_given_twice_are_added_without_wrapping_around():
    entries = np.array([200, 100], dtype=np.uint8), (np.array([0, 0]), np.array([1, 1]))
    given = sparse.coo_array(entries, shape=(1, 3))
    assert PrivateCounts(given, alpha=0.5).to_dense().tolist() == [[0, 300, 0]]


def test_mask_true_means_missing():
    release = PrivateCounts(SIGNED, alpha=0.5, mask=MASK)
    dense = release.to_dense()
    np.testing.assert_array_equal(np.ma.getmaskarray(dense), MASK)
    np.testing.assert_array_equal(dense.filled(0), np.where(MASK, 0, np.maximum(SIGNED, 0)))
    assert release.to_dense(missing=-1)[MASK].tolist() == [-1] * 4
    assert np.isnan(release.to_dense(missing=np.nan)[MASK]).all()
    assert (release.n_missing, release.n_observed) == (4, 8)
    assert release.nonpositive.number.tolist() == [5]
    assert release.nonpositive.total.tolist() == [8]
    assert release == PrivateCounts(np.ma.MaskedArray(SIGNED, MASK), alpha=0.5)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 0.5, -1e300, 7.0])
def test_a_masked_value_cannot_change_anything(garbage):
    values = np.where(MASK, garbage, SIGNED)
    release, clean = PrivateCounts(values, alpha=0.5, mask=MASK), PrivateCounts(SIGNED, alpha=0.5, mask=MASK)
    assert release == clean
    assert release.nonpositive.total.tolist() == clean.nonpositive.total.tolist()
    assert release.positive.values.dtype == clean.positive.values.dtype
    assert PrivateCounts(sparse.csr_array(values), alpha=0.5, mask=MASK) == clean


def test_a_masked_value_need_not_be_a_number():
    values = SIGNED.astype(object)
    values[MASK] = None
    assert PrivateCounts(values, alpha=0.5, mask=MASK) == PrivateCounts(SIGNED, alpha=0.5, mask=MASK)
    assert PrivateCounts(values.tolist(), alpha=0.5, mask=MASK).n_missing == 4


def test_an_empty_mask_is_no_mask():
    assert PrivateCounts(SIGNED, alpha=0.5, mask=np.zeros_like(MASK)) == PrivateCounts(SIGNED, alpha=0.5)


def test_alpha_for_all_by_row_and_by_cell():
    everywhere = PrivateCounts(SIGNED, alpha=0.5)
    assert everywhere.rho.shape == ()
    assert everywhere.rho_block(1, 3).shape == ()
    by_row = PrivateCounts(SIGNED, alpha=[0.5, 0.25, 0.5])
    assert by_row.rho.shape == (3, 1)
    assert by_row.rho_block(1, 3).shape == (2, 1)
    np.testing.assert_allclose(by_row.alpha.ravel(), [0.5, 0.25, 0.5])
    np.testing.assert_allclose(by_row.nonpositive.rho, -np.log([0.5, 0.25]))
    assert by_row.nonpositive.number.tolist() == [3, 4]
    assert by_row.nonpositive.total.tolist() == [6, 6]
    alpha = np.where(np.arange(4) < 2, 0.5, 0.25) * np.ones((3, 1))
    by_cell = PrivateCounts(SIGNED, alpha=alpha, mask=MASK)
    assert by_cell.rho.shape == (3, 4)
    np.testing.assert_array_equal(by_cell.rho_block(1, 2), by_cell.rho[1:2])
    assert by_cell.nonpositive.number.tolist() == [3, 2]
    assert by_cell.nonpositive.total.tolist() == [3, 5]


def test_by_cell_numbers_agree_with_counting():
    rng = np.random.default_rng(5)
    values, mask = rng.integers(-9, 5, (30, 40)), rng.random((30, 40)) < 0.2
    alpha = rng.choice([0.2, 0.5, 0.9], (30, 40))
    release = PrivateCounts(values, alpha=alpha, mask=mask)
    for i, a in enumerate([0.9, 0.5, 0.2]):
        chosen = (alpha == a) & ~mask & (values <= 0)
        assert release.nonpositive.number[i] == chosen.sum()
        assert release.nonpositive.total[i] == -values[chosen].sum()


def test_rho_and_guarantee_in_place_of_alpha():
    assert PrivateCounts(SIGNED, rho=2.0).alpha == pytest.approx(np.exp(-2.0))
    release = PrivateCounts(SIGNED, guarantee=Guarantee(3, 2))
    assert release.rho == 1.5
    assert release.guarantee == Guarantee(3, 2)


def test_rho_keeps_what_alpha_cannot():
    release = PrivateCounts(SIGNED, rho=1e-17)
    assert release.rho == 1e-17
    assert release.total() == pytest.approx(313 - 7e17)
    assert PrivateCounts(SIGNED, rho=800.0).total() == 313


def test_total_knows_the_alpha_of_every_cell():
    alpha = np.array([[0.5, 0.2], [0.1, 0.3]])
    release = PrivateCounts([[-3, 0], [9, -1]], alpha=alpha)
    assert release.total() == pytest.approx(9 - 0.5 / 0.5 - 0.2 / 0.8 - 0.3 / 0.7)
    assert release.hide(([0], [1])).total() == pytest.approx(9 - 0.5 / 0.5 - 0.3 / 0.7)


def test_keep_negative():
    release = PrivateCounts(SIGNED, alpha=0.5, mask=MASK, keep_negative=True)
    np.testing.assert_array_equal(release.to_dense(missing=0), np.where(MASK, 0, SIGNED))
    assert release == PrivateCounts(SIGNED, alpha=0.5, mask=MASK)
    np.testing.assert_array_equal(release.dense_block(0, 3)[0], np.where(MASK, 0, np.maximum(SIGNED, 0)))


def test_hide_drops_the_values():
    release, wanted = PrivateCounts(SIGNED, alpha=0.5), PrivateCounts(SIGNED, alpha=0.5, mask=MASK)
    assert release.hide(MASK) == wanted
    assert release.hide(np.nonzero(MASK)) == wanted
    assert release.hide(([0, 0], [2, 3])).hide(([2, 2, 2], [2, 1, 1])) == wanted
    assert release.hide(MASK).positive.values.dtype == np.uint8
    assert release.hide(MASK).nonpositive.number.tolist() == [5]
    assert release.hide(MASK).nonpositive.total is None
    assert release.hide(([0], [0])).nonpositive.total.tolist() == [12]
    assert release.hide(np.zeros_like(MASK)) == release
    assert release.missing is None


def test_hide_with_kept_negatives_knows_the_sums():
    by_row = PrivateCounts(SIGNED, alpha=[0.5, 0.25, 0.5], keep_negative=True)
    hidden = by_row.hide(MASK)
    wanted = PrivateCounts(SIGNED, alpha=[0.5, 0.25, 0.5], mask=MASK)
    assert hidden.nonpositive.total.tolist() == wanted.nonpositive.total.tolist() == [2, 6]
    assert hidden.nonpositive.number.tolist() == wanted.nonpositive.number.tolist()


def test_hide_everything():
    release = PrivateCounts(SIGNED, alpha=0.5).hide(np.ones_like(MASK))
    assert (release.n_observed, release.total()) == (0, 0.0)
    assert len(release.positive.values) == 0


def test_dense_block():
    values, observed = PrivateCounts(SIGNED, alpha=0.5, mask=MASK).dense_block(1, 3)
    np.testing.assert_array_equal(observed, ~MASK[1:])
    np.testing.assert_array_equal(values, np.where(MASK, 0, np.maximum(SIGNED, 0))[1:])
    assert values.dtype == np.int64


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4), (2, 1, 2, 3)])
def test_any_number_of_axes(shape):
    rng = np.random.default_rng(1)
    values, mask = rng.integers(-5, 6, shape), rng.random(shape) < 0.3
    release = PrivateCounts(values, alpha=np.linspace(0.1, 0.9, shape[0]), mask=mask)
    assert release.axes == tuple(f"axis{i}" for i in range(len(shape)))
    np.testing.assert_array_equal(release.to_dense(missing=-1), np.where(mask, -1, np.maximum(values, 0)))
    np.broadcast_shapes(release.rho.shape, shape)
    start = release.dense_block(1, 2)
    np.testing.assert_array_equal(start[1], ~mask[1:2])
    hidden = PrivateCounts(values, alpha=np.linspace(0.1, 0.9, shape[0])).hide(mask)
    assert hidden == release


def test_wide_and_long_arrays_go_through_several_blocks():
    rng = np.random.default_rng(2)
    for shape in [(3, 2_000_000), (2_500_000,), (1500, 1500)]:
        values = rng.integers(-3, 3, shape, dtype=np.int8)
        release = PrivateCounts(values, alpha=0.5)
        np.testing.assert_array_equal(release.to_dense(), np.maximum(values, 0))
        assert release.nonpositive.total[0] == -np.minimum(values, 0).sum(dtype=np.int64)


def test_labels():
    release = PrivateCounts(SIGNED, alpha=0.5, labels=(["é", "", "日本"], range(4)))
    assert release.labels[0].tolist() == ["é", "", "日本"]
    assert release.labels[1].tolist() == ["0", "1", "2", "3"]
    assert release.axes == ("row", "column")
    named = PrivateCounts(SIGNED, alpha=0.5, labels={"sender": np.array(["a", "b", "c"]), "receiver": None})
    assert named.axes == ("sender", "receiver")
    assert named.labels[1] is None
    assert type(named.labels[0][0]) is str


def test_nothing_can_be_changed():
    given = np.array([[0.5], [0.4], [0.3]])
    release = PrivateCounts(SIGNED, alpha=given, mask=MASK, labels=(list("abc"), None))
    given[:] = 0.9
    assert release.alpha.max() < 0.6
    for array in (*release.positive, *release.missing, release.rho, release.labels[0], *release.nonpositive):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
    with pytest.raises(AttributeError, match="cannot be changed"):
        release.shape = (1, 1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(release)


def test_copies_are_equal_and_unchangeable():
    release = PrivateCounts(SIGNED, alpha=0.5, mask=MASK, keep_negative=True)
    for other in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release), copy.copy(release)):
        assert other == release
        np.testing.assert_array_equal(other.to_dense(missing=0), release.to_dense(missing=0))
        assert not other.positive.values.flags.writeable


def test_repr_is_one_helpful_line():
    text = repr(PrivateCounts(SIGNED, guarantee=Guarantee(3, 2), mask=MASK, labels=(None, list("wxyz"))))
    assert (
        text
        == "PrivateCounts(3 x 4, epsilon 3 at precision 2, 3 positive cells, 4 missing, columns labelled)"
    )
    assert "by row" in repr(PrivateCounts(SIGNED, alpha=[0.1, 0.2, 0.3]))
    assert "0.1 to 0.2 by cell" in repr(PrivateCounts([[0, 1]], alpha=[[0.1, 0.2]]))


def test_pyarrow_is_loaded_only_for_files():
    check = "import sys, countveil.counts; sys.exit('pyarrow' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_what_a_mask_covers_in_a_sparse_matrix_is_never_looked_at():
    values = sparse.coo_array(([np.nan, 4.0, -2.0], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    release = PrivateCounts(
        values, alpha=0.5, mask=np.array([[True, False], [False, False]]), keep_negative=True
    )
    assert release.to_dense(missing=-9).tolist() == [[-9, 4], [0, -2]]
    with pytest.raises(ValueError, match="values: expected whole numbers, got NaN"):
        PrivateCounts(values, alpha=0.5)
