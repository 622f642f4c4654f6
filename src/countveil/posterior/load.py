"""Posteriors again, from the folders of their runs."""

from __future__ import annotations

import json
import os
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from countveil.counts import PrivateCounts
from countveil.inference.problem import Counts, at_alpha
from countveil.inference.settings import stored_settings
from countveil.inference.store import Draws
from countveil.models.shared_factors import SharedFactors
from countveil.posterior.posterior import Posterior
from countveil.posterior.runs.checks.problem import check_read, keeps_all, model_of
from countveil.posterior.runs.packed_release import size_on_disk
from countveil.posterior.runs.reader import (
    StoredRun,
    checked_folder,
    damage_is_told,
    damaged,
    mark_of_run,
    mark_of_tree,
    read_run,
    stored_labels,
)
from countveil.posterior.shared import SharedPosterior, ViewFacts, view_posteriors


def load_posterior(
    path: str | os.PathLike[str], model: Any = None, *, state_type: Any = None
) -> Posterior | SharedPosterior:
    """A run that ``Posterior.save`` or ``fit(..., store=)`` wrote; a ``SharedPosterior`` if it has several views.

    Of a run that is unfinished, perhaps still growing, come the draws up to its last checkpoint, with a warning.
    The run of a model of your own needs that ``model`` again, wherever rates are asked for. Its states come as
    a named tuple with the same fields, or as your ``state_type`` if that has methods of its own.

    >>> import countveil as cv, tempfile
    >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=20, seed=1, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior.save(f"{folder}/run.zarr")
    ...     cv.load_posterior(f"{folder}/run.zarr")
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 2 draws)
    """
    run = read_run(path)
    with damage_is_told(Path(path)):
        own = model_of(run.model, model, run.tree, run.attributes)
    try:
        check_read(run.tree, run.attributes, run.releases, own, size_on_disk(Path(path)))
    except MemoryError:
        raise
    except Exception as error:  # also what it says of data: they are those of the run
        raise damaged(Path(path), error) from error
    with damage_is_told(Path(path)):
        posterior = _posterior_of(run, own, state_type)
    posterior.path = Path(path).absolute()
    with damage_is_told(posterior.path):
        posterior.mark = (run.tree["sample_stats"].sizes["draw"], mark_of_tree(run.tree))
    return posterior


def check_mark(path: Path, n: int, mark: bytes) -> None:
    """Refuse a run that has taken the place of the one whose first n draws had this mark."""
    if mark_of_run(checked_folder(path), n) != mark:
        raise ValueError(
            f"path: expected the run that was fitted, got another one in {str(path)!r}: it was replaced meanwhile"
        )


def _posterior_of(run: StoredRun, own: Any, state_type: Any) -> Posterior | SharedPosterior:
    if "views" in run.tree.attrs:
        data = {view: run.releases.get(f"release_{view}") for view in own.views}
        return SharedPosterior(run.tree, own, own.state_type, views_of(own, data, run.tree))
    if state_type is None:
        # Of a model of the user's own the fields of the run are known, unless it has not kept all.
        known = own if run.model is not None or not keeps_all(run.attributes) else None
        state_type = namedtuple("State", run.attributes["fields"]) if known is None else known.state_type
    release: Any = run.releases.get("release") or run.elsewhere.get("release")
    if run.attributes["problem"].get("unknown_noise") is not None and isinstance(release, PrivateCounts):
        # A run that grew holds the release as it came; a posterior has the alpha that was found.
        release = at_alpha(release, float(run.tree["posterior"]["alpha"].to_numpy().mean()))
    return Posterior(
        run.tree,
        own,
        state_type,
        release,
        tuple(run.attributes["axes"]),
        tuple(run.attributes["shape"]),
        run.labels,
        run.attributes["settings"]["seed"],
    )


def views_of(
    model: SharedFactors, data: Mapping[str, Counts | None], tree: xr.DataTree
) -> dict[str, Posterior]:
    """An ordinary posterior of every view of a run, with its data if they are at hand."""
    views, fields = json.loads(tree.attrs["views"]), json.loads(tree.attrs["fields"])
    settings = json.loads(tree.attrs["settings"])
    scalars = json.loads(tree.attrs["scalars"])
    draws = Draws(
        {name: tree["posterior"][name].to_numpy() for name in fields},
        {name: tree["sample_stats"][name].to_numpy() for name in scalars},
        model.state_type,
        stored_settings(settings),
        settings["seconds"],
        settings.get("stopped", "interrupt" if settings["interrupted"] else "sweeps"),
    )
    facts = {
        view: ViewFacts(
            data[view],
            tuple(one["axes"]),
            tuple(one["shape"]),
            stored_labels(tree, one["dims"], one["labelled"]),
            one["guarantee"] or None,
        )
        for view, one in views.items()
    }
    return view_posteriors(draws, model, facts, tree)
