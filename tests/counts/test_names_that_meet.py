"""Two things with labels meet: they are matched by name, or refused; by order only where one of them has no names.

Entrances by situations. Which labels are one label is said in one place (``counts/inputs/spellings.py``), and every
entrance is asked here whether it listens.
"""

import datetime as dt
import uuid

import networkx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from pyarrow import csv

import countveil as cv
from counts.spellings import BERLIN, SPELLINGS
from countveil.counts.inputs import spellings as rules
from countveil.counts.sources.plain_counts import read_plain_counts
from countveil.evaluation import held_out_log_score
from countveil.sklearn import PrivateTopicModel

LOUD = 60  # an epsilon that leaves counts as they are


COUNTS = np.array([[100, 200], [300, 400]])


QUICK = {"sweeps": 4, "thin": 1, "seed": 1, "progress": False}


#: The labels "b" and "a", in this order, as people have them.
CONTAINERS = {
    "list": ["b", "a"],
    "tuple": ("b", "a"),
    "keys": {"b": 7, "a": 8}.keys(),
    "places": {"a": 1, "b": 0},  # as the vocabulary of scikit-learn
    "numpy": np.array(["b", "a"]),
    "objects": np.array(["b", "a"], dtype=object),
    "index": pd.Index(["b", "a"], name="person"),
    "Series": pd.Series(["b", "a"], index=[5, 3]),
    "categories": pd.Categorical(["b", "a"], categories=["a", "b"]),
    "polars": pl.Series(["b", "a"]),
    "polars categories": pl.Series(["b", "a"], dtype=pl.Categorical),
    "arrow": pa.array(["b", "a"]),
    "arrow chunks": pa.chunked_array([["b"], ["a"]]),
    "arrow dictionary": pa.array(["b", "a"]).dictionary_encode(),
    "xarray": xr.DataArray(["b", "a"], dims="person"),
    "listed xarray": list(xr.DataArray(["b", "a"], dims="person")),
    "listed arrow": list(pa.array(["b", "a"])),
    "nodes": networkx.DiGraph([("b", "a")]).nodes,
}


#: What has labels and is no list of them.
NO_LISTS = {
    "text": "ba",
    "set": {"b", "a"},
    "mapping": {"b": 5, "a": 5},
    "DataFrame": pd.DataFrame({"b": [1], "a": [2]}),
    "polars": pl.DataFrame({"b": [1], "a": [2]}),
    "arrow": pa.table({"b": [1], "a": [2]}),
    "two axes": np.array([["b", "x"], ["a", "y"]]),
    "lists": [["b"], ["a"]],
    "list of Series": [pd.Series(["b"]), pd.Series(["a"])],
    "missing": pa.array(["b", None]),
}


def turned_table():
    return pd.DataFrame(COUNTS[::-1], index=["a", "b"], columns=["tea", "sea"])


#: Everything that takes labels of rows for COUNTS.
ROW_LABELS = {
    "privatize": lambda rows: cv.privatize(COUNTS, epsilon=LOUD, rows=rows),
    "labels=": lambda rows: cv.privatize(COUNTS, epsilon=LOUD, labels=(rows, None)),
    "table": lambda rows: cv.privatize(turned_table(), epsilon=LOUD, rows=rows, columns=["tea", "sea"]),
    "long": lambda rows: cv.privatize(
        turned_table().rename_axis("person").reset_index().melt("person"),
        epsilon=LOUD, long=("person", "variable", "value"), rows=rows, columns=["tea", "sea"],
    ),
    "texts": lambda rows: cv.privatize(
        pd.Series(["tea " * 300 + "sea " * 400, "tea " * 100 + "sea " * 200], index=["a", "b"]),
        epsilon=LOUD, rows=rows, vocabulary=["tea", "sea"],
    ),
    "PrivateCounts": lambda rows: cv.PrivateCounts(COUNTS, alpha=1e-9, labels=(rows, None)),
    "simulate": lambda rows: cv.simulate_release(COUNTS, epsilon=LOUD, seed=1, labels=(rows, None)),
    "stack": lambda rows: cv.stack_rows(cv.PrivateCounts(COUNTS[:1], alpha=1e-9), COUNTS[1:], rows=rows),
    "fit": lambda rows: cv.fit(cv.TopicModel(1), COUNTS, labels=(rows, None), **QUICK),
}  # fmt: skip


