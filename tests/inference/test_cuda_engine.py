"""The GPU engine: its laws in numba's CUDA simulator, and what it says where there is no GPU.

``tests/cuda_laws.py`` makes the same checks, in full, on a machine with a GPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import countveil as cv
from countveil.inference.engines import engine
from countveil.inference.engines.cuda import device, halves, network_chains, network_factors, serves
from countveil.inference.engines.cuda.matrix_chain import fits
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings

TESTS = Path(__file__).resolve().parents[1]
COUNTS = np.array([[9, 0, 1], [0, 8, 2]])


def simulated(*names):
    """The checks of these names, in the simulator: they need an interpreter of their own."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", TESTS / "cuda_laws.py", *names],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.stdout, finished.stderr[-3000:]
    found = json.loads(finished.stdout)
    assert {check for check, *_ in found} == set(names)
    return {line: detail for _, line, verdict, detail, _ in found if not verdict}


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [
        ("true_counts", "noise_of_rows_and_cells", "words"),
        ("allocation", "bounds"),
        ("joint_laws",),
        ("network_factors", "network_sweep", "network_joint"),
        ("inferred_network_factors", "inferred_network_sweep", "inferred_network_joint"),
    ],
    ids=["counts", "allocation", "joint", "networks", "inferred networks"],
)
def test_one_sweep_has_the_right_law_in_the_simulator(names):
    assert simulated(*names) == {}


@pytest.mark.long
def test_the_same_seed_gives_the_same_draws_in_the_simulator():
    assert simulated("reproducible", "network_chains", "network_relocation", "other_factorizations") == {}


@pytest.mark.long
def test_shards_with_a_device_each_have_the_right_law_in_the_simulator():
    assert simulated("shards") == {}


def test_halves_are_rounded_up():
    rng = np.random.default_rng(0)
    given = np.concatenate([
        10.0 ** rng.uniform(-9, 4.8, 20_000), [0.0, 2.0**-24, 2.0**-14, 1.0, 65504.0, 1e5, 5e-324],
        np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(float),
    ])  # fmt: skip
    bits = np.array([halves.rounded_up(x) for x in given], dtype=np.uint16)
    up = bits.view(np.float16).astype(float)
    assert (up >= given).all()
    below = np.maximum(bits, 1).astype(np.uint16) - np.uint16(1)
    assert (below.view(np.float16).astype(float)[given > 0] < given[given > 0]).all()
    # What the look makes of them is not below them either.
    finite = bits < halves.INFINITE
    bound = np.array([halves.bound_of(np.uint32(b)) for b in bits[finite]], dtype=float)
    assert (bound >= up[finite]).all()
    assert (bound <= np.maximum(up[finite], 2.0**-14)).all()


def test_powers_that_are_traded_cancel():
    for rows, columns in ((3.0, 700.0), (1e-200, 1e150), (5.0, 0.3), (0.0, 1.0)):
        power = halves.balance(rows, columns)
        assert (rows * power) * (columns / power) == pytest.approx(rows * columns)
        if rows:
            assert 0.1 < (rows * power) / (columns / power) < 10.0


def test_the_engine_says_what_it_does_not_serve():
    settings = check_settings(
        sweeps=10, burn_in=5, thin=1, chains=1, seed=1, method="exact", engine="cuda", threads=1
    )
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0)
    cases = {
        "noise that is not known": (
            cv.UnknownNoise(cv.TopicModel(2)),
            cv.PrivateCounts(COUNTS - 1, alpha=0.4),
        ),
        "released several times": (
            cv.TopicModel(2),
            cv.combine_releases(release, cv.simulate_release(COUNTS, epsilon=1, seed=5)),
        ),
        "no product of two matrices": (cv.Factorization("dkv,k->dv", k=2), release),
    }
    for words, (model, data) in cases.items():
        with pytest.raises(ValueError, match=f"engine: expected 'cpu'.*got 'cuda' for .*{words}"):
            serves.checked_device(make_problem(model, data), settings)
    with pytest.raises(ValueError, match="method 'bessel'"):
        serves.checked_device(make_problem(cv.TopicModel(2), release, "bessel"), settings)


