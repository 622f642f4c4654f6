"""Every form people have counts in gives the same release, and none without a declared universe."""

import gzip
import re

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy import io, sparse, stats
from sklearn.feature_extraction.text import CountVectorizer

from countveil.counts import load_release, privatize, privatize_to_file
from countveil.counts.inputs import read_input
from countveil.counts.inputs.options import InputOptions
from countveil.counts.sources.plain_counts import read_plain_file
from goodness_of_fit import fits, rejects

LOUD = 900  # epsilon: the chance of any noise at all is exp(-900)
ROWS, COLUMNS = ["ann", "bo", "cy"], ["x", "y", "z", "w"]
TRUE = np.array([[5, 0, 7, 0], [0, 0, 0, 0], [1, 2, 0, 0]])
# The same counts as lines: one cell in two parts, an explicit zero, and entries outside the declared universe.
LINES = {
    "who": ["ann", "cy", "ann", "ann", "cy", "bo", "dee", "cy", None],
    "what": ["x", "x", "x", "z", "y", "y", "x", "q", "x"],
    "n": [3, 1, 2, 7, 2, 0, 70, 71, 72],
}
LONG = {"long": ("who", "what", "n"), "rows": ROWS, "columns": COLUMNS}


def files(folder):
    """The counts in every kind of file."""
    table = pa.table(LINES)
    pa.csv.write_csv(table, folder / "long.csv")
    (folder / "long.tsv").write_text((folder / "long.csv").read_text().replace(",", "\t"))
    pq.write_table(table, folder / "long.parquet")
    pq.write_table(table.set_column(0, "who", table["who"].dictionary_encode()), folder / "coded.parquet")
    io.mmwrite(folder / "wide.mtx", sparse.coo_array(TRUE))
    (folder / "wide.mtx.gz").write_bytes(gzip.compress((folder / "wide.mtx").read_bytes()))
    sparse.save_npz(folder / "sparse.npz", sparse.csr_array(TRUE))
    np.savez(folder / "dense.npz", TRUE)
    np.save(folder / "dense.npy", TRUE)
    return sorted(folder.iterdir())


def test_every_table_gives_the_same_release():
    wide = pd.DataFrame(TRUE, index=ROWS, columns=COLUMNS)
    shuffled = wide.iloc[::-1, ::-1].assign(q=[70, 71, 72])
    shuffled.loc["dee"] = 73
    named = wide.reset_index(names="who")
    declared = {"rows": ROWS, "columns": COLUMNS}
    releases = [
        privatize(TRUE, LOUD, **declared),
        privatize(wide, LOUD, **declared),
        privatize(wide, LOUD, public_labels=True),
        privatize(shuffled, LOUD, **declared),
        privatize(named, LOUD, index="who", **declared),
        privatize(wide.iloc[[0, 2], [0, 1, 2]], LOUD, **declared),  # absent rows and columns are zeros
        privatize(pl.DataFrame(named), LOUD, index="who", **declared),
        privatize(pa.Table.from_pandas(named), LOUD, index="who", **declared),
        privatize(pl.DataFrame(TRUE, schema=COLUMNS), LOUD, **declared),
        *(
            privatize(frame, LOUD, **LONG)
            for frame in (pd.DataFrame(LINES), pl.DataFrame(LINES), pa.table(LINES))
        ),
        privatize(pd.DataFrame(LINES), LOUD, long=LONG["long"], labels=(ROWS, COLUMNS)),
    ]
    for release in releases:
        assert release.to_dense().tolist() == TRUE.tolist()
        assert [labels.tolist() for labels in release.labels] == [ROWS, COLUMNS]


def test_every_file_gives_the_same_release(tmp_path):
    for path in files(tmp_path):
        table = path.name.startswith(("long", "coded"))
        for name in (path, str(path)):
            release = privatize(name, LOUD, **(LONG if table else {"rows": ROWS}))
            assert release.to_dense().tolist() == TRUE.tolist(), path
            assert release.labels[0].tolist() == ROWS


def plain_counts(path):
    read = read_plain_file(path, InputOptions())
    starts, columns, values = read.positive
    return sparse.csr_array((values, columns, starts), shape=read.shape).toarray()


