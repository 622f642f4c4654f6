"""Writers that are killed at any moment, and what they leave: run as a program, because it forks before threads start.

``python killed_writers.py FOLDER TIMES STEPS SEED`` kills, for every kind of file, some writers after random times and
some at random steps (-1: one at every step): a step is a call that opens or changes something on disk, as Python's
audit hooks see it. After each kill the target must be absent, or the old or the new one as a whole, all else must lie in folders of mode 700, and
the next writer must remove it.
"""

import json
import os
import random
import signal
import stat
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet  # noqa: F401 (before the first fork)
import xarray as xr

import countveil as cv
from countveil.cli.tables import write_table as write_csv
from countveil.counts import PrivateCounts, load_release, privatize_to_file
from countveil.counts.bounded.room import Room
from countveil.counts.files import folder as release_folder
from countveil.counts.files import release as release_files
from countveil.counts.files.atomic import UNFINISHED, write_file
from countveil.posterior.runs import reader, writer
from countveil.posterior.runs.packed_release import unpack_release
from countveil.posterior.runs.schema import FORMAT, VERSION
from countveil.report.sheet import Sheet

SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]
STEPS = ("open", "os.mkdir", "os.rename", "os.link", "os.chmod", "os.remove", "os.rmdir", "fcntl.flock")
OLD = PrivateCounts(np.arange(12).reshape(3, 4), alpha=0.5, labels=(list("abc"), list("wxyz")))
COUNTS = np.ones((300, 400), dtype=np.int8)
TREE = xr.DataTree.from_dict(
    {
        "/": xr.Dataset(attrs={"format": FORMAT, "version": VERSION}),
        "/posterior": xr.Dataset({"theta": (("chain", "draw", "row", "topic"), np.ones((2, 3, 500, 20)))}),
    }
)
TABLE = pd.DataFrame({"word": ["oil"] * 20_000, "share": np.linspace(0, 1, 20_000)})


def as_folders():
    release_files.LABELS_IN_ONE_FILE, release_folder.CELLS_PER_PART = 0, 20_000


def save_old(target):
    OLD.save(target, overwrite=True)


def save_old_folder(target):
    as_folders()
    save_old(target)


def privatize(target):
    privatize_to_file(COUNTS, target, 1, rows=range(300), overwrite=True)


def privatize_folder(target):
    as_folders()
    privatize(target)


def release_is_right(target):
    found = load_release(target)
    assert found == OLD or found.shape == COUNTS.shape


def save_run(target):
    writer.save_run(TREE, {"release": OLD}, target)


def run_is_right(target):
    tree = reader._load_tree(target)  # which compares the checksum
    assert unpack_release(tree["release"].to_dataset(), Room(10**6)) == OLD


def save_csv(target):
    write_csv(TABLE, str(target), overwrite=True)


def csv_is_right(target):
    assert pd.read_csv(target).equals(TABLE)


def save_picture(target):
    write_file(target, Sheet(1000, 500).png(), overwrite=True)


def picture_is_right(target):
    assert target.read_bytes() == Sheet(1000, 500).png()


def enter_one(target):
    cv.privatize(COUNTS[:2, :3], 1, ledger=target, dataset="letters")


def enter_more(target):
    for _ in range(10):
        enter_one(target)


def ledger_is_right(target):
    for account in cv.Ledger(target).accounts():
        assert (
            account.spent == len(account.releases) >= 1
        )  # what was entered before is still there, and adds up
    assert target.stat().st_mode & 0o777 == 0o600


# kind: what is there before (or None), what is killed, what the target must pass
KINDS = {
    "file": (None, privatize, release_is_right),
    "file again": (save_old, privatize, release_is_right),
    "folder": (None, privatize_folder, release_is_right),
    "folder again": (save_old_folder, privatize_folder, release_is_right),
    "run": (None, save_run, run_is_right),
    "csv": (None, save_csv, csv_is_right),
    "picture": (None, save_picture, picture_is_right),
    "ledger": (None, enter_more, ledger_is_right),
    "ledger again": (enter_one, enter_more, ledger_is_right),
}


