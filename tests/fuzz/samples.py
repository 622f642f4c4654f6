"""Whole files of every kind that is read, small, made by the package itself: what crafted files are crafted from."""

import gzip
import io
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

import countveil as cv
from fuzz.formats import PICKLE
from fuzz.trees import Tree, read_tree

_OLD = Path(__file__).parents[1] / "files_of_version_1"
_COUNTS = np.array([[3, 0, 1, 7], [0, 2, 0, 0], [1, 300, 0, 2]])
_ROWS, _COLUMNS = ["ann", "bo", "cy"], ["tax", "vote", "war", "x"]
_FIT = {"sweeps": 8, "burn_in": 4, "thin": 2, "seed": 1, "threads": 1, "progress": False}


@contextmanager
def _always_the_same() -> Iterator[None]:
    """No ids, times or noise (epsilon is 1000): a case is known by its number alone."""
    stopped = time.gmtime(1e9)
    numbers = itertools.count()
    with (
        mock.patch(
            "countveil.counts.record.secrets", SimpleNamespace(token_hex=lambda _: f"{next(numbers):032x}")
        ),
        mock.patch("countveil.counts.ledger.ledger._now", return_value="2025-01-01T00:00:00+00:00"),
        mock.patch(
            "countveil.posterior.runs.zarr_store.time",
            SimpleNamespace(perf_counter=lambda: 0.0, monotonic=time.monotonic),
        ),
        mock.patch("time.localtime", return_value=stopped),
    ):
        yield


def _releases() -> list[cv.PrivateCounts]:
    masked = np.ma.masked_array(_COUNTS, _COUNTS == 2)
    mostly = np.ma.masked_array(_COUNTS, _COUNTS < 3)
    return [
        cv.privatize(_COUNTS, epsilon=1000, rows=_ROWS, columns=_COLUMNS),
        cv.privatize(_COUNTS, epsilon=[1000, 500, "1000/3"], rows=_ROWS, keep_negative=True),
        cv.PrivateCounts(masked, alpha=0.4),
        cv.PrivateCounts(mostly, alpha=np.full((3, 4), 0.3)),
        cv.simulate_release(_COUNTS.reshape(3, 2, 2), epsilon=2, seed=1),
    ]


def _without_checksums(data: bytes) -> bytes:
    """Pages whose bytes a stranger may change unnoticed."""
    with pq.ParquetFile(io.BytesIO(data)) as source:
        table = source.read().replace_schema_metadata(source.metadata.metadata)
    file = io.BytesIO()
    pq.write_table(table, file, compression="none", store_schema=False, use_dictionary=False)
    return file.getvalue()


def release_files(folder: Path) -> list[Tree]:
    trees = [{"": (_OLD / "release.parquet").read_bytes()}]
    for number, release in enumerate(_releases()):
        release.save(folder / f"{number}.parquet")
        trees.append(read_tree(folder / f"{number}.parquet"))
    return [*trees, {"": _without_checksums(trees[1][""])}, {"": _without_checksums(trees[4][""])}]  # type: ignore[arg-type]


def release_folders(folder: Path) -> list[Tree]:
    trees = []
    with mock.patch("countveil.counts.files.release.LABELS_IN_ONE_FILE", 0):
        for number, release in enumerate(_releases()[:2]):
            release.save(folder / f"{number}")
            trees.append(read_tree(folder / f"{number}"))
    return trees


def _run(folder: Path, name: str, **more: object) -> Path:
    cv.fit(cv.TopicModel(2), _releases()[0], store=folder / name, **{**_FIT, "chains": 2, **more})  # type: ignore[arg-type]
    return folder / name


def _unfinished(path: Path) -> Path:
    node = json.loads((path / "zarr.json").read_bytes())
    node["attributes"] |= {"complete": 0}
    node["attributes"].pop("checksum", None)
    (path / "zarr.json").write_text(json.dumps(node))
    return path


def runs(folder: Path) -> list[Tree]:
    """Finished, as ``fit`` leaves it and as it is saved; of several views; unfinished; one of version 1."""
    whole = _run(folder, "whole.zarr")
    cv.load_posterior(whole).save(folder / "saved.zarr")
    paths = [whole, folder / "saved.zarr", _OLD / "shared.zarr", _OLD / "network.zarr"]
    return [*map(read_tree, paths), *runs_to_resume(folder)]