@pytest.mark.parametrize("kind", ["general", "symmetric", "pattern", "array", "real"])
def test_matrix_market_is_read_as_scipy_reads_it(kind, tmp_path):
    matrix = np.array([[0, 3, 0], [3, 1, 0], [0, 0, 2]])
    options = {"symmetry": "symmetric" if kind == "symmetric" else "general"}
    if kind == "pattern":
        matrix, options["field"] = np.minimum(matrix, 1), "pattern"
    form = matrix if kind == "array" else sparse.coo_array(matrix.astype(float if kind == "real" else int))
    io.mmwrite(tmp_path / "m.mtx", form, comment="a\n\nb", **options)
    if kind == "symmetric":
        with pytest.raises(ValueError, match=r"^counts: expected a Matrix Market file of kind general"):
            privatize(tmp_path / "m.mtx", LOUD)
    else:
        assert privatize(tmp_path / "m.mtx", LOUD).to_dense().tolist() == matrix.tolist()
    assert plain_counts(tmp_path / "m.mtx").tolist() == matrix.tolist()  # a fit without noise has both
    read = io.mmread(tmp_path / "m.mtx")
    assert (read if kind == "array" else read.toarray()).tolist() == matrix.tolist()


def test_long_tables_name_their_axes_and_may_have_more_than_two():
    assert privatize(pd.DataFrame(LINES), 1, **LONG).axes == ("who", "what")
    events = pd.DataFrame({"a": [1, 1, 2, 9], "b": list("uuvu"), "t": [2020.0, 2020, 2021, 2020]})
    release = privatize(events, LOUD, long=("a", "b", "t", None), labels=([1, 2], ["u", "v"], [2020, 2021]))
    assert release.to_dense().tolist() == [[[2, 0], [0, 0]], [[0, 0], [0, 1]]]  # a line is an event
    named = privatize(events, 1, long=("a", None), labels={"person": [2, 1]})
    assert (named.axes, named.shape) == (("person",), (2,))


def test_labels_in_files_stay_text(tmp_path):
    (tmp_path / "t.csv").write_text("id,code,n\n007,NA,5\n7,1.0,6\n")
    release = privatize(
        tmp_path / "t.csv", LOUD, long=("id", "code", "n"), rows=["007", "7"], columns=["NA", "1.0"]
    )
    assert release.to_dense().tolist() == [[5, 0], [0, 6]]


def test_numbers_as_labels_match_whatever_their_type():
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, np.nan], "b": pd.array([10, 11, 10], dtype="Int64"), "n": [3, 4, 5]}
    )
    release = privatize(frame, LOUD, long=("a", "b", "n"), rows=[1, 2], columns=np.array([10, 11]))
    assert release.to_dense().tolist() == [[3, 0], [0, 4]]
    release = privatize(pd.DataFrame([[3]], columns=[2021]), LOUD, columns=["2021"])
    assert release.to_dense().tolist() == [[3]]


UNDECLARED = [
    (pd.DataFrame(TRUE, columns=COLUMNS), {}, "columns"),
    (pd.DataFrame(TRUE, ROWS, COLUMNS), {"columns": COLUMNS}, "rows"),
    (pd.DataFrame(TRUE, ROWS, COLUMNS), {"rows": ROWS}, "columns"),
    (pl.DataFrame(TRUE, schema=COLUMNS), {}, "columns"),
    (pd.DataFrame(LINES), {"long": ("who", "what", "n")}, "rows"),
    (pl.DataFrame(LINES), {"long": ("who", "what", "n"), "rows": ROWS}, "columns"),
    (pa.table(LINES), {"long": ("who", "what", "n"), "labels": (ROWS, None)}, "labels"),
    (nx.path_graph(3), {}, "rows"),
    (["some words"], {}, "vocabulary"),
    (pd.Series(["some words"]), {}, "vocabulary"),
    (["some words"], {"vocabulary": CountVectorizer()}, "vocabulary"),
    (["some words"], {"vocabulary": CountVectorizer().fit(["some words"])}, "vocabulary"),
    (["some words"], {"public_labels": True}, "vocabulary"),
]


@pytest.mark.parametrize(("counts", "options", "name"), UNDECLARED)
def test_a_universe_nobody_declared_is_refused_with_reason_and_remedy(counts, options, name):
    with pytest.raises(ValueError, match=rf"^{name}: expected {name}=\[\.\.\.\], got none: ") as caught:
        privatize(counts, 1, **options)
    for words in (
        "guarantee is void",
        "a release shows its labels as they are",
        "public_labels=True",
        "Declare",
    ):
        assert words in str(caught.value)
    for label in (*ROWS, "words", "who"):  # and without telling any
        assert not re.search(rf"\b{label}\b", str(caught.value))


