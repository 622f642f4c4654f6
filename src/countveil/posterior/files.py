"""Runs on disk: a Zarr folder in ArviZ's schema, with the release inside."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from countveil.counts import PrivateCounts, load_release
from countveil.models import TopicModel
from countveil.models.topic_model import TopicState
from countveil.posterior.posterior import Posterior
from countveil.posterior.tree import FORMAT, VERSION


class PosteriorFileError(ValueError):
    """A folder that is not a complete run of countveil, or of a version this one cannot read."""


def save_posterior(posterior: Posterior, path: str | os.PathLike[str]) -> None:
    """Write to a temporary folder beside ``path`` and rename it: the run is complete or not there."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"path: expected a new folder, got {str(target)!r}, which exists")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: expected a folder to write into, got {str(target.parent)!r}")
    groups = {
        "/": posterior.tree.to_dataset(),
        **{f"/{name}": group.to_dataset() for name, group in posterior.tree.children.items()},
    }
    if posterior.release is not None:
        groups["/release"] = xr.Dataset({"parquet": (("byte",), _release_bytes(posterior.release))})
    groups["/"] = groups["/"].assign_attrs(complete=1)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        tree = xr.DataTree.from_dict(groups)
        tree.to_zarr(temporary, mode="w", consolidated=False, encoding=_one_chunk_per_draw(tree))
        temporary.replace(target)
    except OSError as error:
        raise OSError(error.errno, f"path: could not write {str(target)!r} ({error.strerror})") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_posterior(path: str | os.PathLike[str], model: Any = None, state_type: Any = None) -> Posterior:
    """A run that ``Posterior.save`` wrote.

    The run of a model of your own also needs that ``model`` and the NamedTuple class of its states.

    >>> import countveil as cv, tempfile
    >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=20, seed=1, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior.save(f"{folder}/run.zarr")
    ...     cv.load_posterior(f"{folder}/run.zarr").n_draws == posterior.n_draws
    True
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"path: expected the folder of a run, got {str(folder)!r}, which does not exist"
        )
    if not (folder / "zarr.json").is_file():
        raise PosteriorFileError(f"path: expected the folder of a run, got {str(folder)!r}, which is none")
    try:
        with xr.open_datatree(folder, engine="zarr", consolidated=False) as lazy:
            tree = lazy.load()
        attributes = tree.attrs
        _check(attributes, folder)
        settings = json.loads(attributes["settings"])
        axes, shape = (tuple(json.loads(attributes[name])) for name in ("axes", "shape"))
        labels = _labels(tree, axes, json.loads(attributes["labelled"]))
        release = _release(tree)
        model, state_type = _model(json.loads(attributes["model"]), model, state_type)
        return Posterior(tree, model, state_type, release, axes, shape, labels, settings["seed"])
    except (PosteriorFileError, MemoryError):
        raise
    except Exception as error:
        # Whatever zarr, xarray or json find wrong: the reader wants to hear that the run is damaged.
        kind = type(error).__name__
        raise PosteriorFileError(
            f"path: expected a whole run, got a damaged one in {str(folder)!r} ({kind})"
        ) from error


def _check(attributes: dict[Any, Any], folder: Path) -> None:
    if attributes.get("format") != FORMAT:
        raise PosteriorFileError(
            f"path: expected a run of countveil, got another Zarr folder in {str(folder)!r}"
        )
    if attributes["version"] > VERSION:
        found = attributes["version"]
        raise PosteriorFileError(
            f"path: expected format version {VERSION} or older, got {found}: update countveil"
        )
    if attributes.get("complete") != 1:
        raise PosteriorFileError(f"path: expected a complete run, got an unfinished one in {str(folder)!r}")


def _labels(tree: xr.DataTree, axes: tuple[str, ...], labelled: list[bool]) -> tuple[np.ndarray | None, ...]:
    found = tree["posterior"].coords
    return tuple(
        found[axis].to_numpy().astype(object) if has and axis in found else None
        for axis, has in zip(axes, labelled, strict=True)
    )


def _model(described: dict[str, Any], model: Any, state_type: Any) -> tuple[Any, Any]:
    if model is not None:
        return model, state_type
    if described["name"] == "TopicModel":
        return TopicModel(**described["settings"]), TopicState
    return None, None


def _release_bytes(release: PrivateCounts) -> np.ndarray:
    """The release file as it is: its own reader checks it again on the way back."""
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "release.parquet")
        return np.frombuffer((Path(folder) / "release.parquet").read_bytes(), dtype=np.uint8)


def _release(tree: xr.DataTree) -> PrivateCounts | None:
    if "release" not in tree.children:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "release.parquet"
        file.write_bytes(tree["release"]["parquet"].to_numpy().tobytes())
        return load_release(file)


def _one_chunk_per_draw(tree: xr.DataTree) -> dict[str, Any]:
    group = tree["posterior"]
    chunks = {name: {"chunks": (1, 1, *variable.shape[2:])} for name, variable in group.data_vars.items()}
    return {"/posterior": chunks}
