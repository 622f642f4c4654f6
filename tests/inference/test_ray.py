"""The Ray engine: the same draws, also where actors and machines are lost. Run by ``make test-ray``."""

import importlib.util
import os
import random
import threading
import warnings

import numpy as np
import pytest

import countveil as cv
from countveil.inference import row_files
from countveil.inference.engines.cpu import open_problem as open_on_cpu
from countveil.posterior.runs import packed_release
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.run_files import PLACE
from goodness_of_fit import SEED
from inference.kinds import counts_of
from inference.test_sharded import QUICK, drawn, problem_of, same, settings_of

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="no Ray here: make test-ray installs it"
    ),
    pytest.mark.skipif(
        "COUNTVEIL_TEST_RAY" not in os.environ, reason="a cluster takes a while: make test-ray"
    ),
    # Of Ray's own making.
    pytest.mark.filterwarnings(
        "default::FutureWarning", "default::ResourceWarning", "default::DeprecationWarning"
    ),
]


@pytest.fixture(scope="module")
def cluster():
    """Three machines, all of them this one."""
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 8})
    nodes = [made.add_node(num_cpus=8) for _ in range(2)]
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False)
    yield made, nodes
    ray.shutdown()
    made.shutdown()


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_draws_are_those_of_one_process(cluster, shards):
    from countveil.inference.engines.ray import open_problem

    for case in QUICK if shards == 3 else QUICK[:3]:
        problem, settings = problem_of(*case), settings_of(case[2])
        ours = drawn(open_problem(problem, settings_of(case[2], engine=cv.Ray(shards=shards))))
        assert same(drawn(open_on_cpu(problem, settings)), ours), case


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.long)])
def test_killed_actors_change_no_draw(cluster, kills, monkeypatch):
    import ray

    from countveil.inference.engines.ray import crew

    monkeypatch.setattr(crew, "SECONDS_BETWEEN_STATES", 0.5)
    problem = problem_of("topics", "missing", "auto")
    settings = settings_of("auto", engine=cv.Ray(shards=3), sweeps=2000)
    rng, sweeps = random.Random(SEED), 0
    with crew.open_problem(problem, settings) as sampler, open_on_cpu(problem, settings) as alone:
        sampler.start(0)
        alone.start(0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="a shard was lost")
            for lost in range(kills):
                # In the midst of some sweep.
                actor = rng.choice(sampler.crew.actors)
                threading.Timer(rng.uniform(0.1, 1.0), ray.kill, [actor]).start()
                while sampler.losses <= lost:
                    sampler.sweep(0)
                    sweeps += 1
        for _ in range(sweeps):
            alone.sweep(0)
        assert same([sampler.carry(0).state, sampler.monitor(0)], [alone.carry(0).state, alone.monitor(0)])


def test_a_lost_machine_changes_no_draw(cluster):
    from countveil.inference.engines.ray import crew

    made, nodes = cluster
    problem = problem_of("groups", "mostly missing", "tokens")
    settings = settings_of("tokens", engine=cv.Ray(shards=12))
    with crew.open_problem(problem, settings) as sampler, open_on_cpu(problem, settings) as alone:
        sampler.start(0)
        alone.start(0)
        sampler.sweep(0)
        made.remove_node(nodes.pop())
        with pytest.warns(UserWarning, match="a shard was lost"):
            sampler.sweep(0)
        alone.sweep(0)
        alone.sweep(0)
        assert sampler.losses == 1
        assert same([sampler.carry(0).state, sampler.monitor(0)], [alone.carry(0).state, alone.monitor(0)])


def test_a_fit_reads_the_release_where_the_actors_are(cluster, tmp_path):
    path, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.simulate_release(counts_of((60, 12)), epsilon=1, seed=SEED).save(path)
    options = {"sweeps": 20, "thin": 5, "seed": 1, "threads": 1, "progress": False}
    ours = cv.fit(cv.TopicModel(2), path, engine=cv.Ray(shards=2), store=run, **options).tree
    alone = cv.fit(cv.TopicModel(2), cv.load_release(path), **options).tree
    for name, array in alone["posterior"].data_vars.items():
        assert np.array_equal(array, ours["posterior"][name])


@pytest.mark.parametrize("keep", ["all", "columns", "summaries"])
def test_actors_write_their_rows_and_one_that_is_killed_changes_no_draw(keep, cluster, tmp_path, monkeypatch):
    import ray

    from countveil.inference.engines.ray import crew

    monkeypatch.setattr(row_files, "SMALLEST_BLOCK", 16)  # blocks of two rows
    monkeypatch.setattr(packed_release, "LARGEST_PACKED", 100)
    path, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.simulate_release(counts_of((60, 12)), epsilon=1, seed=SEED).save(path)
    options = {"sweeps": 20, "thin": 2, "seed": 1, "threads": 1, "progress": False, "keep": keep}
    sweep, killed = crew.RaySampler.sweep, []

    def killing(self, chain):
        if self._swept[chain] in (7, 15) and len(killed) < self._swept[chain] // 7:
            killed.append(chain)
            ray.kill(self.crew.actors[1])
        sweep(self, chain)

    monkeypatch.setattr(crew.RaySampler, "sweep", killing)
    with pytest.warns(UserWarning, match="a shard was lost"):
        ours = cv.fit(
            cv.TopicModel(2),
            path,
            engine=cv.Ray(shards=3),
            store=run,
            scratch=tmp_path,
            checkpoint_seconds=0.001,
            **options,
        ).tree
    assert len(killed) == 2
    assert not (run / "release").exists()
    assert all(len(carry.rows.files) == 3 for carry in read_checkpoint(run.joinpath(*PLACE)).carries)
    alone = cv.fit(cv.TopicModel(2), cv.load_release(path), **options).tree
    assert ("running" in alone.children) == (keep != "all")
    for group in alone.children:
        for name, array in alone[group].data_vars.items():
            assert np.array_equal(array, ours[group][name]), name