def test_public_labels_come_without_the_order_of_events():
    lines = {"a": [10, 9, 10], "b": ["v", "u", "v"], "n": [1, 2, 3]}
    release = privatize(pl.DataFrame(lines), LOUD, long=("a", "b", "n"), public_labels=True)
    assert [labels.tolist() for labels in release.labels] == [["9", "10"], ["u", "v"]]
    assert release.to_dense().tolist() == [[2, 0], [0, 4]]


@pytest.mark.filterwarnings("ignore:counts. nothing but noise")
@pytest.mark.parametrize(
    ("counts", "options"),
    [
        (pd.DataFrame({"a": ["r0"], "b": ["c0"], "n": [1]}), {"long": ("a", "b", "n")}),
        (pd.DataFrame([[1]], ["r0"], ["c0"]), {}),
        (sparse.csr_array(([1], ([0], [0])), shape=(400, 1000)), {}),
    ],
)
def test_cells_that_were_never_mentioned_get_noise_too(counts, options):
    """A zero is positive with chance alpha/(1+alpha): binomial. One run in a million fails by chance."""
    rows, columns = [f"r{i}" for i in range(400)], [f"c{i}" for i in range(1000)]
    release = privatize(counts, 1, rows=rows, columns=columns, **options)
    positive = len(release.positive.values) - int(release.to_dense()[0, 0] > 0)
    chance = np.exp(-1.0) / (1 + np.exp(-1.0))
    assert fits(stats.binomtest(positive, 399_999, chance).pvalue)
    assert rejects(stats.binomtest(positive, 399_999, 0.95 * chance).pvalue)


