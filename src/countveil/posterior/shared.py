"""SharedPosterior: what several arrays have said about the factors they share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts.shown_text import visible
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.inference.monitor import scalars_of_view
from countveil.inference.problem import Counts
from countveil.inference.store import Draws
from countveil.models.shared_factors import SharedFactors
from countveil.posterior.align.aligned_tree import aligned_shared_tree
from countveil.posterior.align.shared_order import SharedOrder
from countveil.posterior.diagnostics.select import (
    checked_numbers,
    described_sizes,
    numbered_as,
    with_burn_in,
    with_chains,
)
from countveil.posterior.diagnostics.summary import Summary, check_interval, summarize, watched
from countveil.posterior.diagnostics.verdict import with_verdict
from countveil.posterior.posterior import Posterior
from countveil.posterior.runs.schema import make_tree
from countveil.posterior.runs.writer import save_run
from countveil.posterior.states import KeptDraws, KeptStates


class SharedPosterior(KeptDraws, Mapping[str, Posterior]):
    """The posterior of a ``SharedFactors`` model: a mapping from its views to an ordinary ``Posterior`` of each.

    ``tree`` is an xarray DataTree in ArviZ's schema with all factors, each once. An axis or summed index that views
    share is one dimension there, named as in the first of them. Topics and components of the views are in one
    order: topic 0 of the words is topic 0 of the authors.

    Examples
    --------
    >>> import countveil as cv
    >>> model = cv.SharedFactors(
    ...     words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
    ...     authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2),
    ... )
    >>> words = cv.simulate_release([[9, 0, 0], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1)
    >>> posterior = cv.fit(model, {"words": words, "authors": [[1, 0], [0, 1], [1, 0]]}, sweeps=100, seed=1,
    ...                    progress=False)
    >>> posterior
    SharedPosterior(words 3 x 3, authors 3 x 2, 2 chains x 10 draws)
    >>> list(posterior), posterior["words"].release == words
    (['words', 'authors'], True)
    >>> posterior["authors"].rates().shape, posterior.tree["posterior"]["theta"].shape
    ((3, 2), (2, 10, 3, 2))
    >>> posterior["words"].topics(1).top_words().shape, posterior["authors"].memberships([0])["mean"].shape
    ((2, 1), (1, 2))
    >>> posterior.summary(n_rates=1).index.tolist()[4:]
    ['log_joint', 'words: rate[0, 0]', 'authors: rate[0, 0]']
    >>> posterior.n_draws, posterior.settings["seed"], next(posterior.states()).psi.shape
    (20, 1, (2, 2))
    """

    def __init__(
        self,
        tree: xr.DataTree | Callable[[], xr.DataTree],
        model: Any,
        state_type: Any,
        views: Mapping[str, Posterior] | Callable[[xr.DataTree], Mapping[str, Posterior]],
    ) -> None:
        if isinstance(tree, xr.DataTree):
            self.tree = tree
        else:
            self._read_tree = tree
        self.model = model
        self._state_type = state_type
        self._given_views = views

    @cached_property
    def _views(self) -> Mapping[str, Posterior]:
        return self._given_views(self.tree) if callable(self._given_views) else dict(self._given_views)

    def __getitem__(self, view: str) -> Posterior:
        if view not in self._views:
            raise KeyError(f"view: expected one of {', '.join(self._views)}, got {view!r}")
        return self._views[view]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def chains(self, chains: Iterable[int]) -> SharedPosterior:
        """The same with some of its chains alone, by their numbers, in every view; see ``Posterior.chains``.

        Examples
        --------
        >>> import countveil as cv
        >>> model = cv.SharedFactors(words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
        ...                          authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2))
        >>> data = {"words": [[9, 0], [0, 8]], "authors": [[3, 0], [0, 2]]}
        >>> posterior = cv.fit(model, data, sweeps=40, thin=2, chains=3, seed=1, progress=False)
        >>> posterior.chains([0, 2])
        SharedPosterior(words 2 x 2, authors 2 x 2, 2 of 3 chains (selected) x 10 draws)
        >>> posterior.chains([0, 2])["authors"].n_draws
        20
        """
        numbers = checked_numbers(chains, self.tree)
        return self._with_tree(with_chains(self.tree, numbers), lambda one: one.chains(numbers))

    def with_burn_in(self, burn_in: int) -> SharedPosterior:
        """The same with the draws after sweep ``burn_in`` alone, in every view; see ``Posterior.with_burn_in``."""
        return self._with_tree(with_burn_in(self.tree, burn_in), lambda one: one.with_burn_in(burn_in))

    def _with_tree(self, tree: xr.DataTree, of_view: Callable[[Posterior], Posterior]) -> SharedPosterior:
        states = {name: tree["posterior"][name].to_numpy() for name in self._state_type._fields}
        order = SharedOrder(self.model, states)  # of these draws
        views = {}
        for view, one in self._views.items():
            views[view] = of_view(one)
            views[view]._shared_order = partial(order.of, view)
        return SharedPosterior(tree, self.model, self._state_type, views)

    def summary(self, n_rates: int = 10, *, interval: float = 0.9) -> Summary:
        """Convergence and precision, as ``Posterior.summary``: all scalars, and ``n_rates`` rates of every view."""
        interval = check_interval(interval)
        stats = self.tree["sample_stats"].data_vars.items()
        parts = [summarize({str(name): values.to_numpy() for name, values in stats}, interval)]
        for view, posterior in self._views.items():
            found = summarize(watched(posterior, n_rates), interval)
            found = found[found.index.str.startswith("rate[")]
            parts.append(found.rename(index=lambda name, view=view: f"{view}: {name}"))
        return with_verdict(pd.concat(parts), self)

    def aligned(self) -> xr.DataTree:
        """``tree`` with the components of all views in one order, as ``Posterior.aligned``.

        Examples
        --------
        >>> import countveil as cv
        >>> model = cv.SharedFactors(
        ...     words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
        ...     authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2),
        ... )
        >>> data = {"words": [[9, 0, 0], [0, 8, 7]], "authors": [[1, 0], [0, 1]]}
        >>> posterior = cv.fit(model, data, sweeps=20, seed=1, progress=False)
        >>> posterior.aligned()["posterior"]["phi"].dims
        ('chain', 'draw', 'k', 'column')
        """
        return aligned_shared_tree(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new Zarr folder in ArviZ's schema; ``load_posterior`` and arviz read it.

        The releases go with it. Plain counts do not: a run file never holds true counts.
        """
        releases = {
            f"release_{view}": posterior.release
            for view, posterior in self._views.items()
            if posterior.release is not None
        }
        save_run(self.tree, releases, path)

    def __repr__(self) -> str:
        sizes = [f"{visible(view)} {' x '.join(map(str, one._shape))}" for view, one in self._views.items()]
        return f"SharedPosterior({', '.join([*sizes, described_sizes(self.tree)])})"

    @property
    def _kept(self) -> KeptStates:
        return KeptStates(self.tree["posterior"].to_dataset(), self._state_type, self.model, ())


class ViewFacts(NamedTuple):
    """What is known of one view's data, whether or not the data are at hand."""

    data: Counts | None
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    labels: tuple[np.ndarray | None, ...]
    guarantee: str | None


def facts_of(data: Counts) -> ViewFacts:
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
    return SharedPosterior(tree, model, model.state_type, view_posteriors(draws, model, facts, tree))


def view_posteriors(
    draws: Draws, model: SharedFactors, facts: Mapping[str, ViewFacts], whole: xr.DataTree
) -> dict[str, Posterior]:
    """An ordinary posterior of every view of the whole; their components have one order."""
    found = {}
    order = SharedOrder(model, draws.states)
    for view, one in facts.items():
        own = model.view_model(view)
        part = draws._replace(
            states={name: draws.states[name] for name in own.state_type._fields},
            monitored=scalars_of_view(draws.monitored, view),
            state_type=own.state_type,
        )
        tree = numbered_as(make_tree(part, own, one.axes, one.shape, one.labels, one.guarantee), whole)
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
