"""Fits of releases that lie on disk: the draws of memory, in less of it."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import countveil as cv
from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import Block, row_ranges, without_cells
from countveil.counts.files.release import stream_release
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.inference.engines.cpu import tokens
from countveil.inference.engines.sharded.in_process import open_problem_in_shards
from countveil.inference.observed import observe
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
MATRIX = RNG.poisson(RNG.gamma(0.3, 1, (60, 3)) @ RNG.gamma(0.5, 4, (3, 10)))
HIDDEN = RNG.random(MATRIX.shape) < 0.2
SETTINGS = {"sweeps": 8, "burn_in": 2, "thin": 2, "seed": 3, "start": "plain", "progress": False}
TOPICS = cv.TopicModel(3)
CASES = {
    "by row, some plain, missing": (
        TOPICS,
        MATRIX,
        {"rho": np.repeat([0.9, np.inf, 3.0], 20), "mask": HIDDEN},
        {},
    ),
    "integrated": (TOPICS, MATRIX, {"rho": 0.5}, {"threads": 2}),
    "mostly missing": (TOPICS, MATRIX, {"rho": 1.0, "mask": ~HIDDEN}, {}),
    "naive": (TOPICS, MATRIX, {"rho": 1.0}, {"method": "naive", "keep": "summaries"}),
    "fibers": (cv.TensorModel(2), MATRIX.reshape(60, 5, 2), {"rho": 1.0}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_draws_are_those_of_memory(case, tmp_path, monkeypatch):
    model, values, noise, more = CASES[case]
    monkeypatch.setattr(tokens, "CELLS_PER_PART", 40)  # several parts
    path = tmp_path / "release.parquet"
    cv.PrivateCounts(values, **noise).save(path)
    expected = cv.fit(model, cv.load_release(path), **SETTINGS, **more)
    found = cv.fit(model, path, scratch=tmp_path, **{**SETTINGS, "start": "auto"}, **more)
    assert len(tokens._ends_of_parts(observe(cv.load_release(path, scratch=tmp_path)))) > 3
    for group in expected.tree.children:
        for name, values in expected.tree[group].data_vars.items():
            assert (found.tree[group][name].to_numpy() == values.to_numpy()).all()
    assert [file.name for file in tmp_path.iterdir()] == ["release.parquet"]


def test_shards_unpack_their_rows(tmp_path):
    path = tmp_path / "release.parquet"
    cv.PrivateCounts(MATRIX, rho=1.0, mask=HIDDEN).save(path)
    settings = check_settings(
        sweeps=8, burn_in=2, thin=2, chains=1, seed=3, method="exact", engine="cpu", threads=1, start="plain"
    )
    drawn = []
    for source in (None, ReleaseOnDisk(path, scratch=tmp_path)):
        given = cv.load_release(path) if source is None else source
        problem = replace(make_problem(TOPICS, given), source=source)
        with open_problem_in_shards(problem, settings, 3) as sampler:
            sampler.start(0)
            for _ in range(3):
                sampler.sweep(0)
            drawn.append(sampler.carry(0).state)
        assert source is None or source.is_unread
    assert all((drawn[0][name] == drawn[1][name]).all() for name in drawn[0])


def test_what_scratch_files_are_not_for(tmp_path):
    path = tmp_path / "release.parquet"
    cv.PrivateCounts(MATRIX, rho=1.0).save(path)
    with pytest.raises(
        ValueError, match="scratch: expected it beside the path of a release, got it beside ndarray"
    ):
        cv.fit(TOPICS, MATRIX, scratch=tmp_path)
    with pytest.raises(ValueError, match="engine: expected 'cpu' for a release in scratch files"):
        cv.fit(TOPICS, cv.load_release(path, scratch=tmp_path), engine="cuda")


# What a process may use beside Python and its libraries, once all is compiled; the release has four times as much.
ROOM = 64 << 20
FIT = """
import ctypes, gc, re, resource, sys
import numpy as np
import pyarrow
import countveil as cv

path, small, scratch, room, kept = sys.argv[1:]
settings = dict(sweeps=6, burn_in=2, thin=2, chains=1, seed=3, threads=1, keep="summaries", progress=False)
model = cv.TopicModel(4)
cv.fit(model, small, scratch=scratch, **settings)  # compiles, and loads all libraries
if int(room):
    gc.collect()  # what is free already would not be counted
    pyarrow.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    used = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(room), used + int(room)))
    try:
        np.ones(int(room) // 8 + 1)
        sys.exit("no limit")
    except MemoryError:
        pass
    release = cv.load_release(path, scratch=scratch)
    decoded = release.positive.columns.nbytes + release.positive.values.nbytes
    assert decoded >= 4 * int(room), decoded
    print(decoded)
    del release
    posterior = cv.fit(model, path, scratch=scratch, **settings)
else:
    posterior = cv.fit(model, cv.load_release(path), start="plain", **settings)
np.savez(kept, **{f"{g}_{n}": posterior.tree[g][n].to_numpy() for g in ("running", "sample_stats")
                  for n in posterior.tree[g].data_vars})
"""


def write_release(path, n_rows, width=4000, rho=0.75):
    """Noise, and few counts, block by block."""
    shape, rate = (n_rows, width), np.asarray(rho)

    def blocks():
        rng = np.random.default_rng(SEED)
        for start, stop in row_ranges(shape):
            one, two = rng.geometric(-np.expm1(-rho), (2, stop - start, width))
            yield Block(start, rng.poisson(0.03, one.shape) + one - two, None)

    draft = without_cells(shape, ("row", "column"), (None, None), rate, None, None)
    draft = draft._replace(nonpositive=draft.nonpositive._replace(rho=RhoLevels(rate, shape).values))
    stream_release(path, draft, blocks(), list_observed=False, keep_negative=False, overwrite=False)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts all private memory on Linux alone")
def test_a_release_of_four_times_the_memory(tmp_path):
    large, small = tmp_path / "large.parquet", tmp_path / "small.parquet"
    write_release(large, 36_000)
    write_release(small, 200)
    for name, room in (("limited", ROOM), ("free", 0)):
        words = [sys.executable, "-c", FIT, large, small, tmp_path, str(room), tmp_path / f"{name}.npz"]
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=1500, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
    found, expected = np.load(tmp_path / "limited.npz"), np.load(tmp_path / "free.npz")
    assert found.files == expected.files
    assert all(np.array_equal(found[name], expected[name]) for name in expected.files)
    assert len(list(tmp_path.iterdir())) == 4
