"""What a fit is given: plain counts are read alike from every form, releases are left as they are."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from countveil.counts import combine_releases, simulate_release, stack_rows
from countveil.counts.cells.layout import same_arrays
from countveil.counts.sources.plain_counts import read_counts, read_plain_counts

COUNTS = np.random.default_rng(0).poisson(0.5, (7, 5)) * np.array([1, 1, 1, 1, 300])


def in_parts():
    """Every cell is listed, zeros too, and some in two parts."""
    rows, columns = np.divmod(np.append(np.arange(35), [0, 8, 8]), 5)
    return sparse.coo_array((np.append(COUNTS.ravel(), [0, 2, -2]), (rows, columns)))


@pytest.mark.parametrize(
    "counts",
    [
        sparse.csr_array(COUNTS),
        sparse.csc_array(COUNTS * 1.0),
        in_parts(),
        pd.DataFrame(COUNTS),
        COUNTS.tolist(),
    ],
    ids=["csr", "csc", "in parts", "frame", "lists"],
)
def test_every_form_gives_the_same_cells(counts):
    expected, found = read_plain_counts(COUNTS), read_plain_counts(counts)
    assert same_arrays(found[3:], expected[3:])
    assert [a.dtype for a in found.positive] == [a.dtype for a in expected.positive]
    assert found.total() == COUNTS.sum()


@pytest.mark.parametrize("form", [pl.DataFrame, pa.table, pd.DataFrame])
def test_a_table_has_the_names_of_its_columns(form):
    table = form({"b": [1, 4], "a": [2, 3]})
    read = read_plain_counts(table)
    assert read.labels[1].tolist() == ["b", "a"]
    assert (read.shape, read.total()) == ((2, 2), 10)
    release = simulate_release([[5, 0]], epsilon=1, seed=0, labels=(["x"], ["a", "b"]))
    with pytest.raises(
        ValueError, match="parts: expected the same labels along axis 1, got them in another order"
    ):
        stack_rows(release, table, rows=["x", "y", "z"])
    with pytest.raises(TypeError, match="got 'w' with something else"):
        read_plain_counts(form({"w": ["x", "y"], "a": [2, 3]}))


def test_labels_of_rows_that_pandas_left_in_a_table_are_no_counts():
    read = read_plain_counts(pa.Table.from_pandas(pd.DataFrame({"a": [1, 2]}, index=["x", "y"])))
    assert [labels.tolist() for labels in read.labels] == [["x", "y"], ["a"]]


def test_the_cells_of_a_sparse_matrix_are_a_copy():
    counts = sparse.csr_array(COUNTS.astype(np.uint64) + np.uint64(2**40))
    cells = read_plain_counts(counts).positive
    assert not any(
        np.shares_memory(mine, part)
        for mine in cells
        for part in (counts.data, counts.indices, counts.indptr)
    )


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_negative_and_fractional_counts_are_refused(form):
    with pytest.raises(
        ValueError, match=r"data: expected counts >= 0, got negative values; if these are released"
    ):
        read_plain_counts(form([[1, -1]]))
    with pytest.raises(ValueError, match="y: expected whole numbers, got fractional values"):
        read_plain_counts(form([[0.5, -1]]), name="y")


def test_releases_are_left_as_they_are():
    release = simulate_release(COUNTS, epsilon=1, seed=0)
    both = combine_releases(release, simulate_release(COUNTS, epsilon=1, seed=1))
    for data in (release, both):
        assert read_counts(data) is data
        with pytest.raises(ValueError, match="labels: expected None for a release"):
            read_counts(data, labels=(None, None))
    plain = read_counts(COUNTS, labels=(list("abcdefg"), None))
    assert list(plain.labels[0]) == list("abcdefg")
    assert read_counts(plain) is plain
