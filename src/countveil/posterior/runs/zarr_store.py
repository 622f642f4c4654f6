"""The store that grows: draws go to disk as they come, with checkpoints from which the chains go on.

The folder is what ``save_run`` writes, marked incomplete, and a group ``checkpoint`` beside the draws. At a
checkpoint draws come first, then the number of them in the root's attributes, then the carries: killed at any
moment, a run has all draws that its checkpoint speaks of. What was drawn after it is drawn again, bit by bit the
same.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.files.atomic import final_modes, held, open_up, unfinished
from countveil.counts.places import local_path
from countveil.inference.carry import Carry, check_form, has_running, split_running, with_running
from countveil.inference.row_files import RowSaver, most_files, rows_per_block, with_rows
from countveil.inference.settings import COMPLETE, Settings, described_settings
from countveil.inference.store import Carries, kept_of
from countveil.posterior.running_means import ChainMeans
from countveil.posterior.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from countveil.posterior.runs.growing_array import SCALARS_PER_CHUNK, GrowingArray, n_draws, number_draws
from countveil.posterior.runs.packed_release import add_releases
from countveil.posterior.runs.reader import damage_is_told
from countveil.posterior.runs.row_writer import DrawWriter
from countveil.posterior.runs.run_files import RunFiles
from countveil.posterior.runs.running_group import RUNNING, chunks_of, write_running, write_running_of
from countveil.posterior.runs.schema import LARGEST_CHUNK, OPENING, SMALLEST_CHUNK, checksum, present_name
from countveil.posterior.runs.signals import Signals
from countveil.posterior.runs.writer import write_tree

#: A tree without draws for states of these arrays, and the releases that go with it.
Template = Callable[
    [Mapping[str, np.ndarray]], tuple[xr.DataTree, Mapping[str, PrivateCounts | CombinedReleases]]
]

#: Checkpoints take at most this share of the time.
_SHARE = 0.02


class ZarrStore:
    """See ``inference.store.Store``. One that is new makes its folder once the chains have started."""

    def __init__(
        self,
        path: Path,
        settings: Settings,
        chains: Sequence[int],
        seconds_between: float,
        new: Template | None = None,
        files: RunFiles | None = None,
        checkpoint: Checkpoint | None = None,
        running: ChainMeans | None = None,
    ) -> None:
        self.path, self.settings, self.chains = path, settings, tuple(chains)
        self.signals = Signals()
        self._new, self._files, self._last, self._running = new, files, checkpoint, running
        self._between, self._due = seconds_between, time.monotonic() + seconds_between
        self._seconds = 0.0 if checkpoint is None else checkpoint.seconds
        self._began = time.perf_counter()
        self._filled = [0 if checkpoint is None else checkpoint.draws] * len(self.chains)
        self._sweep = 0 if checkpoint is None else checkpoint.sweep  # of the last checkpoint
        self.saved = self._filled[0]  # draws of every chain that it has
        self._is_new, self.counts_apart = True, False
        self._fields: dict[str, list[GrowingArray]] = {}
        self._scalars: dict[str, list[GrowingArray]] = {}

    def begin(self, started: Callable[[], Iterable[Carry]]) -> Iterable[Carry]:
        """The folder is there, and the arrays are open, from the last checkpoint on."""
        state = next(iter(started())).state
        kept = state if self._running is None else self._running.begin(state)
        fields = {name: np.shape(value) for name, value in kept.items()}
        if self._new is not None:
            self._files = _make_folder(self.path, *self._new(state))
            self._open_arrays(fields)
        else:
            with damage_is_told(self.path):
                if self._last is not None:
                    # One at a time: they may be large.
                    for own, carry in zip_longest(started(), self._carries_of(self._last)):
                        check_form(carry, own)
                    self._load_running(self._last)
                self._open_arrays(fields)
        return () if self._last is None else self._carries_of(self._last)

    def _carries_of(self, checkpoint: Checkpoint) -> Iterator[Carry]:
        """With running means where shards hold them, else without."""
        for place, carry in enumerate(checkpoint.carries):
            if self.counts_apart and checkpoint.running:  # written by a process that had all rows
                yield with_running(with_rows(carry), checkpoint.running[place])
            elif has_running(carry) and not self.counts_apart:
                yield split_running(with_rows(carry))[0]
            else:
                yield carry

    def _open_arrays(self, fields: Mapping[str, tuple[int, ...]]) -> None:
        """Those of the fields of a draw, by their shapes, and of what is monitored."""
        draws, attributes = self._filled[0], self._open_files.attributes()
        if draws and any(
            n_draws(self._open_files.root / group / "draw") < draws for group in ("posterior", "sample_stats")
        ):  # before a checkpoint they are written: more of them would be, up to whatever it says
            raise ValueError("path: expected a whole run, got one with fewer draws than its checkpoint says")
        scalars, root = json.loads(attributes["scalars"]), self._open_files.root
        if json.loads(attributes["fields"]) != list(fields) or any(
            Path(name).name != name for name in scalars
        ):
            raise ValueError("path: expected a run of this problem, got one with other arrays")
        self._fields = {
            name: [self._array(root / "posterior" / name, draws, shape)] for name, shape in fields.items()
        }
        # A stranger's may be cut into a file for every row.
        arrays = [array for each in self._fields.values() for array in each]
        most = most_files(max((array.n_bytes for array in arrays), default=0))
        if any(array.n_files > most for array in arrays):
            raise ValueError("path: expected a run of this problem, got one cut into other blocks")
        for name in scalars:
            # An inferred alpha stands in both groups.
            groups = ["sample_stats", *(["posterior"] if name not in fields else [])]
            places = [root / group / name for group in groups]
            self._scalars[present_name(name)] = [
                self._array(place, draws) for place in places if place == places[0] or place.is_dir()
            ]
        if self._new is None:
            self.note_settings()

    def note_settings(self) -> None:
        """That a run goes on, and for how long; a stop before its first sweep does not forget a new total."""
        if self._files is not None:
            # A run that was killed may have more draws than its checkpoint says: they come again.
            now = self._described("interrupt")
            self._files.set_attributes(draws=self._filled[0], settings=now, complete=0, checksum=None)

    def keep(self, chain: int, state: Any, monitored: dict[str, float]) -> None:
        """The chain's next draw: on disk as soon as it fills a chunk."""
        self.keep_columns(chain, kept_of(state, chain, self._running), monitored)

    @property
    def spread_means(self) -> ChainMeans | None:
        """Shards may count in their rows by themselves: the sums are in checkpoints, like all that they have."""
        return self._running

    def row_writer(self, chain: int) -> DrawWriter | None:
        """What shards write the rows of the chain's next draw with, if its arrays are cut into blocks of rows."""
        arrays = {name: fields[0] for name, fields in self._fields.items() if fields[0].cut is not None}
        if not arrays or self._running is not None:
            return None
        row = self.chains.index(chain)
        blocks = {array.chunk[0] for array in arrays.values()}
        cut = {name: (array.cut or 0, array.chunk[1]) for name, array in arrays.items()}
        if len(blocks) > 1:
            return None
        return DrawWriter(str(self._open_files.root), row, self._filled[row], blocks.pop(), cut)

    def keep_columns(self, chain: int, state: Mapping[str, np.ndarray], monitored: dict[str, float]) -> None:
        """What is kept of a draw; of arrays that are not there shards have written the rows."""
        row = self.chains.index(chain)
        for name, arrays in self._fields.items():
            for array in arrays:
                if name in state:
                    array.append(row, state[name])
                else:
                    array.written(row)
        for name, scalar in monitored.items():
            for array in self._scalars[name]:
                array.append(row, scalar)
        self._filled[row] += 1

    def common(self) -> int:
        """Draws that every chain has."""
        return min(self._filled)

    def swept(self, sweep: int, carries: Carries, last: bool) -> bool:
        """A checkpoint if it is time, at a signal, and after the last sweep."""
        asked = self.signals.checkpoint or self.signals.stop is not None
        if asked or last or sweep == self.settings.sweeps or time.monotonic() >= self._due:
            self.signals.checkpoint = False
            self._checkpoint(sweep, carries)
        return self.signals.stop is not None and sweep < self.settings.sweeps

    def stopped(self, carries: Carries | None) -> None:
        """A checkpoint, unless there is one already, or the chains stand in the middle of a sweep."""
        if carries is None:
            return
        first = next(carries(RowSaver(str(self._open_files.place))))
        if first.sweep > self._sweep:
            self._checkpoint(first.sweep, carries)

    def ended(self, stopped: str) -> None:
        """Say why the chains ended; a run at its end is marked complete, with a checksum of it all."""
        files, seconds = self._open_files, self._elapsed()
        files.set_attributes(settings=self._described(stopped))
        if stopped in COMPLETE:
            if self._running is not None and self.counts_apart:
                last = read_checkpoint(files.place)  # of the last sweep; the shards are gone by now
                write_running_of(files, () if last is None else last.carries)
            elif self._running is not None:
                write_running(files, [self._running.sums(chain) for chain in self.chains])
            mark_complete(files, seconds)

    def close(self) -> None:
        """Another process may write the run."""
        if self._files is not None:
            self._files.close()

    def _checkpoint(self, sweep: int, carries: Carries) -> None:
        began, files = time.monotonic(), self._open_files
        if self._is_new or self.common() > self.saved:  # in burn-in there is nothing else to write
            for array in (a for arrays in (*self._fields.values(), *self._scalars.values()) for a in arrays):
                array.bring_up_to_date()
            for group in ("posterior", "sample_stats"):
                number_draws(files, files.root / group / "draw", self.common())
            coming = 1 if self._is_new else None  # killed before it is there, the run begins anew
            files.set_attributes(draws=self.common(), settings=self._described("interrupt"), coming=coming)
            files.sync()
        saver, running = RowSaver(str(files.place)), self._running_carries(sweep)
        write_checkpoint(files, sweep, self.common(), self._elapsed(), carries(saver), running)
        if self._is_new:
            files.set_attributes(coming=None)
        self._is_new, self._sweep, self.saved, now = False, sweep, self.common(), time.monotonic()
        self._due = now + max(self._between, (now - began) / _SHARE)

    def _running_carries(self, sweep: int) -> Iterator[Carry]:
        """The running means of all chains, in the form of carries."""
        if self._running is not None and not self.counts_apart:
            for chain in self.chains:
                yield Carry(chain, sweep, self._running.sums(chain), {})

    def _load_running(self, checkpoint: Checkpoint) -> None:
        if self._running is None or self.counts_apart:  # shards look at what they load
            return
        for place, chain in enumerate(self.chains):
            sums = checkpoint.sums(place)
            if not sums:
                raise ValueError(
                    "path: expected a checkpoint of this problem, got one without its running means"
                )
            self._running.load(chain, sums)

    def _described(self, stopped: str) -> str:
        return described_settings(self.settings, self._elapsed(), stopped)

    def _elapsed(self) -> float:
        return self._seconds + time.perf_counter() - self._began

    @property
    def _open_files(self) -> RunFiles:
        assert self._files is not None
        return self._files

    def _array(self, path: Path, draws: int, shape: Sequence[int] = ()) -> GrowingArray:
        return GrowingArray(self._open_files, path, draws, len(self.chains), shape)


