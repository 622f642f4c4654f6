"""The noise that every kept draw of a posterior goes with."""

from __future__ import annotations

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.modelled_part import modelled_part
from countveil.inference.observations import Observations, observe
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.repeated_observations import RepeatedObservations
from countveil.posterior.posterior import Posterior


def observed_by(
    posterior: Posterior, data: PrivateCounts | CombinedReleases | PlainCounts
) -> Observations | RepeatedObservations:
    """``data`` as the posterior's model sees it: what it leaves out is missing, and plain counts of a robust fit
    are seen as if released.
    """
    observations = observe(modelled_part(posterior.model, data))
    robust = posterior.tree["posterior"].attrs.get("robust")
    if robust is not None and isinstance(observations, Observations) and not observations.noisy:
        return observations._replace(row_rho=np.full(observations.n_rows, -np.log(robust)))
    return observations
