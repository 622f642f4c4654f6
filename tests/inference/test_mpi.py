"""The MPI engine, by jobs as a user starts them: the same draws, signals, lost ranks, and going on elsewhere."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import countveil as cv
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.run_files import PLACE
from goodness_of_fit import SEED
from inference.kinds import counts_of
from inference.test_sharded import QUICK

BIN = Path(sys.executable).parent
LAUNCHER = next(
    (str(BIN / name) for name in ("mpiexec", "mpirun") if (BIN / name).exists()), shutil.which("mpiexec")
)
pytestmark = pytest.mark.skipif(
    LAUNCHER is None or importlib.util.find_spec("mpi4py") is None,
    reason="no MPI here: pip install 'countveil[mpi]' mpich",
)
COUNTVEIL = str(BIN / "countveil")


@contextmanager
def job(ranks, *command):
    """Started, its output to be read; nothing of it is left at the end."""
    everything = [LAUNCHER, "-n", str(ranks), *map(str, command)]
    started = subprocess.Popen(
        everything, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def done(ranks, *command):
    """What it prints; it must end well."""
    with job(ranks, *command) as running:
        out, err = running.communicate(timeout=1500)
    assert running.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A release on disk."""
    path = tmp_path_factory.mktemp("mpi") / "release.parquet"
    cv.simulate_release(counts_of((60, 12)), epsilon=1, seed=SEED).save(path)
    return path


SETTINGS = {"topics": 3, "sweeps": 2000, "thin": 100, "seed": 7, "threads": 1}


def fitted(release, run, *more):
    """The command that fits it."""
    words = [word for name, value in SETTINGS.items() for word in (f"--{name}", value)]
    return [COUNTVEIL, "fit", "topics", release, "-o", run, "--quiet", *words, *more]


@pytest.fixture(scope="module")
def expected(release, tmp_path_factory):
    """Draws of one process."""
    run = tmp_path_factory.mktemp("alone") / "run.zarr"
    subprocess.run([*map(str, fitted(release, run))], check=True)
    return draws_of(run)


def draws_of(run):
    tree = cv.load_posterior(run).tree
    groups = [tree[group].to_dataset() for group in ("posterior", "sample_stats")]
    return {name: array.to_numpy() for group in groups for name, array in group.data_vars.items()}


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def test_a_signal_to_one_rank_stops_all_at_a_checkpoint_and_one_process_goes_on(release, expected, tmp_path):
    run = tmp_path / "run.zarr"
    with job(3, *fitted(release, run, "--engine", "mpi")) as running:
        wait_for(run.exists, running)
        # The launcher would hand a signal to all ranks: here one rank alone gets it.
        os.kill(rank_of(running.pid, 2), signal.SIGTERM)
        _, err = running.communicate(timeout=300)
    assert "SIGTERM: stopped at a checkpoint" in err
    assert 0 < read_checkpoint(run.joinpath(*PLACE)).sweep < SETTINGS["sweeps"]
    cv.resume(run, progress=False)
    assert same(draws_of(run), expected)


def test_more_ranks_than_rows_are_refused_and_all_ranks_end(tmp_path):
    path, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.simulate_release(counts_of((2, 12)), epsilon=1, seed=SEED).save(path)
    with job(3, *fitted(path, run, "--engine", "mpi")) as running:
        _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert "expected at most one for each of the 2 rows" in err
    assert "Traceback" not in err
    assert not run.exists()


def test_chains_of_a_network_are_spread_over_the_ranks(tmp_path):
    path = tmp_path / "network.parquet"
    cv.simulate_release(counts_of((12, 12)), epsilon=1, seed=SEED).save(path)
    fit = [COUNTVEIL, "fit", "communities", path, "--communities", 2, "--sweeps", 300, "--thin", 50]
    fit += ["--chains", 3, "--seed", 7, "--quiet", "--threads", 1, "-o"]
    subprocess.run([*map(str, fit), str(tmp_path / "alone.zarr")], check=True)
    done(2, *fit, tmp_path / "spread.zarr", "--engine", "mpi")
    assert same(draws_of(tmp_path / "spread.zarr"), draws_of(tmp_path / "alone.zarr"))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_draws_are_those_of_one_process(ranks):
    # Every model with every kind of data is compared in process, by the same sampler (test_sharded.py).
    told = done(ranks, sys.executable, Path(__file__).with_name("mpi_cases.py")).splitlines()
    assert len(told) == len(QUICK), told
    assert all(line.startswith("same") for line in told), told


@pytest.mark.long
def test_a_lost_rank_ends_the_job_and_other_ranks_go_on(release, expected, tmp_path):
    run = tmp_path / "run.zarr"
    script = (
        "import countveil as cv, sys\n"
        "cv.fit(cv.TopicModel(3), sys.argv[1], sweeps=2000, thin=100, seed=7, threads=1, engine='mpi',\n"
        "       store=sys.argv[2], progress=False, checkpoint_seconds=0.1)\n"
    )
    with job(3, sys.executable, "-c", script, release, run) as running:
        wait_for(lambda: run.joinpath(*PLACE).is_dir() and read_checkpoint(run.joinpath(*PLACE)), running)
        os.kill(rank_of(running.pid, 1), signal.SIGKILL)
        running.communicate(timeout=120)
    assert running.returncode != 0
    assert read_checkpoint(run.joinpath(*PLACE)).sweep < SETTINGS["sweeps"]
    done(2, COUNTVEIL, "resume", run, "--engine", "mpi", "--quiet", "--threads", 1)
    assert same(draws_of(run), expected)


@pytest.mark.long
def test_a_part_that_a_rank_cannot_read_ends_the_job_and_is_named(release, tmp_path):
    """Rank 0 reads all of it first; here the file is damaged only for the others."""
    script = (
        "import countveil as cv, sys\n"
        "from countveil.inference.engines.mpi import is_follower\n"
        "from countveil.inference.engines.sharded import shard\n"
        "if is_follower():\n"
        "    shard.read_rows = lambda *_: 1 / 0\n"
        "cv.fit(cv.TopicModel(3), sys.argv[1], sweeps=10, seed=7, threads=1, engine='mpi', progress=False)\n"
    )
    with job(2, sys.executable, "-c", script, release) as running:
        _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert "rank 1 has failed, and ends the job" in err


def wait_for(true, running):
    for _ in range(6000):
        if true():
            return
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.05)
    raise TimeoutError


def rank_of(launcher, rank):
    """The process of a rank, by its environment."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            names = (place / "environ").read_bytes().split(b"\0")
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if b"PMI_RANK=%d" % rank in names and descends(int(place.name), launcher) and b"python" in words:
            return int(place.name)
    raise LookupError


def descends(process, from_process):
    while process > 1:
        if process == from_process:
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False
