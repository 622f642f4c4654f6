"""Chains that ran apart and were merged are the run of all of them."""

import json
import os
import shutil

import numcodecs
import numpy as np
import pytest

import countveil as cv
from countveil.cli import main
from countveil.posterior.runs.schema import is_described

COUNTS = np.random.default_rng(5).poisson(2.0, (12, 6))
RELEASE = cv.simulate_release(COUNTS, epsilon=2, seed=0)
SHORT = {"sweeps": 30, "burn_in": 10, "thin": 3, "chains": 3, "seed": 1, "threads": 1, "progress": False}


def same_draws(one, other):
    for group in ("posterior", "sample_stats"):
        assert one.tree[group].to_dataset().equals(other.tree[group].to_dataset())


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains")
    for chain in range(3):
        cv.fit(cv.TopicModel(2), RELEASE, chain=chain, store=folder / f"{chain}.zarr", **SHORT)
    return [folder / f"{chain}.zarr" for chain in range(3)]


@pytest.fixture(scope="module")
def whole():
    return cv.fit(cv.TopicModel(2), RELEASE, **SHORT)


def test_a_chain_by_itself_is_that_chain(parts, whole):
    found = cv.load_posterior(parts[2])
    assert found.tree["posterior"]["chain"].to_numpy().tolist() == [2]
    same = whole.tree["posterior"].to_dataset().isel(chain=[2])
    assert found.tree["posterior"].to_dataset().equals(same)


def test_merged_they_are_the_run_of_all(parts, whole, tmp_path):
    run = tmp_path / "run.zarr"
    merged = cv.merge_runs([parts[1], parts[2], parts[0]], run)  # in any order
    same_draws(merged, whole)
    assert {k: v for k, v in merged.tree.attrs.items() if k != "settings"} == {
        k: v for k, v in whole.tree.attrs.items() if k != "settings"
    }
    assert merged.release == RELEASE
    assert merged.settings["chains"] == 3
    same_draws(
        cv.extend(run, 50, progress=False), cv.fit(cv.TopicModel(2), RELEASE, **{**SHORT, "sweeps": 50})
    )
    assert [cv.load_posterior(part).n_draws for part in parts] == [6, 6, 6], "the parts are as they were"


def test_some_of_them(parts, whole, tmp_path):
    some = cv.merge_runs([parts[0], parts[2]], tmp_path / "some.zarr")
    assert some.tree["posterior"].to_dataset().equals(whole.tree["posterior"].to_dataset().isel(chain=[0, 2]))
    same_draws(cv.merge_runs([tmp_path / "some.zarr", parts[1]], tmp_path / "run.zarr"), whole)


