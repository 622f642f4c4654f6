"""A run on disk that shall go on: looked through, locked, and read as far as its chains need it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import zarr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.settings import Settings
from countveil.kernels.philox import MAX_CHAINS
from countveil.posterior.running_means import ChainMeans
from countveil.posterior.runs.checkpoint import (
    Checkpoint,
    DamagedCheckpointError,
    read_checkpoint,
    warn_of_another_machine,
)
from countveil.posterior.runs.packed_release import release_at
from countveil.posterior.runs.reader import (
    PosteriorFileError,
    check_whole,
    checked_folder,
    first_values,
    labels_in,
    places_in,
    read_releases,
    root_attributes,
)
from countveil.posterior.runs.run_files import RunFiles
from countveil.posterior.runs.zarr_store import ZarrStore


class ReopenedRun:
    """Use it as a context manager: at its end another process may write the run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checked_folder(path)
        self.attributes = root_attributes(self.path)
        if "problem" not in self.attributes:
            raise PosteriorFileError(
                f"path: expected a run that fit(..., store=) wrote, got {str(self.path)!r}, which was saved from "
                "memory and has no checkpoint"
            )
        self._files = RunFiles(self.path)
        try:
            _check_described(self.attributes)
            self.attributes = root_attributes(self.path)  # nobody else changes them now
            if self.is_complete:
                check_whole(self.path, self.attributes)
            self.checkpoint = read_checkpoint(self._files.place)
            # Its draws would be overwritten from the first on.
            if self.checkpoint is None and (self.is_complete or has_begun(self.attributes)):
                raise DamagedCheckpointError("got one whose checkpoint was lost")
        except DamagedCheckpointError as error:
            self._files.close()
            raise PosteriorFileError(
                f"path: expected a run that can go on, {error}, in {str(self.path)!r}"
            ) from error
        except BaseException:
            self._files.close()
            raise
        if self.checkpoint is not None:
            warn_of_another_machine(self.checkpoint.made_by)

    @property
    def is_complete(self) -> bool:
        """Whether its chains are at their end."""
        return self.attributes.get("complete") == 1

    @property
    def settings(self) -> dict[str, Any]:
        """As they stand in the run."""
        return {"keep": "all", **json.loads(self.attributes["settings"])}

    @property
    def last(self) -> Checkpoint:
        """The last checkpoint; a run that has a draw has one."""
        assert self.checkpoint is not None
        return self.checkpoint

    @property
    def chains(self) -> list[int]:
        """The numbers of its chains."""
        # By itself: of a run that was killed some arrays may have more draws than others.
        numbers: Any = zarr.open_array(self.path / "sample_stats" / "chain", mode="r", zarr_format=3)[...]
        known = all(0 <= number < MAX_CHAINS for number in numbers)  # streams have no other names
        if not known or len(set(numbers.tolist())) < len(numbers):  # nor two chains one
            raise PosteriorFileError("path: expected a whole run, got a damaged one (numbers of its chains)")
        return [int(number) for number in numbers]

    def scalars(self) -> dict[str, np.ndarray]:
        """The monitored scalars of its draws up to the last checkpoint, (chain, draw)."""
        if self.checkpoint is None or self.checkpoint.draws == 0:
            return {}
        place, names = self.path / "sample_stats", json.loads(self.attributes["scalars"])
        if any((place / str(name)).parent != place for name in names):
            raise PosteriorFileError("path: expected a whole run, got a damaged one (its scalars)")
        return {name: first_values(place / name, self.checkpoint.draws) for name in names}

    @property
    def labels(self) -> dict[str, tuple[np.ndarray | None, ...]]:
        """Of the axes of every view."""
        return labels_in(self.path, self.attributes)

    def releases(self, data: Any, scratch: Any) -> dict[str, PrivateCounts | CombinedReleases]:
        """Those that were fitted, by their groups; what lies elsewhere, ``data`` may say where."""
        places, given = places_in(self.attributes), data if isinstance(data, str | os.PathLike) else None
        elsewhere = {group: release_at(place, self.path, given, scratch) for group, place in places.items()}
        return {**read_releases(self.path, self.attributes), **elsewhere}

    def store(
        self, settings: Settings, seconds_between: float, running: ChainMeans | None = None
    ) -> ZarrStore:
        """The store that grows on."""
        return ZarrStore(
            self.path,
            settings,
            self.chains,
            seconds_between,
            files=self._files,
            checkpoint=self.checkpoint,
            running=running,
        )

    def __enter__(self) -> ReopenedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()


def has_begun(attributes: Mapping[str, Any]) -> bool:
    """Whether a run of these attributes has had a checkpoint: its first draws are written just before that."""
    return bool(attributes.get("draws")) and attributes.get("coming") != 1


def _check_described(attributes: Mapping[str, Any]) -> None:
    for name, kind in (
        ("settings", dict),
        ("model", dict),
        ("problem", dict),
        ("fields", list),
        ("scalars", list),
    ):
        try:
            same = isinstance(json.loads(attributes[name]), kind)
        except (KeyError, TypeError, ValueError):
            same = False
        if not same:
            raise PosteriorFileError(f"path: expected a whole run, got a damaged one (its {name})")
