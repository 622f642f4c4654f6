"""Checkpoints: the carries of all chains, and how many draws the run had then, in one file.

A file is a first line, then parts, each after its length in 8 bytes: a header in JSON, the carry of every chain,
and its running means where not all draws are kept; then a SHA-256 of all that. The one before stays beside it: if
the newest is damaged, chains go on from there. Where shards write their rows themselves, these are in files beside
it that it names (``inference.row_files``): they belong to a checkpoint once it has its name. Nothing in it is
executed when it is read, and nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.shown_text import visible
from countveil.inference.carry import Carry, split_running
from countveil.inference.row_files import ROWS, are_whole, carry_from, with_rows
from countveil.posterior.runs.run_files import BEFORE, COMING, NEWEST, RunFiles, is_place_file
from countveil.runtime.machine import this_machine

MAGIC = b"countveil-checkpoint 1\n"
_LONGEST_HEADER = 2**20


class DamagedCheckpointError(ValueError):
    """No checkpoint of a run can be read."""


class Checkpoint(NamedTuple):
    """Where the chains of a run stood."""

    sweep: int
    draws: int  # of every chain
    seconds: float  # so far
    made_by: dict[str, str]  # versions and processor
    carries: tuple[Carry, ...]
    running: tuple[
        Mapping[str, np.ndarray], ...
    ] = ()  # of every chain (``running_means``), if not in the carries

    def sums(self, place: int) -> Mapping[str, np.ndarray]:
        """The running means of the chain at this place; nothing, where all draws are kept."""
        return self.running[place] if self.running else split_running(with_rows(self.carries[place]))[1]


def write_checkpoint(
    files: RunFiles,
    sweep: int,
    draws: int,
    seconds: float,
    carries: Iterable[Carry],
    running: Iterable[Carry] = (),
) -> None:
    """The draws it speaks of must be on disk before. Running means come in the form of carries, after them, or in
    them where shards hold them.
    """
    newest, before = files.place / NEWEST, files.place / BEFORE
    header = {"sweep": sweep, "draws": draws, "seconds": seconds, "made_by": this_machine()}
    coming = files.place / COMING
    files.write(coming, _parts(header, chain(carries, running)))
    if newest.exists():
        files.rename(newest, before)
    files.rename(coming, newest)
    files.sync()
    _remove_other_rows(files.place)


def _remove_other_rows(place: Path) -> None:
    """Files of rows that neither checkpoint names: their names begin with the sweep."""
    found = list(place.glob(f"{ROWS}-*"))
    if not found:
        return
    with suppress(ValueError, KeyError, TypeError):  # a damaged checkpoint: then they stay
        there = [place / name for name in (NEWEST, BEFORE) if (place / name).exists()]
        sweeps = {str(read_header(path)["sweep"]) for path in there}
        for path in found:
            if path.name.split("-")[1] not in sweeps:
                path.unlink(missing_ok=True)


def read_header(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, unchecked."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError("another file, or a damaged one")
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(min(length, _LONGEST_HEADER)))


def _parts(header: dict[str, Any], carries: Iterable[Carry]) -> Iterator[bytes]:
    digest = hashlib.sha256()

    def sized(part: bytes) -> Iterator[bytes]:
        for piece in (len(part).to_bytes(8, "little"), part):
            digest.update(piece)
            yield piece

    digest.update(MAGIC)
    yield MAGIC
    yield from sized(json.dumps(header).encode())
    for carry in carries:
        yield from sized(carry.to_bytes())
    yield digest.digest()


def read_checkpoint(place: Path) -> Checkpoint | None:
    """The newest that is whole, with a warning if it is not the last one; None if there never was one."""
    found = [place / name for name in (NEWEST, BEFORE) if (place / name).exists()]
    for path in found:
        try:
            checkpoint = _read(path)
        except FileNotFoundError:
            return read_checkpoint(place)  # of a run that grows: it has another name by now
        except MemoryError:
            raise
        except Exception:  # whatever numpy, zipfile and json find wrong
            continue
        if path.name != found[0].name:
            warnings.warn(
                f"the last checkpoint is damaged: the run goes on from the one before, sweep {checkpoint.sweep}",
                stacklevel=5,
            )
        return checkpoint
    if found:
        raise DamagedCheckpointError("got damaged checkpoints, from which no chain can go on")
    return None


def _read(path: Path) -> Checkpoint:
    content = memoryview(path.read_bytes())
    body, told = content[:-32], content[-32:]
    if bytes(body[: len(MAGIC)]) != MAGIC or hashlib.sha256(body).digest() != bytes(told):
        raise ValueError("another file, or a damaged one")
    parts, at = [], len(MAGIC)
    while at < len(body):
        length = int.from_bytes(body[at : at + 8], "little")
        parts.append(body[at + 8 : at + 8 + length])
        at += 8 + length
    header = json.loads(bytes(parts[0]))
    carries = tuple(_carry(bytes(part), path.parent) for part in parts[1:])
    if any(carry.sweep != header["sweep"] for carry in carries):
        raise ValueError("chains that are not in step")
    numbers = [carry.chain for carry in carries]
    half = len(numbers) // 2
    is_double = (
        half > 0 and numbers[:half] == numbers[half:]
    )  # running means follow the carries, in their order
    running = tuple(carry.state for carry in carries[half:]) if is_double else ()
    named = [file.path for carry in carries if carry.rows is not None for file in carry.rows.files]
    if len(set(numbers)) < len(numbers) - len(running) or len(set(named)) < len(named):  # each takes its room
        raise ValueError("chains or files that come twice")
    if not all(are_whole(carry.rows) for carry in carries if carry.rows is not None):
        raise ValueError("rows that are lost, or damaged")
    return Checkpoint(
        int(header["sweep"]),
        int(header["draws"]),
        float(header["seconds"]),
        dict(header["made_by"]),
        carries[: len(carries) - len(running)],
        running,
    )


def _carry(part: bytes, place: Path) -> Carry:
    """The carry; its rows are named by where they should be."""
    carry = carry_from(part)
    if carry.rows is None:
        return carry
    if not carry.rows.files or not all(is_place_file(file.path) for file in carry.rows.files):
        raise ValueError("no files, or a name that leads elsewhere")
    files = tuple(file._replace(path=str(place / file.path)) for file in carry.rows.files)
    return carry._replace(rows=carry.rows._replace(files=files))


def warn_of_another_machine(made_by: dict[str, str]) -> None:
    """Draws may then differ in their last bits from those of one run without a stop; they are as good."""
    now = this_machine()
    changed = [
        f"{name} {visible(str(made_by.get(name))[:100])} before, {now[name]} now"  # a stranger's may be anything
        for name in now
        if made_by.get(name) != now[name]
    ]
    if changed:
        warnings.warn(
            f"the run was begun elsewhere ({'; '.join(changed)}): its draws may differ in the last bits from those "
            "of a run without a stop",
            stacklevel=4,
        )
