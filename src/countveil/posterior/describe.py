"""What a run is, without its draws: model, data, guarantee, settings, how far it is, whether its chains agree.

The folder is looked through first, as ``load_posterior`` does it. Then the monitored scalars are read, the release,
and the headers of the checkpoints: a run of many gigabytes takes hardly longer than its release. Draws are read
where they are small, to see whether chains agree in their rates.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import zarr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.shown_text import visible
from countveil.inference.settings import stored_settings
from countveil.posterior.diagnostics.modes import modes_of, watched_log_likelihood
from countveil.posterior.diagnostics.sampled_rates import rates_by_part
from countveil.posterior.diagnostics.select import selection_in
from countveil.posterior.diagnostics.summary import summarize
from countveil.posterior.diagnostics.verdict import convergence, why_it_ended
from countveil.posterior.load import load_posterior
from countveil.posterior.runs.checkpoint import MAGIC
from countveil.posterior.runs.checks.chunk import open_plain
from countveil.posterior.runs.packed_release import size_on_disk
from countveil.posterior.runs.reader import (
    PosteriorFileError,
    checked_folder,
    damaged,
    first_draws,
    places_in,
    read_releases,
    root_attributes,
)
from countveil.posterior.runs.reopened import has_begun
from countveil.posterior.runs.run_files import BEFORE, CHECKPOINT_GROUP, NEWEST, PLACE
from countveil.posterior.runs.schema import present_name, stored_model

#: The header of a checkpoint has some hundred bytes; a stranger's may say anything of its length.
_LONGEST_HEADER = 2**16
_SHOWN = ("mean", "sd", "r_hat", "ess_bulk", "ess_tail")
#: Draws of a run that are read, by their size on disk.
_MOST_READ = 64 * 10**6
_BY_RATES = (
    "Judged by these monitored scalars and, for other solutions, by the rates of a sample of cells. Whether single "
    "rates have converged posterior.summary() says; agreement in topics() or blocks(), how sure each of them is."
)
_BY_SCALARS = (
    "Judged by these monitored scalars alone. Whether chains agree on rates of cells, topics or memberships needs "
    "their draws: posterior.summary() looks at rates, agreement in topics() or blocks() at the rest."
)


@dataclass(frozen=True)
class RunDescription:
    """What ``describe_run`` found. ``str()`` is the same in words."""

    path: str
    model: str
    views: Mapping[str, Mapping[str, Any]]  # of each array: shape, axes, labelled, data
    guarantees: Mapping[str, str]
    settings: Mapping[str, Any]
    complete: bool
    begun: bool  # whether it has had a checkpoint
    chains: tuple[int, ...]  # their numbers
    selected: str  # a sentence, if they were selected
    draws: int  # of every chain, so far
    draws_planned: int
    sweep: int | None  # of the last checkpoint; None if there is none
    scalars: (
        pd.DataFrame | None
    )  # of what was monitored: mean, sd, r_hat, ess_bulk, ess_tail; None without draws
    verdict: str  # whether the chains agree, in words
    bytes: Mapping[str, int]  # on disk: draws, releases, checkpoints
    versions: Mapping[str, str]
    checkpoints: tuple[Mapping[str, Any], ...]  # the newest first

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what is not finite is None."""
        table = self.scalars
        scalars = (
            None if table is None else table.astype(object).where(np.isfinite(table), None).to_dict("index")
        )
        return {**asdict(self), "scalars": scalars}

    def __str__(self) -> str:
        settings, of_each = self.settings, f"{self.draws:,} draws"
        if not self.complete:
            of_each = f"{self.draws:,} of {self.draws_planned:,} draws"
        limit = (
            "" if settings.get("until_ess") is None and settings.get("until_r_hat") is None else "at most "
        )
        chains = f"{len(self.chains)} chain{'s' * (len(self.chains) > 1)}"
        parts = ", ".join(f"{part} {_size(n)}" for part, n in self.bytes.items())
        lines = [f"Run {visible(self.path)}: {self._how_far()}", f"Model: {self.model}"]
        for view, one in self.views.items():
            size = " x ".join(f"{n:,}" for n in one["shape"])
            axes = ", ".join(map(visible, one["axes"]))
            lines.append(f"Data{f' {visible(view)}' if view else ''}: {size} ({axes}), {one['data']}")
        lines += [
            f"Guarantee{f' {visible(view)}' if view else ''}: {visible(text)}"
            for view, text in self.guarantees.items()
        ]
        if not self.guarantees:
            lines.append("Guarantee: none is known")
        lines += [
            f"Chains: {chains} (number {', '.join(map(str, self.chains))}), {of_each} each",
            *([self.selected] if self.selected else []),
            f"Settings: {limit}{settings['sweeps']:,} sweeps, burn-in {settings['burn_in']:,}, thin "
            f"{settings['thin']:,}, seed {settings['seed']}, method {visible(settings['method'])}, "
            f"{settings['seconds']:,.0f} s",
            f"Size: {_size(sum(self.bytes.values()))} ({parts})",
            f"Made by: {', '.join(f'{visible(k)} {visible(v)}' for k, v in self.versions.items())}",
        ]
        told = [f"sweep {one['sweep']:,}" for one in self.checkpoints]
        lines.append(f"Checkpoints: {' and '.join(told) if told else 'none'}")
        return "\n".join(lines)

    def _how_far(self) -> str:
        done = self.settings["burn_in"] + self.settings["thin"] * self.draws
        stopped = self.settings.get("stopped", "sweeps")
        if self.complete and stopped == "precision":
            return f"complete, precise as asked after {done:,} of at most {self.settings['sweeps']:,} sweeps"
        if self.complete and stopped != "sweeps":  # a posterior that was saved after that
            return (
                f"saved as it was when it was stopped, after {done:,} of {self.settings['sweeps']:,} sweeps"
            )
        if self.complete:
            return "complete"
        at = (
            "no checkpoint yet"
            if self.sweep is None
            else f"sweep {self.sweep:,} of {self.settings['sweeps']:,}"
        )
        if self.sweep is None and self.begun:
            return (
                "NOT COMPLETE: its checkpoint was lost, and it cannot go on; cv.load_posterior has its draws"
            )
        burning = " (burn-in)" if self.sweep is not None and self.sweep <= self.settings["burn_in"] else ""
        return f"NOT COMPLETE: {at}{burning}; countveil resume goes on with it"


