"""What of a state may be averaged over draws, once its components are in one order.

Factors trade scale (theta_.k * s with phi_k. / s), so that the mean of a factor's entries says nothing by itself.
These do not depend on it: every component's distribution over an axis, f_vk / F_k with F_k = sum_v f_vk; its share
in all expected counts, the product of F_k over all axes; a row's shares of the components, theta_dk times that
product over the other axes, over their sum; and the scales of an axis over their geometric mean. Of communities see
``communities``.

Sums over rows are exact sums (``kernels.exact_sum``), others are formed in one order, without BLAS: every bit comes
again after a kill, and where rows are spread over shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from countveil.kernels.exact_sum import exact_sums, signed_sum
from countveil.posterior.align import aligned_as
from countveil.posterior.align.communities import community_blocks, community_draws, community_traffic
from countveil.posterior.align.matching import shares_of
from countveil.posterior.scales import scale_draws, scales_name
from countveil.runtime.workers import Workers


class Quantity(NamedTuple):
    """Numbers over axes of the data, by their places, and components, by the names of their dimensions."""

    values: np.ndarray
    dims: tuple[int | str, ...]


class Invariants(NamedTuple):
    """Of one state, its components in any order."""

    matched: np.ndarray  # (components, ...): weights on which components are matched between draws
    averaged: Mapping[str, Quantity]
    kept: Mapping[str, np.ndarray]  # fields of which draws are kept, and what stands for others
    dims: Mapping[str, tuple[int | str, ...]]  # of what stands for others


def check_averaged(model: Any, keep: str) -> None:
    """An error for models whose draws cannot be averaged as they come."""
    kind = f"a {type(model).__name__}"
    if "communities" in aligned_as(model):
        if keep == "columns":
            raise ValueError(
                f"keep: expected 'all' or 'summaries' for {kind}, whose columns are its rows, got {keep!r}"
            )
    elif not aligned_as(model) or model._spec.per_axis is None:
        raise ValueError(
            "keep: expected 'all' for a model that is neither a TopicModel, a CommunityModel, a TensorModel of a "
            "rank, nor a Factorization with a factor for each axis and one summed index: how to average its draws "
            f"is not known; got {keep!r} for {kind}"
        )


def invariants_of(model: Any, state: Any, keep: str, everyone: Workers) -> Invariants:
    """Of a state of such a model: with ``keep="columns"`` of its rows, with ``keep="summaries"`` of all axes.

    ``everyone`` knows of rows that are elsewhere.
    """
    if "communities" in aligned_as(model):
        return _of_communities(model, state)
    return _of_factors(model, state, keep, everyone)


def row_sum_name(model: Any) -> str:
    """The name of the sums of the rows' factor, Theta_k: its draws stand for those of the factor."""
    name = f"{model._spec.per_axis[0]}_sum"
    while name in model.state_type._fields:
        name += "_"
    return name


def weights_name(factor: str) -> str:
    """Of the components as distributions over the axis of this factor."""
    return f"{factor}_weights"


def component_dim(model: Any) -> str:
    """The name of the dimension of components, as the state has it."""
    name = model._spec.per_axis[0]
    return model.dims[name][model._spec.term(name).index(model._spec.latent)]


def _of_factors(model: Any, state: Any, keep: str, everyone: Workers) -> Invariants:
    names, kinds, component = model._spec.per_axis, aligned_as(model), component_dim(model)
    rows, *others = model.axis_factors(state)  # each (axis, component), in rows
    sums = [exact_sums(np.ascontiguousarray(rows), everyone), *(factor.sum(axis=0) for factor in others)]
    weights = [shares_of(np.ascontiguousarray(factor.T)) for factor in others]
    averaged: dict[str, Quantity] = {}
    if "topics" in kinds:
        shares = shares_of(rows * np.prod(sums[1:], axis=0))
        averaged["memberships"] = Quantity(shares, (0, component))
    if "components" in kinds:
        shares = rows.T / np.maximum(sums[0], np.finfo(np.float64).tiny)[:, None]
        averaged[weights_name(names[0])] = Quantity(shares, (component, 0))
    axes = range(len(names)) if keep == "summaries" else range(1)
    averaged |= _scales(model, state, axes, everyone)
    row = model.output_dims[0]
    dims = {name: model.dims[name] for name in state._fields}
    matched = np.concatenate(weights, axis=1)
    if keep == "columns":
        kept = {name: getattr(state, name) for name in state._fields if row not in dims[name]}
        added = row_sum_name(model)
        return Invariants(matched, averaged, {**kept, added: sums[0]}, {added: (component,)})
    for axis in axes[1:]:
        averaged[weights_name(names[axis])] = Quantity(weights[axis - 1], (component, axis))
    averaged["share"] = Quantity(shares_of(np.prod(sums, axis=0)), (component,))
    return Invariants(matched, averaged, _numbers(state, dims), {})


def _of_communities(model: Any, state: Any) -> Invariants:
    fields = {name: np.ascontiguousarray(getattr(state, name))[None, None] for name in model._spec.factors}
    theta, pi, receiving = community_draws(model, fields)
    given = (theta, pi, model.directed, model.self_loops, receiving, _product)
    traffic, blocks = community_traffic(*given)[0], community_blocks(*given)[0]
    averaged = {
        "memberships": Quantity(shares_of(traffic), (0, "community")),
        "blocks": Quantity(blocks, ("community", "to_community")),
        "share": Quantity(shares_of(traffic.sum(axis=0)), ("community",)),
        **_scales(model, state, range(2), Workers(1)),
    }
    dims = {name: model.dims[name] for name in state._fields}
    return Invariants(np.ascontiguousarray(traffic.T), averaged, _numbers(state, dims), {})


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.einsum("...ij,...jk->...ik", one, other, optimize=False)


def _scales(model: Any, state: Any, axes: range, everyone: Workers) -> dict[str, Quantity]:
    """Scales over their geometric mean (``posterior.scales.relative_scales``)."""
    fields = {name: np.asarray(value)[None, None] for name, value in state._asdict().items()}
    found: dict[str, Quantity] = {}
    for axis in axes:
        draws = scale_draws(model, fields, model._spec.output[axis])
        if draws is not None:
            logs, who = np.log(draws[0]), everyone if axis == 0 else Workers(1)
            mean = signed_sum(logs, who) / who.number(len(logs))
            found[scales_name(axis)] = Quantity(np.exp(logs - mean), (axis,))
    return found


def _numbers(state: Any, dims: Mapping[str, tuple[str, ...]]) -> dict[str, np.ndarray]:
    """The fields that are single numbers."""
    return {name: getattr(state, name) for name in state._fields if not dims[name]}
