"""Posterior: draws + model + data, and the questions people ask of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.shown_text import visible
from countveil.inference.problem import at_alpha
from countveil.models.count_model import whole_number
from countveil.posterior.align.aligned_tree import aligned_tree
from countveil.posterior.align.components import Components
from countveil.posterior.align.memberships import memberships_of
from countveil.posterior.align.topics import Topics
from countveil.posterior.count_draws.predictive_tree import predictive_blocks, predictive_tree
from countveil.posterior.count_draws.true_counts import labelled_counts
from countveil.posterior.diagnostics.modes import warn_of_modes
from countveil.posterior.diagnostics.select import (
    checked_numbers,
    described_sizes,
    order_of_chosen,
    say_selection,
    with_burn_in,
    with_chains,
)
from countveil.posterior.diagnostics.summary import Summary, check_interval, summarize, watched
from countveil.posterior.diagnostics.verdict import with_verdict
from countveil.posterior.export import to_graph, to_table
from countveil.posterior.prevalence import Prevalence, prevalence_of
from countveil.posterior.problem_draws import ProblemDraws
from countveil.posterior.rates import mean_rate_blocks, mean_rates, rate_draw_blocks
from countveil.posterior.runs.writer import save_run
from countveil.posterior.scales import Totals, scales_of, totals_of


class Posterior(ProblemDraws):
    """What a fit has learnt: the posterior of the model given the release, as kept draws.

    ``tree`` is an xarray DataTree in ArviZ's schema (``posterior``, ``sample_stats``), for any further analysis.
    Its draws are as they came, topics in any order; ``topics()`` and ``memberships()`` align them.

    Rows and columns are chosen by position, label, slice or boolean mask; None means all of them.

    Examples
    --------
    >>> import countveil as cv
    >>> release = cv.simulate_release([[9, 0, 0], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1,
    ...                               labels={"letter": ["a", "b", "c"], "word": ["oil", "gas", "power"]})
    >>> posterior = cv.fit(cv.TopicModel(2), release, sweeps=100, seed=1, progress=False)
    >>> posterior
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 3 x 3, 2 chains x 10 draws)
    >>> posterior.n_draws, posterior.release == release, next(posterior.states()).theta.shape
    (20, True, (3, 2))
    >>> posterior.rates(rows=["a"], columns=slice(2)).sizes
    Frozen({'letter': 1, 'word': 2})
    >>> [(rows, block.shape) for rows, block in posterior.iter_rate_draws()]
    [(slice(0, 3, None), (20, 3, 3))]
    >>> posterior.topics(2).top_words().shape
    (2, 2)
    >>> sorted(posterior.memberships("a"))
    ['high', 'low', 'mean']
    >>> sorted(posterior.true_counts("a", "oil"))
    ['high', 'low', 'mean', 'positive']
    >>> posterior.summary(n_rates=1).index.tolist()
    ['sampled_log_likelihood', 'total_rate', 'log_joint', 'rate[a, oil]']
    >>> posterior.to_dataframe("rates").columns.tolist()
    ['letter', 'word', 'rate']
    """

    @property
    def release(self) -> PrivateCounts | CombinedReleases | None:
        """The release that was fitted, if it was one (or several of the same counts, combined)."""
        return self._data if isinstance(self._data, PrivateCounts | CombinedReleases) else None

    def rates(self, rows: Any = None, columns: Any = None) -> xr.DataArray:
        """Posterior mean of the Poisson rates of the chosen cells, as a labelled array of at most 1 GB.

        Beyond two axes ``columns`` is a tuple of choices, one for each further axis. Cells that the model leaves
        out (the diagonal of a network without self-loops) have rate 0; a pair of an undirected network has one
        rate, above the diagonal and below.
        """
        self._with_model("rates")
        warn_of_modes(self, "rates")
        return say_selection(self.tree, mean_rates(self, rows, columns))

    def iter_rates(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Posterior mean rates of all cells, block by block of rows: (slice of rows, array)."""
        return mean_rate_blocks(self)

    def iter_rate_draws(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Rates of all cells in every kept draw, block by block of rows: (slice, (draws, rows, ...))."""
        return rate_draw_blocks(self)

    def topics(self, n_words: int = 10, *, interval: float = 0.9) -> Topics:
        """Topics, most prevalent first: their words with intervals, and how well the draws agree on them.

        Of a ``TopicModel``, or a ``Factorization`` of its form: two axes, a factor for each, one summed index.
        Views of a ``SharedFactors`` have their topics in one order, those with the most counts in all of them
        first; a fixed factor leaves them in its own.
        """
        n_words = whole_number("n_words", n_words, 1)
        interval = check_interval(interval)
        topics = self._aligned("topics", "topics").topics(n_words, interval, self._axis_labels(1))
        say_selection(self.tree, topics.weights)
        return topics

    def memberships(self, rows: Any = None, *, interval: float = 0.9) -> xr.Dataset:
        """Each row's shares of the topics (the topics in the order of ``topics()``), with intervals.

        Of a community model: each actor's shares of the communities, in the order of ``blocks()``. A fit that kept
        no draws of rows (``keep=``) has standard deviations, ``sd``, in place of intervals.

        Where the data say little about single rows their means are pulled together. Of topics the attribute
        ``pooling`` says how much of the spread between rows is lost so (see docs/groups.md); more than a half is
        a warning.
        """
        return say_selection(self.tree, memberships_of(self, rows, check_interval(interval)))

    def prevalence(self, by: str = "group", *, interval: float = 0.9) -> Prevalence:
        """Of a ``TopicModel`` with groups of rows: the share of every topic in every group, with intervals.

        ``differences()`` of the result compares groups. Rows without a group are not part of it.

        Examples
        --------
        >>> import countveil as cv
        >>> counts = [[90, 60, 0, 3], [80, 70, 9, 0], [4, 0, 90, 10], [0, 9, 80, 20]]
        >>> model = cv.TopicModel(2, groups=["old", "old", "new", "new"])
        >>> posterior = cv.fit(model, counts, sweeps=400, seed=1, progress=False)
        >>> posterior.prevalence().differences(minus="old").columns.tolist()
        ['topic', 'group', 'minus', 'mean', 'low', 'high', 'positive']
        """
        return prevalence_of(self, by, check_interval(interval))

    def blocks(self, *, interval: float = 0.9) -> xr.Dataset:
        """Communities, largest first: expected counts from each to each, with intervals.

        The pairs of actors that are part of the model are counted, each once. ``[c, d]`` of a directed network are
        the counts from c to d: all entries together are the total rate. Of an undirected one ``[c, d]`` and
        ``[d, c]`` are the same, all counts between c and d: the diagonal and what is above it, c <= d, are the
        total rate together.

        ``agreement`` says how alike a community is in two different draws (1 = the same, 0 = no common actor).

        Examples
        --------
        >>> import numpy as np
        >>> import countveil as cv
        >>> group = np.repeat([0, 1], 5)
        >>> pairs = np.triu(20 * (group[:, None] == group), 1)  # ten pairs in each of two groups, 400 counts
        >>> model = cv.CommunityModel(2, directed=False)
        >>> posterior = cv.fit(model, pairs, sweeps=600, seed=1, progress=False)
        >>> blocks = posterior.blocks()["mean"].to_numpy()
        >>> bool(blocks[0, 1] == blocks[1, 0]), bool((abs(np.diag(blocks) - 200) < 30).all())
        (True, True)
        >>> bool(np.isclose(np.triu(blocks).sum(), posterior.summary(0)["mean"]["total_rate"]))
        True
        """
        interval = check_interval(interval)
        found = self._aligned("blocks", "communities").blocks(interval)
        warn_of_modes(self, "blocks")
        return say_selection(self.tree, found)

    def components(self, n_labels: int = 5, *, interval: float = 0.9) -> Components:
        """Components, largest first: for each axis their labels with intervals.

        Of a ``TensorModel``, or a ``Factorization`` in which every axis has a factor of its own and one summed
        index joins them (``"dk,kv->dv"``, ``"ik,jk,tk->ijt"``); with two axes they are those of ``topics()``.
        """
        n_labels, interval = whole_number("n_labels", n_labels, 1), check_interval(interval)
        labels = [self._axis_labels(axis) for axis in range(len(self._shape))]
        found = self._aligned("components", "components").components(n_labels, interval, labels)
        for weights in found.factors.values():
            say_selection(self.tree, weights)
        return found

    def aligned(self) -> xr.DataTree:
        """``tree`` with topics (communities, components) in one order: a place means the same in every draw.

        The order is that of ``topics()``, ``blocks()`` or ``components()``, and everything that stands on it goes
        with it: factors, and the means of priors that were inferred. So traces, ranks and R-hat by ArviZ make
        sense, which of ``tree`` they do not: there topics come in any order, another in every chain. The coordinate
        ``agreement`` says how alike a topic is in two different draws (a further axis of a Tucker form has its
        own); where it is low there is no order to be found. A model without such an order is refused.

        Examples
        --------
        >>> import countveil as cv
        >>> counts = [[90, 60, 0, 0], [80, 70, 0, 0], [0, 0, 90, 10]]
        >>> posterior = cv.fit(cv.TopicModel(2), counts, sweeps=400, seed=1, progress=False)
        >>> phi = posterior.aligned()["posterior"]["phi"]
        >>> phi.dims, bool((phi.sel(topic=0).argmax("column") < 2).all())
        (('chain', 'draw', 'topic', 'column'), True)
        """
        return aligned_tree(self)

    def scales(self, axis: int | str = 0, *, interval: float = 0.9) -> xr.Dataset:
        """How much the prior expects of every place of an axis, relative to a typical one, with intervals.

        Of rows, of words; of a network for sending (axis 0) and for receiving (axis 1). Where the model's ``rate``
        is None these scales are inferred, with the law by which they vary. ``axis`` is a name or a number.

        They order places by how much they have, but are parameters of the prior: an interval is one of the
        parameter, and not of how active a row or how frequent a word is. For that take total rates
        (``iter_rate_draws``, docs/priors.md).

        Examples
        --------
        >>> import countveil as cv
        >>> counts = [[90, 60, 0, 3], [9, 7, 0, 0], [80, 70, 1, 2], [70, 90, 0, 1]]
        >>> posterior = cv.fit(cv.TopicModel(2), counts, sweeps=400, seed=1, progress=False)
        >>> words = posterior.scales("column")["mean"].to_numpy()
        >>> bool(words[:2].min() > words[2:].max())
        True
        """
        return say_selection(self.tree, scales_of(self, axis, check_interval(interval)))

    def totals(self) -> Totals | None:
        """All counts together, as the release tells without a model and as the fit has them; print it.

        Where they disagree the prior wins over the data, or counts come in bursts (docs/priors.md). None for plain
        counts, for several releases, and where cells are missing and draws were not kept.
        """
        self._with_model("totals")
        return totals_of(self)

    def true_counts(self, rows: Any = None, columns: Any = None, *, interval: float = 0.9) -> xr.Dataset:
        """The posterior of the true counts of chosen cells: mean, interval, probability of being positive.

        This is not the posterior of the rates: given the release, E[count] and E[rate] differ. A run by the
        naive method takes the clamped release for the truth, and says so here; a robust one takes plain counts for
        true ones with noise, and here are the true ones. Cells that the model leaves out
        (the diagonal of a network without self-loops) have count 0; a pair of an undirected network has one count,
        above the diagonal and below. Where alpha was inferred every draw goes with its own. Beyond two axes
        ``columns`` is a tuple of choices.
        """
        interval = check_interval(interval)
        warn_of_modes(self, "true_counts")
        return say_selection(self.tree, labelled_counts(self, rows, columns, interval))

    def posterior_predictive(
        self, kind: str | None = None, *, rows: Any = None, columns: Any = None, seed: int | None = None
    ) -> xr.DataTree:
        """New counts of the same cells, drawn from the posterior, in ArviZ's schema; at most 1 GB of them.

        Group ``posterior_predictive`` has a value of every cell in every kept draw, ``observed_data`` what was
        seen.

        ``kind="released"``: values as they would be released (the variable ``released``), Poisson counts with the
        noise of their row or cell, clamped at 0 where the release was. Cells that it does not show, or the model
        leaves out, are NaN in both groups. Several combined releases are a last dimension, ``release``: one count,
        each with its own noise. Where alpha was inferred every draw goes with its own.
        ``kind="true"``: true counts (``counts``). These are new counts with the posterior's rates; what the counts
        behind this release were is ``true_counts()``.
        By default what was fitted: released values of a release, counts of plain ones.

        ``seed`` is by default that of the fit. A cell's draws depend on it, the chain, the draw and the cell alone.

        Examples
        --------
        >>> import countveil as cv
        >>> release = cv.simulate_release([[9, 0, 0], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1)
        >>> posterior = cv.fit(cv.TopicModel(2), release, sweeps=100, seed=1, progress=False)
        >>> drawn = posterior.posterior_predictive()
        >>> drawn["posterior_predictive"]["released"].sizes, drawn["observed_data"]["released"].sizes
        (Frozen({'chain': 2, 'draw': 10, 'row': 3, 'column': 3}), Frozen({'row': 3, 'column': 3}))
        >>> posterior.posterior_predictive("true", rows=[0])["posterior_predictive"]["counts"].shape
        (2, 10, 1, 3)
        """
        return predictive_tree(self, kind, rows, columns, seed)

    def iter_posterior_predictive(
        self, kind: str | None = None, *, seed: int | None = None
    ) -> Iterator[xr.DataTree]:
        """``posterior_predictive`` of all rows, block by block: the same draws, and never all of them in memory.

        Examples
        --------
        >>> import countveil as cv
        >>> posterior = cv.fit(cv.TopicModel(2), [[9, 0], [0, 8]], sweeps=100, seed=1, progress=False)
        >>> zeros = 0
        >>> for block in posterior.iter_posterior_predictive():
        ...     zeros = zeros + (block["posterior_predictive"]["counts"] == 0).sum(["row", "column"])
        >>> zeros.sizes
        Frozen({'chain': 2, 'draw': 10})
        """
        return predictive_blocks(self, kind, seed)

    def chains(self, chains: Iterable[int]) -> Posterior:
        """The same posterior with some of its chains alone, by their numbers: ``posterior.chains([0, 2, 3])``.

        For chains that are in another solution (docs/diagnostics.md). That chains were selected, and of how many,
        is said by whatever comes of it: ``repr``, ``summary()``, tables, the attributes of ``tree``, a saved run.

        Examples
        --------
        >>> import countveil as cv
        >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=100, chains=4, seed=1, progress=False)
        >>> chosen = posterior.chains([0, 2, 3])
        >>> chosen
        Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 3 of 4 chains (selected) x 10 draws)
        >>> chosen.memberships().attrs["chains"]
        'Selected: 3 of 4 chains (0, 2, 3).'
        """
        return self._with_tree(with_chains(self.tree, checked_numbers(chains, self.tree)))

    def with_burn_in(self, burn_in: int) -> Posterior:
        """The same posterior with the draws after sweep ``burn_in`` alone: for a burn-in that was too short.

        What comes of it says so, as with ``chains``. What helps chains in burn-in (docs/starts.md) ended with the
        burn-in of the fit; and ``cv.extend`` of the run makes chains longer first, if too few draws are left.

        Examples
        --------
        >>> import countveil as cv
        >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=100, seed=1, progress=False)
        >>> later = posterior.with_burn_in(80)
        >>> later, later.settings["burn_in"]
        (Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 4 draws), 80)
        >>> later.rates().attrs["chains"]
        'Selected: draws after sweep 80 (fitted with burn-in 50).'
        """
        return self._with_tree(with_burn_in(self.tree, burn_in))

    def _with_tree(self, tree: xr.DataTree) -> Posterior:
        """The same with some of its draws."""
        data, order, draws = self._given, self._shared_order, tree["posterior"].to_dataset()
        if self._rho_of_draws is not None and isinstance(self._data, PrivateCounts):
            data = at_alpha(self._data, float(draws["alpha"].mean()))
        if order is not None:
            order = partial(order_of_chosen, order, self.tree["posterior"].to_dataset(), draws)
        return Posterior(
            tree, self.model, self._state_type, data, self._axes, self._shape, self._labels, self._seed,
            order=order,
        )  # fmt: skip

    def summary(self, n_rates: int = 10, *, interval: float = 0.9) -> Summary:
        """Convergence and precision of quantities that do not depend on labels.

        The monitored scalars and the rates of ``n_rates`` cells, spread evenly over the array: mean, sd,
        interval, Monte Carlo error, effective sample sizes (bulk, tail) and R-hat. An R-hat above 1.01 or an
        effective sample size below 400 asks for longer chains. R-hat needs two chains; one has NaN. A fit that
        did not keep all draws (``keep=``) has the scalars alone.

        Printed, or as ``summary().verdict``, it says in words what that means: whether the chains agree, whether
        some are in another solution, which longer chains may not leave, and what to do (docs/diagnostics.md).
        """
        n_rates, interval = whole_number("n_rates", n_rates, 0), check_interval(interval)
        return with_verdict(summarize(watched(self, n_rates), interval), self)

    def to_dataframe(self, what: str = "topics", **options: Any) -> pd.DataFrame:
        """A table of one of the answers above, or of what was monitored.

        ``what`` is ``"topics"``, ``"memberships"``, ``"prevalence"``, ``"blocks"``, ``"components"``, ``"scales"``,
        ``"rates"``, ``"true_counts"`` or ``"scalars"``.
        An undirected network has each of its pairs twice among rates and counts, as [i, j] and as [j, i].
        ``options`` go to the method of that name.
        """
        return to_table(self, what, options)

    def to_networkx(self, *, least: float = 0.0) -> Any:
        """The network as the posterior sees it: a networkx ``DiGraph``, or ``Graph`` if it is undirected.

        Nodes are the actors, by their labels. Each has its shares of the communities as ``community_0``,
        ``community_1``, ... (the means of ``memberships()``) and the number of the largest as ``community``. Every
        pair that is part of the model has an edge with its mean rate as ``weight``, each pair of an undirected
        network one; ``least`` leaves out edges with a smaller one.

        Examples
        --------
        >>> import countveil as cv
        >>> group = [0, 0, 0, 1, 1]
        >>> mails = [[20 * (group[i] == group[j]) for j in range(5)] for i in range(5)]
        >>> release = cv.simulate_release(mails, epsilon=2, seed=0, labels=(list("abcde"), list("abcde")))
        >>> posterior = cv.fit(cv.CommunityModel(2), release, sweeps=400, seed=1, progress=False)
        >>> graph = posterior.to_networkx()
        >>> graph.number_of_edges(), posterior.to_networkx(least=5).number_of_edges()
        (20, 8)
        >>> graph.nodes["a"]["community"] == graph.nodes["b"]["community"] != graph.nodes["e"]["community"]
        True
        """
        self._aligned("to_networkx", "communities")
        return to_graph(self, least)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new Zarr folder in ArviZ's schema; ``load_posterior`` and arviz read it.

        The release goes with it, with its plain rows if it has any. Plain counts that were fitted by themselves
        do not.
        """
        save_run(self.tree, {} if self.release is None else {"release": self.release}, path)

    def __repr__(self) -> str:
        model = (
            visible(json.loads(self.tree.attrs["model"])["name"]) if self.model is None else repr(self.model)
        )
        size = " x ".join(map(str, self._shape))
        keep = self.settings.get("keep", "all")
        kept = described_sizes(self.tree) + ("" if keep == "all" else f", keep={keep!r}")
        return f"Posterior({model}, {size}, {kept})"
