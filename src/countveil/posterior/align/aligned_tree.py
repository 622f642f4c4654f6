"""All draws in one order: what stands at a place of a topic means the same in every draw and every chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from countveil.posterior.align import ALIGNERS, aligned_as
from countveil.posterior.align.matching import Alignment

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.shared import SharedPosterior

#: What an aligned tree says of itself; it is no run, and says not that it is one.
_KEPT = ("settings", "model", "guarantee")


def aligned_tree(posterior: Posterior) -> xr.DataTree:
    """The draws of one array's model."""
    model = posterior.model
    posterior._with_model("aligned")
    kinds = aligned_as(model)
    if not kinds:
        form = f" {model.spec!r}" if hasattr(model, "spec") else ""
        raise TypeError(
            "aligned: expected the posterior of a TopicModel, CommunityModel or TensorModel, or of a Factorization "
            f"with a factor for each axis and one summed index, got {type(model).__name__}{form}"
        )
    if posterior._running is not None:
        keep = posterior.settings["keep"]
        raise ValueError(
            f"keep: expected a fit with keep='all', whose draws aligned needs, got keep={keep!r}"
        )
    return in_places(posterior.tree, posterior._aligned("aligned", kinds[0]).places(model))


def aligned_shared_tree(posterior: SharedPosterior) -> xr.DataTree:
    """The draws of all views: an index that they share has one order."""
    model, places = posterior.model, {}
    for view, own in model.views.items():
        kinds = aligned_as(own)
        letter = ALIGNERS[kinds[0]].summed_index(own) if kinds else None
        if letter is None:
            raise TypeError(
                f"aligned: expected views with one summed index that joins a factor for each axis, got {view!r}, a "
                f"{type(own).__name__}; a view by itself: posterior[{view!r}].aligned()"
            )
        dim = model._dim_names[model.index_of(view, letter)]
        alignment = posterior[view]._aligned("aligned", kinds[0]).alignment
        places[dim] = places[f"to_{dim}"] = alignment
    return in_places(posterior.tree, places)


def in_places(tree: xr.DataTree, places: Mapping[str, Alignment]) -> xr.DataTree:
    """The same draws with the places of these dimensions in order, draw by draw.

    The first of them has the coordinate ``agreement``, further ones ``agreement_`` and their name.
    """
    draws = tree["posterior"].to_dataset()
    sizes = draws.sizes["chain"], draws.sizes["draw"]
    fields = {}
    for name, field in draws.data_vars.items():
        values = field.to_numpy()
        for axis, dim in enumerate(field.dims):
            if dim in places:
                shape = (*sizes, *(-1 if other == axis else 1 for other in range(2, field.ndim)))
                values = np.take_along_axis(values, places[str(dim)].order.reshape(shape), axis=axis)
        fields[name] = (field.dims, values, field.attrs)
    agreements: dict[str, tuple[str, np.ndarray]] = {}
    seen: list[Alignment] = []
    for dim, one in places.items():
        if dim in draws.dims and not any(one is other for other in seen):
            seen.append(one)
            agreements[f"agreement_{dim}" if agreements else "agreement"] = (dim, one.agreement)
    groups = {
        "/": xr.Dataset(attrs={name: tree.attrs[name] for name in _KEPT if name in tree.attrs}),
        "/posterior": xr.Dataset(fields, {**draws.coords, **agreements}, draws.attrs),
        "/sample_stats": tree["sample_stats"].to_dataset(),
    }
    return xr.DataTree.from_dict(groups)
