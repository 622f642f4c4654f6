"""All draws of a community model in one order of communities; only then are they averaged.

theta and pi trade scale (theta_.c * s with pi_c. / s), so neither means anything by itself. What does not depend on
it: the expected counts from community c to community d, Theta_c pi_cd Theta_d with Theta the sums over actors, and
the share of every community in what an actor sends and receives.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from countveil.posterior.alignment import Alignment, align
from countveil.posterior.axis_names import free_names
from countveil.posterior.interval import tails_of

_TINY = np.finfo(np.float64).tiny


class AlignedCommunities:
    """Draws of both factors; theta's columns and pi's rows and columns are permuted together."""

    def __init__(self, theta: np.ndarray, pi: np.ndarray, axes: tuple[str, ...]) -> None:
        """theta (draws, actors, communities), pi (draws, communities, communities)."""
        taken = {"community", "to_community", "mean", "low", "high", "agreement"}
        self._axis = free_names(axes, taken)[0]
        sums = theta.sum(axis=1, dtype=np.float64)
        blocks = sums[:, :, None] * pi * sums[:, None, :]
        # What actor i sends and receives through community c.
        through = np.einsum("scd,sd->sc", pi + np.swapaxes(pi, 1, 2), sums, dtype=np.float64)
        share = theta * through[:, None, :]
        alignment = align(np.swapaxes(share, 1, 2))
        traffic = blocks.sum(axis=1) + blocks.sum(axis=2)
        aligned = np.take_along_axis(traffic, alignment.order, axis=1)
        mean = (aligned / np.maximum(aligned.sum(axis=1, keepdims=True), _TINY)).mean(axis=0)
        places = np.argsort(-mean, kind="stable")
        order = alignment.order[:, places]
        self.alignment = Alignment(order, alignment.agreement[places])
        self._share = np.take_along_axis(share, order[:, None, :], axis=2)
        self._share /= np.maximum(self._share.sum(axis=2, keepdims=True), _TINY)
        draws = np.arange(len(order))[:, None, None]
        self._blocks = blocks[draws, order[:, :, None], order[:, None, :]]

    def memberships(self, rows: np.ndarray, interval: float, labels: np.ndarray) -> xr.Dataset:
        """Share of every community in what each actor sends and receives, with intervals."""
        dims = (self._axis, "community")
        return self._dataset(dims, self._share[:, rows], interval, {self._axis: labels})

    def blocks(self, interval: float) -> xr.Dataset:
        """Expected counts from community to community, with intervals."""
        to = {"to_community": np.arange(self._blocks.shape[2])}
        return self._dataset(("community", "to_community"), self._blocks, interval, to)

    def _dataset(
        self, dims: tuple[str, str], draws: np.ndarray, interval: float, coordinates: dict
    ) -> xr.Dataset:
        low, high = np.quantile(draws, tails_of(interval), axis=0)
        found = {"mean": draws.mean(axis=0), "low": low, "high": high}
        agreement = ("community", self.alignment.agreement)
        place = np.arange(len(self.alignment.agreement))
        return xr.Dataset(
            {name: (dims, values) for name, values in found.items()},
            coords={**coordinates, "community": place, "agreement": agreement},
            attrs={"interval": interval},
        )
