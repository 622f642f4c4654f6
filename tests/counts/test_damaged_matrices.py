"""Sparse matrices whose places lie outside: refused, and no message names one."""

import numpy as np
import pytest
from scipy import sparse

import countveil as cv
from countveil.counts import privatize


@pytest.mark.parametrize("starts", [[0, 100_000, 0], [0, 6, 0], [0, 2, -1], [1, 2, 3], [0, 3, 2], [0, 1, 9]])
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_starts_that_come_back_are_damage(kind, starts, tmp_path):
    """scipy looks at nothing where the last start is 0 or below, and reads beyond its arrays."""
    right = getattr(sparse, f"{kind}_array")(np.array([[1, 2], [0, 3]]))
    parts = {"data": right.data, "indices": right.indices, "shape": right.shape, "format": kind.encode()}
    np.savez(tmp_path / "bad.npz", indptr=np.array(starts), **parts)
    in_memory = right.copy()
    in_memory.indptr = np.array(starts, dtype=right.indptr.dtype)
    with pytest.raises(ValueError, match=r"got a damaged one|cannot be read as \.npz"):
        cv.privatize(tmp_path / "bad.npz", epsilon=1)
    for use in (lambda: cv.privatize(in_memory, epsilon=1), lambda: cv.fit(cv.TopicModel(1), in_memory)):
        with pytest.raises(ValueError, match="got a damaged one"):
            use()
    assert cv.privatize(right, epsilon=60).to_dense().tolist() == [[1, 2], [0, 3]]


@pytest.mark.parametrize("offsets", [[2**32], [2**32 + 1], [-(2**63)], [2**63 - 1], [6], [-4]])
def test_diagonals_outside_are_damage(offsets, tmp_path):
    right = sparse.dia_array((np.ones((1, 6), int), [0]), shape=(4, 6))
    np.savez(
        tmp_path / "bad.npz", data=right.data, offsets=np.array(offsets), shape=right.shape, format=b"dia"
    )
    in_memory = right.copy()
    in_memory.offsets = np.array(offsets)
    for given in (tmp_path / "bad.npz", in_memory):
        with pytest.raises(ValueError, match=r"got a damaged one|cannot be read as \.npz"):
            cv.privatize(given, epsilon=1)
    assert cv.privatize(right, epsilon=60).to_dense().tolist() == right.toarray().tolist()
    for offset in (-3, 5):  # the last that are within
        corner = sparse.dia_array((np.ones((1, 6), int), [offset]), shape=(4, 6))
        assert cv.privatize(corner, epsilon=60).to_dense().tolist() == corner.toarray().tolist()


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_a_sparse_matrix_with_places_outside_is_refused(kind):
    damaged = kind(np.eye(3, dtype=np.int64))
    damaged.indices[1] = 10**6
    with pytest.raises(ValueError, match="counts: expected a sparse matrix whose entries lie within it"):
        privatize(damaged, 1)


@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.lil_array, sparse.dok_array])
def test_no_message_names_a_place_of_a_damaged_matrix(kind):
    damaged = kind(np.eye(3, dtype=np.int64))
    if kind is sparse.coo_array:
        damaged.coords[1][1] = 777_777
    elif kind is sparse.lil_array:
        damaged.rows[1][0] = 777_777
    else:
        damaged._dict[(1, 777_777)] = damaged._dict.pop((1, 1))
    with pytest.raises(
        ValueError, match="counts: expected a sparse matrix whose entries lie within it"
    ) as caught:
        privatize(damaged, 1)
    assert "777" not in str(caught.value)


@pytest.mark.parametrize("size", ["2 2 -1", "-1 2 2"])
def test_a_matrix_market_file_says_how_much_there_is(tmp_path, size):
    file = tmp_path / "counts.mtx"
    file.write_text(f"%%MatrixMarket matrix coordinate integer general\n{size}\n1 1 3\n2 2 4\n")
    with pytest.raises(ValueError, match="cannot be read as"):
        privatize(file, epsilon=1)


def test_a_row_of_very_many_columns_is_refused(tmp_path):
    path = tmp_path / "counts.mtx"
    path.write_text("%%MatrixMarket matrix coordinate integer general\n1 300000000 0\n")
    with pytest.raises(ValueError, match="expected a file that takes at most 1 GiB and 1000 times its size"):
        privatize(path, 1)
