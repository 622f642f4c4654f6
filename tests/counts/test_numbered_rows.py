"""Rows and columns that a library only numbered: never taken for labels, never lost where they are some."""

import warnings

import networkx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import countveil as cv
from countveil.counts import NoiseAloneWarning, privatize
from countveil.posterior.axes import positions

LOUD = 60  # an epsilon that leaves counts as they are
TEXTS = pd.Series(["x " * 500, "x " * 600, "x " * 700])


@pytest.mark.parametrize("rows", [[0, 1, 3], [1, 0, 2], [0, 1, 2]])
def test_rows_that_were_filtered_or_sorted_are_not_lost(rows):
    """What is left of the numbers of pandas is no name, and names are not found among numbers."""
    counts = [[100, 200], [300, 400], [500, 600]]
    table = pd.DataFrame(counts, index=pd.Index(rows), columns=["tea", "sea"])
    with pytest.raises(
        ValueError, match=r"^rows: expected labels that are numbers, .*reset_index\(drop=True\)"
    ):
        cv.privatize(table, epsilon=LOUD, rows=["a", "b", "c"], columns=["tea", "sea"])
    names = {"rows": ["a", "b", "c"], "columns": ["tea", "sea"]}
    release = cv.privatize(table.reset_index(drop=True), epsilon=LOUD, **names)
    assert release.to_dense().tolist() == counts
    release = cv.privatize(table, epsilon=LOUD, rows=[str(row) for row in rows], columns=["tea", "sea"])
    assert release.to_dense().tolist() == counts
    texts = pd.Series(["tea", "sea", "tea"], index=pd.Index(rows))
    with pytest.raises(ValueError, match=r"^rows: expected labels that are numbers"):
        cv.privatize(texts, epsilon=LOUD, rows=["a", "b", "c"], vocabulary=["tea", "sea"])


def test_columns_that_are_only_numbered_are_refused_beside_names():
    counts, people, words = np.array([[100, 200], [300, 400]]), ["ann", "bo"], ["tea", "sea"]
    tables = (pd.DataFrame(counts, index=people), pl.from_numpy(counts))
    for table in tables:
        with pytest.raises(ValueError, match=r"^columns: expected a table with names of columns"):
            cv.privatize(table, epsilon=LOUD, rows=people, columns=words)
    release = cv.privatize(tables[0], epsilon=LOUD, rows=people, columns=[1, 0])
    assert release.to_dense().tolist() == [[200, 100], [400, 300]]


def test_long_numbers_as_floats_are_refused(tmp_path):
    """Ids of 19 digits in a column with a missing one: two people would be one."""
    ids = [1500000000000000001, 1500000000000000003]
    table = pd.DataFrame({"who": [*map(float, ids), np.nan], "word": "tea", "n": [10, 300, 1]})
    path = tmp_path / "counts.parquet"
    table.to_parquet(path)
    arrow = pa.Table.from_pandas(table)
    forms = [table, path, arrow, pl.from_arrow(arrow), table.astype({"who": "Float64"})]
    refused = r"^rows: expected long numbers as whole numbers or text, got floats"
    for form in forms:
        for options in ({"rows": ids, "columns": ["tea"]}, {"public_labels": True}):
            with pytest.raises(ValueError, match=refused):
                cv.privatize(form, epsilon=LOUD, long=("who", "word", "n"), **options)
    narrow = pd.DataFrame(
        {"who": np.array([20_000_001, 20_000_003], np.float32), "word": "tea", "n": [10, 300]}
    )
    for options in ({"rows": [20_000_001], "columns": ["tea"]}, {"public_labels": True}):
        with pytest.raises(ValueError, match=refused):
            cv.privatize(narrow, epsilon=LOUD, long=("who", "word", "n"), **options)
    right = table.assign(who=pd.array([*ids, None], dtype="Int64"))
    release = cv.privatize(right, epsilon=LOUD, long=("who", "word", "n"), rows=ids, columns=["tea"])
    assert release.to_dense().ravel().tolist() == [10, 300]
    short = table.assign(who=[7.0, 8.0, np.nan])
    release = cv.privatize(short, epsilon=LOUD, long=("who", "word", "n"), rows=[7, 8], columns=["tea"])
    assert release.to_dense().ravel().tolist() == [10, 300]


