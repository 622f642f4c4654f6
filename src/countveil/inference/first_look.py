"""Words to the user before chains begin, where a model will give answers that nobody wants.

A fixed prior that is sure of a total far from the one that the release tells; a network of pairs, each of which
stands on one side of the diagonal, for a model that reads the other side.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from countveil.counts import PrivateCounts
from countveil.counts.cells.layout import row_indices
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.inference.problem import Problem
from countveil.models.community_model import CommunityModel
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.start import prior_total


def warn_of_a_prior_that_fights(problem: Problem, told_by_shards: tuple[float, int] | None = None) -> None:
    """Look at every view. Of a release that nobody here has read, shards tell the total and the observed cells."""
    for view in problem.views.values():
        expected = prior_total(view.model, view.data.shape) if isinstance(view.model, EinsumModel) else None
        if expected is None or not isinstance(view.data, PrivateCounts):
            continue
        prior, spread = expected
        told, n_observed = told_by_shards or (view.data.total(), view.data.n_observed)
        sd = math.sqrt(n_observed * float(np.mean(0.5 / np.sinh(0.5 * view.data.rho) ** 2)))
        apart = abs(math.log(prior / max(told, sd, 1.0)))
        if apart > max(math.log(4.0), 5.0 * spread) and abs(prior - told) > 10.0 * sd:
            warnings.warn(
                f"prior: shape and rate expect about {prior:.3g} counts in all, the release tells of {told:.3g} "
                f"+- {sd:.2g}. Where noise is strong such a prior wins over the data. Leave rate out, and the "
                "scales of rows, columns and components are inferred (docs/priors.md)",
                stacklevel=3,
            )


def warn_of_pairs_on_the_other_side(problem: Problem) -> None:
    """Look at every view of a network: are its pairs where its model reads them?"""
    for view in problem.views.values():
        given, model = view.given, view.model
        if not isinstance(model, CommunityModel) or not isinstance(given, PrivateCounts | PlainCounts):
            continue
        if model.directed and given.missing is not None:
            rows, n = row_indices(given.missing.row_starts), given.shape[0]
            if n > 1 and np.count_nonzero(given.missing.columns < rows) == n * (n - 1) // 2:
                warnings.warn(
                    "model: nothing below the diagonal is observed, as in a network without directions. Of a "
                    "directed one that half is unknown, and its rates will be guesses; CommunityModel(..., "
                    "directed=False) takes each pair once",
                    stacklevel=3,
                )
        if not model.directed and len(given.positive.columns):
            below = given.positive.columns < row_indices(given.positive.row_starts)
            if below.all():
                warnings.warn(
                    "model: all counts lie below the diagonal, and directed=False reads pairs above it, where "
                    "there are none; transpose the counts",
                    stacklevel=3,
                )