def test_texts():
    texts = ["The cat sat. The CAT!", "no such words", "hat cat"]
    vocabulary = ["cat", "hat", "the", "dog"]
    expected = [[2, 0, 2, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    for given in (texts, tuple(texts), pd.Series(texts), pl.Series(texts), iter(texts)):
        release = privatize(given, LOUD, vocabulary=vocabulary)
        assert release.to_dense().tolist() == expected
        assert release.labels[1].tolist() == vocabulary
    own = CountVectorizer(vocabulary=["the cat", "hat"], ngram_range=(1, 2))
    release = privatize(texts, LOUD, vocabulary=own, rows=["a", "b", "c"])
    assert release.to_dense().tolist() == [[2, 0], [0, 0], [0, 1]]
    assert release.labels[0].tolist() == ["a", "b", "c"]


def graph(kind):
    made = kind()
    made.add_weighted_edges_from([("cy", "ann", 5), ("ann", "bo", 7), ("bo", "bo", 3), ("ann", "dee", 9)])
    made.add_edge("bo", "cy")
    return made


def test_directed_graphs():
    release = privatize(graph(nx.DiGraph), LOUD, rows=ROWS)
    assert release.to_dense(missing=-1).tolist() == [[-1, 7, 0], [0, -1, 1], [5, 0, -1]]
    assert [labels.tolist() for labels in release.labels] == [ROWS, ROWS]
    loops = privatize(graph(nx.DiGraph), LOUD, rows=ROWS, columns=ROWS, self_loops=True)
    assert loops.to_dense().tolist() == [[0, 7, 0], [0, 3, 1], [5, 0, 0]]
    assert loops.n_missing == 0


def test_undirected_graphs_are_released_once_per_pair():
    release = privatize(graph(nx.Graph), LOUD, rows=ROWS)
    assert release.to_dense(missing=-1).tolist() == [[-1, 7, 5], [-1, -1, 1], [-1, -1, -1]]
    loops = privatize(graph(nx.Graph), LOUD, rows=ROWS, self_loops=True)
    assert loops.to_dense(missing=-1).tolist() == [[0, 7, 5], [-1, 3, 1], [-1, -1, 0]]
    quiet = privatize(nx.empty_graph(300), 1, public_labels=True)
    assert quiet.n_observed == 300 * 299 // 2
    chance = np.exp(-1.0) / (1 + np.exp(-1.0))
    assert fits(stats.binomtest(len(quiet.positive.values), quiet.n_observed, chance).pvalue)


def test_edges_between_the_same_two_add_up():
    several = nx.MultiGraph([("ann", "bo", {"n": 2}), ("bo", "ann", {"n": 3}), ("ann", "bo", {})])
    release = privatize(several, LOUD, rows=ROWS, weight="n")
    assert release.to_dense(missing=0).tolist() == [[0, 6, 0], [0, 0, 0], [0, 0, 0]]
    numbered = privatize(nx.DiGraph([(10, 9)]), LOUD, public_labels=True)
    assert numbered.labels[0].tolist() == ["9", "10"]


def test_a_graph_without_the_attribute():
    plain = privatize(nx.DiGraph([("ann", "bo")]), LOUD, rows=ROWS)
    dated = nx.MultiDiGraph([("ann", "bo", {"date": "may"}), ("ann", "bo", {"date": "june"})])
    once = privatize(dated, LOUD, rows=ROWS, weight=None)
    assert (plain.to_dense(missing=0)[0, 1], once.to_dense(missing=0)[0, 1]) == (1, 2)
    nobody = privatize(nx.DiGraph(), LOUD, rows=ROWS, weight="n")  # no edge, no fault
    assert nobody.to_dense(missing=0).sum() == 0


def test_rows_and_columns_of_a_graph_may_differ():
    release = privatize(graph(nx.DiGraph), LOUD, rows=["cy", "bo"], columns=["ann", "bo", "dee", "eve"])
    assert release.to_dense(missing=-1).tolist() == [[5, 0, 0, 0], [0, -1, 0, 0]]
    assert [labels.tolist() for labels in release.labels] == [["cy", "bo"], ["ann", "bo", "dee", "eve"]]
    loops = privatize(graph(nx.DiGraph), LOUD, rows=["bo"], columns=["cy", "bo"], self_loops=True)
    assert loops.to_dense().tolist() == [[1, 3]]
    apart = privatize(graph(nx.DiGraph), LOUD, rows=["ann"], columns=["bo", "dee"])
    assert apart.to_dense().tolist() == [[7, 9]]
    received = privatize(graph(nx.DiGraph).reverse(), LOUD, rows=["ann"], columns=["bo", "cy"])
    assert received.to_dense().tolist() == [[0, 5]]


def test_an_undirected_pair_is_in_a_part_once(tmp_path):
    for turned in ([("ann", "bo", {"weight": 7})], [("bo", "ann", {"weight": 7})]):
        made = nx.Graph([*turned, ("ann", "cy", {"weight": 4}), ("bo", "dee", {"weight": 2})])
        release = privatize(made, LOUD, rows=["ann"], columns=["dee", "bo"])
        assert release.to_dense().tolist() == [[0, 7]]
    privatize_to_file(made, tmp_path / "r", LOUD, rows=["ann"], columns=["dee", "bo"])
    assert load_release(tmp_path / "r") == release


WIDE = pd.DataFrame(TRUE, ROWS, COLUMNS)
BOTH = {"rows": ROWS, "columns": COLUMNS}
FORMS = [
    (TRUE, {}, "array", ("none", "none")),
    (TRUE.tolist(), {"rows": ROWS}, "array", ("declared", "none")),
    (np.zeros((2, 3, 4), int), {}, "array", ("none",) * 3),
    (sparse.csr_array(TRUE), {"columns": COLUMNS}, "sparse matrix", ("none", "declared")),
    (WIDE, BOTH, "wide table", ("declared", "declared")),
    (WIDE, {"rows": ROWS, "public_labels": True}, "wide table", ("declared", "from the data")),
    (pl.DataFrame(TRUE, schema=COLUMNS), {"columns": COLUMNS}, "wide table", ("none", "declared")),
    (pd.DataFrame(LINES), LONG, "long table", ("declared", "declared")),
    (pa.table(LINES), {"long": ("who", "n"), "public_labels": True}, "long table", ("from the data",)),
    (nx.DiGraph([(1, 2)]), {"rows": [1, 2]}, "directed graph", ("declared", "declared")),
    (nx.Graph([(1, 2)]), {"public_labels": True}, "undirected graph", ("from the data", "from the data")),
    (nx.Graph([(1, 2)]), {"rows": [1], "columns": [2]}, "undirected graph", ("declared", "declared")),
    (["a text"], {"vocabulary": ["text"]}, "texts", ("none", "declared")),
]


@pytest.mark.filterwarnings("ignore:.*counts without a label")
@pytest.mark.parametrize(("counts", "options", "form", "declared"), FORMS)
def test_what_was_read_says_its_form_and_where_its_labels_come_from(counts, options, form, declared):
    read = read_input(counts, InputOptions(**options))
    assert (read.form, read.declared) == (form, declared)


BAD = [
    (TRUE, {"long": ("a", "b", "n")}, ValueError, "long: expected only with a table"),
    (TRUE, {"vocabulary": ["a"]}, TypeError, "counts: expected a list of texts"),
    ("one text", {"vocabulary": ["a"]}, TypeError, "counts: expected a list of texts, got str"),
    ([], {"vocabulary": ["a"]}, TypeError, "counts: expected a list of texts, got none"),
    (["a"], {"vocabulary": ["a", "a"]}, ValueError, "vocabulary label 'a' appears twice"),
    (["a"], {"vocabulary": ["a"], "columns": ["a"]}, ValueError, "columns: expected none with texts"),
    (TRUE, {"weight": "n"}, ValueError, "weight: expected only with a graph"),
    (TRUE, {"self_loops": True}, ValueError, "self_loops: expected only with a graph"),
    (TRUE, {"index": "n"}, ValueError, "index: expected only with a wide table"),
    (TRUE, {"public_labels": "yes"}, TypeError, "^public_labels: expected True or False, got str"),
    (TRUE, {"self_loops": 1}, TypeError, "^self_loops: expected True or False, got int"),
    (TRUE, {"rows": ROWS, "labels": (ROWS, None)}, ValueError, "either labels or rows and columns"),
    (TRUE[0], {"rows": ROWS}, ValueError, "expected them for 2 axes, got 1 axes; use labels"),
    (TRUE, {"rows": ROWS[:2]}, ValueError, "expected 3 row labels, got 2"),
    (TRUE, {"rows": "abc"}, TypeError, "expected a list of row labels"),
    (pd.DataFrame(LINES), {"long": "who"}, ValueError, "long: expected the names of the columns"),
    (pd.DataFrame(LINES), {**LONG, "long": ("who", "x", "n")}, ValueError, "got 'x': no such column"),
    (pd.DataFrame(LINES), {**LONG, "index": "who"}, ValueError, "index: expected only with a wide table"),
    (pd.DataFrame(LINES), {**LONG, "rows": []}, ValueError, "at least one who label"),
    (pd.DataFrame(LINES), {**LONG, "rows": ["a", "a"]}, ValueError, "'a' appears twice"),
    (pd.DataFrame(LINES), {**LONG, "long": ("who", "what", "who")}, TypeError, "columns of whole numbers"),
    (
        pd.DataFrame(LINES),
        {"public_labels": True},
        TypeError,
        "index= names the column that holds row labels",
    ),
    (pd.DataFrame({"a": []}), {"columns": ["a"]}, ValueError, "at least one cell"),
    (pl.LazyFrame(LINES), LONG, TypeError, r"collect\(\) it first"),
    (nx.DiGraph(), {"columns": ROWS}, ValueError, "rows: expected rows="),
    (nx.Graph(), {"rows": ROWS, "columns": ["ann"]}, ValueError, "columns: expected for an undirected graph"),
    (nx.DiGraph([("ann", "bo", {"n": 2})]), {"rows": ROWS}, ValueError, "got 'weight', which no edge has"),
    (
        nx.DiGraph([("ann", "bo", {"n": 2})]),
        {"rows": ROWS, "weight": "nn"},
        ValueError,
        "^weight: .* weight=None",
    ),
    (nx.DiGraph([("ann", "bo")]), {"rows": ROWS, "weight": "n"}, ValueError, "got 'n', which no edge has"),
    (
        nx.DiGraph(),
        {"rows": ROWS, "weight": True},
        TypeError,
        "weight: expected the name of an edge attribute",
    ),
    (nx.path_graph(3).nodes, {"rows": ROWS}, TypeError, "counts: expected a numpy array"),
    ("counts.xls", {}, ValueError, r"expected a file ending in \.csv"),
    ("no_such.csv", {}, FileNotFoundError, "no_such"),
]


@pytest.mark.parametrize(("counts", "options", "error", "message"), BAD)
def test_bad_input(counts, options, error, message):
    with pytest.raises(error, match=message):
        privatize(counts, 1, **options)


def test_names_of_axes_mean_those_of_the_counts_in_any_case_and_order():
    """Names that differ by case alone are no new ones: the senders would have been called recipients."""
    lines = pd.DataFrame({"to": ["bo"], "from": ["ann"], "n": [900]})
    people = {"From": ["ann", "x"], "To": ["bo", "y"]}
    for labels in (people, dict(reversed(people.items()))):
        release = privatize(lines, 900, long=("to", "from", "n"), labels=labels)
        assert release.axes == ("To", "From")
        assert [found.tolist() for found in release.labels] == [["bo", "y"], ["ann", "x"]]
        assert release.to_dense().tolist() == [[900, 0], [0, 0]]
    with pytest.raises(
        ValueError, match=r"labels: expected all axes by their names \(to, from\).*got From in an"
    ):
        privatize(lines, 900, long=("to", "from", "n"), labels={"From": ["ann"], "other": ["bo"]})