def test_long_numbers_as_floats_are_nobodys():
    """In containers that have no type: 2**53 + 1 is 2**53 there, and somebody else."""
    one, other = 2**53, 2**53 + 1
    lines = pd.DataFrame({"who": [one, other], "word": "tea", "n": [100, 1000]}).astype({"who": float})
    long, refused = ("who", "word", "n"), "expected long numbers as whole numbers or text, got floats"
    for rows in ([one, other], [one, other, "nobody"], [f"{one}", "nobody"]):
        with pytest.raises(ValueError, match=f"^rows: {refused}"):
            cv.privatize(lines, epsilon=900, long=long, rows=rows, columns=["tea"])
    wide = lines.pivot_table(index="word", columns="who", values="n")
    with pytest.raises(ValueError, match=f"^labels: {refused}"):
        cv.privatize([[1]], epsilon=1, rows=[float(one)], columns=["tea"])
    network = networkx.from_pandas_edgelist(
        lines, "who", "word", edge_attr=["n"], create_using=networkx.DiGraph
    )
    mixed = pd.DataFrame({"n": [100, 1000]}, index=pd.MultiIndex.from_arrays([[float(one)] * 2, ["q", "r"]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseAloneWarning)
        found = cv.privatize(network, epsilon=900, rows=[one, other, "tea"], weight="n")
        assert not found.to_dense().filled(0).any()
        found = cv.privatize(mixed, epsilon=900, rows=[(one, "q"), (other, "r")], columns=["n"])
        assert not found.to_dense().any()
        found = cv.privatize(wide, epsilon=900, rows=["tea"], columns=[one, other])
        assert not found.to_dense().any()
        for who in (
            float(one),
            "somebody who was not declared",
        ):  # whose line makes no error, and takes none away
            table = pd.concat(
                [lines.astype({"who": object}), pd.DataFrame({"who": [who], "word": "tea", "n": 7})]
            )
            found = cv.privatize(table, epsilon=900, long=long, rows=[one, other], columns=["tea"])
            assert not found.to_dense().any()
    exact = pd.DataFrame({"who": [one, other], "word": "tea", "n": [100, 1000]})
    for kept in (exact, exact.astype({"who": object})):
        found = cv.privatize(kept, epsilon=900, long=long, rows=[other, one], columns=["tea"])
        assert found.to_dense().ravel().tolist() == [1000, 100]


def test_rows_whose_numbers_come_again_are_refused():
    part = pd.DataFrame({"tea": [100, 200]})
    for options in ({"public_labels": True}, {"rows": range(4), "columns": ["tea"]}):
        with pytest.raises(
            ValueError, match=r"expected rows by labels, or numbered once, got numbers that come again"
        ):
            cv.privatize(pd.concat([part, part]), epsilon=LOUD, **options)
    release = cv.privatize(pd.concat([part, part], ignore_index=True), epsilon=LOUD, public_labels=True)
    assert release.to_dense().ravel().tolist() == [100, 200, 100, 200]


@pytest.mark.parametrize(
    ("ids", "rows", "expected"),
    [
        ([0, 1], [1, 0], [[600], [500]]),
        ([0, 1, 7], [1, 0], [[600], [500]]),
        ([0, 1], [0, 1, 2], [[500], [600], [0]]),
        ([0, 1, 2], [1.0, 0.0], [[600], [500]]),
        ([0, 1], ["a", "b"], [[0], [0]]),
    ],
)
def test_declared_numbers_are_found_in_an_index_with_a_name(ids, rows, expected):
    frame = pd.DataFrame({"id": ids, "x": [500, 600, 700][: len(ids)]}).set_index("id")
    assert privatize(frame, 900, rows=rows, columns=["x"]).to_dense().tolist() == expected
    named = frame.reset_index(drop=True).rename_axis("id") if ids == list(range(len(ids))) else frame
    assert privatize(named, 900, rows=iter(rows), columns=["x"]).to_dense().tolist() == expected


@pytest.mark.parametrize("rows", [["a", "b", "1"], ["0", "1", "2"], [0.0, 1, np.int64(2)], range(3)])
def test_rows_that_pandas_numbers_go_by_order(rows):
    frame = pd.DataFrame({"x": [500, 600, 700]})
    for given in (rows, iter(rows)):
        release = privatize(frame, 900, rows=given, columns=["x"])
        assert release.to_dense().tolist() == [[500], [600], [700]]
    release = privatize(
        TEXTS, 900, rows=iter(rows), vocabulary=CountVectorizer(vocabulary=["x"], analyzer=str.split)
    )
    assert release.to_dense().tolist() == [[500], [600], [700]]


@pytest.mark.parametrize(
    "rows",
    [["1", "2", "3"], [1, 2, 0], [2021, 2022, 2023], [0, 1], [0, 1, 2, 3], [1.0, 0.0, 2.0], ["-1", "0", "1"], ["00", "01", "02"]],
)  # fmt: skip
def test_numbers_that_may_mean_those_of_pandas_are_refused(rows):
    frame = pd.DataFrame({"x": [500, 600, 700]})
    for given in (rows, iter(rows)):
        with pytest.raises(
            ValueError, match=r"rows: .* got other numbers, which may .* set_index\(\).*to_numpy\(\)"
        ):
            privatize(frame, 900, rows=given, columns=["x"])
    with pytest.raises(ValueError, match=r"rows: .* got other numbers, which may"):
        privatize(TEXTS, 900, rows=rows, vocabulary=["x"])


def test_the_index_that_pandas_saved_is_no_column_of_counts(tmp_path):
    file = tmp_path / "counts.parquet"
    table = pd.DataFrame({"oil": [1, 2]}, index=pd.Index([7654321, 7654399], name="patient"))
    table.to_parquet(file)
    release = cv.privatize(file, epsilon=900, public_labels=True)
    assert release == cv.privatize(table, epsilon=900, public_labels=True)
    assert release.labels[0].tolist() == ["7654321", "7654399"]
    assert release.to_dense().tolist() == [[1], [2]]
    with pytest.raises(ValueError, match=r"rows: expected rows=\[...\], got none"):
        cv.privatize(file, epsilon=1, columns=["oil"])
    named = cv.privatize(file, epsilon=900, index="patient", rows=[7654399], columns=["oil"])
    assert named.to_dense().tolist() == [[2]]
    pd.DataFrame({"oil": [1, 2]}).to_parquet(file)
    assert cv.privatize(file, epsilon=900, columns=["oil"]).to_dense().tolist() == [[1], [2]]
    table.set_index([["a", "b"], ["x", "y"]]).to_parquet(file)
    with pytest.raises(ValueError, match="got an index of several"):
        cv.privatize(file, epsilon=1, public_labels=True)


@pytest.mark.parametrize("name", [None, "patient"])
def test_no_index_of_pandas_is_a_column_of_counts(tmp_path, name):
    file = tmp_path / "counts.parquet"
    table = pd.DataFrame({"who": ["ann", "bo"], "oil": [1, 2]}, index=pd.Index([7654321, 7654399], name=name))
    table.to_parquet(file)
    forms = [table, file, pa.Table.from_pandas(table)]
    for given in [*forms, pl.read_parquet(file)] if name is None else forms:
        release = cv.privatize(given, epsilon=900, index="who", public_labels=True)
        assert [labels.tolist() for labels in release.labels] == [["ann", "bo"], ["oil"]]
        assert release.to_dense().tolist() == [[1], [2]]
    oil = table[["oil"]]
    oil.to_parquet(file)
    for given in (oil, file, pa.Table.from_pandas(oil)):
        release = cv.privatize(given, epsilon=900, rows=["7654399"], columns=["oil"])
        assert release.to_dense().tolist() == [[2]]
    two = table.set_index(pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["x", "y"]))[["oil"]]
    release = cv.privatize(pa.Table.from_pandas(two), epsilon=900, index="x", public_labels=True)
    assert [labels.tolist() for labels in release.labels] == [["1", "3"], ["oil"]]


def test_a_column_without_a_name_is_not_taken_for_counts(tmp_path):
    """As pandas' to_csv() and R's write.csv() write labels of rows."""
    file = tmp_path / "counts.csv"
    table = pd.DataFrame({"oil": [1, 2]}, index=[7654321, 7654399])
    table.to_csv(file)
    refused = (
        r"counts: expected names of all columns, got one without, .*; index= names it \(%r\) where it does"
    )
    for more in ({"public_labels": True}, {"columns": ["oil"]}, {"rows": ["a", "b"], "columns": ["oil"]}):
        with pytest.raises(ValueError, match=refused % ""):
            cv.privatize(file, epsilon=1, **more)
        with pytest.raises(ValueError, match=refused % "Unnamed: 0"):
            cv.privatize(pd.read_csv(file), epsilon=1, **more)
    release = cv.privatize(file, epsilon=900, index="", rows=[7654399, 7654321], columns=["oil"])
    assert release.to_dense().tolist() == [[2], [1]]
    file.write_text("oil,war,\n1,2,\n")  # a comma too many
    assert cv.privatize(file, epsilon=900, columns=["war"]).to_dense().tolist() == [[2]]
    with pytest.raises(ValueError, match=refused % ""):
        cv.privatize(file, epsilon=1, public_labels=True)


def test_columns_that_other_libraries_only_number():
    table = pl.DataFrame({"column_0": ["ann", "bo"], "column_1": [1, 2], "column_2": [3, 4]})
    others = (
        table,
        table.rename({"column_1": "V1", "column_2": "V2"}),
        table.rename({"column_1": "f1", "column_2": "f2"}),
    )
    for one in others:
        with pytest.raises(ValueError, match=r"^columns: expected a table with names of columns"):
            privatize(one, 1, index="column_0", rows=["ann", "bo"], columns=["tea", "sea"])
    release = privatize(table, 900, index="column_0", rows=["ann", "bo"], columns=["column_2", "column_1"])
    assert release.to_dense().tolist() == [[3, 1], [4, 2]]


def test_numbers_that_are_labels_elsewhere_are_no_positions():
    release = privatize([[1], [2], [3]], [1, 2, 3], rows=[1, 2, 3])
    with pytest.raises(
        ValueError, match=r"^rows: expected row numbers, got one that is the label of another row"
    ):
        release.guarantee_for([1])
    assert privatize([[1], [2], [3]], [1, 2, 3], rows=[0, 1, 2]).guarantee_for([1]).epsilon == 2
    with pytest.raises(ValueError, match=r"^rows: expected labels as text, or positions by a slice"):
        positions("rows", [1], release.labels[0], 3)
    assert positions("rows", ["1"], release.labels[0], 3).tolist() == [0]
    assert positions("rows", slice(1, 2), release.labels[0], 3).tolist() == [1]


def test_columns_that_are_truths_are_not_only_numbered():
    table = pd.DataFrame([[900, 0]], index=["ann"], columns=[True, False])
    release = cv.privatize(table, 900, rows=["ann"], columns=["True", "False"])
    assert release.to_dense().tolist() == [[900, 0]]
