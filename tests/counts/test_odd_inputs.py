"""Odd inputs are read as what they are, or refused without a word about them: holes, numbers as labels, damage."""

import datetime
from enum import Enum

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

import countveil as cv
from countveil.counts import privatize

LARGE = [1234567890123456789, 9007199254740993, 9007199254740992]


@pytest.mark.parametrize(
    "table",
    [
        lambda columns: pa.table(columns),
        lambda columns: pl.DataFrame(columns, strict=False),
        lambda columns: pd.DataFrame(
            {k: pd.array(v, dtype="Int64") if k == "id" else v for k, v in columns.items()}
        ),
    ],
)
def test_a_missing_label_does_not_round_the_others(table):
    columns = {"id": LARGE[:2], "w": ["x", "x"], "n": [500, 600]}
    with_hole = {"id": [*LARGE[:2], None], "w": ["x", "x", "x"], "n": [500, 600, 7]}
    for given in (columns, with_hole):
        release = privatize(table(given), 900, long=("id", "w", "n"), rows=LARGE, columns=["x"])
        assert release.to_dense().ravel().tolist() == [500, 600, 0]
        assert release.labels[0].tolist() == [str(label) for label in LARGE]


@pytest.mark.parametrize("table", [pa.table, pl.DataFrame])
def test_a_missing_count_outside_does_not_round_the_others(table):
    lines = {"id": ["a", "b"], "w": ["x", "x"], "n": [2**53 - 1, None]}
    release = privatize(table(lines), 900, long=("id", "w", "n"), rows=["a"], columns=["x"])
    assert release.to_dense().tolist() == [[2**53 - 1]]


def test_found_labels_are_the_same_with_and_without_a_missing_one():
    lines = {"id": [1, 2], "n": [5, 6]}
    hole = {"id": [1, 2, None], "n": [5, 6, 7]}
    for given in (lines, hole):
        release = privatize(pa.table(given), 900, long=("id", "n"), public_labels=True)
        assert release.labels[0].tolist() == ["1", "2"]


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


TEXTS = pd.Series(["x " * 500, "x " * 600, "x " * 700])


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


def test_texts_with_labels_are_found_by_them():
    texts = pd.Series({"bo": "sea " * 40, "ann": "tea " * 70, "dee": 7})
    release = privatize(texts, [900, 800, 700], vocabulary=["tea", "sea"], rows=["ann", "bo", "cy"])
    assert release.to_dense().tolist() == [[70, 0], [0, 40], [0, 0]]
    assert [each.epsilon for each in release.row_guarantees] == [900, 800, 700]
    assert release.records[0].labels == ("declared", "declared")
    with pytest.raises(ValueError, match=r"rows: expected rows=\[...\], got none"):
        privatize(texts, 900, vocabulary=["tea", "sea"])
    release = privatize(texts[:2], 900, vocabulary=["tea", "sea"], public_labels=True)
    assert release.labels[0].tolist() == ["bo", "ann"]
    assert release.to_dense().tolist() == [[0, 40], [70, 0]]
    twice = pd.Series(["sea", "tea", "sea"], index=pd.Index([7, 8, 7], name="who"))
    release = privatize(twice, 900, vocabulary=["tea", "sea"], rows=["8", "7"])
    assert release.to_dense().tolist() == [[1, 0], [0, 2]]
    nobody = privatize(twice, 900, vocabulary=["tea", "sea"], rows=["9"])
    assert nobody.to_dense().tolist() == [[0, 0]]


@pytest.mark.parametrize(
    "texts",
    [
        {"ann": "tea"}, {"tea"}, frozenset({"tea"}), pd.DataFrame({"tea": ["tea"]}), pl.DataFrame({"tea": ["tea"]}),
        nx.Graph([("tea", "sea")]),
    ],
)  # fmt: skip
def test_what_is_no_list_of_texts_is_refused(texts):
    with pytest.raises(TypeError, match=f"counts: expected a list of texts, got {type(texts).__name__}"):
        privatize(texts, 900, vocabulary=["tea", "sea"])


def test_one_label_has_one_text():
    class Name(str, Enum):  # noqa: UP042 (a StrEnum calls itself by its value)
        ANN = "ann"

    release = privatize([[1], [2], [3]], 900, rows=[Name.ANN, 1.0, np.float64(2.0)])
    assert release.labels[0].tolist() == ["ann", "1", "2"]