ROW_LABELS["graph"] = lambda rows: cv.privatize(graph(), epsilon=LOUD, rows=rows, self_loops=True)


def graph():
    edges = [("a", "a", 400), ("a", "b", 300), ("b", "a", 200), ("b", "b", 100)]
    made = networkx.DiGraph()
    made.add_weighted_edges_from(edges)
    return made


@pytest.mark.parametrize("entrance", ROW_LABELS)
def test_labels_of_every_container(entrance):
    for name, rows in CONTAINERS.items():
        found = ROW_LABELS[entrance](rows)
        labels = found._labels[0] if entrance == "fit" else found.labels[0]
        assert labels.tolist() == ["b", "a"], name
        if entrance != "fit":
            assert found.to_dense().tolist() == COUNTS.tolist(), name


@pytest.mark.parametrize("entrance", ROW_LABELS)
def test_what_is_no_list_of_labels(entrance):
    for name, rows in NO_LISTS.items():
        with pytest.raises(TypeError, match="labels: expected") as error:
            ROW_LABELS[entrance](rows)
        assert not any(str(count) in str(error.value) for count in COUNTS.ravel()), name


def table_of(library, found):
    lines = {"row": found, "word": ["tea", "tea"], "n": [100, 200]}
    if library == "pandas":
        return pd.DataFrame(lines)
    if isinstance(found, pd.Categorical):
        found = found.tolist()
    if library == "polars":
        return pl.DataFrame(lines | {"row": pl.Series(found)})
    return pa.table(lines | {"row": pa.array(found)})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_label_in_two_spellings(spelling):
    found, declared = SPELLINGS[spelling]
    rows = list(declared)[::-1]
    for library in ("pandas", "polars", "arrow"):
        release = cv.privatize(
            table_of(library, found), epsilon=LOUD, long=("row", "word", "n"), rows=rows, columns=["tea"]
        )
        assert release.to_dense().ravel().tolist() == [200, 100], library
    wide = pd.DataFrame({"tea": [100, 200]}, index=pd.Index(found))
    assert cv.privatize(wide, epsilon=LOUD, rows=rows, columns=["tea"]).to_dense().ravel().tolist() == [
        200,
        100,
    ]


@pytest.mark.parametrize(
    "spelling", ["numbers as text", "floats", "decimals", "narrow floats", "truths", "accents"]
)
def test_parts_of_a_label_in_two_spellings(spelling):
    found, declared = SPELLINGS[spelling]
    table = pd.DataFrame({"tea": [100, 200]}, index=pd.MultiIndex.from_arrays([list(found), ["x", "y"]]))
    rows = list(zip(declared, ["x", "y"], strict=True))[::-1]
    release = cv.privatize(table, epsilon=LOUD, rows=rows, columns=["tea"])
    assert release.to_dense().ravel().tolist() == [200, 100]


def test_a_label_of_its_own_goes_before_another_spelling():
    found = pd.DataFrame({"tea": [100, 200]}, index=pd.Index(["1", "True"]))
    release = cv.privatize(found, epsilon=LOUD, rows=[True, 1], columns=["tea"])
    assert release.to_dense().ravel().tolist() == [200, 100]
    narrow = pd.DataFrame({"tea": [100, 200]}, index=pd.Index([0.1, float(np.float32(0.1))]))
    release = cv.privatize(narrow, epsilon=LOUD, rows=["0.10000000149011612", "0.1"], columns=["tea"])
    assert release.to_dense().ravel().tolist() == [200, 100]


