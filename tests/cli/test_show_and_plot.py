"""countveil show and countveil plot, of runs: complete, unfinished, damaged, and of strangers."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import countveil as cv
from countveil.cli import main
from countveil.posterior import describe
from countveil.posterior.runs.reader import read_run

WORDS = ["oil", "gas", "日本", "=cmd"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    counts = np.kron(np.eye(2, dtype=int), np.full((3, 2), 7))
    release = cv.privatize(counts, epsilon=2, rows=list("abcdef"), columns=WORDS)
    settings = {"sweeps": 60, "thin": 2, "seed": 1, "progress": False}
    cv.fit(cv.TopicModel(2), release, store=folder / "topics", **settings)
    cv.fit(cv.TopicModel(2), counts, **settings).save(folder / "plain")
    shared = cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2),
    )
    cv.fit(shared, {"words": release, "authors": counts}, store=folder / "shared", **settings)
    return folder


@pytest.fixture
def unfinished(runs, tmp_path):
    """As a run that was stopped at its 20th draw leaves it."""
    folder = tmp_path / "unfinished"
    shutil.copytree(runs / "topics", folder)
    root = json.loads((folder / "zarr.json").read_text())
    root["attributes"] |= {"complete": 0, "draws": 10}
    del root["attributes"]["checksum"]
    (folder / "zarr.json").write_text(json.dumps(root))
    return folder


def shown(capsys, *words):
    assert main(["show", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_a_run_in_words(runs, capsys):
    text = shown(capsys, runs / "topics")
    for part in (
        ": complete\n",
        "Model: TopicModel(n_topics=2, shape=0.1, rate=None)\n",
        "Data: 6 x 4 (row, column), PrivateCounts(6 x 4, epsilon 2 at precision 1",
        "Chains: 2 chains (number 0, 1), 15 draws each\n",
        "60 sweeps, burn-in 30, thin 2, seed 1, method exact",
        f"countveil {cv.__version__}",
        "Checkpoints: sweep 60",
        "R-hat",
    ):
        assert part in text
    assert str(cv.load_posterior(runs / "topics").release.guarantee) in text


def test_a_run_as_json_has_the_numbers_of_the_posterior(runs, capsys):
    found = json.loads(shown(capsys, runs / "topics", "--json"))
    summary = cv.load_posterior(runs / "topics").summary(0)
    for name, row in found["scalars"].items():
        assert row == pytest.approx(summary.loc[name, list(row)].to_dict())
    assert set(found["scalars"]) == set(summary.index)
    assert (found["complete"], found["draws"], found["chains"]) == (True, 15, [0, 1])
    assert found["checkpoints"][0]["sweep"] == 60
    on_disk = sum(path.stat().st_size for path in (runs / "topics").rglob("*") if path.is_file())
    assert 0.5 * on_disk < sum(found["bytes"].values())


def test_large_draws_are_not_read(runs, capsys, monkeypatch):
    def heavy(*_, **__):
        raise KeyboardInterrupt("draws were read")

    monkeypatch.setattr(xr, "open_datatree", heavy)
    assert main(["show", str(runs / "topics")]) == 130, "small ones are"
    monkeypatch.setattr(describe, "_MOST_READ", 1000)
    opened = []
    first_draws = describe.first_draws
    monkeypatch.setattr(
        describe, "first_draws", lambda place, *a: opened.append(place) or first_draws(place, *a)
    )
    assert "Judged by these monitored scalars alone" in shown(capsys, runs / "topics")
    assert {place.parent.name for place in opened} == {"sample_stats"}


def test_plain_counts_and_several_arrays(runs, capsys):
    text = shown(capsys, runs / "plain")
    assert "plain counts, which are not in the run" in text
    assert "Guarantee: none is known" in text
    assert "Checkpoints: none" in text
    text = shown(capsys, runs / "shared")
    assert "Data words: 6 x 4" in text
    assert "Data authors: 6 x 4 (row, column), plain counts" in text
    assert "Guarantee words: " in text


def test_an_unfinished_run_says_how_far_it_is(unfinished, capsys):
    text = shown(capsys, unfinished)
    assert "NOT COMPLETE: sweep 60 of 60" in text
    assert "10 of 15 draws each" in text
    found = json.loads(shown(capsys, unfinished, "--json"))
    with pytest.warns(UserWarning, match="unfinished"):
        stats = read_run(unfinished).tree["sample_stats"]
    assert found["scalars"]["total_rate"]["mean"] == pytest.approx(float(stats["total_rate"].mean()))


def test_a_run_that_ended_at_its_precision_is_complete(tmp_path, capsys):
    settings = {"sweeps": 600, "burn_in": 100, "thin": 2, "seed": 1, "progress": False}
    done = cv.fit(cv.TopicModel(1), [[9, 0], [0, 8]], until={"ess": 30}, store=tmp_path / "run", **settings)
    text, draws = shown(capsys, tmp_path / "run"), done.n_draws // 2
    assert f": complete, precise as asked after {100 + 2 * draws} of at most 600 sweeps\n" in text
    assert f"{draws} draws each\n" in text
    assert "Settings: at most 600 sweeps" in text
    assert "NOT COMPLETE" not in text


@pytest.mark.long
def test_an_unfinished_run_is_told_in_a_line(unfinished, tmp_path):
    words = ["plot", str(unfinished), "traces", "-o", str(tmp_path / "traces.png")]
    done = subprocess.run([sys.executable, "-m", "countveil", *words], capture_output=True, text=True)
    assert done.returncode == 0
    # Old numcodecs warns while it is imported, in two lines.
    lines = [line for line in done.stderr.splitlines() if "numcodecs" not in line]
    assert lines == [
        f"countveil: unfinished: {str(unfinished)!r} has 10 of 15 draws per chain so far; cv.resume goes on with it"
    ]


def test_a_run_without_draws(unfinished, capsys):
    root = json.loads((unfinished / "zarr.json").read_text())
    root["attributes"]["draws"] = 0
    (unfinished / "zarr.json").write_text(json.dumps(root))
    assert shown(capsys, unfinished).endswith("No draws yet.\n")


SPOILT = [
    ({"settings": "{}"}, "damaged"),
    ({"settings": json.dumps({"sweeps": "many"})}, "damaged"),
    ({"model": "[]"}, "damaged"),
    ({"scalars": '["../../posterior/theta"]'}, "damaged"),
    ({"format": "another"}, "another Zarr folder"),
    ({"version": 99}, "update countveil"),
]


@pytest.mark.parametrize(("changed", "message"), SPOILT, ids=[str(list(one[0])) for one in SPOILT])
def test_spoilt_runs_are_one_line_and_exit_code_2(unfinished, changed, message, capsys):
    root = json.loads((unfinished / "zarr.json").read_text())
    root["attributes"] |= changed
    (unfinished / "zarr.json").write_text(json.dumps(root))
    assert main(["show", str(unfinished)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("countveil show: error: path: expected ")
    assert message in error
    assert error.count("\n") == 1


def test_a_strangers_folder_is_looked_through_first(unfinished, capsys):
    (unfinished / "sample_stats" / "link").symlink_to("/etc/passwd")
    assert main(["show", str(unfinished)]) == 2
    assert "got a link" in capsys.readouterr().err


def test_a_checkpoint_of_nonsense_is_none(unfinished, capsys):
    for name in ("newest", "before"):
        path = unfinished / "checkpoint" / "chains" / name
        if path.exists():
            path.write_bytes(path.read_bytes()[:23] + b"\xff" * 8)
    assert "Checkpoints: none" in shown(capsys, unfinished)


def test_plot_writes_a_picture_that_is_whole(runs, tmp_path, capsys):
    target = tmp_path / "topics.svg"
    target.write_text("old")
    assert main(["plot", str(runs / "topics"), "topics", "-o", str(target)]) == 0
    told = capsys.readouterr()
    assert told.out == f"Wrote {target}.\n"
    # The noise has no seed: that chains are in different modes may be said, too.
    assert "Some characters are not in the font and are drawn as boxes.\n" in told.err
    assert target.read_text().startswith("<?xml")
    assert [path.name for path in tmp_path.iterdir()] == ["topics.svg"]
    assert (
        main(["plot", str(runs / "shared"), "memberships", "--view", "words", "-o", str(tmp_path / "a.png")])
        == 0
    )


def test_selected_chains_are_told_wherever_they_are_shown(runs, tmp_path, capsys):
    run, target = tmp_path / "one", tmp_path / "traces.png"
    cv.load_posterior(runs / "topics").chains([1]).save(run)
    told = "Selected: 1 of 2 chains (1).\n"
    assert told in shown(capsys, run)
    assert json.loads(shown(capsys, run, "--json"))["selected"] == told.strip()
    assert "Selected" not in shown(capsys, runs / "topics")
    assert main(["plot", str(run), "traces", "-o", str(target)]) == 0
    assert told in capsys.readouterr().err


def test_pictures_of_chains_in_different_modes_say_so(tmp_path, capsys):
    release = cv.simulate_release(np.kron(np.eye(2, dtype=int), np.full((3, 2), 7)), epsilon=2, seed=1)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=60, thin=1, seed=1, progress=False)
    stats = posterior.tree["sample_stats"]
    far_below = stats["sampled_log_likelihood"] - 500.0 * (stats["chain"] == 1)
    posterior.tree["sample_stats"] = stats.to_dataset().assign(sampled_log_likelihood=far_below)
    posterior.save(tmp_path / "run")
    assert main(["plot", str(tmp_path / "run"), "memberships", "-o", str(tmp_path / "shares.png")]) == 0
    assert "chain 1 is 500 below chain 0" in capsys.readouterr().err


BAD = [
    (["topics", "networks"], "KIND: expected one of topics, memberships, prevalence, blocks, network, "),
    (["topics", "blocks"], "expected a picture that fits a run of TopicModel (topics, memberships, matrices, rootogram, pit, traces, ranks), got 'blocks'"),
    (["shared", "topics"], "a run of SharedFactors (traces, ranks), got 'topics'; --view NAME draws one of its arrays"),
    (["shared", "topics", "--view", "cites"], "--view: expected one of words, authors, got 'cites'"),
    (["topics", "topics", "--view", "words"], "--view: expected a run of several arrays, got one of TopicModel"),
    (["topics", "topics", "--dpi", "0"], "--dpi: expected a number from 10 to 1200, got 0"),
    (["absent", "topics"], "path: expected the folder of a run"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD)
def test_pictures_that_there_are_not(runs, words, message, tmp_path, capsys):
    run, *rest = words
    assert main(["plot", str(runs / run), *rest, "-o", str(tmp_path / "a.png")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("countveil plot: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_bad_names_of_pictures(runs, tmp_path, capsys):
    for name, message in (("a.jpg", "--output: expected a name that ends in .png"), ("no/a.png", "--output")):
        assert main(["plot", str(runs / "topics"), "topics", "-o", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


def test_shares_of_new_rows_as_a_table(runs, tmp_path, capsys):
    new, table = tmp_path / "new.parquet", tmp_path / "shares.parquet"
    cv.PrivateCounts([[9, 8, 0, 0], [0, 0, 7, 9]], alpha=0.2, labels=(list("xy"), WORDS)).save(new)
    words = ["transform", str(runs / "topics"), str(new), "-o", str(table), "--seed", "1", "--quiet"]
    assert main(words) == 0
    found = pd.read_parquet(table)
    expected = cv.transform(cv.load_posterior(runs / "topics"), cv.load_release(new), seed=1, progress=False)
    assert (found["mean"].to_numpy() == expected["mean"].to_numpy().ravel()).all()
    assert found["row"].tolist() == list("xxyy")
    capsys.readouterr()
    assert main(words) == 2
    assert "--output: expected a new name" in capsys.readouterr().err
    assert main([*words[:2], str(tmp_path / "none"), *words[3:], "--overwrite"]) == 2
    assert "No such file or directory" in capsys.readouterr().err