def runs_to_resume(folder: Path) -> list[Tree]:
    return [read_tree(_unfinished(_run(folder, "growing.zarr")))]


def runs_to_merge(folder: Path) -> list[Tree]:
    parts = [read_tree(_run(folder, f"part{i}.zarr", chain=i)) for i in range(2)]
    return [{f"part{i}/{name}": entry for i, part in enumerate(parts) for name, entry in part.items()}]


def ledgers(folder: Path) -> list[Tree]:
    path = folder / "study.ledger"
    cv.Ledger(path).set_budget("letters", cv.Guarantee(9))
    for columns in (_COLUMNS, _COLUMNS, None):
        cv.privatize(_COUNTS, 1, rows=_ROWS, columns=columns, ledger=path, dataset="letters")
    return [read_tree(path)]


def _table() -> pa.Table:
    return pa.table(
        {"who": ["ann", "bo", "cy", "bo"], "word": ["tax", "vote", "war", "x"], "n": [3, 4, 1, 2]}
    )


def _buffer(save: Callable[[io.BytesIO], object]) -> list[Tree]:
    file = io.BytesIO()
    save(file)
    return [{"": file.getvalue()}]


def _object_array(file: io.BytesIO) -> None:
    """What numpy would unpickle, if it were let."""
    np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    file.write(PICKLE)


_LONG = b"who,word,n\nann,tax,3\nbo,vote,4\ncy,war,1\nbo,x,2\n"
_MTX = b"%%%%MatrixMarket matrix coordinate integer %s\n%% a comment\n3 3 3\n1 1 2\n2 1 7\n3 3 1\n"
_ARRAY_MTX = b"%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n"

#: Those whose bytes are written down here, or made by one call.
INPUTS: dict[str, Callable[[], list[Tree]]] = {
    "long.csv": lambda: [{"": _LONG}],
    "wide.csv": lambda: [{"": b"who,tax,vote\nann,3,0\nbo,1,22\n"}],
    "long.tsv": lambda: [{"": _LONG.replace(b",", b"\t")}],
    "long.parquet": lambda: _buffer(lambda file: pq.write_table(_table(), file)),
    "matrix.mtx": lambda: [{"": _MTX % b"general"}, {"": _MTX % b"symmetric"}, {"": _ARRAY_MTX}],
    "matrix.mtx.gz": lambda: [{"": gzip.compress(_MTX % b"general", mtime=0)}],
    "dense.npz": lambda: [*_buffer(lambda file: np.savez(file, _COUNTS)), *_buffer(lambda file: np.savez_compressed(file, a=_COUNTS))],
    "sparse.npz": lambda: [*_buffer(lambda file: sparse.save_npz(file, sparse.csr_array(_COUNTS))), *_buffer(lambda file: sparse.save_npz(file, sparse.coo_array(_COUNTS), compressed=False))],
    "dense.npy": lambda: [*_buffer(lambda file: np.save(file, _COUNTS)), *_buffer(lambda file: np.save(file, _COUNTS.astype("<f8"))), *_buffer(_object_array)],
}  # fmt: skip


def privatized(folder: Path) -> list[Tree]:
    """What a data holder has: a table, and labels one per line."""
    return [
        {
            "counts.csv": _LONG,
            "rows.txt": "\n".join(_ROWS).encode(),
            "columns.txt": ("\n".join(_COLUMNS) + "\nÖl\n").encode(),
        }
    ]


_MADE: dict[str, Callable[[Path], list[Tree]]] = {
    "release file": release_files,
    "release folder": release_folders,
    "run": runs,
    "run to resume": runs_to_resume,
    "runs to merge": runs_to_merge,
    "ledger": ledgers,
    "counts and labels": privatized,
}


def samples(kind: str) -> list[Tree]:
    """All samples of a kind."""
    with tempfile.TemporaryDirectory() as folder, _always_the_same():
        return INPUTS[kind]() if kind in INPUTS else _MADE[kind](Path(folder))
