"""Saving and loading change nothing."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import countveil as cv
from countveil.posterior.runs import writer


def trip(posterior, folder, **options):
    posterior.save(folder / "run.zarr")
    return cv.load_posterior(str(folder / "run.zarr"), **options)


def answers(posterior):
    """Every method's answer, but for true counts of plain runs, which are not saved."""
    yield posterior.rates()
    yield from (block for _, block in posterior.iter_rates())
    yield from (block for _, block in posterior.iter_rate_draws())
    yield from (field for state in posterior.states() for field in state)
    yield posterior.summary()
    yield posterior.to_dataframe("scalars")
    if isinstance(posterior.model, cv.TopicModel):
        topics = posterior.topics()
        yield from (topics.weights, topics.prevalence, topics.agreement, topics.table)
        yield posterior.memberships()
    if posterior.release is not None:
        yield posterior.true_counts()


def assert_same(ours, theirs):
    for one, other in zip(answers(ours), answers(theirs), strict=True):
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other)
        elif isinstance(one, xr.Dataset | xr.DataArray):
            xr.testing.assert_identical(one, other)
        else:
            np.testing.assert_array_equal(one, other)
    xr.testing.assert_identical(ours.tree, theirs.tree)
    assert list(ours.tree["sample_stats"].data_vars) == list(theirs.tree["sample_stats"].data_vars)
    assert ours.release == theirs.release
    assert repr(ours) == repr(theirs)


def test_every_method_answers_the_same(posterior, tmp_path):
    loaded = trip(posterior, tmp_path)
    assert_same(posterior, loaded)
    assert loaded.model == posterior.model
    assert type(next(loaded.states())) is type(next(posterior.states()))
    assert loaded.rates(rows="日本 🙂").equals(posterior.rates(rows=[1]))
    loaded.save(tmp_path / "again.zarr")
    assert_same(posterior, cv.load_posterior(tmp_path / "again.zarr"))


def test_plain_counts_without_labels(plain, tmp_path):
    loaded = trip(plain, tmp_path)
    assert_same(plain, loaded)
    assert loaded.release is None
    with pytest.raises(
        ValueError, match="true_counts: expected the counts of this run, got none: plain counts are not saved"
    ):
        loaded.true_counts()


def test_labels_of_plain_counts(tmp_path):
    table = pd.DataFrame([[3, 1], [0, 4]], index=["a", "ß"], columns=["x", ""])
    loaded = trip(cv.fit(cv.TopicModel(1), table, sweeps=4, thin=1, seed=1, progress=False), tmp_path)
    assert loaded.rates(rows="ß", columns="").sizes == {"row": 1, "column": 1}


@pytest.mark.parametrize(
    "model",
    [cv.TopicModel(np.int64(2), np.float32(0.5)), cv.TopicModel(2, shape=1, rate=2)],
)
def test_settings_of_any_kind_of_number(model, tmp_path):
    loaded = trip(cv.fit(model, [[3, 1], [0, 4]], sweeps=4, thin=1, seed=2**62 + 1, progress=False), tmp_path)
    assert loaded.model == model


def test_an_own_model_needs_itself_again(own, levels, tmp_path):
    bare = trip(own, tmp_path)
    assert repr(bare) == "Posterior(Levels, 6 x 5, 2 chains x 6 draws)"
    for method in (bare.rates, bare.true_counts, bare.summary, bare.topics, lambda: next(bare.iter_rates())):
        with pytest.raises(
            ValueError, match=r"expected the model of this run, got none; load_posterior\(path, model="
        ):
            method()
    assert len(bare.summary(n_rates=0)) == 2
    assert next(bare.states()).level.shape == (6,)
    loaded = cv.load_posterior(tmp_path / "run.zarr", model=levels)
    assert_same(own, loaded)
    assert loaded.rates(rows=["g"], columns="oil").sizes == {"document": 1, "word": 1}
    typed = cv.load_posterior(tmp_path / "run.zarr", levels, state_type=type(next(own.states())))
    assert next(typed.states()).twice().shape == (6,)
    with pytest.raises(
        ValueError,
        match="model: expected the Levels of this run, whose state has level, overall, got a TopicModel",
    ):
        cv.load_posterior(tmp_path / "run.zarr", model=cv.TopicModel(2))


