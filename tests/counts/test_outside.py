"""What lies outside the declared labels is dropped without a word, whatever it is: no error tells that it is there."""

import math

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from countveil.counts.inputs import read_input
from countveil.counts.inputs.options import InputOptions

ROWS, COLUMNS = ["a", "b"], ["x", "y"]
LONG = {"long": ("r", "c", "n"), "rows": ROWS, "columns": COLUMNS}
WIDE = {"index": "r", "rows": ROWS, "columns": COLUMNS}
OUTSIDE = [("z", "x"), ("a", "z"), ("z", "z"), (None, "x")]
FAULTS = [-1, 0.5, math.nan, math.inf, 2**60, 2**70, "text", "", None, True, [3]]
TRUE = [[3, 0], [0, 4]]


def counts_of(given, options):
    return read_input(given, InputOptions(**options)).counts.rows(0, 2).tolist()


def lines(place, fault):
    row, column = place
    return {"r": ["a", row, "b"], "c": ["x", column, "y"], "n": [3, fault, 4]}


def objects(table):
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in table.items()})


@pytest.mark.parametrize("place", OUTSIDE)
@pytest.mark.parametrize("fault", FAULTS)
def test_lines(place, fault):
    given = lines(place, fault)
    assert counts_of(objects(given), LONG) == TRUE
    if not isinstance(fault, list):
        assert counts_of(pd.DataFrame(given), LONG) == TRUE
    if isinstance(fault, (int, float, type(None))) and fault != 2**70:
        assert counts_of(pl.DataFrame(given, strict=False), LONG) == TRUE
        kind = pa.float64() if isinstance(fault, float) else pa.int64()
        table = pa.table({**given, "n": pa.array([3, None if fault is None else kind_of(fault), 4], kind)})
        assert counts_of(table, LONG) == TRUE


def kind_of(fault):
    return int(fault) if isinstance(fault, bool) else fault


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_and_columns_of_wide_tables(fault):
    row = objects({"r": ["a", "z", "b"], "x": [3, fault, 0], "y": [0, fault, 4]})
    column = objects({"r": ["a", "b"], "x": [3, 0], "z": [fault, 1], "y": [0, 4]})
    for given in (row, column):
        assert counts_of(given, WIDE) == TRUE
        assert counts_of(given.set_index("r"), {**WIDE, "index": None}) == TRUE


FIELDS = [
    "-1",
    "0.5",
    "nan",
    "inf",
    str(2**60),
    str(2**70),
    "text",
    '""',
    "",
    "true",
    "2020-01-01",
    "1e5",
    '"a,b"',
    " 7 ",
]


@pytest.mark.parametrize("field", FIELDS)
def test_files(field, tmp_path):
    (tmp_path / "long.csv").write_text(f"r,c,n\na,x,3\nz,x,{field}\na,z,{field}\nb,y,4\n")
    (tmp_path / "wide.csv").write_text(f"r,x,z,y\na,3,{field},0\nz,{field},1,{field}\nb,0,{field},4\n")
    assert counts_of(tmp_path / "long.csv", LONG) == TRUE
    assert counts_of(tmp_path / "wide.csv", WIDE) == TRUE
    tab = (tmp_path / "long.csv").read_text().replace('"a,b"', "a").replace(",", "\t")
    (tmp_path / "long.tsv").write_text(tab)
    assert counts_of(tmp_path / "long.tsv", LONG) == TRUE


def test_numbers_in_files_are_read_as_before(tmp_path):
    (tmp_path / "t.csv").write_text('r,c,n\na,x," 3.0"\nb,y,4e0\n')
    assert counts_of(tmp_path / "t.csv", LONG) == TRUE
    (tmp_path / "t.csv").write_text("r,c,n\na,x,true\nb,y,false\n")
    assert counts_of(tmp_path / "t.csv", LONG) == [[1, 0], [0, 0]]
    for wrong in ("-3", "3.5", "nan", "x", "", "NA", str(2**60), "3 4"):
        (tmp_path / "t.csv").write_text(f"r,c,n\na,x,{wrong}\nb,y,4\n")
        with pytest.raises((ValueError, TypeError), match="counts: expected"):
            counts_of(tmp_path / "t.csv", LONG)


def test_parquet(tmp_path):
    pq.write_table(pa.table(lines(("z", "x"), None)), tmp_path / "t.parquet")
    assert counts_of(tmp_path / "t.parquet", LONG) == TRUE


EDGES = [
    ("a", "z"),
    ("z", "b"),
    ("z", "y"),
    ("a", "a"),
]  # the last one is on the diagonal, which is not released


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph, nx.MultiGraph])
def test_edges(edge, fault, kind):
    graph = kind([("a", "b", {"weight": 3}), (*edge, {"weight": fault})])
    assert counts_of(graph, {"rows": ["a", "b"]}) == [[0, 3], [0, 0]]


def test_attributes_of_edges():
    """Whether the counts' attribute is there at all is asked of the edges that are released."""
    plain, marked = nx.DiGraph([("a", "b")]), nx.DiGraph([("a", "b"), ("a", "z", {"date": "may"})])
    assert (
        counts_of(marked, {"rows": ["a", "b"]}) == counts_of(plain, {"rows": ["a", "b"]}) == [[0, 1], [0, 0]]
    )
    named = nx.DiGraph([("a", "b", {"n": 3}), ("a", "z", {"weight": 3})])
    with pytest.raises(ValueError, match="got 'weight', which no edge has"):
        counts_of(named, {"rows": ["a", "b"]})


def test_faults_inside_are_still_refused():
    for fault in (-1, 0.5, math.nan, "text", None, 2**60):
        with pytest.raises((ValueError, TypeError), match="counts: expected"):
            counts_of(objects({"r": ["a"], "c": ["x"], "n": [fault]}), LONG)
        with pytest.raises((ValueError, TypeError), match="counts: expected"):
            counts_of(nx.Graph([("a", "b", {"weight": fault})]), {"rows": ["a", "b"]})
    assert (
        counts_of(pd.DataFrame({"r": ["z"], "c": ["x"], "n": pd.to_datetime([0])}), LONG)
        == np.zeros((2, 2)).tolist()
    )
