"""What releases in a ledger cost together: what adds up, and what does not."""

import decimal
import tracemalloc
from fractions import Fraction

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import countveil as cv
from counts.conftest import spent
from countveil.counts.ledger import accounts
from countveil.counts.ledger.ledger import Charge, Ledger
from countveil.privacy import Guarantee
from goodness_of_fit import SEED

COUNTS = [[3, 0], [1, 2]]


def test_slopes_add_whatever_the_unit(ledger_path, enter):
    enter(1, precision=4)
    enter(3, precision=2)
    enter(2, unit="cell")
    enter(5, dataset="other letters")
    assert spent(ledger_path) == Fraction(15, 4)
    assert spent(ledger_path, "other letters") == 5


def test_the_largest_slope_of_any_row_counts(ledger_path, enter):
    enter([1, 3])
    enter([2, 1])
    assert spent(ledger_path) == 5


@pytest.mark.parametrize(
    ("first", "second", "options", "sum_of_both"),
    [
        ("ab", "cd", {}, 2),  # different rows
        ("ab", "bc", {}, 3),  # one in common
        ("ab", "ab", {}, 3),
        ("ab", "cd", {"unit": "person"}, 3),  # a person may have rows of any name
        ("ab", None, {}, 3),  # rows without names may be any
    ],
)  # fmt: skip
def test_disjoint_rows_compose_by_maximum(ledger_path, enter, first, second, options, sum_of_both):
    enter(1, rows=list(first), columns=["x", "y"], **options)
    enter(2, rows=None if second is None else list(second), columns=["x", "y"], **options)
    assert spent(ledger_path) == sum_of_both


def test_three_releases_compose_by_the_row_that_meets_most(ledger_path, enter):
    for epsilon, rows in ((1, "ab"), (2, "bc"), (4, "de")):
        enter(epsilon, rows=list(rows), columns=["x", "y"])
    assert spent(ledger_path) == 4
    enter(2, rows=["a", "c"], columns=["x", "y"])
    assert spent(ledger_path) == 4  # c: 2 + 2
    enter(1, rows=["c", "e"], columns=["x", "y"])
    assert spent(ledger_path) == 5  # c: 2 + 2 + 1, e: 4 + 1


def test_the_same_counts_under_other_rows_add(ledger_path, enter):
    enter(1, rows=["ann", "bo"], columns=["oil", "gas"])
    enter(1, np.transpose(COUNTS), rows=["oil", "gas"], columns=["ann", "bo"])  # the table turned around
    assert spent(ledger_path) == 2
    enter(1, labels={"department": ["sales", "legal"], "column": ["oil", "gas"]})
    assert spent(ledger_path) == 3


def test_a_pair_of_an_undirected_graph_counts_from_either_end(ledger_path, enter):
    graph = nx.Graph([("a", "b", {"weight": 3})])
    enter(1, graph, rows=["a"], columns=["b"])
    enter(1, graph, rows=["b"], columns=["a"])
    assert spent(ledger_path) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["1", "2"], [1.0, 2.0]),
        (["007", "x"], ["7", "y"]),
        (["\u00e9", "b"], ["e\u0301", "c"]),
        (["ann", "b"], ["Ann ", "c"]),
        (["Müller", "b"], ["muller", "c"]),
        (["0.5", "b"], [".50", "c"]),
        (["ann", "b"], ["a\u20ddnn\u3164", "c"]),
        (["ann lee", "b"], ["ann \x00 lee", "c"]),
        (["ann lee", "b"], ["Ann\t\x7fLee", "c"]),
        (["ann lée", "b"], ["ann\n\x01 lee", "c"]),
        (["ann lee", "b"], ["ann\tlée", "c"]),
    ],
)
def test_spellings_of_one_row_are_one(ledger_path, enter, first, second):
    for rows in (first, second):
        enter(1, rows=rows, columns=["x", "y"])
    assert spent(ledger_path) == 2


def test_a_network_turned_around_adds(ledger_path, enter):
    graph = nx.DiGraph([("ann", "bo", {"weight": 7})])
    enter(1, graph, rows=["ann"], columns=["ann", "bo"])
    enter(1, graph.reverse(), rows=["bo"], columns=["ann", "bo"])
    assert spent(ledger_path) == 2


