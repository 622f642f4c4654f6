"""What has labels of its own is found by them or refused; nothing goes by order in silence."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import countveil as cv
from countveil.cli import main
from countveil.evaluation import held_out_log_score, log_score, mean_absolute_error

PEOPLE = pd.DataFrame({"tea": [11, 22, 33]}, index=pd.RangeIndex(1, 4, name="person"))
LOUD = 60  # an epsilon that leaves counts as they are


def forms(frame, path):
    frame.to_parquet(path)
    return {"pandas": frame, "parquet": path, "arrow": pa.Table.from_pandas(frame)}


def test_an_index_that_counts_rows_and_has_a_name():
    release = cv.privatize(PEOPLE, epsilon=LOUD, rows=["3", "2", "1"], columns=["tea"])
    assert release.to_dense().ravel().tolist() == [33, 22, 11]


@pytest.mark.parametrize("form", ["pandas", "parquet", "arrow"])
def test_rows_that_are_only_numbered(form, tmp_path):
    numbered = forms(PEOPLE.reset_index(drop=True), tmp_path / "numbered.parquet")[form]
    with pytest.raises(ValueError, match="rows: expected labels that are no numbers"):
        cv.privatize(numbered, epsilon=LOUD, rows=["2", "1", "0"], columns=["tea"])
    release = cv.privatize(numbered, epsilon=LOUD, rows=["ann", "bo", "cy"], columns=["tea"])
    assert release.to_dense().ravel().tolist() == [11, 22, 33]


def test_slices_of_a_numbered_table_go_by_order():
    frame = PEOPLE.reset_index(drop=True)
    release = cv.privatize(frame[1:], epsilon=LOUD, rows=["bo", "cy"], columns=["tea"])
    assert release.to_dense().ravel().tolist() == [22, 33]


def test_a_mask_names_no_rows_of_a_guarantee():
    release = cv.privatize(np.ones((3, 2), int), epsilon=[5, 1, 1])
    for mask in ([True, True, True], pd.Series([True, True, True]), np.array([True, False, False])):
        with pytest.raises(ValueError, match="rows: expected row numbers from 0 to 2"):
            release.guarantee_for(mask)


def test_lists_of_things_with_labels():
    one, other = pd.Series({"tea": 1, "sea": 2}), pd.Series({"sea": 20, "tea": 10})
    frame = pd.DataFrame({"tea": [1], "sea": [2]})
    for given in ([one, other], (one, other), [frame, frame]):
        with pytest.raises(TypeError, match="whose labels would be lost"):
            cv.privatize(given, epsilon=1)
        with pytest.raises(TypeError, match="whose labels would be lost"):
            cv.fit(cv.TopicModel(1), given, sweeps=4, thin=1, progress=False)
    assert cv.privatize([pd.Series([1, 2]), pd.Series([3, 4])], epsilon=LOUD).shape == (2, 2)


def test_arrays_beside_the_data():
    counts, turned = np.full((2, 1), 50), pd.Series({"bo": 0.05, "ann": 0.95})
    labels = (["ann", "bo"], ["tea"])
    with pytest.raises(TypeError, match="alpha: expected an array in the order of the data, got a Series"):
        cv.PrivateCounts(counts, alpha=turned, labels=labels)
    mask = pd.DataFrame({"tea": [True, False]}, index=["bo", "ann"])
    with pytest.raises(TypeError, match="mask: expected an array in the order of the data, got a DataFrame"):
        cv.PrivateCounts(counts, alpha=0.5, mask=mask)
    release = cv.PrivateCounts(counts, alpha=0.5, labels=labels)
    with pytest.raises(TypeError, match="cells: expected an array"):
        release.hide(mask)
    assert cv.PrivateCounts(counts, alpha=pd.Series([0.1, 0.2])).shape == (2, 1)
    posterior = cv.fit(cv.TopicModel(1), release, sweeps=8, thin=1, seed=1, progress=False)
    with pytest.raises(TypeError, match="rows: expected an array"):
        posterior.true_counts(rows=pd.Series({"bo": True, "ann": False}))


ROWS, WORDS = ["bo", "ann"], ["gas", "oil"]
#: A table whose rows and columns have another order than the data, in every library that has labels.
TURNED = {
    "pandas": lambda values: pd.DataFrame(values, ROWS, WORDS),
    "polars": lambda values: pl.DataFrame(values, schema=WORDS),
    "arrow": lambda values: pa.table({"gas": values[:, 0], "oil": values[:, 1]}),
    "xarray": lambda values: xr.DataArray(values, dims=("row", "word"), coords={"row": ROWS}),
    "list": lambda values: [pd.Series(row, WORDS) for row in values],
}


@pytest.mark.parametrize("library", TURNED)
def test_tables_of_any_library_beside_the_data(library, tmp_path):
    turned, counts = TURNED[library], np.array([[9, 0], [0, 8]])
    labels = (["ann", "bo"], ["oil", "gas"])
    release = cv.PrivateCounts(counts, alpha=0.5, labels=labels)
    posterior = cv.fit(cv.TopicModel(1), release, sweeps=8, thin=1, seed=1, progress=False)
    mask, rates = turned(counts > 8), turned(counts / 2)
    for name, asked in {
        "cells": lambda: release.hide(mask),
        "mask": lambda: cv.PrivateCounts(counts, alpha=0.5, mask=mask, labels=labels),
        "alpha": lambda: cv.PrivateCounts(counts, alpha=turned(np.full((2, 2), 0.3)), labels=labels),
        "rho": lambda: cv.PrivateCounts(counts, rho=turned(np.full((2, 2), 0.3)), labels=labels),
        "rates": lambda: mean_absolute_error([(slice(0, 2), rates)], counts),
        "rate_draws": lambda: log_score([(slice(0, 2), rates)], counts),
        "cells ": lambda: mean_absolute_error(counts, counts, cells=mask),
        "cells  ": lambda: held_out_log_score(posterior, counts, cells=mask),
        "truth": lambda: cv.report.plot_matrices(posterior, truth=rates),
        r"fixed\['phi'\]": lambda: topics(fixed={"phi": rates}),
        r"start\['phi'\]": lambda: topics(start={"phi": rates}),
    }.items():
        with pytest.raises(
            TypeError, match=f"{name.strip()}: expected an array in the order of the data, got a"
        ):
            asked()
    if library != "list":
        with pytest.raises(TypeError, match="rates: expected an array in the order of the data"):
            mean_absolute_error(rates, counts)


def topics(**given):
    return cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2, **given)


def test_levels_by_row_of_any_library():
    levels = xr.DataArray([1.0, 2.0], dims="row", coords={"row": ROWS})
    with pytest.raises(TypeError, match="epsilon: expected one value or a list in the order of the rows"):
        cv.privatize(np.ones((2, 2), int), epsilon=levels)


def test_numbers_that_libraries_make_up_are_no_labels():
    counts = np.array([[9, 0], [0, 8]])
    release = cv.PrivateCounts(counts, alpha=0.5)
    for mask in (
        pd.DataFrame(counts > 8),
        pl.DataFrame(counts > 8),
        xr.DataArray(counts > 8),
        xr.DataArray(counts > 8, coords={"row": [0, 1], "draw": 3}, dims=("row", "word")),
    ):
        assert release.hide(mask).n_observed == 3
    assert release.hide((pl.Series([0]), pd.Series([0], index=["a"]))).n_observed == 3


def test_labels_that_are_numbers_are_compared_with_their_like():
    counts = np.array([[9, 0, 1], [0, 8, 2], [3, 1, 7]])
    release = cv.simulate_release(counts, epsilon=3, seed=1, labels=(None, ["0", "1", "2"]))
    posterior = cv.fit(cv.TopicModel(1), release.hide(([0], [0])), sweeps=40, thin=2, seed=1, progress=False)
    with pytest.raises(ValueError, match="data: expected the labels that were fitted along axis 1"):
        held_out_log_score(posterior, pd.DataFrame(counts, columns=["2", "1", "0"]))
    assert held_out_log_score(posterior, pd.DataFrame(counts)) < 0


def test_groups_by_an_index_with_a_name():
    by_label = pd.Series(["red", "blue", "blue"], index=pd.Index([0, 1, 2], name="id"))
    model = cv.TopicModel(1, groups=by_label).for_rows(3, np.array(["2", "0", "1"], dtype=object))
    assert [model.groups.labels[code] for code in model.groups.of_rows] == ["blue", "red", "blue"]


def test_a_first_line_of_counts_is_no_line_of_labels_of_plain_counts(tmp_path, capsys):
    path = tmp_path / "headless.csv"
    path.write_text("3,0,0,1\n2,5,1,0\n0,7,2,4\n")
    assert (
        main(["fit", "topics", str(path), "--plain", "-o", str(tmp_path / "run.zarr"), "--topics", "2"]) == 2
    )
    assert "expected names of columns in the first line" in capsys.readouterr().err


def test_words_are_declared_by_the_vocabulary_alone():
    with pytest.raises(ValueError, match="labels: expected None for the words"):
        cv.privatize(
            ["tea sea", "sea"], epsilon=1, vocabulary=["tea", "sea"], labels=(["a", "b"], ["x", "y"])
        )


def test_a_saved_index_is_no_column_of_counts_in_any_table():
    frame = pd.DataFrame({"tea": [1, 2], "__index_level_0__": [1001, 1002]})
    release = cv.privatize(frame, epsilon=LOUD, public_labels=True)
    assert release.labels[1].tolist() == ["tea"]
    for name in ("Unnamed: 0.1", "\u200b"):
        with pytest.raises(ValueError, match="expected names of all columns"):
            cv.privatize(pd.DataFrame({name: [1001, 1002], "tea": [1, 2]}), epsilon=LOUD, public_labels=True)