def describe_run(path: str | os.PathLike[str]) -> RunDescription:
    """What a run on disk is, complete or not, without reading its draws.

    >>> import countveil as cv, tempfile
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = cv.fit(cv.TopicModel(2), release, sweeps=40, thin=2, seed=1, store=f"{folder}/run", progress=False)
    ...     found = describe_run(f"{folder}/run")
    >>> found.complete, found.draws, found.model
    (True, 10, 'TopicModel(n_topics=2, shape=0.1, rate=None)')
    """
    folder = checked_folder(path)
    attributes = root_attributes(folder)
    releases = read_releases(folder, attributes)
    try:
        return _described(folder, attributes, releases)
    except (PosteriorFileError, MemoryError):
        raise
    except Exception as error:
        raise damaged(folder, error) from error


def _described(
    folder: Path, attributes: Mapping[str, Any], releases: Mapping[str, PrivateCounts | CombinedReleases]
) -> RunDescription:
    settings = _settings(json.loads(attributes["settings"]))
    planned = stored_settings(settings).kept
    complete = attributes.get("complete") == 1
    checkpoints = tuple(
        filter(None, (_checkpoint(folder.joinpath(*PLACE, name)) for name in (NEWEST, BEFORE)))
    )
    stats = zarr.open_group(folder / "sample_stats", mode="r", zarr_format=3, use_consolidated=False)
    places = [int(one) for one in np.asarray(_array(stats, "chain")[...])]
    scalars = json.loads(attributes["scalars"])
    draws = _array(stats, scalars[0]).shape[1] if complete else int(attributes.get("draws", 0))
    table, told = None, "No draws yet."
    if draws:
        values = {
            visible(present_name(name)): first_draws(
                folder / "sample_stats" / name, _array(stats, name), draws, complete
            ).to_numpy()
            for name in scalars
        }
        table = summarize(values, 0.9)[list(_SHOWN)]
        ended = why_it_ended(settings, draws) if complete else ""
        rates = _rates(folder) if len(places) > 1 else None
        modes = modes_of(watched_log_likelihood(values), places, rates)
        agree = "They agree in these."
        by = _BY_SCALARS if rates is None else _BY_RATES
        told = "\n".join(filter(None, (ended, convergence(table, modes, len(places), agree), by)))
    sizes = {"draws": size_on_disk(folder / "posterior") + size_on_disk(folder / "sample_stats")}
    sizes["releases"] = sum(size_on_disk(folder / group) for group in releases)
    kept = folder / CHECKPOINT_GROUP
    sizes["checkpoints"] = size_on_disk(kept) if kept.is_dir() else 0
    made_by = {"countveil": str(stats.attrs.get("inference_library_version", "unknown"))}
    if checkpoints:
        made_by |= {str(name): str(version) for name, version in checkpoints[0]["made_by"].items()}
    described = json.loads(attributes["model"])
    model = stored_model(described)
    own = f"{visible(described['name'])}, a model of its maker's own, which the run does not hold"
    return RunDescription(
        path=str(folder),
        model=own if model is None else visible(repr(model)),
        views=_views(attributes, releases),
        guarantees=_guarantees(attributes, releases),
        settings=settings,
        complete=complete,
        begun=complete or has_begun(attributes),
        chains=tuple(places),
        selected=selection_in(attributes),
        draws=draws,
        draws_planned=planned,
        sweep=checkpoints[0]["sweep"] if checkpoints else None,
        scalars=table,
        verdict=told,
        bytes=sizes,
        versions=made_by,
        checkpoints=checkpoints,
    )


