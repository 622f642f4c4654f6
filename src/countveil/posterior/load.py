"""Posteriors again, from the folders of their runs."""

from __future__ import annotations

import json
import os
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.problem import Counts, at_alpha
from countveil.inference.settings import stored_settings
from countveil.inference.store import Draws
from countveil.models.einsum.model import EinsumModel
from countveil.models.shared_factors import SharedFactors
from countveil.posterior.posterior import Posterior
from countveil.posterior.runs.reader import damaged, read_run, stored_labels
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
    if "views" in run.tree.attrs:
        shared = _of_views(run.tree, model if run.model is None else run.model, run.releases)
        for one in shared.values():
            _check_draws(one, path)
        shared.path = Path(path)
        return shared
    fields = run.attributes["fields"]
    kept_all = run.attributes["settings"].get("keep", "all") == "all"
    if run.model is None and model is not None:
        _check_model(model, run.attributes["model"]["name"], fields, kept_all)
    if state_type is None:
        known = (
            run.model if run.model is not None or kept_all else model
        )  # its fields are not those of the run
        state_type = namedtuple("State", fields) if known is None else known.state_type
    release = run.releases.get("release")
    if run.attributes["problem"].get("unknown_noise") is not None and isinstance(release, PrivateCounts):
        # A run that grew holds the release as it came; a posterior has the alpha that was found.
        release = at_alpha(release, float(run.tree["posterior"]["alpha"].to_numpy().mean()))
    posterior = Posterior(
        run.tree,
        model if run.model is None else run.model,
        state_type,
        release,
        tuple(run.attributes["axes"]),
        tuple(run.attributes["shape"]),
        run.labels,
        run.attributes["settings"]["seed"],
    )
    _check_draws(posterior, path)
    posterior.path = Path(path)
    return posterior


def _check_draws(posterior: Posterior, path: str | os.PathLike[str]) -> None:
    """Draws of a model of ours have the sizes that it and the shape of its data say: compiled code rests on it."""
    model, shape, fields = posterior.model, posterior._shape, posterior.tree["posterior"].data_vars
    if not isinstance(model, EinsumModel):
        return
    try:
        spec, dims = model._spec, model.dims
        sizes = {**model._sizes, **dict(zip(spec.output, model.check_shape(shape), strict=True))}
        lengths = {dim: len(labels) for dim, labels in getattr(model, "coordinates", {}).items()}
        for name in spec.factors:
            lengths |= {dim: sizes[c] for dim, c in zip(dims[name], spec.term(name), strict=True)}
        for name in dims.keys() & fields.keys():
            if fields[name].shape[2:] != tuple(lengths[dim] for dim in dims[name]):
                raise ValueError("draws of another size")
    except (ValueError, LookupError) as error:
        raise damaged(Path(path), error) from error


def _of_views(
    tree: xr.DataTree, model: Any, releases: Mapping[str, PrivateCounts | CombinedReleases]
) -> SharedPosterior:
    """The run of a ``SharedFactors``; one that has fixed factors needs its ``model`` again."""
    views, fields = json.loads(tree.attrs["views"]), json.loads(tree.attrs["fields"])
    if (
        not isinstance(model, SharedFactors)
        or list(model.views) != list(views)
        or list(model.state_type._fields) != fields
    ):
        raise ValueError(
            f"model: expected the SharedFactors of this run (views {', '.join(views)}; factors "
            f"{', '.join(fields)}), got {'none' if model is None else repr(model)}"
        )
    data = {view: releases.get(f"release_{view}") for view in views}
    return SharedPosterior(tree, model, model.state_type, views_of(model, data, tree))


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
    return view_posteriors(draws, model, facts)


def _check_model(model: Any, name: str, fields: list[str], kept_all: bool) -> None:
    dims = set(getattr(model, "dims", ()))
    # Where not all draws were kept, sums of rows may stand for their factor.
    same = dims == set(fields) if kept_all else len(set(fields) - dims) <= 1
    if not same:
        raise ValueError(
            f"model: expected the {name} of this run, whose state has {', '.join(fields)}, "
            f"got a {type(model).__name__}"
        )