def test_hours_without_a_zone_are_not_those_of_another():
    hours = [dt.datetime(2025, 1, 1, hour, tzinfo=BERLIN) for hour in (11, 12)]
    naive = pd.DataFrame({"tea": [100, 200]}, index=pd.Index([hour.replace(tzinfo=None) for hour in hours]))
    assert cv.privatize(naive, epsilon=LOUD, rows=hours, columns=["tea"]).to_dense().ravel().tolist() == [
        0,
        0,
    ]


def test_hours_of_london_are_those_of_no_zone_in_no_season():
    hours = pd.date_range("2025-01-01", "2025-12-01", freq="MS", tz="Europe/London") + pd.Timedelta(hours=12)
    naive = pd.DataFrame({"tea": 100}, index=pd.Index(hours.tz_localize(None), name="hour"))
    assert not cv.privatize(naive, epsilon=LOUD, rows=hours, columns=["tea"]).to_dense().any()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_in_files_of_every_library(zone, unit, tmp_path):
    hours = pd.to_datetime(["2025-01-01 12:00:00", "2025-07-01 13:30:05"]).as_unit(unit).tz_localize(zone)
    table, file = pd.DataFrame({"hour": hours, "word": "tea", "n": [100, 200]}), tmp_path / "counts.csv"
    writers = {
        "pandas": lambda: table.to_csv(file, index=False),
        "polars": lambda: pl.from_pandas(table).write_csv(file),
        "arrow": lambda: csv.write_csv(pa.Table.from_pandas(table), file),
    }
    for library, write in writers.items():
        write()
        release = cv.privatize(file, epsilon=LOUD, long=("hour", "word", "n"), rows=hours, columns=["tea"])
        assert release.to_dense().ravel().tolist() == [100, 200], library
    parquet = tmp_path / "counts.parquet"
    table.to_parquet(parquet)
    arrow = pa.Table.from_pandas(table)
    for kept in (table, arrow, pl.from_arrow(arrow), arrow.to_pandas(types_mapper=pd.ArrowDtype), parquet):
        release = cv.privatize(kept, epsilon=LOUD, long=("hour", "word", "n"), rows=hours, columns=["tea"])
        assert release.to_dense().ravel().tolist() == [100, 200], type(kept)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_that_python_does_not_have_are_not_told_of(zone, unit):
    """As PostgreSQL's infinity is one: outside of the declared labels, in a column or an index."""
    largest = {"s": 10**12, "us": 10**18, "ns": 2**63 - 1}[unit]
    hours = pa.array([10**9, largest], pa.int64()).cast(pa.timestamp(unit, zone))
    table = pa.table({"hour": hours, "who": ["ann", "bo"], "n": [40, 2]})
    by = ("who", "hour", "n")
    forms = [table, table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype)]
    for kept in (*forms, *([pl.from_arrow(table)] if "/" in zone else [])):
        released = cv.privatize(kept, epsilon=900, long=by, rows=["ann"], columns=["x", hours[0].as_py()])
        assert released.to_dense().tolist() == [[0, 40]]
        if isinstance(kept, pd.DataFrame):
            indexed = kept.set_index("hour")[["n"]]
            released = cv.privatize(indexed, epsilon=900, rows=[hours[0].as_py()], columns=["n"])
            assert released.to_dense().tolist() == [[40]]


@pytest.mark.parametrize("kind", ["uuid", "bool8"])
def test_ids_of_arrow_are_found_beside_a_missing_one(kind, tmp_path):
    ids = [uuid.UUID(int=i) for i in (7, 8)] if kind == "uuid" else [True, False]
    for more in ([], [None]):
        if kind == "uuid":
            stored = pa.array([None if one is None else one.bytes for one in ids + more], pa.binary(16))
            column = pa.ExtensionArray.from_storage(pa.uuid(), stored)
        else:
            column = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([*map(int, ids), *more], pa.int8()))
        table = pa.table({"who": column, "word": ["tea"] * len(column), "n": [100] * len(column)})
        pq.write_table(table, tmp_path / "counts.parquet")
        for form in (table, tmp_path / "counts.parquet"):
            for rows in (ids, [str(one) for one in ids]):
                found = cv.privatize(form, epsilon=900, long=("who", "word", "n"), rows=rows, columns=["tea"])
                assert found.to_dense().ravel().tolist() == [100, 100]


