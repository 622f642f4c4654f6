"""The tree of draws: ArviZ's schema, labels, and names that clash."""

import json

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import countveil as cv

LABELS = {"document": ["", "日本 🙂", "a\0", "d, e", "f", "g"], "word": ["oil", "gas", "power", "Öl", "x\n"]}


def fit(release, **options):
    return cv.fit(cv.TopicModel(2), release, **{"sweeps": 20, "seed": 1, "progress": False, **options})


def test_it_follows_the_schema(posterior):
    tree = posterior.tree
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert tree["posterior"]["theta"].dims == ("chain", "draw", "document", "topic")
    assert tree["posterior"]["phi"].dims == ("chain", "draw", "topic", "word")
    assert tree["posterior"]["theta"].dtype == np.float32
    assert {"sampled_log_likelihood", "total_rate", "log_joint"} == set(tree["sample_stats"].data_vars)
    assert all(v.dims == ("chain", "draw") for v in tree["sample_stats"].data_vars.values())
    assert tree["posterior"].attrs["inference_library"] == "countveil"
    assert (tree.attrs["format"], tree.attrs["version"]) == ("countveil-run", 1)
    assert json.loads(tree.attrs["settings"])["seed"] == 1


def test_labels_are_coordinates(posterior):
    group = posterior.tree["posterior"]
    assert group["document"].to_numpy().tolist() == LABELS["document"]
    assert group["word"].to_numpy().tolist() == LABELS["word"]
    assert group["topic"].to_numpy().tolist() == [0, 1]
    assert group["phi"].sel(word="Öl", topic=1).shape == (2, 30)


def test_arviz_reads_the_tree_and_the_folder(posterior, tmp_path):
    posterior.save(tmp_path / "run.zarr")
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr", consolidated=False) as opened:
        for tree in (posterior.tree, opened, cv.load_posterior(tmp_path / "run.zarr").tree):
            table = arviz_stats.summary(tree, var_names=["phi"])
            assert len(table) == 2 * 5
            assert "phi[0, Öl]" in table.index
            assert arviz_stats.ess(tree)["theta"].sizes == {"document": 6, "topic": 2}
            assert float(arviz_stats.rhat(tree, group="sample_stats")["total_rate"]) > 0.9


def test_axes_without_labels_are_numbered(plain):
    assert plain.tree["posterior"]["theta"].dims == ("chain", "draw", "row", "topic")
    assert plain.tree["posterior"]["row"].to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert plain.rates()["column"].to_numpy().tolist() == [0, 1, 2, 3, 4]


def with_axes(values, axes, labels):
    """A release whose axes have these names, which files may have: given as labels, "row" would mean the rows."""
    release = cv.PrivateCounts(values, rho=1.0, labels=labels)
    return cv.PrivateCounts._from_contents(release._contents._replace(axes=axes))


def test_one_labelled_axis_and_swapped_names():
    half = fit(cv.PrivateCounts([[3, 1], [0, 2]], rho=1.0, labels=(None, ["x", "y"])))
    assert half.rates(columns="y")["row"].to_numpy().tolist() == [0, 1]
    swapped = fit(with_axes([[3, 1, 4], [0, 2, 5]], ("column", "row"), (list("ab"), list("xyz"))))
    assert swapped.tree["posterior"]["theta"].dims == ("chain", "draw", "column", "topic")
    assert swapped.rates(rows="b").sizes == {"column": 1, "row": 3}


@pytest.mark.parametrize(
    ("axes", "dims"),
    [
        (("chain", "product"), ("row", "product")),
        (("user", "topic"), ("user", "column")),
        (("topic", "draw"), ("row", "column")),
        (("theta", "row"), ("row_", "row")),
        (("from/to", "__x"), ("row", "column")),
        (("mean", "agreement"), ("mean", "agreement")),
        (("rate", "positive"), ("rate", "positive")),
        (("low", "zarr.json"), ("low", "column")),
        (("..\\from", "C:to"), ("row", "column")),
        (("x" * 300, "../y"), ("row", "column")),
    ],
)
def test_axis_names_that_are_taken_do_not_spoil_a_fit(axes, dims, tmp_path):
    """Two topics and two columns: equal lengths must not make one thing of the two either."""
    first = fit(with_axes([[3, 1], [0, 2], [5, 0]], axes, (["a", "b", "c"], ["x", "y"])))
    first.save(tmp_path / "run.zarr")
    for posterior in (first, cv.load_posterior(tmp_path / "run.zarr")):
        group = posterior.tree["posterior"]
        assert (group["theta"].dims[2:], group["phi"].dims[2:]) == ((dims[0], "topic"), ("topic", dims[1]))
        assert group["topic"].to_numpy().tolist() == [0, 1]
        assert group[dims[1]].to_numpy().tolist() == ["x", "y"]
        for what in ("memberships", "rates", "true_counts"):
            table = posterior.to_dataframe(what, rows=["b"])
            assert isinstance(table, pd.DataFrame)
            assert len(table) == 2
            assert (table.iloc[:, 0] == "b").all()
        assert set(posterior.topics(2).table["word"]) == {"x", "y"}


def test_the_guarantee_is_noted():
    release = cv.privatize([[3, 1], [0, 2]], epsilon=2, precision=3)
    assert fit(release).tree.attrs["guarantee"] == str(release.guarantee)