def test_without_a_gpu_cuda_says_so_before_any_work_and_auto_takes_the_processor(monkeypatch):
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0)
    monkeypatch.setattr(serves, "find_device", lambda: "no card")
    with pytest.raises(RuntimeError, match="engine: expected a GPU for 'cuda', got none: no card"):
        cv.fit(cv.TopicModel(2), release, sweeps=4, thin=1, seed=1, engine="cuda", progress=False)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=4, thin=1, seed=1, progress=False)
    assert json.loads(posterior.tree.attrs["settings"])["engine"] == "cpu"


def test_true_counts_from_a_gpu_that_is_not_there(monkeypatch):
    release, other = (cv.simulate_release(COUNTS, epsilon=1, seed=seed) for seed in (0, 1))
    monkeypatch.setattr(device, "find_device", lambda: "no card")
    settings = {"sweeps": 4, "thin": 1, "seed": 1, "algorithm": "cuda", "progress": False}
    with pytest.raises(RuntimeError, match="algorithm: expected a GPU for 'cuda', got none: no card"):
        cv.fit(cv.TopicModel(2), release, **settings)
    small = device.Device("a small card", (9, 0), 10, 20)
    monkeypatch.setattr(device, "find_device", lambda: small)
    with pytest.raises(MemoryError, match="free memory on a small card for 'cuda', got 10 of 20"):
        cv.fit(cv.TopicModel(2), release, **settings)
    with pytest.raises(ValueError, match="expected 'cuda' for counts that were released once"):
        cv.fit(cv.TopicModel(2), cv.combine_releases(release, other), **settings)
    with pytest.raises(ValueError, match="expected 'auto' or 'cells' for method 'bessel'"):
        cv.fit(cv.TopicModel(2), release, method="bessel", **settings)


def pretend_cards(monkeypatch, memory, number=1):
    """So many cards; gives the list of those that were taken, by CuPy and by numba."""
    taken = []
    runtime = SimpleNamespace(memGetInfo=memory, getDeviceCount=lambda: number)
    one = lambda n: SimpleNamespace(use=lambda: taken.append(n))  # noqa: E731
    monkeypatch.setitem(
        sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=one))
    )
    card = SimpleNamespace(compute_capability=(9, 0), name="card")
    numba_cuda = SimpleNamespace(
        is_available=lambda: True, get_current_device=lambda: card, select_device=taken.append
    )
    monkeypatch.setattr(device, "cuda", numba_cuda)
    return taken


def test_ranks_of_one_machine_take_different_cards(monkeypatch):
    taken = pretend_cards(monkeypatch, lambda: (10, 20), number=4)
    assert device.find_device() == device.Device("card", (9, 0), 10, 20)
    assert taken == []
    monkeypatch.setenv("MPI_LOCALRANKID", "6")
    device.find_device()
    assert taken == [2, 2]


@pytest.mark.parametrize(
    ("status", "failures", "asked"),
    [(2, 2, 3), (2, 99, 5), (100, 99, 1)],
    ids=["a moment", "for good", "no card"],
)
def test_a_driver_that_fails_is_asked_again(monkeypatch, status, failures, asked):
    times = []

    def memory():
        times.append(1)
        if len(times) <= failures:
            error = RuntimeError("out of memory")
            error.status = status
            raise error
        return 10, 20

    pretend_cards(monkeypatch, memory)
    monkeypatch.setattr(device.time, "sleep", lambda seconds: None)
    found = device.find_device()
    assert len(times) == asked
    if failures < asked:
        assert found == device.Device("card", (9, 0), 10, 20)
    else:
        assert "the CUDA driver answers RuntimeError: out of memory" in found


