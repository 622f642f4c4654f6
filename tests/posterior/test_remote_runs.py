"""Fits of a release at an address: the draws of the same release here, and runs that find it there again."""

import json
from dataclasses import replace

import numpy as np
import pytest

import countveil as cv
from countveil.cli.main import main
from countveil.counts import ReleaseFileError
from countveil.counts.files import cells, folder, release
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.counts.remote import NotReachedError
from countveil.inference.engines.sharded.in_process import open_problem_in_shards
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from countveil.posterior.describe import describe_run
from countveil.posterior.runs import packed_release
from fake_remote import BUCKET, remote_of
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
COUNTS = RNG.poisson(2.0, (60, 6))
HIDDEN = RNG.random(COUNTS.shape) < 0.1
MODEL = cv.TopicModel(2)
SETTINGS = {"sweeps": 20, "thin": 2, "seed": 1, "threads": 1, "progress": False}
ADDRESS = f"{BUCKET}/data/release"


@pytest.fixture(params=["a folder", pytest.param("one file", marks=pytest.mark.long)])
def remote(request, tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 60)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 120)
    monkeypatch.setattr(release, "LABELS_IN_ONE_FILE", 1000 if request.param == "one file" else 10)
    monkeypatch.setattr(packed_release, "LARGEST_PACKED", 100)
    (tmp_path / "bucket" / "data").mkdir(parents=True)
    noisy = cv.simulate_release(COUNTS, epsilon=1, seed=SEED).hide(HIDDEN)
    labelled = cv.PrivateCounts(
        np.ma.filled(noisy.to_dense(), 0), rho=1.0, mask=HIDDEN, labels=([f"r{i}" for i in range(60)], None)
    )
    labelled.save(tmp_path / "bucket" / "data" / "release")
    return remote_of(tmp_path / "bucket", monkeypatch)


def here(remote):
    return remote.root / "data" / "release"


def draws_of(posterior):
    return {name: one.to_numpy() for name, one in posterior.tree["posterior"].data_vars.items()}


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def test_shards_draw_what_they_draw_of_a_file_here(remote):
    settings = check_settings(
        sweeps=8, burn_in=2, thin=2, chains=1, seed=3, method="exact", engine="cpu", threads=1, start="plain"
    )

    def drawn(given, shards):
        problem = replace(make_problem(MODEL, given), source=given)
        assert problem.is_unread
        with open_problem_in_shards(problem, settings, shards) as sampler:
            sampler.start(0)
            for _ in range(3):
                sampler.sweep(0)
            return sampler.carry(0).state

    expected = drawn(ReleaseOnDisk(here(remote)), 1)
    assert not remote.requests
    for shards in (1, 2, 3):
        assert same(drawn(ReleaseOnDisk(ADDRESS), shards), expected)
    assert remote.requests


def test_a_run_says_the_address_and_goes_on_from_there(remote, tmp_path):
    run = tmp_path / "run.zarr"
    expected = cv.fit(MODEL, here(remote), scratch=tmp_path, **{**SETTINGS, "sweeps": 40, "burn_in": 10})
    cv.fit(MODEL, ADDRESS, scratch=tmp_path, store=run, **SETTINGS)
    assert not (run / "release").exists()
    attributes = json.loads((run / "zarr.json").read_text())["attributes"]
    assert json.loads(attributes["elsewhere"])["release"] == {
        "path": ADDRESS,
        "sha256": ReleaseOnDisk(here(remote)).sha256,
    }
    assert ADDRESS in str(describe_run(run))
    assert cv.load_posterior(run).release == cv.load_release(here(remote))
    remote.requests.clear()
    grown = cv.extend(run, 40, scratch=tmp_path, progress=False, threads=1)
    assert remote.requests
    assert same(draws_of(grown), draws_of(expected))