def test_times_of_day_to_the_nanosecond_are_not_told_of():
    times = pa.array([3_600 * 10**9, 3_600 * 10**9 + 1]).cast(pa.time64("ns"))
    table = pa.table({"at": times, "who": ["ann", "ann"], "n": [40, 2]})
    for kept in (table, pl.from_arrow(table), table.to_pandas(types_mapper=pd.ArrowDtype)):
        released = cv.privatize(
            kept, epsilon=900, long=("who", "at", "n"), rows=["ann"], columns=[dt.time(1)]
        )
        assert released.to_dense().tolist() == [[40]]


def test_parts_of_an_index_stay_what_they_are():
    """pandas makes floats of whole numbers beside a missing one."""
    ids = pd.array([2**53, 2**53 + 1, None], dtype="Int64")
    index = pd.MultiIndex.from_arrays([ids, ["q", "q", "q"]])
    table = pd.DataFrame({"n": [100, 200, 300]}, index=index)
    rows = [(2**53 + 1, "q"), (2**53, "q")]
    assert cv.privatize(table, epsilon=900, rows=rows, columns=["n"]).to_dense().tolist() == [[200], [100]]


def test_a_dictionary_as_long_as_its_numbers_allow():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 127, None], pa.int8()), [f"w{i}" for i in range(128)])
    table = pa.table({"word": words, "who": ["ann"] * 3, "n": [1, 2, 3]})
    found = cv.privatize(table, epsilon=900, long=("who", "word", "n"), rows=["ann"], columns=["w0", "w127"])
    assert found.to_dense().tolist() == [[1, 2]]


#: Two lists that must be alike, of columns, at everything that compares them: (those known, those given) -> ...
WORDS = ["1", "2"]


def released(words, rows=("a", "b"), seed=0):
    return cv.simulate_release(COUNTS, epsilon=1, seed=seed, labels=(list(rows), words))


def plain(words, rows=("c", "d")):
    return COUNTS if words is None else pd.DataFrame(COUNTS, index=list(rows), columns=words)


@pytest.fixture(scope="module")
def fitted():
    """A fit whose last cell was hidden."""
    release = cv.PrivateCounts(COUNTS, alpha=0.5, labels=(["a", "b"], WORDS))
    return cv.fit(cv.TopicModel(1), release.hide(([1], [1])), sweeps=60, thin=1, seed=1, progress=False)


def shared(known, given):
    views = {name: cv.Factorization("dk,kv->dv", names=["theta", name], k=1) for name in ("one", "other")}
    data = {"one": plain(["x", "y"], known), "other": COUNTS if given is None else plain(["x", "y"], given)}
    return cv.fit(cv.SharedFactors(**views), data, **QUICK)


MUST_BE_ALIKE = {
    "stack, release": lambda fitted, words: cv.stack_rows(released(WORDS), released(words, "cd", 1)),
    "stack, plain": lambda fitted, words: cv.stack_rows(released(WORDS), plain(words), rows=list("abcd")),
    "combine": lambda fitted, words: cv.combine_releases(released(WORDS), released(words, seed=1)),
    "labels=": lambda fitted, words: read_plain_counts(plain(WORDS), (None, words)),
    "transform": lambda fitted, words: cv.transform(fitted, plain(words), progress=False),
    "held out": lambda fitted, words: held_out_log_score(fitted, plain(words, "ab")),
    "network": lambda fitted, words: cv.fit(
        cv.CommunityModel(1), cv.PrivateCounts(COUNTS, alpha=0.5, labels=(WORDS, words)), **QUICK
    ),
    "shared": lambda fitted, words: shared(WORDS, words),
}  # fmt: skip