def in_child(work, *args):
    """Fork, work, and give the number of the child; it says "ready" through a pipe, and ends with 0 if all is well."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        work(write, *args)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait_for(child, read):
    with os.fdopen(read) as pipe:
        said = pipe.read()
    return os.waitpid(child, 0)[1], said


def run_whole(work, *args):
    """In a child, to its end; what it said."""
    status, said = wait_for(*in_child(work, *args))
    assert status == 0, f"{work.__name__} failed"
    return said


def write_counting_steps(pipe, write, target):
    n_steps = 0

    def count(event, _):
        nonlocal n_steps
        n_steps += event in STEPS

    sys.addaudithook(count)
    began = time.monotonic()
    write(target)
    os.write(pipe, json.dumps([n_steps, time.monotonic() - began]).encode())


def write_until_step(_, write, target, step, number):
    left = step

    def stop(event, _):
        nonlocal left
        if event in STEPS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)

    sys.addaudithook(stop)
    write(target)


def write_saying_when(pipe, write, target):
    os.write(pipe, b"!")
    write(target)


def killed_after(seconds, write, target, number):
    child, read = in_child(write_saying_when, write, target)
    os.read(read, 1)
    time.sleep(seconds)
    os.kill(child, number)
    wait_for(child, read)


def check_left(folder, target):
    """All but the target lies in folders that only their owner can enter."""
    for path in folder.iterdir():
        if path == target:
            continue
        assert path.name.startswith(UNFINISHED), f"{path.name} is left"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, f"{path.name} is open to others"
    if (target / "release.json").is_file():
        current = json.loads((target / "release.json").read_bytes())["generation"]
        for path in target.iterdir():
            # What was published before may lie there until it is removed.
            if path.name not in (current, "generation-1", "release.json"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o700, f"{path.name} is open to others"


def check_killed(kind, folder, kill):
    """One kill and what follows."""
    before, write, is_right = KINDS[kind]
    names = ("target.csv", "other.csv") if kind == "csv" else ("target", "other")
    target = folder / names[0]
    if before:
        run_whole(lambda _: before(target))
    kill(write, target)
    check_left(folder, target)
    assert target.exists() or not before, "the old one is lost"
    was_whole = target.exists()
    if was_whole:
        run_whole(lambda _: is_right(target))
    if was_whole and kind == "run":
        target = folder / names[1]
    run_whole(lambda _: write(target))
    run_whole(lambda _: is_right(target))
    left = {path.name for path in folder.iterdir()} - set(names)
    assert not left, f"{left} is not removed by the next writer"
    if (target / "release.json").is_file():
        current = json.loads((target / "release.json").read_bytes())["generation"]
        assert {path.name for path in target.iterdir()} == {"release.json", current}, (
            "an old generation stays"
        )
    return was_whole


def main(folder, n_times, n_chosen, seed):
    rng = random.Random(seed)
    for kind, (before, write, _) in KINDS.items():
        place = folder / kind.replace(" ", "_")
        place.mkdir()
        if before:
            run_whole(lambda _, before=before, place=place: before(place / "whole"))
        n_steps, takes = json.loads(run_whole(write_counting_steps, write, place / "whole"))
        steps = [rng.randint(1, n_steps) for _ in range(n_chosen)] if n_chosen >= 0 else range(1, n_steps + 1)
        kills = [
            *(("step", step) for step in steps),
            *(("after", rng.uniform(0, 1.2 * takes)) for _ in range(n_times)),
        ]
        n_whole = 0
        for attempt, (how, when) in enumerate(kills):
            number, here = SIGNALS[attempt % 3], place / str(attempt)
            here.mkdir()
            try:
                if how == "step":
                    n_whole += check_killed(
                        kind, here, lambda write, target, s=when, k=number: wait_for(
                            *in_child(write_until_step, write, target, s, k)
                        ),
                    )  # fmt: skip
                else:
                    n_whole += check_killed(
                        kind, here, lambda write, target, s=when, k=number: killed_after(s, write, target, k)
                    )
            except AssertionError as error:
                sys.exit(
                    f"{kind}: killed by {number.name} at {how} {when} (of {n_steps}, {takes:.3f} s): {error}"
                )
        print(f"{kind}: {len(kills)} kills, {n_whole} left a whole target; {n_steps} steps, {takes:.3f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
