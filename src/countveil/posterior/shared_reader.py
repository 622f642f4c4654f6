"""The posterior of several views again, from the tree of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.draws import Draws
from countveil.inference.settings import Settings
from countveil.models.shared_factors import SharedFactors
from countveil.posterior.shared_posterior import SharedPosterior
from countveil.posterior.shared_tree import ViewFacts, view_posteriors


def reopened(
    tree: xr.DataTree, model: Any, releases: Mapping[str, PrivateCounts | CombinedReleases]
) -> SharedPosterior:
    """The run of a ``SharedFactors``; one that has fixed factors needs its ``model`` again."""
    views, fields = json.loads(tree.attrs["views"]), json.loads(tree.attrs["fields"])
    if (
        not isinstance(model, SharedFactors)
        or list(model.views) != list(views)
        or list(model.factors) != fields
    ):
        raise ValueError(
            f"model: expected the SharedFactors of this run (views {', '.join(views)}; factors "
            f"{', '.join(fields)}), got {'none' if model is None else repr(model)}"
        )
    settings = json.loads(tree.attrs["settings"])
    seconds, interrupted = settings.pop("seconds"), settings.pop("interrupted")
    scalars = json.loads(tree.attrs["scalars"])
    draws = Draws(
        {name: tree["posterior"][name].to_numpy() for name in fields},
        {name: tree["sample_stats"][name].to_numpy() for name in scalars},
        model.state_type,
        Settings(**settings),
        seconds,
        interrupted,
    )
    facts = {
        view: ViewFacts(
            releases.get(f"release_{view}"),
            tuple(one["axes"]),
            tuple(one["shape"]),
            stored_labels(tree, one["dims"], one["labelled"]),
            one["guarantee"] or None,
        )
        for view, one in views.items()
    }
    return SharedPosterior(tree, model, model.state_type, view_posteriors(draws, model, facts))


def stored_labels(tree: xr.DataTree, dims: list[str], labelled: list[bool]) -> tuple[np.ndarray | None, ...]:
    """The labels of every axis that had some."""
    found = tree["posterior"].coords
    return tuple(found[dim].to_numpy() if has else None for dim, has in zip(dims, labelled, strict=True))