def test_what_is_refused(parts, tmp_path, capsys):
    def refused(message, *runs):
        with pytest.raises(ValueError, match=message):
            cv.merge_runs(runs, tmp_path / "run.zarr")
        assert main(["merge", *map(str, runs), "-o", str(tmp_path / "run.zarr")]) == 2
        assert not (tmp_path / "run.zarr").exists()

    refused(r"runs: expected chains of their own, got '.*1.zarr' twice", parts[1], *parts)
    shutil.copytree(parts[1], tmp_path / "copy.zarr")
    refused("runs: expected chains of their own, got chain 1 twice", tmp_path / "copy.zarr", *parts)
    refused("runs: expected at least two, got 1", parts[0])
    other = {"seed": {"seed": 2}, "sweeps": {"sweeps": 40}}
    for what, change in other.items():
        run = tmp_path / f"{what}.zarr"
        cv.fit(cv.TopicModel(2), RELEASE, chain=1, store=run, **{**SHORT, **change})
        refused(f"runs: expected one {what}, got", parts[0], run)
    cv.fit(cv.TopicModel(3), RELEASE, chain=1, store=tmp_path / "model.zarr", **SHORT)
    refused("runs: expected one model, got another", parts[0], tmp_path / "model.zarr")
    again = cv.simulate_release(COUNTS, epsilon=2, seed=1)
    cv.fit(cv.TopicModel(2), again, chain=1, store=tmp_path / "data.zarr", **SHORT)
    refused("runs: expected one data, got another", parts[0], tmp_path / "data.zarr")
    letters = [f"l{i}" for i in range(12)]
    for chain, labels in enumerate((letters, letters[::-1])):
        named = cv.PrivateCounts(COUNTS, alpha=0.3, labels=(labels, None))
        cv.fit(cv.TopicModel(2), named, chain=chain, store=tmp_path / f"named{chain}.zarr", **SHORT)
    message = (
        r"runs: expected the labels of the first in '.*named1.zarr' along axis 0, got them in another order"
    )
    refused(message, tmp_path / "named0.zarr", tmp_path / "named1.zarr")
    with pytest.raises(FileExistsError, match="path: expected a new folder"):
        cv.merge_runs(parts, tmp_path)
    with pytest.raises(ValueError, match="path: expected a place outside of the runs, got"):
        cv.merge_runs(parts, parts[1] / "run.zarr")
    assert not (parts[1] / "run.zarr").exists()
    with pytest.raises(TypeError, match="runs: expected the folders of several runs, got one path"):
        cv.merge_runs("run.zarr", tmp_path / "run.zarr")
    assert not list(tmp_path.glob(".*"))


def test_a_chain_that_was_stopped_goes_on(parts, whole, tmp_path, monkeypatch):
    """Chain 0, whose number zarr takes for nothing."""

    def progress(sweeps, _):
        for sweep in sweeps:
            if sweep > 20:
                raise KeyboardInterrupt
            yield sweep

    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: progress)
    run = tmp_path / "0.zarr"
    with pytest.warns(UserWarning, match="interrupted"):
        cv.fit(cv.TopicModel(2), RELEASE, chain=0, store=run, **SHORT)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="unfinished"):
        assert cv.load_posterior(run).n_draws == 3
    with pytest.raises(
        ValueError, match=r"expected complete runs, got .*, which is unfinished: resume it first"
    ):
        cv.merge_runs([run, parts[1]], tmp_path / "run.zarr")
    cv.resume(run, progress=False)
    same_draws(cv.merge_runs([run, *parts[1:]], tmp_path / "run.zarr"), whole)


def test_bad_chains(tmp_path):
    def refused(message, **options):
        with pytest.raises(ValueError, match=message):
            cv.fit(cv.TopicModel(2), RELEASE, **{**SHORT, **options})

    refused(
        "chain: expected a whole number from 0 to 2, got 3|chain: expected", chain=3, store=tmp_path / "run"
    )
    refused("chain: expected store= beside it", chain=1)
    refused("seed: expected a number beside chain", chain=1, store=tmp_path / "run", seed=None)


def test_by_the_command(tmp_path, capsys, whole):
    RELEASE.save(tmp_path / "release.parquet")
    words = [
        "--topics",
        "2",
        "--sweeps",
        "30",
        "--burn-in",
        "10",
        "--thin",
        "3",
        "--chains",
        "3",
        "--seed",
        "1",
        "--quiet",
    ]
    runs = [str(tmp_path / f"{chain}.zarr") for chain in range(3)]
    for chain, run in enumerate(runs):
        fit = ["fit", "topics", str(tmp_path / "release.parquet"), *words, "--chain", str(chain), "-o", run]
        assert main(fit) == 0
    assert main(["merge", *runs, "-o", str(tmp_path / "run.zarr")]) == 0
    assert "3 chains x 6 draws" in capsys.readouterr().out
    same_draws(cv.load_posterior(tmp_path / "run.zarr"), whole)
    assert main(["merge", *runs, "-o", str(tmp_path / "run.zarr")]) == 2
    assert "--output: expected a new folder" in capsys.readouterr().err


