"""A run that is killed at any moment goes on, and its draws are those of one that was not."""

import os
import random
import signal
import sys
import time
import warnings

import numpy as np
import pytest

import countveil as cv
from countveil.posterior.runs import zarr_store
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.checks import folder
from countveil.posterior.runs.reader import root_attributes
from goodness_of_fit import SEED

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed")

RNG = np.random.default_rng(5)
COUNTS, NETWORK = RNG.poisson(2.0, (12, 6)), RNG.poisson(1.0, (8, 8))
SIGNED = COUNTS + RNG.geometric(0.6, COUNTS.shape) - RNG.geometric(0.6, COUNTS.shape)
RELEASE = cv.simulate_release(COUNTS, epsilon=2, seed=0)
LONG = {"sweeps": 800, "burn_in": 30, "thin": 3, "chains": 2, "seed": 1, "threads": 1, "progress": False}

CASES = {
    "exact": (cv.TopicModel(2), RELEASE, {}),
    "bessel": (cv.TopicModel(2), RELEASE, {"method": "bessel"}),
    "unknown noise": (cv.UnknownNoise(cv.TopicModel(2)), cv.PrivateCounts(SIGNED, alpha=0.4), {}),
    "communities": (cv.CommunityModel(2), cv.simulate_release(NETWORK, epsilon=2, seed=0), {}),
    "columns": (cv.TopicModel(2), RELEASE, {"keep": "columns"}),
    "summaries": (
        cv.CommunityModel(2),
        cv.simulate_release(NETWORK, epsilon=2, seed=0),
        {"keep": "summaries"},
    ),
}


def same_draws(one, other):
    """Bit by bit, with everything that was monitored, and running means."""
    assert one.tree.children.keys() == other.tree.children.keys()
    for group in one.tree.children:
        assert one.tree[group].to_dataset().equals(other.tree[group].to_dataset())


def killed_after(n_checkpoints, seconds, work, meanwhile=lambda: None):
    """Do ``work`` in a process of its own, with checkpoints after every sweep, and kill it so late."""
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # zarr has a thread, and mends it after a fork
        child = os.fork()
    if child == 0:
        write = zarr_store.write_checkpoint
        zarr_store._SHARE = float("inf")
        zarr_store.write_checkpoint = lambda *given: (write(*given), os.write(tell, b"."))
        try:
            work()
        finally:
            os._exit(1)
    os.close(tell)
    for _ in range(n_checkpoints):
        os.read(told, 1)
    try:
        meanwhile()
        time.sleep(seconds)
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(told)
        status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "it ended by itself"


def run_with_kills(path, case, n_kills, chance):
    model, data, more = CASES[case]
    settings = {**LONG, **more, "store": path, "checkpoint_seconds": 0}
    swept = []
    for kill in range(n_kills):
        # The first in burn-in or before it, the second after it, the others anywhere; most of them while files
        # are written.
        n, seconds = chance.randint(0, 8) + LONG["burn_in"] * (kill == 1), chance.uniform(0.0, 0.1)
        if path.exists():
            killed_after(n, seconds, lambda: cv.resume(path, progress=False, checkpoint_seconds=0))
        else:
            killed_after(n, seconds, lambda: cv.fit(model, data, **settings))
        if path.exists():
            assert root_attributes(path)["complete"] == 0
            checkpoint = read_checkpoint(path / "checkpoint" / "chains")
            swept.append(0 if checkpoint is None else checkpoint.sweep)
    assert swept == sorted(swept), "what a checkpoint has is never lost"
    assert swept[-1] > LONG["burn_in"]
    return cv.resume(path, progress=False)


@pytest.mark.parametrize(
    ("case", "n_kills"),
    [("exact", 3), *(pytest.param(case, 20, marks=pytest.mark.long) for case in CASES)],
)
def test_killed_at_random_moments(case, n_kills, tmp_path):
    model, data, more = CASES[case]
    whole = cv.fit(model, data, **LONG, **more)  # and everything is compiled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run_with_kills(tmp_path / "run.zarr", case, n_kills, random.Random(f"{SEED} {case}"))
    same_draws(found, whole)
    same_draws(cv.load_posterior(tmp_path / "run.zarr"), whole)
    assert not found.settings["interrupted"]
    if case == "unknown noise":
        assert found.release == whole.release


@pytest.mark.long
def test_another_process_reads_it_while_it_grows(tmp_path):
    """Again and again, whatever is being written at that moment; what it gets is a beginning of the whole."""
    model, data, _ = CASES["exact"]
    settings = {**LONG, "burn_in": 2, "thin": 1, "sweeps": 2002}
    run, whole = tmp_path / "run.zarr", cv.fit(model, data, **settings).tree["posterior"].to_dataset()
    seen = []

    def read():
        while not seen or seen[-1] < 20:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="unfinished")
                if run.exists() and root_attributes(run)["draws"] > 0:
                    found = cv.load_posterior(run).tree["posterior"].to_dataset()
                    seen.append(found.sizes["draw"])
                    assert found.equals(whole.isel(draw=slice(seen[-1])))

    killed_after(1, 0.0, lambda: cv.fit(model, data, store=run, checkpoint_seconds=0, **settings), read)
    assert len(set(seen)) > 3


def test_a_file_that_is_renamed_while_a_reader_looks_is_no_damage(tmp_path, monkeypatch):
    """Between the moment that its name is read and the one that its size is: checkpoints are renamed all the time."""
    model, data, _ = CASES["exact"]
    path = tmp_path / "run.zarr"
    posterior = cv.fit(model, data, **{**LONG, "sweeps": 60}, store=path)
    place, look = path / "checkpoint" / "chains", folder.size_on_disk
    renamed = []

    def size_of_what_moves(file):
        if file.parent == place and file.name == "newest":
            file.rename(place / "before")
            renamed.append(file)
        return look(file)

    monkeypatch.setattr(folder, "size_on_disk", size_of_what_moves)
    same_draws(cv.load_posterior(path), posterior)
    assert renamed
