"""From the draws of a model of several views to its posterior: the tree of all factors, and one for every view."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from countveil.inference.draws import Draws
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.shared_data import ViewData
from countveil.inference.shared_monitor import scalars_of_view
from countveil.models.shared_factors import SharedFactors
from countveil.posterior.posterior import Posterior
from countveil.posterior.shared_order import SharedOrder
from countveil.posterior.shared_posterior import SharedPosterior
from countveil.posterior.tree import make_tree


class ViewFacts(NamedTuple):
    """What is known of one view's data, whether or not the data are at hand."""

    data: ViewData | None
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    labels: tuple[np.ndarray | None, ...]
    guarantee: str | None


def facts_of(data: ViewData) -> ViewFacts:
    """The facts of data at hand."""
    promised = None if isinstance(data, PlainCounts) else data.guarantee
    guarantee = None if promised is None else str(promised)
    return ViewFacts(data, data.axes, data.shape, data.labels, guarantee)


def shared_posterior(draws: Draws, model: SharedFactors, facts: Mapping[str, ViewFacts]) -> SharedPosterior:
    """The posterior of all views; their draws are those of the whole, not copies."""
    guarantees = "; ".join(f"{view}: {one.guarantee}" for view, one in facts.items() if one.guarantee)
    tree = make_tree(draws, model, *_axes(model, facts), guarantees)
    dims = dict(zip(model.axes, json.loads(tree.attrs["dims"]), strict=True))
    tree.attrs["views"] = json.dumps(
        {
            view: {
                "axes": list(one.axes),
                "shape": list(one.shape),
                "dims": [dims[model.index_of(view, c)] for c in model.views[view]._spec.output],
                "labelled": [each is not None for each in one.labels],
                "guarantee": one.guarantee or "",
            }
            for view, one in facts.items()
        }
    )
    return SharedPosterior(tree, model, model.state_type, view_posteriors(draws, model, facts))


def view_posteriors(
    draws: Draws, model: SharedFactors, facts: Mapping[str, ViewFacts]
) -> dict[str, Posterior]:
    """An ordinary posterior of every view; their components have one order."""
    found = {}
    order = SharedOrder(model, draws.states)
    for view, one in facts.items():
        own = model.views[view]
        part = draws._replace(
            states={name: draws.states[name] for name in own.state_type._fields},
            monitored=scalars_of_view(draws.monitored, view),
            state_type=own.state_type,
        )
        tree = make_tree(part, own, one.axes, one.shape, one.labels, one.guarantee)
        found[view] = Posterior(
            tree, own, own.state_type, one.data, one.axes, one.shape, one.labels, draws.settings.seed,
            order=partial(order.of, view),
        )  # fmt: skip
    return found


def _axes(
    model: SharedFactors, facts: Mapping[str, ViewFacts]
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[np.ndarray | None, ...]]:
    """Names, lengths and labels of the different axes of all views; a name that is taken gets its view's name."""
    names: list[str] = []
    shape, labels = [], []
    for index in model.axes:
        places = [(view, model.views[view]._spec.output.index(letter)) for view, letter in index.letters]
        view, axis = places[0]
        name = facts[view].axes[axis]
        if name in names:
            name = f"{view}_{name}"
        while name in names:
            name += "_"
        names.append(name)
        shape.append(facts[view].shape[axis])
        known = (facts[view].labels[axis] for view, axis in places)
        labels.append(next((each for each in known if each is not None), None))
    return tuple(names), tuple(shape), tuple(labels)