@pytest.mark.parametrize("entrance", MUST_BE_ALIKE)
def test_lists_that_must_be_alike(entrance, fitted):
    asked = MUST_BE_ALIKE[entrance]
    for same in (["1", "2"], [1.0, 2.0], np.array([1, 2]), None):
        asked(fitted, same)
    with pytest.raises(ValueError, match="got them in another order"):
        asked(fitted, ["2", "1"])
    for others in (["1", "3"], [2.0, 3.0], ["x", "y"]):
        with pytest.raises(ValueError, match=r"got '.' in place of '.'") as error:
            asked(fitted, others)
        assert "100" not in str(error.value)


def test_names_of_axes_in_any_order():
    swapped = {"column": ["tea", "sea"], "row": ["ann", "bo"]}
    for made in (
        cv.privatize(COUNTS, epsilon=LOUD, labels=swapped),
        cv.PrivateCounts(COUNTS, alpha=0.5, labels=swapped),
        cv.simulate_release(COUNTS, epsilon=1, seed=1, labels=swapped),
        read_plain_counts(COUNTS, swapped),
        read_plain_counts(plain(["tea", "sea"], ["ann", "bo"]), swapped),
    ):
        assert (made.axes, made.labels[0].tolist()) == (("row", "column"), ["ann", "bo"])
    with pytest.raises(ValueError, match="labels: expected all axes by their names"):
        cv.PrivateCounts(COUNTS, alpha=0.5, labels={"column": ["tea", "sea"], "person": ["ann", "bo"]})


def test_a_release_keeps_its_names_of_axes(tmp_path):
    """One that an earlier version was given in another order."""
    release = cv.PrivateCounts(COUNTS, alpha=0.5, labels={"word": ["tea", "sea"], "person": ["ann", "bo"]})
    other = cv.PrivateCounts._from_contents(release._contents._replace(axes=("column", "row")))
    other.save(tmp_path / "release.parquet")
    again = cv.load_release(tmp_path / "release.parquet")
    assert (again.axes, again.labels[0].tolist()) == (("column", "row"), ["tea", "sea"])


def test_stacked_rows_do_not_change_names():
    parts = released(WORDS), released(WORDS, "cd", 1)
    for rows in (["c", "d", "a", "b"], ["b", "a", "c", "d"], ["x", "a", "c", "d"]):
        with pytest.raises(ValueError, match="rows: expected labels in the order of the parts, got"):
            cv.stack_rows(*parts, rows=rows)
    assert cv.stack_rows(*parts, rows=["a", "x", "c", "y"]).labels[0].tolist() == ["a", "x", "c", "y"]
    twice = cv.stack_rows(
        parts[0], released(WORDS, "ab", 1), rows=["a", "b", "a2", "b2"], different_rows=True
    )
    assert twice.shape == (4, 2)


def test_rows_of_a_posterior_by_labels_of_any_type():
    days = pd.to_datetime(["2025-01-01", "2025-01-02"])
    posterior = cv.fit(cv.TopicModel(1), released(None, days), **QUICK)
    for wanted in (
        days[1],
        [days[1]],
        np.array(["2025-01-02"], "M8[D]"),
        [dt.date(2025, 1, 2)],
        ["2025-01-02"],
    ):
        assert posterior.rates(rows=wanted)["row"].to_numpy().tolist() == ["2025-01-02"]
    with pytest.raises(ValueError, match="rows: expected known labels, got '2025-01-03'"):
        posterior.rates(rows=["2025-01-03"])


@pytest.mark.parametrize("wanted", [*CONTAINERS.values()], ids=[*CONTAINERS])
def test_rows_of_a_posterior_in_any_container(wanted, fitted):
    found = fitted.rates(rows=wanted)["row"].to_numpy().tolist()
    assert found == (["a", "b"] if isinstance(wanted, dict) else ["b", "a"])  # of which the keys are taken


