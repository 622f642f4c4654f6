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
from countveil.counts.files import cells, folder
from countveil.counts.files import release as release_file
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.run_files import PLACE
from goodness_of_fit import SEED
from inference.kinds import counts_of
from inference.test_out_of_core import write_release
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


#: Rows that are cut into blocks of two, a release that the run refers to, scratch files, and many checkpoints.
LARGE = """
import sys
import countveil as cv
from countveil.inference import row_files
from countveil.posterior.runs import packed_release

row_files.SMALLEST_BLOCK, row_files.BLOCKS_PER_SHARD, packed_release.LARGEST_PACKED = 24, 1, 100
release, run, scratch, sweeps, thin = sys.argv[1:]
cv.fit(cv.TopicModel(3), release, sweeps=int(sweeps), thin=int(thin), seed=7, threads=1, engine="mpi", store=run, progress=False,
       scratch=scratch, checkpoint_seconds=0.1)
"""


def draws_of(run):
    tree = cv.load_posterior(run).tree
    groups = [tree[group].to_dataset() for group in ("posterior", "sample_stats")]
    return {name: array.to_numpy() for group in groups for name, array in group.data_vars.items()}


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.long
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


def test_ranks_write_their_rows_and_unpack_theirs(release, tmp_path):
    run, alone = tmp_path / "run.zarr", tmp_path / "alone.zarr"
    done(2, sys.executable, "-c", LARGE, release, run, tmp_path, 400, 20)
    data = cv.load_release(release)
    cv.fit(cv.TopicModel(3), data, sweeps=400, thin=20, seed=7, threads=1, store=alone, progress=False)
    assert same(draws_of(run), draws_of(alone))
    assert not (run / "release").exists()
    assert len(list((run / "posterior" / "theta" / "c" / "0" / "0").iterdir())) == 30
    assert [len(carry.rows.files) for carry in read_checkpoint(run.joinpath(*PLACE)).carries] == [2, 2]
    assert {path.name for path in tmp_path.iterdir()} == {"run.zarr", "alone.zarr"}


@pytest.mark.long
def test_more_ranks_than_rows_are_refused_and_all_ranks_end(tmp_path):
    path, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.simulate_release(counts_of((2, 12)), epsilon=1, seed=SEED).save(path)
    with job(3, *fitted(path, run, "--engine", "mpi")) as running:
        _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert "expected at most one for each of the 2 rows" in err
    assert "Traceback" not in err
    assert not run.exists()


@pytest.mark.long
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
    with job(3, sys.executable, "-c", LARGE, release, run, tmp_path, 2000, 100) as running:
        wait_for(lambda: run.joinpath(*PLACE).is_dir() and read_checkpoint(run.joinpath(*PLACE)), running)
        os.kill(rank_of(running.pid, 1), signal.SIGKILL)
        running.communicate(timeout=120)
    assert running.returncode != 0
    assert read_checkpoint(run.joinpath(*PLACE)).sweep < SETTINGS["sweeps"]
    done(2, COUNTVEIL, "resume", run, "--engine", "mpi", "--quiet", "--threads", 1, "--scratch", tmp_path)
    assert same(draws_of(run), expected)


@pytest.mark.long
def test_a_part_that_a_rank_cannot_read_ends_the_job_and_is_named(tmp_path, monkeypatch):
    """That of the last rows: rank 0 does not look at it."""
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 40)
    monkeypatch.setattr(release_file, "LABELS_IN_ONE_FILE", 10)
    path = tmp_path / "release"
    values = counts_of((60, 12))
    cv.simulate_release(values, epsilon=1, seed=SEED, labels=([f"r{i}" for i in range(60)], None)).save(path)
    *_, part, _ = sorted((path / "generation-1" / "cells").iterdir())  # the last has no cells
    part.write_bytes(part.read_bytes()[:-9])
    with job(2, *fitted(path, tmp_path / "run.zarr", "--engine", "mpi")) as running:
        _, err = running.communicate(timeout=300)
    assert running.returncode != 0
    assert "rank 1 has failed, and ends the job" in err
    assert part.name in err


PEAK = """
import atexit, resource, sys
from pathlib import Path
import countveil as cv
from mpi4py import MPI


@atexit.register  # ranks beside the first end inside of fit
def tell():  # in a file for each rank: a launcher may mix what several print
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path(f"{sys.argv[2]}.peak{MPI.COMM_WORLD.Get_rank()}").write_text(str(peak))


cv.fit(cv.TopicModel(50), sys.argv[1], sweeps=4, burn_in=1, thin=1, chains=1, seed=7, threads=1, engine="mpi",
       store=sys.argv[2], keep=sys.argv[3], progress=False)
"""


@pytest.mark.long
@pytest.mark.parametrize("keep", ["all", "summaries"])
def test_no_rank_holds_the_whole(keep, tmp_path):
    """Neither the release nor all row factors: memory beside Python and its libraries, in kB."""
    write_release(tmp_path / "large.parquet", 100_000, 150)
    write_release(tmp_path / "small.parquet", 200, 150)
    peaks = {}
    for name, ranks in (("small", 1), ("large", 1), ("large", 3)):
        run = tmp_path / f"{name}{ranks}.zarr"
        done(ranks, sys.executable, "-c", PEAK, tmp_path / f"{name}.parquet", run, keep)
        peaks[name, ranks] = [int(Path(f"{run}.peak{rank}").read_text()) for rank in range(ranks)]
    (base,), (alone,) = peaks["small", 1], peaks["large", 1]
    beside = [peak - base for peak in peaks["large", 3]]
    # Factors alone are 100,000 x 50 x 8 bytes, of which nobody may have more than a third, some copies of it.
    assert alone - base > 40_000
    assert max(beside) < 0.6 * (alone - base), (peaks, beside)


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


#: The command, where kernels of a GPU run in numba's simulator.
SIMULATED = "import sys; from cuda_simulator import take_turns; take_turns(); from countveil.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.long
def test_ranks_with_a_gpu_each_and_then_another_number_of_them(tmp_path, monkeypatch):
    path, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.simulate_release(counts_of((7, 5)), epsilon=1, seed=SEED).save(path)
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    command = [sys.executable, "-W", "ignore", "-c", SIMULATED]
    fit = ["fit", "topics", path, "--topics", 2, "--sweeps", 8, "--burn-in", 4, "--thin", 1, "--chains", 1]
    done(2, *command, *fit, "--seed", 3, "--engine", "mpi", "--algorithm", "cuda", "--quiet", "-o", run)
    first = draws_of(run)
    done(3, *command, "resume", run, "--sweeps", 11, "--engine", "mpi", "--quiet")
    both = draws_of(run)
    assert both["theta"].shape[1:] == (7, 7, 2)
    assert all(np.array_equal(both[name][:, :4], first[name]) for name in first)
