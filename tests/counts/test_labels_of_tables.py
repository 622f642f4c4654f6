"""Counts of a table stand under the names that they had there, or go by order because nothing else can be meant."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import countveil as cv
from countveil.cli import main
from countveil.counts.sources.plain_counts import read_counts, read_plain_counts
from countveil.sklearn import PrivateTopicModel

LOUD = 900  # an epsilon that leaves counts as they are
WIDE = pd.DataFrame({"doc": ["ann", "bo", "cy"], "tea": [900, 0, 7], "sea": [0, 40, 7]})
DECLARED = {"rows": ["cy", "bo", "ann"], "columns": ["tea", "sea"]}


def forms(frame, folder):
    """A table without an index, in every form."""
    frame.to_csv(folder / "wide.csv", index=False)
    frame.to_csv(folder / "wide.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "wide.parquet")
    files = [folder / name for name in ("wide.csv", "wide.tsv", "wide.parquet")]
    return [
        frame,
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame),
        pa.table(frame.to_dict("list")),
        *files,
    ]


@pytest.mark.parametrize("order", [["doc", "tea", "sea"], ["tea", "sea", "doc"]])
def test_rows_do_not_go_by_order_where_a_column_may_hold_their_labels(order, tmp_path):
    for given in forms(WIDE[order], tmp_path):
        with pytest.raises(
            ValueError, match=r"rows: .* with other columns, of which one may hold them; index="
        ):
            cv.privatize(given, epsilon=LOUD, **DECLARED)
        with pytest.raises(ValueError, match=r"rows: .* with other columns, of which one may hold them"):
            cv.privatize(given, epsilon=LOUD, rows=DECLARED["rows"], public_labels=True)
        found = cv.privatize(given, epsilon=LOUD, index="doc", **DECLARED)
        assert found.to_dense().tolist() == [[7, 7], [0, 40], [900, 0]]
        assert cv.privatize(given, epsilon=LOUD, columns=["tea"]).to_dense().tolist() == [[900], [0], [7]]


def test_rows_of_declared_columns_alone_go_by_order(tmp_path):
    for given in forms(WIDE[["sea", "tea"]], tmp_path):
        release = cv.privatize(given, epsilon=LOUD, **DECLARED)
        assert release.to_dense().tolist() == [[900, 0], [0, 40], [7, 7]]


@pytest.mark.parametrize("command", [["privatize", "--epsilon", "60"], ["fit", "topics", "--plain"]])
def test_commands_do_not_go_by_order_either(command, tmp_path, capsys):
    forms(WIDE, tmp_path)
    for name in ("rows", "columns"):
        (tmp_path / name).write_text("\n".join(DECLARED[name]))
    words = [*command, str(tmp_path / "wide.csv"), "-o", str(tmp_path / "out.parquet")]
    assert main([*words, "--rows", str(tmp_path / "rows"), "--columns", str(tmp_path / "columns")]) == 2
    assert "--rows: expected a table with row labels" in capsys.readouterr().err
    assert not (tmp_path / "out.parquet").exists()


PEOPLE = pd.DataFrame({"tea": [10, 20, 30, 40]}, index=pd.RangeIndex(4, name="person"))
PARTS = {
    "whole": lambda table: table,
    "filter": lambda table: table.filter(pa.array([False, True, False, True])),
    "slice": lambda table: table.slice(2),
    "sort": lambda table: table.sort_by([("tea", "descending")]),
    "join": lambda table: pa.concat_tables([table.slice(0, 2), table.slice(0, 2)]),
}


@pytest.mark.parametrize("part", PARTS)
def test_an_index_that_is_only_described_is_no_row_labels(part, tmp_path):
    table = PARTS[part](pa.Table.from_pandas(PEOPLE))
    pq.write_table(table, tmp_path / "part.parquet")
    for given in (table, tmp_path / "part.parquet"):
        for more in ({"rows": [0, 1, 2, 3], "columns": ["tea"]}, {"public_labels": True}):
            with pytest.raises(ValueError, match=r"index is only described.*reset_index\(\)") as error:
                cv.privatize(given, epsilon=LOUD, **more)
            assert str(error.value).startswith("rows:" if "rows" in more else "counts:")
        release = cv.privatize(given, epsilon=LOUD, columns=["tea"])  # nobody names rows: as an array
        assert release.labels[0] is None
        assert release.to_dense().ravel().tolist() == table.column("tea").to_pylist()
    with pytest.raises(ValueError, match="labels: expected a table that holds its row labels"):
        read_plain_counts(table, labels=(["a", "b", "c", "d"][: len(table)], None))
    assert read_plain_counts(table).labels[0] is None


@pytest.mark.parametrize("part", PARTS)
def test_numbers_that_are_only_described_are_no_row_labels(part):
    table = PARTS[part](pa.Table.from_pandas(PEOPLE.rename_axis(None)))
    n = len(table)
    for rows in (range(n), [str(i) for i in range(n)], [3, 2, 1, 0][:n]):
        with pytest.raises(ValueError, match=r"rows: expected labels that are no numbers, .* once numbered"):
            cv.privatize(table, epsilon=LOUD, rows=rows, columns=["tea"])
    with pytest.raises(ValueError, match=r"labels: expected labels that are no numbers, .* once numbered"):
        read_plain_counts(table, labels=(list(range(n)), None))
    release = cv.privatize(table, epsilon=LOUD, rows=["ann", "bo", "cy", "dee"][:n], columns=["tea"])
    assert release.to_dense().ravel().tolist() == table.column("tea").to_pylist()
    assert cv.privatize(table, epsilon=LOUD, public_labels=True).labels[0] is None


@pytest.mark.parametrize("name", [None, "person"])
def test_an_index_that_was_left_out_of_a_table(name, tmp_path):
    people = pd.DataFrame({"tea": [10, 20]}, index=pd.Index(["ann", "bo"], name=name))
    people.to_parquet(tmp_path / "people.parquet")
    table = pq.read_table(tmp_path / "people.parquet", columns=["tea"])
    with pytest.raises(ValueError, match=r"rows: expected a table that holds its row labels"):
        cv.privatize(table, epsilon=LOUD, rows=["bo", "ann"], columns=["tea"])
    given = table.replace_schema_metadata()
    assert cv.privatize(given, epsilon=LOUD, rows=["x", "y"], columns=["tea"]).to_dense().tolist() == [
        [10],
        [20],
    ]


def test_an_index_that_is_a_column_stays_with_its_rows():
    for table, index in (
        (pa.Table.from_pandas(PEOPLE, preserve_index=True), None),
        (pa.Table.from_pandas(PEOPLE.reset_index()), "person"),
    ):
        given = PARTS["sort"](table).slice(0, 3)
        release = cv.privatize(given, epsilon=LOUD, index=index, rows=[0, 1, 2, 3], columns=["tea"])
        assert release.to_dense().ravel().tolist() == [0, 20, 30, 40]


NAMED = pd.DataFrame([[90, 0], [0, 80]], index=["ann", "bo"], columns=["oil", "gas"])


def labelled(form):
    """The same table with labels of its own, of rows too where the form has any."""
    return {"pandas": NAMED, "polars": pl.from_pandas(NAMED), "arrow": pa.Table.from_pandas(NAMED)}[form]


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow"])
def test_labels_beside_a_table_that_has_its_own(form):
    table = labelled(form)
    kept = read_counts(table, labels=(["ann", "bo"], None))
    assert [labels.tolist() for labels in kept.labels] == [["ann", "bo"], ["oil", "gas"]]
    named = read_counts(table, labels={"who": ["ann", "bo"], "word": ["oil", "gas"]})
    assert named.axes == ("who", "word")
    with pytest.raises(
        ValueError, match=r"labels: expected those that data has along axis 1, .* another order"
    ):
        read_counts(table, labels=(None, ["gas", "oil"]))
    with pytest.raises(ValueError, match=r"labels: .* along axis 1, or None, got 'tea' in place of 'oil'"):
        cv.fit(cv.TopicModel(1), table, labels=(None, ["tea", "gas"]), sweeps=4, thin=1, progress=False)
    if form != "polars":
        with pytest.raises(ValueError, match=r"labels: expected those that y has along axis 0"):
            read_counts(table, labels=(["bo", "ann"], None), name="y")


def test_labels_beside_numbers_that_pandas_gives():
    frame = pd.DataFrame([[90, 0], [0, 80]])
    read = read_counts(frame, labels=(["ann", "bo"], ["oil", "gas"]))
    assert [labels.tolist() for labels in read.labels] == [["ann", "bo"], ["oil", "gas"]]
    assert read_counts(frame, labels=(None, ["oil", "gas"])).labels[0] is None
    with pytest.raises(
        ValueError, match=r"labels: expected labels that are no numbers, or those of the table"
    ):
        read_counts(frame, labels=([1, 0], None))
    with pytest.raises(ValueError, match=r"labels: expected those that data has along axis 0"):
        read_counts(frame.rename_axis("id"), labels=(["ann", "bo"], None))


def test_own_labels_that_are_times_may_be_repeated():
    days = pd.date_range("2025-01-01", periods=2)
    for table in (frame := pd.DataFrame({"a": [3, 4]}, index=days), pa.Table.from_pandas(frame)):
        assert read_counts(table, labels=(days, None)).labels[0].tolist() == ["2025-01-01", "2025-01-02"]
        with pytest.raises(ValueError, match=r"labels: .* in another order"):
            read_counts(table, labels=(days[::-1], None))


def test_labels_do_not_hide_that_new_columns_are_others():
    posterior = cv.fit(cv.TopicModel(1), NAMED, sweeps=8, thin=1, seed=1, progress=False)
    new = pd.DataFrame([[0, 50]], index=["cy"], columns=["gas", "oil"])
    with pytest.raises(ValueError, match=r"data: .* columns that were fitted, got them in another order"):
        cv.transform(posterior, new, labels=(["cy"], None), progress=False)


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("name", ["Unnamed: 0", ""])
def test_a_column_without_a_name_is_no_plain_counts(form, name):
    table = form({name: [1001, 1002], "tea": [1, 2]})
    with pytest.raises(ValueError, match="data: expected names of all columns, got one without") as error:
        cv.fit(cv.TopicModel(1), table, sweeps=4, thin=1, progress=False)
    assert repr(name) in str(error.value)


def test_labels_of_rows_are_no_features_of_scikit_learn():
    for epsilon in (None, 5):
        model = PrivateTopicModel(1, epsilon=epsilon, sweeps=4)
        with pytest.raises(ValueError, match="X: expected names of all columns, got one without"):
            model.fit(pd.DataFrame({"Unnamed: 0": [1001, 1002], "tea": [1, 2]}))
        with pytest.raises(ValueError, match="X: expected columns of counts alone"):
            model.fit(pd.DataFrame({"tea": [1, 2], "__index_level_0__": [1001, 1002]}))


def test_a_saved_index_is_no_plain_counts():
    frame = pd.DataFrame({"tea": [1, 2], "__index_level_0__": [1001, 1002]})
    read = read_plain_counts(frame)
    assert [labels.tolist() for labels in read.labels] == [["1001", "1002"], ["tea"]]
    assert read.total() == 3


def test_sums_of_others_are_refused(tmp_path):
    """With them one count moves up to four of the released ones."""
    lines = pd.DataFrame({"who": ["ann", "ann", "bo"], "what": ["tea", "sea", "tea"]})
    counts = pd.crosstab(lines["who"], lines["what"], margins=True)
    refused = r"expected counts alone, got the label '%s', which may hold sums of others"
    with pytest.raises(ValueError, match=r"^rows: " + refused % "All"):
        cv.privatize(counts, epsilon=1, public_labels=True)
    with pytest.raises(ValueError, match=r"^columns: " + refused % "All"):
        cv.privatize(counts, epsilon=1, rows=["ann", "bo"], columns=["sea", "tea", "All"])
    file = tmp_path / "counts.csv"
    file.write_text("who,tea,Grand Total\nann,3,3\n")
    with pytest.raises(ValueError, match=r"^columns: " + refused % "Grand Total"):
        cv.privatize(file, epsilon=1, index="who", public_labels=True)
    with pytest.raises(ValueError, match=r"^X: " + refused % "All"):
        PrivateTopicModel(n_components=2, epsilon=1).fit(counts)
    release = cv.privatize(counts, epsilon=900, rows=["ann", "bo"], columns=["tea", "sea"])
    assert release.to_dense().tolist() == [[1, 1], [1, 0]]
    file.write_text("who,all,total\nann,3,4\n")  # words
    assert cv.privatize(file, epsilon=900, index="who", public_labels=True).to_dense().tolist() == [[3, 4]]


def test_a_network_of_scikit_learn_takes_one_epsilon():
    people = ["ann", "bo", "cy"]
    table = pd.DataFrame([[0, 5, 7], [1, 0, 2], [3, 4, 0]], index=people, columns=people)
    levels = {"ann": 1, "bo": 2, "cy": 3}
    for several in ([1, 2, 3], levels.values(), (level for level in (1, 2, 3)), np.array([1, 2, 3])):
        with pytest.raises(ValueError, match="epsilon: expected one value for a network"):
            PrivateTopicModel(n_components=2, epsilon=several).fit(table)
    table.columns = ["tea", "sea", "war"]
    assert (
        PrivateTopicModel(n_components=1, epsilon=[1, 2, 3], sweeps=8, thin=1).fit(table).release_ is not None
    )


def test_sums_of_several_factors_are_refused_in_every_form():
    """Which pandas calls ('All', '') and ('n', 'All'); a long table has them wherever its labels are sorted to."""
    first, second = (pd.Series(list(text), name=text[0]) for text in ("xxyy", "pqpq"))
    other = pd.Series(list("Zuvv"), name="other")
    both = pd.crosstab([first, second], [other, second.rename("s")], margins=True)
    table = pd.DataFrame({"a": first, "c": other, "n": 1})
    pivot = pd.pivot_table(table, index=["a"], columns="c", values=["n"], aggfunc="sum", margins=True).fillna(
        0
    )
    lines = pd.crosstab(first, other, margins=True).stack().rename("n").reset_index()
    for counts, long in ((both, None), (pivot.iloc[:-1], None), (lines, ("x", "other", "n"))):
        with pytest.raises(ValueError, match=r"^(rows|columns): expected counts alone, got the label .*All"):
            cv.privatize(counts, epsilon=1, long=long, public_labels=True)
    people, words = ["x", "All", "y"], ["All", "u", "v"]
    with pytest.raises(ValueError, match=r"^rows: expected counts alone, got the label 'All'"):
        cv.privatize(lines, epsilon=1, long=("x", "other", "n"), rows=people, columns=words)
    # On one axis, and not at its end, it is a word like others.
    assert cv.privatize(lines, epsilon=9, long=("x", "other", "n"), rows=["x", "y"], columns=words).shape == (
        2,
        3,
    )


def test_counts_without_a_label_are_not_left_out_in_silence():
    lines = pd.DataFrame({"author": ["ann", None, "bo"], "word": ["a", "a", "b"], "n": [3, 5, 4]})
    wide = lines.pivot_table(index="author", columns="word", values="n", fill_value=0, dropna=False)
    wide.loc[np.nan] = 5
    for counts, long in ((lines, ("author", "word", "n")), (wide, None)):
        with pytest.warns(UserWarning, match="rows: there are counts without a label"):
            release = cv.privatize(counts, epsilon=900, long=long, public_labels=True)
        assert release.to_dense().tolist() == [[3, 0], [0, 4]]
        # Where labels are declared nobody is told.
        release = cv.privatize(counts, epsilon=900, long=long, rows=["ann", "bo"], columns=["a", "b"])
        assert release.to_dense().tolist() == [[3, 0], [0, 4]]


def test_of_counts_without_a_label_in_undeclared_rows_nobody_is_told():
    lines = [("ann", "tea", 3), ("bo", "sea", 4)]
    for more, told in (([("zed", None, 3)], False), ([("ann", None, 3)], True)):
        table = pd.DataFrame(lines + more, columns=["by", "word", "n"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cv.privatize(table, 9, long=("by", "word", "n"), rows=["ann", "bo"], public_labels=True)
        assert bool(caught) == told
    both = pd.DataFrame([*lines, (None, "tea", 1), ("bo", None, 1)], columns=["by", "word", "n"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cv.privatize(both, 9, long=("by", "word", "n"), public_labels=True)
    assert [str(one.message)[:5] for one in caught] == ["rows:", "colum"]