def _rates(folder: Path) -> np.ndarray | None:
    """What ``rates_by_part`` finds in draws that are small enough; None of others, and of damaged ones."""
    if size_on_disk(folder / "posterior") > _MOST_READ:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it is unfinished, which is said here
            return rates_by_part(load_posterior(folder))
    except PosteriorFileError:
        return None


def _settings(stored: dict[str, Any]) -> dict[str, Any]:
    """As they stand in the run, of the kinds that they must have."""
    whole = {name: int(stored[name]) for name in ("sweeps", "burn_in", "thin", "chains", "seed")}
    return {**stored, **whole, "method": str(stored["method"]), "seconds": float(stored["seconds"])}


def _views(
    attributes: Mapping[str, Any], releases: Mapping[str, PrivateCounts | CombinedReleases]
) -> dict[str, dict[str, Any]]:
    """Of every array its shape, axes, which of them are labelled, and what it is; of a single one under ``""``."""
    views = json.loads(attributes.get("views", "{}"))
    own = {name: json.loads(attributes[name]) for name in ("shape", "axes", "labelled")}
    found, places = {}, places_in(attributes)
    for view, one in (views or {"": own}).items():
        release = releases.get(f"release_{view}" if view else "release")
        found[str(view)] = {
            "shape": [int(n) for n in one["shape"]],
            "axes": [str(axis) for axis in one["axes"]],
            "labelled": [bool(has) for has in one["labelled"]],
            "data": str(release) if release is not None else _outside(places, view),
        }
    return found


def _outside(places: Mapping[str, Any], view: str) -> str:
    place = places.get(f"release_{view}" if view else "release")
    if place is None:
        return "plain counts, which are not in the run"
    return f"the release {visible(str(place['path']))}, which is not in the run"


def _guarantees(
    attributes: Mapping[str, Any], releases: Mapping[str, PrivateCounts | CombinedReleases]
) -> dict[str, str]:
    """Of the releases in the run, whatever its attributes say."""
    found = {}
    for view in json.loads(attributes.get("views", "{}")) or [""]:
        release = releases.get(f"release_{view}" if view else "release")
        if release is not None and release.guarantee is not None:
            found[str(view)] = str(release.guarantee)
    return found


def _array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    found = group[name]
    if not isinstance(found, zarr.Array):
        raise TypeError("a group in place of an array")
    return found


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """Its header and its size; None if there is none that can be read. Resuming checks all of it."""
    if not path.is_file():
        return None
    with open_plain(path, path.name) as file:
        if file.read(len(MAGIC)) != MAGIC:
            return None
        length = int.from_bytes(file.read(8), "little")
        content = file.read(length) if length <= _LONGEST_HEADER else b""
    try:
        header = json.loads(content)
        return {
            "sweep": int(header["sweep"]),
            "draws": int(header["draws"]),
            "seconds": float(header["seconds"]),
            "made_by": {str(key): str(value) for key, value in header["made_by"].items()},
            "bytes": path.stat().st_size,
            "written": path.stat().st_mtime,
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _size(n: float) -> str:
    """Bytes in words.

    >>> _size(512), _size(25_426), _size(3.2e9)
    ('512 B', '25.4 kB', '3.2 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
