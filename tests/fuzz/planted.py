"""Readers with a defect each, and one without, of a file of JSON or a folder: the fuzzer must tell them apart."""

import ctypes
import json
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.worker import Reader

#: What they read: sizes that are declared, and a name.
SAMPLES: dict[str, list[Any]] = {
    "sizes": [{"": json.dumps({"shape": [30, 40], "count": 2, "name": "x", "list": [[1], [2]]}).encode()}],
    "pickle": [{"": pickle.dumps({"shape": [3, 4]})}],
    "folder": [{"sizes.json": b'{"shape": [3]}', "chunks/0": b"1234", "chunks/1": b"5678"}],
}


def _content(path: Path) -> bytes:
    """Of a file; nobody waits for a pipe."""
    if not path.is_file():
        raise ValueError(f"path: expected a file, got {path}")
    with path.open("rb") as file:
        return file.read(10**7)


def _sizes(path: Path) -> dict[str, Any]:
    """Whole numbers and a name, or an error that says what is wrong."""
    try:
        found = json.loads(_content(path))
        whole = isinstance(found, dict) and isinstance(found["name"], str)
        whole = whole and isinstance(found["shape"], list) and len(found["shape"]) == 2
        whole = whole and all(type(n) is int and n >= 0 for n in (*found["shape"], found["count"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise ValueError(f"path: expected sizes, got others in {path}")
    return found


def _sound(path: Path) -> None:
    found = _sizes(path)
    if found["count"] > 10**6 or len(found["shape"]) != 2 or max(found["shape"]) > 1000:
        raise ValueError(f"path: expected small sizes, got larger ones in {path}")
    np.zeros(found["shape"])
    for _ in range(found["count"]):
        pass


def _unpickles(path: Path) -> None:
    try:
        pickle.loads(_content(path))
    except Exception as error:
        raise ValueError(f"path: expected a pickle, got {path}") from error


def _allocates(path: Path) -> None:
    shape = [min(n, 2**40) for n in _sizes(path)["shape"][:2]]
    try:
        np.zeros(shape)
    except ValueError:
        raise ValueError(f"path: expected a smaller shape, got {path}") from None


def _touches(path: Path) -> None:
    """As much as is declared, up to less than the address space has: seen by its peak alone."""
    bytearray(min(_sizes(path)["shape"][0] + 1, 1 << 31))


def _hides_memory(path: Path) -> None:
    try:
        np.zeros([min(n, 2**40) for n in _sizes(path)["shape"][:2]])
    except (ValueError, MemoryError) as error:
        raise ValueError(f"path: expected a whole file, got {path}") from error


def _loops(path: Path) -> None:
    for _ in range(_sizes(path)["count"]):
        pass


def _raises_key_error(path: Path) -> None:
    try:
        found = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        raise ValueError(f"path: expected JSON, got {path}") from None
    if isinstance(found, dict):
        found["name"], found["count"]


def _recurses(path: Path) -> None:
    try:
        json.loads(_content(path))
    except (OSError, ValueError):
        raise ValueError(f"path: expected JSON, got {path}") from None


def _warns(path: Path) -> None:
    for _ in range(min(_sizes(path)["count"], 100)):
        warnings.warn("a cell that is empty", stacklevel=2)


def _crashes(path: Path) -> None:
    if _sizes(path)["count"] > 2**31:
        ctypes.string_at(0)


def _runs_a_process(path: Path) -> None:
    if _sizes(path)["name"] != "x":
        os.system("true")


def _writes_elsewhere(path: Path) -> None:
    name = _sizes(path)["name"]
    if ".." in name and "\0" not in name:
        Path(path.parent / name).parent.joinpath(f"{path.parent.name}.txt").write_text("x")


def _follows_links(path: Path) -> None:
    for chunk in ("sizes.json", "chunks/0", "chunks/1"):
        try:
            if (path / chunk).is_file():
                with (path / chunk).open("rb") as file:
                    file.read(100)
        except OSError:
            raise ValueError(f"path: expected a whole folder, got {path}") from None


def _waits(path: Path) -> None:
    try:
        (path / "chunks" / "0").read_bytes()
    except OSError:
        raise ValueError(f"path: expected a whole folder, got {path}") from None


def _quotes(path: Path) -> None:
    raise ValueError(f"path: expected a name, got {_sizes(path)}")


READERS: dict[str, Reader] = {
    "sound": Reader("sizes", _sound, follows=True),
    "unpickles": Reader("pickle", _unpickles, follows=True),
    "allocates": Reader("sizes", _allocates, follows=True),
    "hides memory": Reader("sizes", _hides_memory, follows=True),
    "touches": Reader("sizes", _touches, follows=True),
    "loops": Reader("sizes", _loops, follows=True),
    "raises KeyError": Reader("sizes", _raises_key_error, follows=True),
    "recurses": Reader("sizes", _recurses, follows=True),
    "warns": Reader("sizes", _warns, follows=True),
    "crashes": Reader("sizes", _crashes, follows=True),
    "runs a process": Reader("sizes", _runs_a_process, follows=True),
    "writes elsewhere": Reader("sizes", _writes_elsewhere, follows=True),
    "follows links": Reader("folder", _follows_links),
    "waits": Reader("folder", _waits),
    "quotes": Reader("sizes", _quotes, follows=True),
}

#: How the fault of each begins.
FAULTS = {
    "unpickles": "canary: ",
    "allocates": "memory: ",
    "hides memory": "memory: ",
    "touches": "memory: ",
    "loops": "time: ",
    "raises KeyError": "raised KeyError",
    "recurses": "raised RecursionError",
    "warns": "100 warnings",
    "crashes": "crash: SIGSEGV",
    "runs a process": "canary: os.system",
    "writes elsewhere": "canary: open for writing",
    "follows links": "canary: open ",
    "waits": "time: no answer",
    "quotes": "raised ValueError with a message of ",
}
