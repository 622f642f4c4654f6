"""Odd inputs are read as what they are, or refused without a word about them: holes, numbers as labels, damage."""

import datetime
import os
from decimal import Decimal
from enum import Enum

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import countveil as cv
from countveil.counts import privatize
from countveil.counts.inputs.count_files import read_count_file
from countveil.counts.inputs.frames import as_table
from countveil.counts.inputs.options import InputOptions

LEFT_OUT = "ignore:.*counts without a label"
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


@pytest.mark.filterwarnings(LEFT_OUT)
def test_found_labels_are_the_same_with_and_without_a_missing_one():
    lines = {"id": [1, 2], "n": [5, 6]}
    hole = {"id": [1, 2, None], "n": [5, 6, 7]}
    for given in (lines, hole):
        release = privatize(pa.table(given), 900, long=("id", "n"), public_labels=True)
        assert release.labels[0].tolist() == ["1", "2"]


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


def test_rows_declared_by_an_index_of_short_floats_are_found():
    frame = pd.DataFrame([[5], [6]], index=pd.Index([0.1, 0.7], dtype="float32"), columns=["x"])
    assert cv.privatize(frame, epsilon=60, rows=frame.index, columns=["x"]).to_dense().tolist() == [[5], [6]]


@pytest.mark.parametrize("number", [int, np.int64, np.float64, np.int8])
def test_labels_of_several_parts_are_found_whatever_numbers_are_kept_as(number):
    lines = pd.DataFrame({"who": ["ann", "bo"], "month": [1, 2], "tea": [50, 60]}).set_index(["who", "month"])
    release = cv.privatize(lines, epsilon=60, rows=[("bo", number(2)), ("ann", number(1))], columns=["tea"])
    assert release.to_dense().tolist() == [[60], [50]]
    assert release.axes == ("row", "column")


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


class Unspeakable:
    def __str__(self):
        raise RuntimeError("secret")


class NoZone(datetime.tzinfo):
    def utcoffset(self, moment):
        raise RuntimeError("secret")


@pytest.mark.parametrize(
    "label",
    [
        10**5000,
        Unspeakable(),
        Decimal("1E+9999999"),
        datetime.datetime(2025, 1, 1, tzinfo=NoZone()),
        datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
    ],
    ids=["huge", "unspeakable", "beyond decimals", "without a zone", "the end of time"],
)
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


@pytest.mark.filterwarnings(LEFT_OUT)
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


@pytest.mark.filterwarnings(LEFT_OUT)
def test_a_missing_time_is_no_label():
    lines = pd.DataFrame({"day": pd.Series([pd.Timestamp("2025-01-01"), pd.NaT], dtype=object), "n": [3, 4]})
    release = privatize(lines, epsilon=900, long=("day", "n"), public_labels=True)
    assert (release.labels[0].tolist(), release.to_dense().tolist()) == (["2025-01-01"], [3])


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


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_a_node_by_two_names_is_refused(kind):
    graph = kind()
    graph.add_edge(1, 2, weight=5)
    with pytest.raises(
        ValueError, match=r"^columns: expected one name for a node on both sides, got '1.0' for '1'"
    ):
        privatize(graph, 1, rows=["1"], columns=["2", "1.0"])


@pytest.mark.parametrize(
    "kind", ["pandas", "polars list", "polars array", "polars struct", "arrow", "missing"]
)
def test_several_labels_in_a_line_are_refused(kind):
    """As where explode() was forgotten: every line would be lost, or move several counts. By the type alone."""
    pairs = [["a", "b"], ["b", "a"]]
    column = {
        "pandas": lambda: pd.DataFrame(
            {"to": pd.array(pairs, dtype=pd.ArrowDtype(pa.list_(pa.string()))), "n": [1, 2]}
        ),
        "polars list": lambda: pl.DataFrame({"to": pairs, "n": [1, 2]}),
        "polars array": lambda: pl.DataFrame(
            {"to": [[1, 2], [3, 4]], "n": [1, 2]}, schema={"to": pl.Array(pl.Int64, 2), "n": pl.Int64}
        ),
        "polars struct": lambda: pl.DataFrame({"to": [{"x": "a"}, {"x": "b"}], "n": [1, 2]}),
        "arrow": lambda: pa.table({"to": pairs, "n": [1, 2]}),
        "missing": lambda: pa.table({"to": [["a", "b"], None], "n": [1, 2]}),
    }[kind]()
    for by in (("to", "n"), ("to", None)):
        with pytest.raises(TypeError, match=r"^counts: expected columns of numbers and labels") as error:
            privatize(column, 1, long=by, labels=(["a", "b"],))
        assert "2" not in str(error.value)


def test_lists_among_objects_are_nobodys():
    """They have no type, and a line of somebody else may not take an error away."""
    for others in ([], ["x"]):
        lines = pd.DataFrame({"to": [["a", "b"], ["b", "a"], *others], "n": 100})
        assert not privatize(lines, 900, long=("to", "n"), labels=(["a", "b"],)).to_dense().any()


