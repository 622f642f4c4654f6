"""A word to the user where a fixed prior is sure of a total that is far from the one that the release tells."""

from __future__ import annotations

import math
import warnings

import numpy as np

from countveil.counts import PrivateCounts
from countveil.inference.problem import Problem
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