def test_a_table_is_no_choice_of_rows(fitted):
    for table in (pd.DataFrame({"b": [1]}), pl.DataFrame({"b": [1]}), pa.table({"b": [1]})):
        with pytest.raises(ValueError, match="rows: expected positions, labels or a mask, got a"):
            fitted.rates(rows=table)


def test_cells_by_series_of_different_indexes():
    rows = pd.Series({"first": 0, "second": 1})
    for columns, hidden in ((rows, [[-1, 200], [300, -1]]), ([1, 0], [[100, -1], [-1, 400]])):
        release = cv.PrivateCounts(COUNTS, alpha=0.5).hide((rows, columns))
        assert release.to_dense(missing=-1).tolist() == hidden
    with pytest.raises(TypeError, match="cells: expected index arrays whose entries go together"):
        cv.PrivateCounts(COUNTS, alpha=0.5).hide((rows, rows[::-1]))


FEATURES = {
    "text": ["a", "b", "c"],
    "years": [2020, 2021, 2022],
    "numbers from 0": [0, 1, 2],
    "days": pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03"]),
    "levels": pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", 3)]),
}


@pytest.mark.parametrize("names", FEATURES.values(), ids=FEATURES)
def test_columns_of_scikit_learn(names):
    """scikit-learn compares names that are text, and lets others go by order."""
    table = pd.DataFrame([[9, 0, 1], [0, 8, 2]], columns=names)
    model = PrivateTopicModel(1, sweeps=4, thin=1, random_state=0).fit(table)
    assert model.transform(table).shape == (2, 1)
    for order in ([2, 1, 0], [1, 0, 2]):
        with pytest.raises(ValueError, match=r"feature names|X: expected the columns that were fitted"):
            model.transform(table.iloc[:, order])


def test_coordinates_of_xarray_in_scikit_learn():
    labelled = xr.DataArray([[9, 0], [0, 8]], dims=("row", "word"), coords={"word": ["tea", "sea"]})
    with pytest.raises(TypeError, match="X: expected an array in the order of the data, got a DataArray"):
        PrivateTopicModel(1, sweeps=4).fit(labelled)


def test_runs_of_plain_counts_of_earlier_versions_go_on(tmp_path):
    """They called whole floats '1.0', and days by their midnight."""
    table = pd.DataFrame(COUNTS, index=pd.to_datetime(["2025-01-01", "2025-01-02"]), columns=[1.0, 2.0])
    names = ["2025-01-01 00:00:00", "2025-01-02 00:00:00"], ["1.0", "2.0"]
    cv.fit(cv.TopicModel(1), COUNTS, labels=names, store=tmp_path / "run.zarr", **QUICK)
    longer = cv.extend(tmp_path / "run.zarr", sweeps=8, data=table, progress=False)
    assert longer._labels[1].tolist() == ["1.0", "2.0"]
    with pytest.raises(
        ValueError, match="data: expected the labels with which the run was begun along axis 1"
    ):
        cv.extend(tmp_path / "run.zarr", sweeps=12, data=table.set_axis([2.0, 1.0], axis=1), progress=False)


def test_labels_like_those_of_earlier_versions_are_told_apart():
    with pytest.raises(ValueError, match="in another order"):
        cv.combine_releases(released(["1", "1.0"]), released(["1.0", "1"], seed=1))


def test_a_million_marks_on_one_letter_take_no_hours():
    """To sort them takes the square of their number, in one step that nothing can stop."""
    marks = "a" + "\u0301\u0327" * 500_000
    assert rules.coarse_key(marks) == rules.coarse_key("a\u0301") == "a"
    assert len(rules.spellings(marks)) == 2
    words = "é" * 400 + "e\u0301" * 400
    assert rules.coarse_key(words) == "e" * 800
