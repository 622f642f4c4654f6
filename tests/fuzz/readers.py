"""Every way in which a file gets into the package, and as a command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import countveil as cv
from countveil.cli.main import main
from countveil.counts.inputs import read_input
from countveil.counts.inputs.options import InputOptions
from countveil.counts.sources.plain_counts import read_plain_file
from fuzz.agreeing import checksums
from fuzz.worker import Reader

__all__ = ["READERS", "checksums"]


def _release(path: Path) -> None:
    release = cv.load_release(path)
    str(release), release.explain(), release.to_dict()


def _run(path: Path) -> None:
    posterior = cv.load_posterior(path)
    repr(posterior), str(posterior.tree)


def _resumed(path: Path) -> None:
    """Up to where chains would go on: they would go as long as the file says."""
    from unittest import mock

    def begin(store: Any, problem: Any, *watching: Any) -> None:
        try:
            if store._last is not None:
                store.begin(lambda: store._last.carries)
        finally:
            store.close()

    with mock.patch("countveil.resuming.run_on_disk", begin):
        cv.resume(path)


def _merged(path: Path) -> None:
    cv.merge_runs([path / "part0", path / "part1"], path / "merged")


def _ledger(path: Path) -> None:
    ledger = cv.Ledger(path)
    str(ledger), ledger.to_dict()
    ledger.set_budget("letters", cv.Guarantee(9))


_LONG = InputOptions(long=("who", "word", "n"), rows=["ann", "bo", "cy"], columns=["tax", "vote", "war", "x"])


def _counts(options: InputOptions) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        read_input(path, options)
        read_plain_file(path, options)

    return read


def _command(*before: str, after: tuple[str, ...] = ()) -> Callable[[Path], int]:
    return lambda path: main([*before, str(path), *after])


def _privatize(path: Path) -> int:
    labels = ["--rows", str(path / "rows.txt"), "--columns", str(path / "columns.txt")]
    return main(
        [
            "privatize",
            str(path / "counts.csv"),
            "-o",
            str(path / "out"),
            "--epsilon",
            "1",
            "--long",
            "who,word,n",
            *labels,
        ]
    )


def _input(kind: str, options: InputOptions) -> Reader:
    return Reader(kind, _counts(options), suffix=kind[kind.index(".") :], follows=True)


READERS: dict[str, Reader] = {
    "load_release, file": Reader("release file", _release, follows=True),
    "load_release, folder": Reader("release folder", _release),
    "load_posterior": Reader("run", _run),
    "resume": Reader("run to resume", _resumed),
    "merge_runs": Reader("runs to merge", _merged),
    "Ledger": Reader("ledger", _ledger, follows=True),
    "long.csv": _input("long.csv", _LONG),
    "wide.csv": _input("wide.csv", InputOptions(index="who", public_labels=True)),
    "long.tsv": _input("long.tsv", _LONG),
    "long.parquet": _input("long.parquet", _LONG),
    "matrix.mtx": _input("matrix.mtx", InputOptions()),
    "matrix.mtx.gz": _input("matrix.mtx.gz", InputOptions()),
    "dense.npz": _input("dense.npz", InputOptions()),
    "sparse.npz": _input("sparse.npz", InputOptions()),
    "dense.npy": _input("dense.npy", InputOptions()),
    "countveil show": Reader("release file", _command("show"), command=True, follows=True),
    "countveil show --json": Reader("release folder", _command("show", "--json"), command=True),
    "countveil topics": Reader("run", _command("topics", after=("--words", "2")), command=True),
    "countveil ledger": Reader("ledger", _command("ledger"), command=True, follows=True),
    "countveil ledger --json": Reader("ledger", _command("ledger", "--json"), command=True, follows=True),
    "countveil privatize": Reader(
        "counts and labels",
        _privatize,
        command=True,
        follows=True,
        named=("counts.csv", "rows.txt", "columns.txt"),
    ),
}
