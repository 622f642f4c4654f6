"""Runs that end early, and runs that a pipeline refuses: the options of the command and its exit codes."""

import pytest

import countveil as cv
from countveil.cli import main
from countveil.inference import stopping

WORDS = ["--topics", "2", "--seed", "1", "--thin", "2"]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "release.parquet"
    cv.simulate_release([[9, 0, 1], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1).save(path)
    return str(path)


def test_a_run_beyond_the_r_hat_is_written_and_refused(release, tmp_path, capsys):
    run = str(tmp_path / "run.zarr")
    words = ["fit", "topics", release, *WORDS, "--sweeps", "24", "-o", run]
    assert main([*words, "--max-r-hat", "1.000001", "--quiet"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("countveil: refused: the worst R-hat is ")
    assert told.err.endswith("--max-r-hat 1.000001 was asked for\n")
    worst = cv.load_posterior(run).summary()["r_hat"].max()
    for command in (["resume", run], ["topics", run]):
        assert main([*command, "--max-r-hat", str(worst - 1e-6)]) == 1
        assert main([*command, "--max-r-hat", str(worst + 1e-6)]) == 0
        assert main(command) == 0
    assert capsys.readouterr().err.count("refused") == 2


def test_what_has_no_r_hat_is_refused(release, tmp_path, capsys):
    run = str(tmp_path / "run.zarr")
    words = ["fit", "topics", release, *WORDS, "--max-r-hat", "1.05", "-o", run]
    for one in (["--chains", "1"], ["--chains", "2", "--chain", "0"]):
        assert main([*words, *one]) == 2
        assert "--max-r-hat: expected --chains 2 or more" in capsys.readouterr().err
    assert main([*words, "--sweeps", "6", "--quiet"]) == 1, "too few draws"
    assert "no R-hat is known" in capsys.readouterr().err
    assert main([*words, "--max-r-hat", "0.9"]) == 2
    assert "expected a number above 1, got 0.9" in capsys.readouterr().err


def test_until_and_a_limit_of_time(release, tmp_path, capsys):
    run = str(tmp_path / "run.zarr")
    words = ["fit", "topics", release, *WORDS, "--sweeps", "600", "--burn-in", "100"]
    assert main([*words, "--until-ess", "60", "--until-r-hat", "1.2", "-o", run]) == 0
    told = capsys.readouterr().out
    assert "of at most 600 sweeps: the monitored scalars have ESS 60 and R-hat 1.2, as asked." in told
    assert cv.load_posterior(run).settings["stopped"] == "precision"
    assert main(["resume", run, "--until-ess", "70"]) == 2
    assert "expected --sweeps beside them" in capsys.readouterr().err
    assert main(["resume", run, "--sweeps", "600", "--until-ess", "100", "--quiet"]) == 0
    assert cv.load_posterior(run).settings["until_ess"] == 100
    assert main([*words, "--until-ess", "60", "--chain", "0", "-o", str(tmp_path / "one")]) == 2
    assert "until: expected none beside chain" in capsys.readouterr().err
    timed = str(tmp_path / "timed.zarr")
    assert main([*words, "--max-seconds", "0", "-o", timed]) == 0
    assert (
        f"The time was up before burn-in had ended. To go on: countveil resume {timed}"
        in capsys.readouterr().err
    )
    assert main(["resume", timed, "--quiet"]) == 0
    assert cv.load_posterior(timed).n_draws == 500


def test_a_limit_of_time_is_no_failure(release, tmp_path, capsys, monkeypatch):
    clock = iter(range(10**6))  # a second for every look at it
    monkeypatch.setattr(stopping, "time", type("Clock", (), {"monotonic": lambda: next(clock)}))
    run = str(tmp_path / "run.zarr")
    words = ["fit", "topics", release, *WORDS, "--sweeps", "200", "--burn-in", "0"]
    assert main([*words, "--max-seconds", "40", "-o", run]) == 0
    told = capsys.readouterr().out
    assert "Ended when its time was up" in told
    assert f"To go on: countveil resume {run}" in told
