"""The run of a fit to plain counts never holds the counts."""

import re

import numpy as np
import zarr

import countveil as cv

RECOGNISABLE = 54_321


def arrays(folder):
    """Everything in a Zarr folder, decoded."""
    root = zarr.open_group(folder, mode="r", use_consolidated=False)
    return {path: node[...] for path, node in root.members(max_depth=None) if isinstance(node, zarr.Array)}


def test_no_array_holds_a_true_count(tmp_path):
    counts = np.array([[RECOGNISABLE, 0, 2], [1, 3, 0]])
    posterior = cv.fit(cv.TopicModel(2), counts, sweeps=40, seed=1, progress=False)
    posterior.save(tmp_path / "run.zarr")
    found = arrays(tmp_path / "run.zarr")
    assert {path.split("/")[0] for path in found} == {"posterior", "sample_stats"}
    for values in found.values():
        assert not (np.asarray(values, dtype=float) == RECOGNISABLE).any()
    raw = b"".join(path.read_bytes() for path in (tmp_path / "run.zarr").rglob("*") if path.is_file())
    assert not re.search(rf"(?<!\d){RECOGNISABLE}(?!\d)".encode(), raw)
    assert RECOGNISABLE.to_bytes(8, "little") not in raw
    assert cv.load_posterior(tmp_path / "run.zarr")._data is None


def test_the_search_would_find_a_release(tmp_path):
    """The same search, of a run whose release may be read by anyone."""
    release = cv.PrivateCounts([[RECOGNISABLE, 0, 2], [1, 3, 0]], rho=1.0)
    cv.fit(cv.TopicModel(2), release, sweeps=40, seed=1, progress=False).save(tmp_path / "run.zarr")
    found = arrays(tmp_path / "run.zarr")
    assert {path.split("/")[0] for path in found} == {"posterior", "sample_stats", "release"}
    assert cv.load_posterior(tmp_path / "run.zarr").release.to_dense()[0, 0] == RECOGNISABLE
