"""Problems whose chains have no room in memory are refused before any is made; and none that have."""

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import countveil as cv
from countveil.inference import memory_needed
from countveil.inference.chains import run_chains
from countveil.inference.engines.sharded.in_process import open_problem_in_shards
from countveil.inference.memory_needed import bytes_of_chains
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from countveil.models import CommunityModel, Factorization, TensorModel, TopicModel
from countveil.runtime.machine import memory_of_machine
from inference.kinds import LevelState

SETTINGS = {
    "sweeps": 4,
    "burn_in": 0,
    "thin": 4,
    "chains": 2,
    "seed": 1,
    "engine": "cpu",
    "threads": 1,
    "start": "plain",
}
SQUARE = np.random.default_rng(0).poisson(0.1, (150, 150))


class Levels:
    """A model of one's own: one rate for every row."""

    dims = {"level": ("row",)}  # noqa: RUF012

    def init(self, data, rng):
        return LevelState(rng.exponential(size=data.shape[0]))

    def rates(self, state, rows):
        return np.repeat(state.level[rows, None], 150, axis=1)

    def update(self, state, counts, rng):
        return LevelState(rng.gamma(1 + counts.sum(axis=1)) / (1 + counts.shape[1]))


def release_of(n_rows, n_columns):
    """Two positive cells, whatever the shape."""
    cells = sparse.csr_array(([3, 2], ([0, 1], [0, 1])), shape=(n_rows, n_columns))
    return cv.PrivateCounts(cells, rho=1.0)


KINDS = {
    "wide": (TopicModel(5), release_of(2, 30_000), "exact"),
    "long": (TopicModel(5), release_of(30_000, 2), "exact"),
    "naive": (TopicModel(5), release_of(2, 30_000), "naive"),
    "bessel": (TopicModel(2), release_of(20, 4000), "bessel"),
    "network": (CommunityModel(60), cv.PrivateCounts(SQUARE, rho=1.0), "exact"),
    "CP": (TensorModel(40), cv.PrivateCounts(SQUARE.reshape(150, 15, 10), rho=1.0), "exact"),
    "not unfolding": (Factorization("dvk,k->dv", k=2), cv.PrivateCounts(SQUARE, rho=1.0), "exact"),
    "one's own": (Levels(), cv.PrivateCounts(SQUARE, rho=1.0), "exact"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_is_allocated(kind):
    model, data, method = KINDS[kind]
    problem, settings = make_problem(model, data, method), check_settings(**SETTINGS, method=method)
    run_chains(problem, settings)  # compiled
    tracemalloc.start()
    run_chains(problem, settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.1 * peak < bytes_of_chains(problem, settings.chains) < peak


def with_memory(monkeypatch, n_bytes):
    monkeypatch.setattr(memory_needed, "memory_of_machine", lambda: n_bytes)


@pytest.mark.parametrize(("method", "needed"), [("exact", "154,618,822,728"), ("bessel", "223,338,299,432")])
def test_a_small_release_does_not_make_a_fit_ask_for_gigabytes(method, needed, tmp_path, monkeypatch):
    contents = release_of(2, 4)._contents._replace(shape=(2, 2**31 - 1))  # nobody looks at all of its zeros
    cv.PrivateCounts._from_contents(contents).save(tmp_path / "wide.parquet")
    assert (tmp_path / "wide.parquet").stat().st_size < 3000
    with_memory(monkeypatch, 2**34)
    message = (
        "data: expected counts whose chains fit into the 17,179,869,184 bytes of memory of this machine, got 2 x "
        f"2,147,483,647 counts, for which 1 chain of TopicModel with 3 components needs {needed} bytes or more"
    )
    release = cv.load_release(tmp_path / "wide.parquet")
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        cv.fit(TopicModel(3), release, method=method, progress=False, seed=1, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_all_chains_that_are_run_here_count(tmp_path, monkeypatch):
    settings = {**SETTINGS, "progress": False}
    model, data = TopicModel(5), release_of(30, 20)
    needed = [bytes_of_chains(make_problem(model, data), n) for n in (1, 2)]
    with_memory(monkeypatch, needed[1] - 1)
    with pytest.raises(
        ValueError, match=f"2 chains of TopicModel with 5 components need {needed[1]:,} bytes"
    ):
        cv.fit(model, data, **settings)
    cv.fit(model, data, **{**settings, "chains": 1})
    cv.fit(model, data, **settings, chain=1, store=tmp_path / "run")
    for memory in (needed[1], None):  # None: a system that does not tell
        with_memory(monkeypatch, memory)
        cv.fit(model, data, **settings)


def test_of_a_shard_its_own_rows_count(monkeypatch):
    problem = make_problem(TopicModel(5), release_of(300, 20))
    settings = check_settings(**SETTINGS, method="exact")
    with_memory(monkeypatch, bytes_of_chains(problem, 2) // 2)
    with pytest.raises(ValueError, match="bytes or more"):
        run_chains(problem, settings)
    with open_problem_in_shards(problem, settings, 3) as sampler:
        for chain in range(2):
            sampler.start(chain)
            sampler.sweep(chain)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_the_memory_of_a_machine():
    told = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
    assert memory_of_machine() >= 0.99 * 1024 * int(told)
