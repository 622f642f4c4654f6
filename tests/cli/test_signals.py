"""Signals to the command: it writes a checkpoint, and stops or goes on, as they ask."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import countveil as cv
from countveil.cli import main
from countveil.posterior import load
from countveil.posterior.describe import describe_run
from countveil.posterior.runs import reopened
from countveil.posterior.runs.checkpoint import read_checkpoint

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="these signals are those of Unix")

COUNTS = np.random.default_rng(0).poisson(1.0, (300, 40))
# Hours, if nobody stops it; checkpoints come by signals alone.
ENDLESS = [
    "--topics",
    "5",
    "--sweeps",
    "1000000",
    "--burn-in",
    "10",
    "--thin",
    "1000",
    "--seed",
    "1",
    "--threads",
    "1",
]


@pytest.fixture
def started(tmp_path):
    """A fit in a process of its own that has begun to sweep, and the folder of its run."""
    release, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.simulate_release(COUNTS, epsilon=1, seed=0).save(release)
    words = ["fit", "topics", str(release), "-o", str(run), *ENDLESS]
    begun = []

    def start(**options):
        # What runs the tests may ignore it (nohup), and what is ignored is inherited.
        options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        # A session of its own: what is sent to it is not sent to the tests.
        process = subprocess.Popen(
            [sys.executable, "-m", "countveil", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options,
        )  # fmt: skip
        begun.append(process)
        waited = time.monotonic() + 300
        while not run.exists() and time.monotonic() < waited and process.poll() is None:
            time.sleep(0.05)
        assert run.exists(), process.communicate(timeout=10)
        return process, run

    yield start
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def sweep_of(run):
    found = read_checkpoint(run / "checkpoint" / "chains")
    return None if found is None else found.sweep


@pytest.mark.long
def test_usr1_is_a_checkpoint_and_term_the_end(started, capsys):
    process, run = started()
    assert sweep_of(run) is None
    os.kill(process.pid, signal.SIGUSR1)
    waited = time.monotonic() + 300
    while sweep_of(run) is None and time.monotonic() < waited:
        time.sleep(0.05)
    first = sweep_of(run)
    assert first is not None
    assert first > 0
    assert process.poll() is None, "it goes on"
    # A second one on the same run is refused, and harms nothing.
    assert main(["resume", str(run), "--quiet"]) == 2
    assert "which another process is writing" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"countveil: SIGTERM: stopped at a checkpoint; countveil resume {run} goes on" in err
    assert "Traceback" not in err
    assert out == ""
    assert sweep_of(run) > first


@pytest.mark.long
@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_others_that_stop_it(started, name):
    process, run = started()
    os.kill(process.pid, getattr(signal, name))
    _, err = process.communicate(timeout=300)
    assert process.returncode == (130 if name == "SIGINT" else 128 + signal.SIGHUP)
    assert "Traceback" not in err
    assert sweep_of(run) > 0
    assert f"countveil resume {run}" in err


@pytest.mark.long
def test_what_is_ignored_stays_so(started):
    """As under ``nohup``."""
    process, run = started(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    os.kill(process.pid, signal.SIGHUP)
    time.sleep(1)
    assert process.poll() is None
    assert sweep_of(run) is None
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=300)
    assert sweep_of(run) > 0


def test_a_stop_while_a_run_is_opened_keeps_the_new_total(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run.zarr"
    cv.fit(cv.TopicModel(2), COUNTS[:5], sweeps=20, seed=1, thin=1, progress=False, store=run)
    np.savetxt(
        tmp_path / "counts.csv",
        COUNTS[:5],
        "%d",
        ",",
        header=",".join(f"word {i}" for i in range(40)),
        comments="",
    )
    words = ["resume", str(run), "--sweeps", "100", "--plain", str(tmp_path / "counts.csv")]
    opened = reopened.ReopenedRun

    def slow(path):
        os.kill(os.getpid(), signal.SIGTERM)
        return opened(path)

    monkeypatch.setattr(reopened, "ReopenedRun", slow)
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 128 + signal.SIGTERM
    assert "SIGTERM: stopped at a checkpoint; countveil resume" in capsys.readouterr().err
    assert "NOT COMPLETE: sweep 20 of 100" in str(describe_run(run))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    # A run that was not to go on: the command stops, as any does.
    monkeypatch.setattr(reopened, "ReopenedRun", opened)
    whole = tmp_path / "whole.zarr"
    cv.fit(cv.TopicModel(2), COUNTS[:5], sweeps=20, seed=1, thin=1, progress=False, store=whole)
    monkeypatch.setattr(load, "load_posterior", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["resume", str(whole)]) == 128 + signal.SIGTERM
    assert "countveil: stopped" in capsys.readouterr().err


def test_handlers_are_put_back(tmp_path):
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)]
    cv.fit(cv.TopicModel(2), COUNTS[:5], sweeps=4, seed=1, thin=1, progress=False, store=tmp_path / "run")
    assert [
        signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
    ] == before
