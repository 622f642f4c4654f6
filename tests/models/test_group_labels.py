"""Groups of rows, by the labels that people have, or in order."""

import unicodedata
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import countveil as cv
from counts.spellings import NARROW
from countveil.models.groups import read_groups

#: Groups "p" of the row "1" and "q" of the row "2", as people have them.
BY_LABEL = {
    "mapping": {"2": "q", "1": "p"},
    "numbers": {2: "q", 1.0: "p"},
    "more": {"3": "z", "2": "q", "1": "p"},
    "Series": pd.Series(["q", "p"], index=[2, 1]),
    "categories": pd.Series(["q", "p"], index=pd.CategoricalIndex(["2", "1"])),
    "decimals": {Decimal(2): "q", Decimal(1): "p"},
}


IN_ORDER = {
    "list": ["p", "q"],
    "numpy": np.array(["p", "q"]),
    "polars": pl.Series(["p", "q"]),
    "arrow": pa.array(["p", "q"]),
    "arrow dictionary": pa.chunked_array([pa.array(["p", "q"]).dictionary_encode()]),
    "xarray": xr.DataArray(["p", "q"]),
}


def texts_of(rows):
    """As a release has them."""
    return cv.PrivateCounts([[1], [2]], alpha=0.5, labels=(rows, None)).labels[0]


@pytest.mark.parametrize("groups", [*BY_LABEL.values(), *IN_ORDER.values()], ids=[*BY_LABEL, *IN_ORDER])
def test_groups_of_rows(groups):
    found = read_groups(groups).for_rows(2, texts_of(["1", "2"]))
    assert [found.names[code] for code in found.codes] == ["p", "q"]


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        (pd.to_datetime(["2025-01-01", "2025-01-02"]), pd.to_datetime(["2025-01-02", "2025-01-01"])),
        ([("ann", 1), ("bo", 2)], pd.MultiIndex.from_tuples([("bo", 2), ("ann", 1)])),
        (NARROW, pd.Index(list(NARROW[::-1]), dtype=object)),
        (["M\u00fc", "b"], ["b", unicodedata.normalize("NFD", "M\u00fc")]),
    ],
)
def test_groups_by_labels_of_any_type(rows, index):
    found = read_groups(pd.Series(["q", "p"], index=index)).for_rows(2, texts_of(rows))
    assert [found.names[code] for code in found.codes] == ["p", "q"]


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({"1": "p"}, ValueError, "got nothing for '2'"),
        ({"3": "p", "4": "q"}, ValueError, "got nothing for '1' and 1 others"),
        ({"1": "p", 1: "q"}, ValueError, "expected every row once"),
        ({None: "p", "2": "q"}, ValueError, "expected labels of all rows, got one that is missing"),
        (xr.DataArray(["p", "q"], dims="r", coords={"r": ["2", "1"]}), TypeError, "with labels of its own"),
        (pl.DataFrame({"g": ["p", "q"]}), TypeError, "with labels of its own"),
        ({"p", "q"}, TypeError, "got set"),
    ],
)
def test_groups_that_are_refused(groups, error, message):
    with pytest.raises(error, match=f"groups: .*{message}"):
        read_groups(groups).for_rows(2, texts_of(["1", "2"]))


def test_a_series_that_pandas_only_numbers():
    """It goes by order, unless its numbers are the labels of the rows in another order."""
    table, levels = pd.DataFrame({"tea": [1, 2, 3]}, index=[2, 1, 0]), pd.Series([1, 2, 3])
    for name in ("epsilon", "precision"):
        with pytest.raises(
            ValueError, match=f"{name}: expected a list in the order of the rows, got a Series"
        ):
            cv.privatize(table, **({"epsilon": 1} | {name: levels}), rows=[2, 1, 0], columns=["tea"])
    with pytest.raises(ValueError, match="groups: expected a list in the order of the rows, got a Series"):
        read_groups(levels).for_rows(3, ["2", "1", "0"])
    release = cv.privatize(table, epsilon=levels.to_list(), rows=[2, 1, 0], columns=["tea"])
    assert [promise.epsilon for promise in release.row_guarantees] == [1, 2, 3]
    for rows in (["a", "b", "c"], [0, 1, 2], [1, 2, 3]):
        assert cv.privatize(np.ones((3, 1), int), epsilon=levels, rows=rows).row_guarantees
        assert read_groups(levels).for_rows(3, list(map(str, rows))).codes.tolist() == [0, 1, 2]


def test_a_row_without_a_group_in_arrow():
    assert read_groups(pa.array(["p", None])).labels == ("p", "(no group)")