def test_a_wide_table_by_another_index_adds(ledger_path, enter):
    table = pd.DataFrame({"author": ["a", "b"], "city": ["x", "y"], "oil": [1, 2]})
    for index, rows in (("author", ["a"]), ("city", ["x"])):
        enter(1, table, index=index, rows=rows, columns=["oil"])
    assert spent(ledger_path) == 2
    for index, rows in (("author", ["a"]), ("city", ["x"])):
        enter(1, table.set_index(index)[["oil"]], rows=rows, columns=["oil"])
    assert spent(ledger_path) == 4  # the same rows by the same index, twice each


def test_a_long_table_by_another_column_adds(ledger_path, enter):
    lines = pd.DataFrame(
        {"sender": ["ann", "ann"], "recipient": ["bo", "bo"], "word": ["tea", "sea"], "n": [5, 3]}
    )
    for by, rows in (
        ("sender", ["ann"]),
        ("recipient", ["bo"]),
    ):  # the same counts, whatever the axes are called
        enter(1, lines, long=(by, "word", "n"), labels={"person": rows, "term": ["tea", "sea"]})
    assert spent(ledger_path) == 2
    enter(1, lines, long=("sender", "word", "n"), labels={"person": ["dee"], "term": ["tea", "sea"]})
    assert spent(ledger_path) == 2  # another sender


def test_a_table_by_several_columns_adds_to_one_by_others(ledger_path, enter):
    mails = pd.DataFrame({"sender": ["ann"], "recipient": ["bo"], "month": ["jan"], "tea": [5], "sea": [3]})
    for by, row in ((["sender", "month"], ("ann", "jan")), (["recipient", "month"], ("bo", "jan"))):
        enter(1, mails.groupby(by)[["tea", "sea"]].sum(), rows=[row], columns=["tea", "sea"])
    assert spent(ledger_path) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ann", 7), ("ann", 7.0)),
        (("ann", 7), ("ann", "007")),
        (("ann", pd.Timestamp("2025-01-01")), ("ann", "2025-01-01")),
        ("1 days 00:00:00", "1 days"),
        ("2025-01-01 12:00:05.500000", "2025-01-01 12:00:05.5"),
    ],
)
def test_spellings_of_one_row_add(ledger_path, enter, one, other):
    for row, another in ((one, "b"), (other, "c")):
        enter(1, rows=[row, another], columns=["x", "y"])
    assert spent(ledger_path) == 2


def test_an_entry_that_does_not_say_what_its_rows_are_by_is_read_and_adds(ledger_path, enter):
    words = np.array(["tea", "sea"], dtype=object)
    labels = (np.array(["ann"], dtype=object), words)
    old = Charge("letters", Guarantee(1), "an-old-one", ("", "person", "term"), labels, None)
    Ledger(ledger_path).charge(old)
    assert spent(ledger_path) == 1
    lines = pd.DataFrame({"recipient": ["bo"], "word": ["tea"], "n": [5]})
    enter(1, lines, long=("recipient", "word", "n"), labels={"person": ["bo"], "term": words})
    assert spent(ledger_path) == 2


def test_many_rows_add(ledger_path, enter, monkeypatch):
    monkeypatch.setattr("countveil.counts.ledger.accounts.MOST_ROWS", 1)
    enter(1, rows=["a", "b"], columns=["x", "y"])
    enter(1, rows=["c", "d"], columns=["x", "y"])
    assert spent(ledger_path) == 2


def test_a_day_is_one_however_it_was_kept(ledger_path, enter, tmp_path):
    days, names = ["2025-01-01", "2025-01-02"], {"rows": ["2025-01-01", "2025-01-02"], "columns": ["oil"]}
    table = pd.DataFrame({"day": days, "oil": [1000, 2000]})
    times = table.assign(day=pd.to_datetime(table["day"]).astype("datetime64[ns]"))
    table.to_csv(tmp_path / "t.csv", index=False)
    times.to_parquet(tmp_path / "t.parquet")
    forms = (table, times, times.set_index("day"), tmp_path / "t.csv", tmp_path / "t.parquet")
    for number, form in enumerate(forms, 1):
        index = {} if isinstance(form, pd.DataFrame) and form.index.name else {"index": "day"}
        one = enter(50, form, **index, **names)
        assert one.to_dense().ravel().tolist() == [1000, 2000]
        assert spent(ledger_path) == 50 * number
        public = enter(50, form, **index, public_labels=True)
        assert public.labels[0].tolist() == days
        ledger_path.unlink()
        for _ in range(number):
            enter(50, table, index="day", **names)