def test_a_label_that_is_no_text_is_not_quoted():
    with pytest.raises(TypeError, match=r"got bytes$"):
        privatize(pd.DataFrame({"r": [b"secret"], "n": [1]}), 1, long=("r", "n"), public_labels=True)


def test_a_table_without_lines_is_a_release_of_noise():
    frame = pd.DataFrame({"id": pd.Series([], dtype=object), "x": pd.Series([], dtype=np.int64)})
    assert privatize(frame, 900, index="id", rows=["a"], columns=["x"]).to_dense().tolist() == [[0]]


@pytest.mark.parametrize("padding", range(1, 2000, 97))
def test_a_quoted_line_break_anywhere_in_a_file(padding, tmp_path):
    file = tmp_path / "long.csv"
    lines = ["r,c,n\n", f"other,{'z' * (2**20 - 1000 + padding)},1\n", *['a,"x\ny",2\n'] * 100]
    file.write_text("".join(lines))
    release = privatize(file, 900, long=("r", "c", "n"), rows=["a"], columns=["x\ny"])
    assert release.to_dense().tolist() == [[200]]


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


def test_rows_declared_by_an_index_of_short_floats_are_found():
    frame = pd.DataFrame([[5], [6]], index=pd.Index([0.1, 0.7], dtype="float32"), columns=["x"])
    assert cv.privatize(frame, epsilon=60, rows=frame.index, columns=["x"]).to_dense().tolist() == [[5], [6]]


@pytest.mark.parametrize("number", [int, np.int64, np.float64, np.int8])
def test_labels_of_several_parts_are_found_whatever_numbers_are_kept_as(number):
    lines = pd.DataFrame({"who": ["ann", "bo"], "month": [1, 2], "tea": [50, 60]}).set_index(["who", "month"])
    release = cv.privatize(lines, epsilon=60, rows=[("bo", number(2)), ("ann", number(1))], columns=["tea"])
    assert release.to_dense().tolist() == [[60], [50]]
    assert release.axes == ("row", "column")


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


def test_floats_that_may_have_been_rounded_are_refused():
    assert privatize(np.array([[2**53 - 1.0]]), 900).to_dense().tolist() == [[2**53 - 1]]
    with pytest.raises(ValueError, match="values beyond"):
        privatize(np.array([[2.0**53]]), 900)  # it may have been 2**53 + 1


@pytest.mark.parametrize(
    "options",
    [
        {"preprocessor": lambda text: text * 9}, {"tokenizer": lambda text: text.split() * 9, "token_pattern": None},
        {"token_pattern": r"\w+ \w+"}, {"token_pattern": r"(?=(\w+))"},
    ],
)  # fmt: skip
def test_own_ways_to_find_words_are_counted_in_pieces(options):
    vectorizer = CountVectorizer(vocabulary=["vote"], **options)
    assert privatize(["vote"], 1, vocabulary=vectorizer).records[0].stability.startswith("A piece that")


def test_a_vectorizer_that_only_bears_the_name_is_counted_in_pieces():
    own = type("CountVectorizer", (CountVectorizer,), {})
    assert (
        privatize(["vote"], 1, vocabulary=own(vocabulary=["vote"])).records[0].stability.startswith("A piece")
    )


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


class Unspeakable:
    def __str__(self):
        raise RuntimeError("secret")


@pytest.mark.parametrize("label", [10**5000, Unspeakable()], ids=["huge", "unspeakable"])
def test_labels_outside_that_cannot_be_said_are_dropped_like_others(label):
    lines = pd.DataFrame({"r": pd.Series(["a", label], dtype=object), "n": [3, 4]})
    assert privatize(lines, 900, long=("r", "n"), labels=[["a"]]).to_dense().tolist() == [3]


def test_masks_in_a_list_are_not_lost():
    with pytest.raises(TypeError, match="counts: expected lists of numbers, got masked arrays in a list"):
        cv.privatize([np.ma.array([40, 50], mask=[0, 1])], epsilon=60)


def test_a_long_table_taken_for_a_wide_one_does_not_tell_its_length():
    links = pd.DataFrame({"sender": ["a", "b"] * 777, "receiver": ["b", "a"] * 777, "messages": 1})
    with pytest.raises(ValueError, match=r"rows: expected a label for each row .* long= those of") as error:
        cv.privatize(links, epsilon=1, rows=["a", "b", "c"], columns=["a", "b", "c"])
    assert "1554" not in str(error.value).replace(",", "")