@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_time_beyond_the_years_of_python_is_dropped_like_others(zone, hole):
    """As databases have it for "never", or a typing error: it may not stop the release, which would tell of it."""
    times = pa.array(np.array(["2025-01-01T11", "12000-01-01"], "M8[us]")).cast(pa.timestamp("us", zone))
    table = pa.table({"when": pa.concat_arrays([times, times[:0] if not hole else pa.nulls(1, times.type)])})
    row = datetime.datetime(2025, 1, 1, 11, tzinfo=datetime.UTC if zone else None)
    for lines in (table, pl.from_arrow(table)):
        release = privatize(lines, 900, long=("when", None), labels=([row],))
        assert release.to_dense().tolist() == [1]
    dates = pl.DataFrame({"when": pl.Series([20_000, 5_000_000, None], dtype=pl.Int32).cast(pl.Date)})
    release = privatize(dates, 900, long=("when", None), labels=([datetime.date(2024, 10, 4)],))
    assert release.to_dense().tolist() == [1]


def test_a_long_text_in_many_lines_is_read_once(tmp_path):
    """In Parquet it is written once, and a file of a kilobyte would take gigabytes."""
    text, file = "x" * 100_000, tmp_path / "counts.parquet"
    codes = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000, np.int32)), pa.array([text]))
    pq.write_table(pa.table({"row": codes, "n": np.ones(2_000, np.int64)}), file, store_schema=False)
    found = as_table(read_count_file(file, InputOptions())).column(0)
    assert len({id(one) for one in found}) == 1
    assert privatize(file, 900, long=("row", "n"), labels=[["ann"]]).to_dense().tolist() == [0]
    # As a label it is too long, and no message has all of it.
    for options in ({"labels": [[text]]}, {"public_labels": True}):
        with pytest.raises(ValueError, match="row labels of at most 2,000 letters, got a longer one"):
            privatize(file, 900, long=("row", "n"), **options)
    with pytest.raises(ValueError, match="axis names of at most 2,000 letters, got a longer one"):
        cv.PrivateCounts([[1]], alpha=0.5, labels={text: ["a"], "word": ["b"]})


@pytest.mark.filterwarnings(LEFT_OUT)
@pytest.mark.parametrize("values", [["a", "b", None, "a"], [7, 8, None, 7], [None, "2025-01-01", "x", None]])
def test_dictionaries_of_arrow_are_read_as_what_they_hold(values):
    parts = [pa.array(values[:2]).dictionary_encode(), pa.array(values).dictionary_encode()]
    table = pa.table({"row": pa.chunked_array(parts), "n": range(1, 7)})
    expected = pd.DataFrame({"row": pd.Series([*values[:2], *values], dtype=object), "n": range(1, 7)})
    releases = [privatize(one, 900, long=("row", "n"), public_labels=True) for one in (table, expected)]
    assert releases[0] == releases[1]


def test_a_first_line_of_very_many_names_is_refused(tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text(",".join(["a"] * 300_000) + "\n")
    with pytest.raises(ValueError, match="expected a file that takes at most 1 GiB and 1000 times its size"):
        privatize(file, 1, public_labels=True)


@pytest.mark.filterwarnings(LEFT_OUT)
def test_a_missing_time_beside_nanoseconds_is_no_label():
    times = np.array(["2025-01-01T00:00:00.000000001", "NaT", "2025-01-03"], dtype="datetime64[ns]")
    table = pd.DataFrame({"tea": [1, 2, 4]}, index=times)
    release = cv.privatize(table, epsilon=900, public_labels=True)
    assert len(release.labels[0]) == 2
    assert release.to_dense().tolist() == [[1], [4]]
    declared = cv.privatize(table, epsilon=900, rows=["None", "NaT"], columns=["tea"])
    assert not declared.to_dense().any()


def test_tuples_in_tuples_in_an_undeclared_line_raise_nothing():
    deep = ()
    for _ in range(100_000):
        deep = (deep,)
    lines = pd.DataFrame({"by": ["ann", deep], "word": ["tea", "tea"], "n": [900, 900]})
    assert privatize(lines, 900, long=("by", "word", "n"), rows=["ann"], columns=["tea"]).total() == 900
    graph = nx.DiGraph([("ann", "bo"), (deep, "bo")])
    assert privatize(graph, 900, rows=["ann", "bo"]).total() == 1


@pytest.mark.parametrize("words", [b"{", b"[1]", b'{"index_columns": 5}', b'"x"', b"\xff"])
def test_what_pandas_never_wrote_of_a_table_is_passed_over(words, tmp_path):
    table = pa.table({"by": ["ann"], "word": ["tea"], "n": [900]})
    pq.write_table(table.replace_schema_metadata({b"pandas": words}), tmp_path / "by.parquet")
    for given in (tmp_path / "by.parquet", table.replace_schema_metadata({b"pandas": words})):
        release = privatize(given, 900, long=("by", "word", "n"), rows=["ann"], columns=["tea"])
        assert release.total() == 900


@pytest.mark.skipif(os.name == "nt", reason="no such names")
def test_a_name_that_looks_like_an_address_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = pd.DataFrame({"by": ["ann"], "word": ["tea"], "n": [900]})
    for name in ("file:x.parquet", "s3:x.parquet", "file:x.csv"):
        (lines.to_csv if name.endswith("csv") else lines.to_parquet)(tmp_path / name, index=False)
        for given in (name, f"./{name}"):
            release = privatize(given, 900, long=("by", "word", "n"), rows=["ann"], columns=["tea"])
            assert release.total() == 900
