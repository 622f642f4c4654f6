"""Chains of one problem that ran apart, each in a folder of its own, as one run.

Files are copied, so that memory does not matter, and the checkpoints go together: the merged run can be extended.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from countveil.counts.files.atomic import unfinished
from countveil.inference.carry import Carry, split_running
from countveil.inference.row_files import with_rows
from countveil.inference.settings import OUTCOMES
from countveil.posterior.runs.checkpoint import write_checkpoint
from countveil.posterior.runs.growing_array import CODEC
from countveil.posterior.runs.reader import damage_is_told
from countveil.posterior.runs.reopened import ReopenedRun
from countveil.posterior.runs.run_files import CHECKPOINT_GROUP, RunFiles
from countveil.posterior.runs.running_group import RUNNING, write_running
from countveil.posterior.runs.stored_problem import check_labels
from countveil.posterior.runs.zarr_store import check_new, mark_complete

#: Settings in which chains of one run may differ: on them no draw depends.
_OF_THE_JOB = ("chains", "threads", *OUTCOMES)


def merge_folders(folders: Sequence[Path], target: Path) -> None:
    """The chains of all runs, by their numbers, in a new folder."""
    check_new(target, "path")
    if len(folders) < 2:
        raise ValueError(f"runs: expected at least two, got {len(folders)}")
    places_of = [os.path.realpath(folder) for folder in folders]
    if any(Path(os.path.realpath(target)).is_relative_to(place) for place in places_of):
        raise ValueError(f"path: expected a place outside of the runs, got {str(target)!r}")
    for folder in folders:
        if places_of.count(os.path.realpath(folder)) > 1:
            raise ValueError(f"runs: expected chains of their own, got {str(folder)!r} twice")
    # Which of them is damaged is found out only by looking at all.
    with damage_is_told(Path(" or ".join(map(str, folders)))), ExitStack() as stack:
        runs = [
            stack.enter_context(ReopenedRun(folder)) for folder in folders
        ]  # nobody changes them meanwhile
        _check_one_problem(runs)
        places = sorted(
            (number, i, row) for i, run in enumerate(runs) for row, number in enumerate(run.chains)
        )
        with unfinished(target.parent) as place:
            temporary = place / target.name
            _copy(runs, [(runs[i].path, row) for _, i, row in places], temporary)
            _number_chains(temporary, [number for number, _, _ in places])
            with RunFiles(temporary) as files:
                carries = {carry.chain: carry for run in runs for carry in run.last.carries}
                seconds = sum(run.last.seconds for run in runs)
                settings = runs[0].settings | {
                    "chains": len(places), "seconds": seconds, "interrupted": False,
                }  # fmt: skip
                ordered = (split_running(with_rows(carries[number]))[0] for number, _, _ in places)
                running = [_running(runs[i], row) for _, i, row in places]
                running = [carry for carry in running if carry.state]  # none, where all draws are kept
                write_checkpoint(files, runs[0].last.sweep, runs[0].last.draws, seconds, ordered, running)
                if running:
                    write_running(files, [carry.state for carry in running])
                files.set_attributes(settings=json.dumps(settings), complete=0, checksum=None)
                mark_complete(files, seconds)
                files.move(target)


def _running(run: ReopenedRun, row: int) -> Carry:
    """The running means of one chain, in the form of a carry."""
    return run.last.carries[row]._replace(state=run.last.sums(row), extra={}, rows=None)


def _check_one_problem(runs: Sequence[ReopenedRun]) -> None:
    first, known, numbers = runs[0], runs[0].labels, set[int]()
    for run in runs:
        name = repr(str(run.path))
        if not run.is_complete:
            raise ValueError(
                f"runs: expected complete runs, got {name}, which is unfinished: resume it first"
            )
        for setting in first.settings:
            if setting not in _OF_THE_JOB and run.settings.get(setting) != first.settings[setting]:
                raise ValueError(
                    f"runs: expected one {setting}, got {first.settings[setting]!r} and, in {name}, "
                    f"{run.settings.get(setting)!r}"
                )
        for fact, what in (("model", "model"), ("problem", "data"), ("fields", "state")):
            if run.attributes[fact] != first.attributes[fact]:
                raise ValueError(f"runs: expected one {what}, got another in {name}")
        for view, labels in run.labels.items():
            speaker = f"{view}: runs" if view else "runs"
            check_labels(known[view], labels, speaker, f"of the first in {name}")
        repeated = numbers & set(run.chains)
        if repeated:
            raise ValueError(
                f"runs: expected chains of their own, got chain {min(repeated)} twice, in {name}"
            )
        numbers |= set(run.chains)


def _arrays(folder: Path) -> list[Path]:
    """Those of which every chain has a part, within the run."""
    found = [
        path.parent
        for group in ("posterior", "sample_stats")
        for path in (folder / group).glob("*/zarr.json")
    ]
    return [
        path.relative_to(folder)
        for path in sorted(found)
        if _node(path)["dimension_names"][:2] == ["chain", "draw"]
    ]


def _node(path: Path) -> dict[str, Any]:
    return json.loads((path / "zarr.json").read_bytes())


def _copy(runs: Sequence[ReopenedRun], rows: Sequence[tuple[Path, int]], target: Path) -> None:
    """The first run as it is, without its checkpoint; of arrays of draws the parts of every chain."""
    first = runs[0].path
    arrays = _arrays(first)
    apart = {first / CHECKPOINT_GROUP, *(first / array / "c" for array in arrays)}
    shutil.copytree(
        first, target, ignore=lambda folder, names: [n for n in names if Path(folder) / n in apart]
    )
    for array in arrays:
        node = _node(first / array)
        for run in runs:
            other = _node(run.path / array)
            if {**other, "shape": other["shape"][1:]} != {**node, "shape": node["shape"][1:]}:
                raise ValueError(
                    f"runs: expected arrays of one kind, got another {array.name!r} in {str(run.path)!r}"
                )
        for place, (source, row) in enumerate(rows):
            shutil.copytree(source / array / "c" / str(row), target / array / "c" / str(place))
        node["shape"][0] = len(rows)
        (target / array / "zarr.json").write_text(json.dumps(node, indent=2))


def _number_chains(folder: Path, numbers: Sequence[int]) -> None:
    for group in ("posterior", "sample_stats", *([RUNNING] if (folder / RUNNING).is_dir() else [])):
        path = folder / group / "chain"
        node = _node(path)
        node["shape"] = node["chunk_grid"]["configuration"]["chunk_shape"] = [len(numbers)]
        (path / "zarr.json").write_text(json.dumps(node, indent=2))
        (path / "c").mkdir(exist_ok=True)  # zarr writes no chunk of zeros alone
        (path / "c" / "0").write_bytes(CODEC.encode(np.array(numbers, dtype="<i8")))