def test_a_release_is_not_called_a_table(tmp_path):
    for name in ("e.csv", "e.npz", "E.TSV"):
        with pytest.raises(ValueError, match=r"path: expected a name such as release\.parquet, got"):
            cv.privatize_to_file([[1]], tmp_path / name, epsilon=1)
    assert list(tmp_path.iterdir()) == []


def test_where_all_is_hidden_nothing_is_plain():
    release = cv.privatize([[3, 4]], epsilon=1)
    assert "PLAIN" not in str(release.hide(np.ones((1, 2), dtype=bool)))


def test_times_that_are_a_nanosecond_apart_are_two_labels():
    times = pd.DatetimeIndex(np.datetime64("2025-01-01T12:00", "ns") + np.arange(3))
    table = pd.DataFrame({"x": [500, 600, 700]}, index=times)
    for rows in (list(times), times, times.to_numpy(), ["2025-01-01 12:00:00", *map(str, times[1:])]):
        release = privatize(table, 900, rows=rows, columns=["x"])
        assert release.to_dense().ravel().tolist() == [500, 600, 700]
    assert privatize(table, 900, public_labels=True).shape == (3, 1)
    days = pd.date_range("2025-01-01", periods=2)
    release = privatize(pd.DataFrame({"x": [5, 6]}, index=days), 900, rows=days.values, columns=["x"])
    assert release.to_dense().ravel().tolist() == [5, 6]
    assert release.labels[0].tolist() == ["2025-01-01", "2025-01-02"]


DAYS = pd.to_timedelta([1, 2], unit="D")


@pytest.mark.parametrize(
    "rows",
    [
        DAYS[::-1],
        DAYS[::-1].to_numpy(),
        [np.timedelta64(48, "h"), np.timedelta64(1, "D")],
        [datetime.timedelta(2), datetime.timedelta(1)],
        ["2 days 00:00:00", "1 days 00:00:00"],
    ],
    ids=["pandas", "numpy", "hours", "python", "text"],
)
def test_durations_are_found(rows):
    columns = {"day": DAYS.to_numpy(), "a": [3, 4]}
    pandas, arrow = pd.DataFrame(columns), pa.table(columns)
    holes = pa.table({"day": pa.array([*DAYS.to_pytimedelta(), None]), "a": [3, 4, 5]})
    tables = [pandas, pl.from_pandas(pandas), arrow, holes]
    releases = [privatize(t, epsilon=900, index="day", rows=rows, columns=["a"]) for t in tables]
    releases.append(privatize(pandas.set_index("day"), epsilon=900, rows=rows, columns=["a"]))
    for release in releases:
        assert release.to_dense().tolist() == [[4], [3]]
        assert release.labels[0].tolist() == ["2 days 00:00:00", "1 days 00:00:00"]


def test_durations_are_called_as_pandas_calls_them():
    texts = ["1D", "-1h", "-3ns", "36h5us", "7ms", "0s", "1D2ns"]
    given = pd.to_timedelta(texts)
    release = privatize([[0]] * len(texts), epsilon=1, rows=given)
    assert release.labels[0].tolist() == [str(each) for each in given]
    assert privatize([[0]] * len(texts), epsilon=1, rows=list(given.to_numpy())).labels[0].tolist() == [
        str(each) for each in given
    ]
    found = pd.DataFrame({"day": pd.to_timedelta([10, 9, None], unit="D"), "n": 1})
    release = privatize(found, epsilon=900, long=("day", "n"), public_labels=True)
    assert release.labels[0].tolist() == ["9 days 00:00:00", "10 days 00:00:00"]


def test_a_missing_time_is_no_label():
    lines = pd.DataFrame({"day": pd.Series([pd.Timestamp("2025-01-01"), pd.NaT], dtype=object), "n": [3, 4]})
    release = privatize(lines, epsilon=900, long=("day", "n"), public_labels=True)
    assert (release.labels[0].tolist(), release.to_dense().tolist()) == (["2025-01-01"], [3])


@pytest.mark.parametrize("size", ["2 2 -1", "-1 2 2"])
def test_a_matrix_market_file_says_how_much_there_is(tmp_path, size):
    file = tmp_path / "counts.mtx"
    file.write_text(f"%%MatrixMarket matrix coordinate integer general\n{size}\n1 1 3\n2 2 4\n")
    with pytest.raises(ValueError, match="cannot be read as"):
        privatize(file, epsilon=1)


