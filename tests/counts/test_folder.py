"""The folder form, mostly missing releases, other readers, and writing straight to a file."""

import json
import os
import shutil
import subprocess
import sys

import duckdb
import networkx as nx
import numpy as np
import polars as pl
import pytest

from countveil.counts import (
    PrivateCounts,
    ReleaseFileError,
    load_release,
    privatize,
    privatize_to_file,
)
from countveil.counts.cells.layout import same_arrays
from countveil.privacy import Guarantee
from goodness_of_fit import SEED

RNG = np.random.default_rng(0)
SIGNED = RNG.integers(-3, 6, (6, 5))
LABELS = ([f"row {i}" for i in range(6)], list("abcde"))
MOSTLY = RNG.random((6, 5)) < 0.7


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)


RELEASES = {
    "plain": PrivateCounts(SIGNED, alpha=0.4, labels=LABELS),
    "guarantee": PrivateCounts(SIGNED, guarantee=Guarantee("1/3", 7), labels=LABELS),
    "rows only": PrivateCounts(SIGNED, alpha=0.4, labels=(LABELS[0], None)),
    "columns only": PrivateCounts(SIGNED, rho=[1, 2, 1, 2, 1, 3], labels=(None, LABELS[1])),
    "signed, mostly missing": PrivateCounts(
        SIGNED, alpha=0.4, labels=LABELS, mask=MOSTLY, keep_negative=True
    ),
    "axis names": PrivateCounts(SIGNED, alpha=0.4, labels={"label": LABELS[0], "Ünï/../x": LABELS[1]}),
    "three axes": PrivateCounts(SIGNED.reshape(3, 2, 5), alpha=0.4, labels=(None, None, LABELS[1])),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("parts", [1, 5])
def test_round_trip(name, parts, small_limit, tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.folder.CELLS_PER_PART", 100 if parts == 1 else 2)
    monkeypatch.setattr("countveil.counts.files.cells.CELLS_PER_GROUP", 2)
    RELEASES[name].save(tmp_path / "r")
    assert (tmp_path / "r").is_dir()
    assert (len(list((tmp_path / "r" / "generation-1" / "cells").iterdir())) > 1) == (parts > 1)
    assert same_arrays(load_release(tmp_path / "r")._contents, RELEASES[name]._contents)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_more_than_100_000_labels_make_a_folder(tmp_path):
    n = 100_001
    release = privatize(np.zeros((n, 1), dtype=np.int8), 1, rows=range(n))
    release.save(tmp_path / "r")
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == ["generation-1", "release.json"]
    assert sorted(p.name for p in (tmp_path / "r" / "generation-1").iterdir()) == ["cells", "rows.parquet"]
    assert load_release(tmp_path / "r") == release
    privatize(np.zeros((10, 1), dtype=np.int8), 1, rows=range(10)).save(tmp_path / "s")
    assert (tmp_path / "s").is_file()


def test_duckdb_and_polars_read_a_file_as_it_is(tmp_path):
    release = RELEASES["plain"]
    release.save(tmp_path / "r.parquet")
    expected = [(int(r), int(c), int(SIGNED[r, c])) for r, c in zip(*np.nonzero(SIGNED > 0), strict=True)]
    found = duckdb.sql(f"select * from '{tmp_path}/r.parquet'")
    assert found.columns == ["row", "column", "value"]
    assert found.fetchall() == expected
    assert pl.read_parquet(tmp_path / "r.parquet").rows() == expected
    named = duckdb.sql(
        f"select value from parquet_kv_metadata('{tmp_path}/r.parquet') where key = 'countveil'"
    )
    assert json.loads(named.fetchall()[0][0])["labels"][0] == LABELS[0]


def test_duckdb_and_polars_read_a_folder_as_it_is(small_limit, tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.folder.CELLS_PER_PART", 4)
    monkeypatch.setattr("countveil.counts.files.cells.CELLS_PER_GROUP", 4)
    release = RELEASES["guarantee"]
    release.save(tmp_path / "r")
    expected = [
        (LABELS[0][r], LABELS[1][c], int(SIGNED[r, c])) for r, c in zip(*np.nonzero(SIGNED > 0), strict=True)
    ]
    folder = tmp_path / "r" / json.loads((tmp_path / "r" / "release.json").read_bytes())["generation"]
    query = f"""
        select rows.label, columns.label, value from '{folder}/cells/*.parquet'
        join '{folder}/rows.parquet' rows using ("row")
        join '{folder}/columns.parquet' columns using ("column") order by "row", "column"
    """
    assert duckdb.sql(query).fetchall() == expected
    cells = pl.read_parquet(folder / "cells" / "*.parquet")
    joined = cells.join(pl.read_parquet(folder / "rows.parquet"), on="row", maintain_order="left").join(
        pl.read_parquet(folder / "columns.parquet"), on="column", suffix="_of_column", maintain_order="left"
    )
    assert joined.select("label", "label_of_column", "value").rows() == expected
    assert joined["epsilon"].unique().to_list() == ["1/3"]
    assert joined["precision"].unique().to_list() == ["7"]


def test_a_mostly_missing_release_lists_its_zeros(tmp_path):
    release = privatize(nx.path_graph(40), 1, public_labels=True)
    release.save(tmp_path / "saved")
    privatize_to_file(nx.path_graph(40), tmp_path / "streamed", 1, public_labels=True)
    for name in ("saved", "streamed"):
        table = pl.read_parquet(tmp_path / name)
        assert table.height == release.n_observed == 40 * 39 // 2
        assert table["value"].null_count() == 0
        assert (table["row"] < table["column"]).all()
        assert (table["value"] == 0).sum() > 100
        assert load_release(tmp_path / name).n_observed == release.n_observed
    assert same_arrays(load_release(tmp_path / "saved")._contents, release._contents)


def test_a_folder_replaces_an_older_release_and_nothing_else(small_limit, tmp_path):
    target = tmp_path / "r"
    RELEASES["plain"].save(target)
    with pytest.raises(FileExistsError, match="path: expected a new name"):
        RELEASES["guarantee"].save(target)
    assert load_release(target) == RELEASES["plain"]
    RELEASES["guarantee"].save(target, overwrite=True)
    assert load_release(target) == RELEASES["guarantee"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("important")
    (tmp_path / "file").write_text("important")
    for place in ("mine", "file"):
        with pytest.raises(
            FileExistsError, match=r"path: expected a (new name or an older release folder|release to)"
        ):
            RELEASES["plain"].save(tmp_path / place, overwrite=True)
    assert (tmp_path / "mine" / "thesis").read_text() == (tmp_path / "file").read_text() == "important"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "mine", "r"]


def outcome_is_right(path, release):
    try:
        return same_arrays(load_release(path)._contents, release._contents)
    except ReleaseFileError as error:
        return str(path) in str(error)


def test_random_damage_to_a_folder(small_limit, tmp_path):
    release = RELEASES["guarantee"]
    release.save(tmp_path / "r")
    rng = np.random.default_rng(SEED)
    files = sorted(p for p in (tmp_path / "r").rglob("*") if p.is_file())
    assert len(files) == 4
    for file in files:
        whole = file.read_bytes()
        for _ in range(60):
            damaged = bytearray(whole)
            for place in rng.integers(len(whole), size=rng.integers(1, 5)):
                damaged[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged[: rng.integers(len(whole))] if rng.random() < 0.3 else damaged)
            assert outcome_is_right(tmp_path / "r", release)
        file.unlink()
        with pytest.raises(ReleaseFileError):
            load_release(tmp_path / "r")
        file.write_bytes(whole)
    assert load_release(tmp_path / "r") == release
    cells = tmp_path / "r" / "generation-1" / "cells"
    shutil.copy(cells / "part-00000.parquet", cells / "part-00001.parquet")
    with pytest.raises(ReleaseFileError, match="expected 1 parts in cells, got others"):
        load_release(tmp_path / "r")


def test_labels_that_utf8_cannot_hold(small_limit, tmp_path):
    with pytest.raises(ValueError, match="labels: expected text that UTF-8 can hold"):
        PrivateCounts(np.ones((4, 1)), alpha=0.5, labels=(["\ud800", "b", "c", "d"], None)).save(
            tmp_path / "r"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep_negative", [False, True])
def test_streaming_writes_what_saving_would(keep_negative, tmp_path):
    counts = RNG.integers(0, 3000, (1500, 1000))  # two blocks
    promise = privatize_to_file(counts, tmp_path / "r", 900, keep_negative=keep_negative, rows=range(1500))
    saved = privatize(counts, 900, keep_negative=keep_negative, rows=range(1500))  # next to no noise
    assert promise == saved.guarantee
    streamed = load_release(tmp_path / "r")._contents
    assert same_arrays(streamed._replace(records=saved.records), saved._contents)
    privatize_to_file(np.zeros((1500, 1000), np.int8), tmp_path / "z", 1, keep_negative=keep_negative)
    zeros = load_release(tmp_path / "z")
    assert (zeros.negative is not None) == keep_negative
    assert abs(zeros.total()) < 20_000  # 1.5 million cells, standard deviation about 1,200
    assert zeros.nonpositive.total[0] > 100_000
    with pytest.raises(TypeError, match="expected the arguments of privatize, got"):
        privatize_to_file(counts, tmp_path / "r", 1, seed=3)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="needs a measure of peak memory")
def test_ten_thousand_squared_within_a_gigabyte(tmp_path):
    program = """
import sys
from pathlib import Path
import numpy as np
from scipy import sparse
from countveil.counts import privatize_to_file
rng = np.random.default_rng(0)
places = rng.integers(0, 10_000, (2, 1_500_000))
counts = sparse.coo_array((rng.integers(1, 5, 1_500_000), places), shape=(10_000, 10_000)).tocsr()
privatize_to_file(counts, sys.argv[1], epsilon=1)
# Not getrusage, whose peak includes what the parent held when it started this process.
status = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "r.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 1e9
    listed = duckdb.sql(f"select count(*), min(value) from '{tmp_path}/r.parquet'").fetchall()[0]
    expected = 1e8 * np.exp(-1) / (1 + np.exp(-1))  # 27 million zeros that turned positive, and more
    assert expected < listed[0] < expected + 1.5e6
    assert listed[1] == 1
    assert os.listdir(tmp_path) == ["r.parquet"]  # noqa: PTH208