def test_a_release_that_is_not_there_any_more(remote, tmp_path):
    run = tmp_path / "run.zarr"
    cv.fit(MODEL, ADDRESS, scratch=tmp_path, store=run, **SETTINGS)
    remote.failing = "release", OSError("no network")
    with pytest.raises(NotReachedError, match=f"^{ADDRESS}: cannot be read: no network"):
        cv.extend(run, 30, progress=False)
    posterior = cv.load_posterior(run)
    with pytest.warns(
        UserWarning, match=f"^{ADDRESS}: cannot be read: no network: posterior.release is None"
    ):
        assert posterior.release is None
    assert posterior.topics() is not None
    remote.failing = None
    here(remote).rename(remote.root / "moved")
    with pytest.raises(FileNotFoundError, match=f"data: expected the release of this run at '{ADDRESS}'"):
        cv.extend(run, 30, progress=False)
    assert cv.extend(run, 30, f"{BUCKET}/moved", progress=False).n_draws == 2 * 10
    cv.simulate_release(COUNTS, epsilon=1, seed=SEED + 1).save(here(remote))
    with pytest.raises(ReleaseFileError, match=f"^{ADDRESS}: .*the release that the fit was begun with"):
        cv.extend(run, 40, progress=False)


def test_a_small_one_is_copied_as_it_is(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(packed_release, "LARGEST_PACKED", 10**6)
    run, expected = tmp_path / "run.zarr", cv.load_release(here(remote))
    if here(remote).is_dir():
        (here(remote) / "junk").write_bytes(b"no part of the release")
    cv.fit(MODEL, ADDRESS, scratch=tmp_path, store=run, **SETTINGS)
    assert remote.fetched("junk") == 0
    remote.failing = "", OSError("no network")
    assert cv.load_posterior(run).release == expected
    assert cv.extend(run, 30, progress=False).release == expected


@pytest.mark.parametrize(
    "path",
    [
        "hdfs://host:9000/release",
        "s3://bucket/release?endpoint_override=host",
        "abfs://container@host/release",
        "file://host/release",
        r"\\host\share\release",
        r"\/host\share\release",
        r"/\host/share/release",
        "//host/share/release",
    ],
)
def test_no_machine_is_asked_because_a_run_says_so(path, tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.places.open_filesystem", lambda _: pytest.fail("it was looked for"))
    with pytest.raises(ValueError, match="data: expected the release of this run, which lies on another"):
        packed_release.release_at({"path": path, "sha256": "0" * 64}, tmp_path / "run.zarr")


def test_commands_take_addresses(remote, tmp_path, capsys):
    run, table = str(tmp_path / "run.zarr"), tmp_path / "shares.parquet"
    assert main(["show", ADDRESS]) == 0
    assert "60 x 6" in capsys.readouterr().out
    fit = ["fit", "topics", "--topics", "2", "--sweeps", "20", "--seed", "1", "--quiet"]
    assert main([*fit, ADDRESS, "-o", run]) == 0
    expected = cv.fit(MODEL, cv.load_release(here(remote)), **{**SETTINGS, "thin": 5})
    assert same(draws_of(cv.load_posterior(run)), draws_of(expected))
    assert main(["transform", run, ADDRESS, "-o", str(table), "--seed", "1", "--quiet"]) == 0
    assert table.is_file()
    assert main(["stack", ADDRESS, "-o", str(tmp_path / "stacked")]) == 2  # it promises nothing
    assert f"a guarantee, got none in {ADDRESS}" in capsys.readouterr().err
    assert main(["stack", "s3://key:hush@bucket/a", "-o", str(tmp_path / "stacked")]) != 0
    assert main([*fit, "s3://key:hush@bucket/data/release", "-o", str(tmp_path / "other")]) != 0
    assert main([*fit, ADDRESS, "-o", "s3://key:hush@bucket/run"]) != 0
    told = capsys.readouterr().err
    assert "without credentials" in told
    assert "--output: expected a path of this machine, got an address" in told
    assert "hush" not in told