@pytest.mark.parametrize("form", ["array", "graph", "table"])
def test_floats_of_16_bits_are_counts_like_others(form):
    """Without a warning, which tests take for an error."""
    counts = np.array([[2048, 0], [3, 1]], dtype=np.float16)
    if form == "array":
        release = cv.privatize(counts, epsilon=1000)
    elif form == "graph":
        graph = nx.DiGraph()
        graph.add_weighted_edges_from([(i, j, counts[i, j]) for i in range(2) for j in range(2)])
        release = cv.privatize(graph, epsilon=1000, rows=[0, 1], self_loops=True)
    else:
        table = pa.table({"a": pa.array(counts[:, 0]), "b": pa.array(counts[:, 1])})
        release = cv.privatize(table, epsilon=1000, columns=["a", "b"])
    assert release.to_dense().tolist() == [[2048, 0], [3, 1]]
    with pytest.raises(ValueError, match="got fractional values"):
        cv.privatize(np.array([0.5], dtype=np.float16), epsilon=1)


def test_a_text_taken_for_a_file_is_not_quoted():
    with pytest.raises(ValueError, match="got another name; texts come as a list") as caught:
        cv.privatize("dear ann, i am ill", epsilon=1)
    assert "ill" not in str(caught.value).replace("will", "")


def test_a_first_line_of_counts_is_not_taken_for_labels(tmp_path):
    """Labels are released as they are."""
    file = tmp_path / "counts.csv"
    file.write_text("7654321,17,3\n4,5,6\n")
    with pytest.raises(ValueError, match="first line, got numbers, which may be counts") as caught:
        cv.privatize(file, epsilon=1, public_labels=True)
    assert "7654321" not in str(caught.value)
    release = cv.privatize(file, epsilon=900, columns=["3", "17"])  # years, say, which somebody declares
    assert release.to_dense().tolist() == [[6, 5]]
    file.write_text("who,17,3\nann,5,6\n")
    with pytest.raises(ValueError, match="first line, got numbers"):
        cv.privatize(file, epsilon=1, index="who", public_labels=True)
    assert cv.privatize(file, epsilon=900, index="who", rows=["ann"], columns=["3"]).to_dense().tolist() == [
        [6]
    ]


@pytest.mark.parametrize(
    "line",
    [
        "oil,3",
        "ann,1e3",
        '"1,234",oil',
        "0x1F,oil",
        "oil,true",
        "NA,17",
        "oil, 5 ",
        "inf,oil",
        "NA,null",
        "-,n/a",
    ],
)
def test_one_number_in_the_first_line_is_enough(tmp_path, line):
    file = tmp_path / "counts.csv"
    file.write_text(f"{line}\n5,6\n")
    with pytest.raises(ValueError, match="first line, got numbers, which may be counts"):
        cv.privatize(file, epsilon=1, public_labels=True)
    file.write_text("oil,Na,K2,top 10,2nd\n1,2,3,4,5\n")
    assert cv.privatize(file, epsilon=900, public_labels=True).to_dense().tolist() == [[1, 2, 3, 4, 5]]


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


def test_axes_that_are_named_are_found_by_their_names():
    lines = pd.DataFrame({"from": ["ann", "ann"], "to": ["bo", "bo"], "n": [500, 6]})
    people, words = ["ann", "bo"], ["tea", "sea"]
    release = privatize(lines, 900, long=("from", "to", "n"), labels={"to": people, "from": people})
    assert (release.axes, release.to_dense().tolist()) == (("from", "to"), [[0, 506], [0, 0]])
    for labels in ({"sender": people, "receiver": people}, {"from": people, "receiver": people}):
        release = privatize(lines, 900, long=("from", "to", "n"), labels=labels)
        assert (release.axes, release.to_dense().tolist()) == (tuple(labels), [[0, 506], [0, 0]])
    with pytest.raises(
        ValueError, match=r"labels: expected all axes by their names .*, got to in another place"
    ):
        privatize(lines, 900, long=("from", "to", "n"), labels={"to": people, "sender": people})
    counts = [[1, 2], [3, 4]]
    turned = {"column": words, "row": people}
    frame = pd.DataFrame(counts, people, words)
    for given in (counts, frame):
        release = privatize(given, 900, labels=turned)
        assert (release.axes, release.to_dense().tolist()) == (("row", "column"), counts)
        assert [labels.tolist() for labels in release.labels] == [people, words]
    release = privatize(frame.rename_axis("who"), 900, labels={"column": words, "who": people})
    assert (release.axes, release.to_dense().tolist()) == (("who", "column"), counts)