def test_too_little_memory_is_said_in_bytes(monkeypatch):
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0)
    problem = make_problem(cv.TopicModel(2), release)
    settings = check_settings(
        sweeps=10, burn_in=5, thin=1, chains=1, seed=1, method="exact", engine="cuda", threads=1
    )
    monkeypatch.setattr(serves, "find_device", lambda: device.Device("small card", (9, 0), 1000, 2000))
    needed = serves.needed_bytes(problem, 1)
    with pytest.raises(MemoryError, match=f"expected {needed} bytes .* on small card .*, got 1000 of 2000"):
        serves.checked_device(problem, settings)
    monkeypatch.setattr(serves, "LEAST_CELLS", 1)
    assert not serves.pays(problem, settings)


def test_auto_takes_a_gpu_for_large_matrices_alone(monkeypatch):
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0)
    settings = check_settings(
        sweeps=10, burn_in=5, thin=1, chains=1, seed=1, method="exact", engine="auto", threads=1
    )
    monkeypatch.setattr(serves, "find_device", lambda: device.Device("card", (9, 0), 2**40, 2**40))
    monkeypatch.setattr(engine, "find_spec", lambda name: object())
    problem = make_problem(cv.TopicModel(2), release)
    assert engine.resolved(settings, problem).engine == "cpu"
    monkeypatch.setattr(serves, "LEAST_CELLS", 1)
    assert engine.resolved(settings, problem).engine == "cuda"
    network = make_problem(cv.CommunityModel(2), cv.simulate_release(np.ones((3, 3), int), epsilon=1, seed=0))
    assert engine.resolved(settings, network).engine == "cpu"


def test_which_networks_stay_on_the_device(monkeypatch):
    release = cv.simulate_release(np.arange(16).reshape(4, 4), epsilon=1, seed=0)

    def stays(**options):
        problem = make_problem(cv.CommunityModel(**{"n_communities": 2, "rate": 1.0, **options}), release)
        return network_chains.fits(problem.model, problem.views[""].observed)

    assert stays()
    assert stays(directed=False)
    assert not stays(self_loops=True)
    assert stays(rate=None)
    assert stays(rate=None, directed=False)
    assert not stays(rate=None, self_loops=True)
    assert not stays(n_communities=network_factors.MOST_COMMUNITIES + 1)
    monkeypatch.setattr(network_chains, "MOST_CELLS", 15)
    assert not stays()


def test_kernels_of_several_kinds_are_kept_apart():
    rows = [network_factors.rows_kernel(*kind) for kind in ((False, False), (True, False), (True, True))]
    blocks = [network_factors.blocks_kernel(kind) for kind in (False, True)]
    trades = [network_factors.trade_kernel(kind) for kind in (False, True)]
    rows += [
        network_factors.short_rows_kernel(*kind) for kind in ((False, False), (True, False), (True, True))
    ]
    trades += [network_factors.short_trade_kernel(kind) for kind in (False, True)]
    kept = {kernel.py_func.__qualname__ for kernel in (*rows, *blocks, *trades)}
    assert len(kept) == 12


def test_what_is_inferred_takes_memory():
    release = cv.simulate_release(np.arange(16).reshape(4, 4), epsilon=1, seed=0)

    def needed(**options):
        return serves.needed_bytes(make_problem(cv.CommunityModel(2, **options), release), 64)

    assert needed(rate=1.0) < needed()
    assert needed(rate=1.0, directed=False) < needed(directed=False)


def test_which_factors_stay_on_the_device():
    assert fits(cv.TopicModel(2))
    assert fits(cv.TopicModel(2, rate=1.0))
    assert fits(cv.Factorization("dk,kv->dv", k=2, shape=0.3))
    assert not fits(cv.TopicModel(2, groups=["a", "b"]))
    assert not fits(cv.CommunityModel(2))
    assert not fits(
        cv.Factorization("dk,kv->dv", k=2, names=["theta", "phi"], fixed={"phi": np.ones((2, 3))})
    )