def mark_complete(files: RunFiles, seconds: float) -> None:
    """The last that is written of a run: a checksum of it all."""
    for group in ("posterior", "sample_stats"):
        files.set_attributes(group, sampling_time=seconds)
    with xr.open_datatree(files.root, **OPENING) as tree:
        found = checksum(tree)
    files.set_attributes(checksum=found, complete=1)
    files.sync()


def check_new(path: str | os.PathLike[str], name: str = "store") -> Path:
    """A place for a new run, or an error before any work that speaks of the parameter ``name``."""
    target = local_path(path, name)
    if target.exists():
        raise FileExistsError(
            f"{name}: expected a new folder, got {str(target)!r}, which exists (cv.resume goes on with a run)"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name}: expected a folder to write into, got {str(target.parent)!r}")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{name}: expected a folder that can be written, got {str(target.parent)!r}")
    return target


def _make_folder(
    target: Path, tree: xr.DataTree, releases: Mapping[str, PrivateCounts | CombinedReleases]
) -> RunFiles:
    """The folder of a new run, all at once, locked."""
    files = None
    try:
        packed = add_releases(tree, releases)
        with unfinished(target.parent) as place, held(place) as inside:
            temporary = place / target.name
            write_tree(tree, temporary, _encoding(tree, packed), "store")
            files = RunFiles(temporary)
            with held(temporary, inside) as itself:
                open_up(itself, *final_modes(place, inside))
            files.move(target)  # refused where somebody else was quicker
    except BaseException as error:
        if files is not None:
            files.close()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise OSError(error.errno, f"store: could not write {str(target)!r} ({reason})") from error
        raise
    return files