def test_parts_of_a_graph_add(ledger_path, enter):
    graph = nx.Graph([("a", "c", {"weight": 3}), ("b", "c", {"weight": 4})])
    for row in ("a", "b"):
        enter(1, graph, rows=[row], columns=["c", "d"])
    assert spent(ledger_path) == 2


def test_other_codes_decimal_context_does_not_matter(ledger_path, enter):
    enter(1, rows=["1234567", "b"], columns=["x", "y"])
    with decimal.localcontext(decimal.Context(prec=3)):
        enter(1, rows=["1234567", "c"], columns=["x", "y"])
    assert spent(ledger_path) == 2


def entry(rows, slope="1"):
    """As it stands in a ledger."""
    packed = accounts.packed_labels(np.array(rows, dtype=object))
    return {"rows": packed, "columns": "the same", "unit": "document", "slope": slope}


def test_the_largest_sum_is_that_of_some_row():
    rng = np.random.default_rng(SEED)
    for _ in range(50):
        drawn = [
            (rng.choice(6, rng.integers(1, 6), replace=False).tolist(), Fraction(int(rng.integers(1, 9)), 7))
            for _ in range(rng.integers(1, 8))
        ]
        expected = max(sum(slope for rows, slope in drawn if row in rows) for row in range(6))
        assert accounts.spent_by([entry(rows, str(slope)) for rows, slope in drawn]) == expected


def test_many_releases_of_different_rows_take_no_more_room_than_their_rows():
    """A release a day, or one of every respondent: a table of releases by rows took gigabytes and minutes."""
    releases = [entry([f"{day}, {row}" for row in range(100)]) for day in range(500)]
    tracemalloc.start()
    assert accounts.spent_by([*releases, entry(["7, 7", "new"], "1/2")]) == Fraction(3, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 8 * 500 * 100


def test_slopes_of_thousands_of_digits_are_refused_at_once():
    """As somebody may write them who wants a ledger to take hours: a fraction for every row."""
    rng = np.random.default_rng(SEED)
    releases = [
        entry(rng.choice(1200, 1000, replace=False).tolist(), f"1/{10**999 + 2 * i + 1}") for i in range(40)
    ]
    with pytest.raises(ValueError, match="the slopes add up to a fraction of thousands of digits"):
        accounts.spent_by(releases)


def test_one_new_name_for_the_release_and_its_ledger_is_refused(tmp_path):
    for options in ({}, {"overwrite": True}):
        with pytest.raises(ValueError, match="path: expected another file than those that are read"):
            cv.privatize_to_file(
                [[1]], tmp_path / "x", 1, ledger=tmp_path / "x", dataset="letters", **options
            )
    assert list(tmp_path.iterdir()) == []


def test_a_long_unit_does_not_make_every_line_as_long(ledger_path, enter):
    """Each line is as long as the longest: a ledger of 2.5 MB took more than 6 GB to show."""
    enter(1)
    [account] = Ledger(ledger_path).accounts()
    [entry] = account.releases
    many = tuple({**entry, "release": str(i)} for i in range(2_000))
    found = account._replace(releases=({**entry, "unit": "x" * 10**6}, *many))
    assert len(accounts.accounts_table([found])) < 2_000 * 400


def test_a_column_called_1_is_not_the_one_called_by_that_text(ledger_path):
    table = pd.DataFrame([["ann", "cy", "tea", 4]], columns=[1, "1", "w", "n"])
    for by, row in ((1, "ann"), ("1", "cy")):
        cv.privatize(
            table,
            1,
            long=(by, "w", "n"),
            labels={"who": [row], "what": ["tea"]},
            ledger=ledger_path,
            dataset="a",
        )
    assert spent(ledger_path, "a") == 2