@pytest.mark.parametrize("entry", ["dimension_names", "shape", None])
def test_a_damaged_part_is_told_as_such(parts, tmp_path, entry):
    part = shutil.copytree(parts[1], tmp_path / "part.zarr")
    if entry is None:
        os.truncate(part / "checkpoint" / "chains" / "newest", 1 << 40)  # a hole
    else:
        node = json.loads((part / "posterior" / "phi" / "zarr.json").read_bytes())
        del node[entry]
        (part / "posterior" / "phi" / "zarr.json").write_text(json.dumps(node))
    with pytest.raises(cv.PosteriorFileError, match=r"a damaged one in|mostly a hole"):
        cv.merge_runs([part, parts[0]], tmp_path / "run.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part.zarr"]


@pytest.mark.parametrize("how", ["changed", "lost"])
def test_damage_does_not_get_a_new_checksum(parts, tmp_path, how):
    """A part with a chunk changed or lost does not load; merged or extended it was signed anew, as if whole."""
    damaged = tmp_path / "damaged.zarr"
    shutil.copytree(parts[1], damaged)
    chunk = next(
        path for path in sorted((damaged / "posterior" / "theta" / "c").rglob("*")) if path.is_file()
    )
    if how == "lost":
        chunk.unlink()
    else:
        values = np.frombuffer(numcodecs.Zstd().decode(chunk.read_bytes()), "<f4")
        chunk.write_bytes(numcodecs.Zstd().encode(2 * values))
    for use in (
        lambda: cv.load_posterior(damaged),
        lambda: cv.merge_runs([parts[0], damaged], tmp_path / "run.zarr"),
        lambda: cv.extend(damaged, 50, progress=False),
    ):
        with pytest.raises(cv.PosteriorFileError, match=r"damaged.zarr' \(its checksum differs\)"):
            use()
    assert not (tmp_path / "run.zarr").exists()


def test_models_that_a_run_does_not_hold_are_compared_with_all_that_is_in_them(tmp_path):
    """Their arrays, too: chains of two posteriors would pass for those of one."""
    phi = np.array([[1.0, 1, 0.1, 0.1], [0.1, 0.1, 1, 1]])
    release = cv.simulate_release(np.random.default_rng(0).poisson(3, (8, 4)), epsilon=1, seed=0)

    def model(fixed=phi, **options):
        return cv.Factorization("dk,kv->dv", names=["theta", "phi"], fixed={"phi": fixed}, k=2, **options)

    settings = {"sweeps": 40, "burn_in": 20, "thin": 1, "seed": 1, "chains": 2, "progress": False}
    others = [model(shape=5.0), model(rate=5.0), model(phi[::-1].copy()), model(np.nextafter(phi, 2))]
    for chain, one in enumerate([model(), *others]):
        cv.fit(one, release, chain=0 if chain == 0 else 1, store=tmp_path / str(chain), **settings)
    for chain, one in enumerate(others, start=1):
        with pytest.raises(ValueError, match=r"^runs: expected one model, got another in "):
            cv.merge_runs([tmp_path / "0", tmp_path / str(chain)], tmp_path / "both", model=one)
        with pytest.raises(ValueError, match=r"^model: expected the Factorization of this run"):
            cv.extend(tmp_path / "0", 80, model=one, progress=False)
        with pytest.raises(
            ValueError, match=r"^model: expected the Factorization of this run, settings and arrays"
        ):
            cv.load_posterior(tmp_path / "0", model=one)
    cv.fit(model(), release, chain=1, store=tmp_path / "same", **settings)
    both = cv.merge_runs([tmp_path / "0", tmp_path / "same"], tmp_path / "both", model=model())
    assert both.tree["posterior"].sizes["chain"] == 2
    # As versions before this one described it.
    assert is_described(model(), {"name": "Factorization", "settings": {"spec": "dk,kv->dv"}})
    assert not is_described(model(), {"name": "Factorization", "settings": {"spec": "ij,jk->ik"}})