def test_an_own_model_may_be_called_topic_model(levels, release, tmp_path):
    class TopicModel(type(levels)):
        pass

    bare = trip(cv.fit(TopicModel(5), release, sweeps=4, thin=1, seed=1, progress=False), tmp_path)
    assert bare.model is None


def test_labels_of_axes_that_no_field_has(own, levels, tmp_path):
    """The state has levels of the rows only; the columns have labels all the same."""
    assert "word" not in own.tree["posterior"]["level"].dims
    loaded = trip(own, tmp_path, model=levels)
    assert loaded.rates(columns="Öl")["word"].to_numpy().tolist() == ["Öl"]


def test_a_release_that_is_a_folder(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)
    assert_same(posterior, trip(posterior, tmp_path))


def test_what_others_add_stays(posterior, tmp_path, with_draws):
    group = posterior.tree["posterior"]
    richer = with_draws(posterior, theta=group["theta"].to_numpy(), phi=group["phi"].to_numpy())
    richer.tree["prior/deeper"] = xr.DataTree(xr.Dataset({"x": ("draw", np.arange(3.0))}))
    richer.tree.attrs["note"] = "mine"
    loaded = trip(richer, tmp_path)
    assert loaded.tree["prior/deeper"]["x"].to_numpy().tolist() == [0, 1, 2]
    assert loaded.tree.attrs["note"] == "mine"
    assert_same(posterior, posterior)


def test_an_interrupted_run_is_saved_too(posterior, tmp_path, with_draws):
    """Its draws are a view of a larger array."""
    group = posterior.tree["posterior"]
    short = with_draws(posterior, **{n: values.to_numpy()[:, :7] for n, values in group.data_vars.items()})
    short.tree["sample_stats"] = xr.DataTree(posterior.tree["sample_stats"].to_dataset().isel(draw=slice(7)))
    assert_same(short, trip(short, tmp_path))


def test_the_layout_on_disk(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "SMALLEST_CHUNK", 2 * 6 * 2 * 4)  # two draws of theta
    posterior.save(tmp_path / "run.zarr")
    root = zarr.open_group(tmp_path / "run.zarr", mode="r", use_consolidated=False)
    assert root["posterior/theta"].dtype == np.float32
    assert root["posterior/theta"].chunks == (1, 2, 6, 2)
    monkeypatch.setattr(writer, "SMALLEST_CHUNK", 6 * 2 * 4)
    posterior.save(tmp_path / "other.zarr")
    other = zarr.open_group(tmp_path / "other.zarr", mode="r", use_consolidated=False)
    assert other["posterior/theta"].chunks == (1, 1, 6, 2)
    assert len(list((tmp_path / "other.zarr/posterior/theta/c").glob("*/*/0/0"))) == posterior.n_draws
    assert "string" in json.dumps(root["posterior/document"].metadata.to_dict()["data_type"])
    about = json.loads(Path(tmp_path / "run.zarr/zarr.json").read_text())
    assert about.get("consolidated_metadata") is None  # zarr 3.1.1 writes null
    assert (root.attrs["format"], root.attrs["version"], root.attrs["complete"]) == ("countveil-run", 1, 1)


def test_half_a_character_is_written_out(tmp_path):
    """xarray, pandas and Zarr cannot hold such text: a fit must not fail over it at the end."""
    release = cv.PrivateCounts([[3, 1]], rho=1.0, labels=(None, ["\ud800", "x"]))
    posterior = cv.fit(cv.TopicModel(1), release, sweeps=4, thin=1, seed=1, progress=False)
    assert posterior.rates(columns="\ud800")["column"].to_numpy().tolist() == ["\\ud800"]
    assert_same(posterior, trip(posterior, tmp_path))