def _encoding(tree: xr.DataTree, releases: Iterable[str]) -> dict[str, Any]:
    """As ``save_run`` has it: one chunk per draw, small draws share one. A run may grow, so they share no fewer."""
    encoding: dict[str, Any] = {}
    for group in ("posterior", "sample_stats"):
        chunks: dict[str, Any] = {"draw": {"chunks": (SCALARS_PER_CHUNK,)}}
        rows = json.loads(tree.attrs["dims"])[0]
        block = _block(tree[group].to_dataset(), rows)
        for name, variable in tree[group].data_vars.items():
            rest = [
                min(n, block) if dim == rows else n
                for dim, n in zip(variable.dims[2:], variable.shape[2:], strict=True)
            ]
            size = variable.dtype.itemsize * math.prod(variable.shape[2:])
            together = max(1, SMALLEST_CHUNK // max(size, 1)) if rest else SCALARS_PER_CHUNK
            if rest != [*variable.shape[2:]]:
                together = 1  # shards write chunks of one draw
            chunks[str(name)] = {"chunks": (1, min(together, SCALARS_PER_CHUNK), *rest)}
        encoding[f"/{group}"] = chunks
    if RUNNING in tree.children:
        rows = json.loads(tree.attrs["dims"])[0]
        means = chunks_of(tree[RUNNING].to_dataset(), rows)
        encoding[f"/{RUNNING}"] = {name: {"chunks": chunks} for name, chunks in means.items()}
    for group in releases:
        sizes = {name: file.size for name, file in tree[group].data_vars.items()}
        encoding[f"/{group}"] = {
            name: {"chunks": (max(1, min(n, LARGEST_CHUNK)),)} for name, n in sizes.items()
        }
    return encoding


def _block(group: xr.Dataset, rows: str) -> int:
    """Rows of a block (``inference.row_files``), by the largest array that has rows; a network's are not cut."""
    found = [one for one in group.data_vars.values() if one.dims[2:].count(rows) == 1]
    sizes = [one.dtype.itemsize * math.prod(one.shape[2:]) // one.sizes[rows] for one in found]
    return rows_per_block(found[0].sizes[rows], max(sizes)) if found else 2**63
