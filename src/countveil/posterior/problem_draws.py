"""The draws of a problem: what the questions of a posterior have to work with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.inputs.labels import expect_labels
from countveil.counts.remote import NotReachedError
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.inference.observed import Observed, observe
from countveil.inference.problem import Counts, as_if_released, modelled_part
from countveil.models.einsum.model import EinsumModel
from countveil.posterior.align import ALIGNERS, aligned_as
from countveil.posterior.align.joined_chains import JoinedChains
from countveil.posterior.axes import readable_labels
from countveil.posterior.states import KeptDraws, KeptStates


class ProblemDraws(KeptDraws):
    """Draws, model and data of one array; the draws in one order, and the data as the likelihood sees them."""

    def __init__(
        self,
        tree: xr.DataTree | Callable[[], xr.DataTree],
        model: Any,
        state_type: Any,
        data: PrivateCounts | CombinedReleases | PlainCounts | Callable[[], PrivateCounts] | None,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        labels: tuple[np.ndarray | None, ...],
        seed: int,
        *,
        order: Callable[[], np.ndarray | None] | None = None,
    ) -> None:
        if isinstance(tree, xr.DataTree):
            self.tree = tree
        else:
            self._read_tree = tree
        self.model = model
        self._state_type = state_type
        self._given = data
        self._axes, self._shape, self._seed = axes, shape, seed
        self._labels = readable_labels(labels)
        if isinstance(model, EinsumModel):
            self._labels = model.labels_of_axes(self._labels)
        self._shared_order = order  # of components that other arrays have a part in

    @property
    def _data(self) -> PrivateCounts | CombinedReleases | PlainCounts | None:
        """The data; a release that lies elsewhere is opened when somebody asks."""
        if callable(self._given):
            try:
                self._given = self._of_this_run(self._given())
            except (FileNotFoundError, NotReachedError) as error:
                warnings.warn(f"{error}: posterior.release is None", stacklevel=3)
                self._given = None
        return self._given

    def _of_this_run(self, found: PrivateCounts | CombinedReleases) -> PrivateCounts | CombinedReleases:
        """A release that lies elsewhere, if it has the shape and the labels that the run says."""
        message = "release: expected the one of this run"
        if found.shape != self._shape:
            raise ValueError(f"{message}, of shape {self._shape}, got one of shape {found.shape}")
        for own, other in zip(self._labels, readable_labels(found.labels), strict=True):
            expect_labels(own, other, message)
        return found

    @cached_property
    def _kept(self) -> KeptStates:
        return KeptStates(self.tree["posterior"].to_dataset(), self._state_type, self.model, self._shape)

    @cached_property
    def _aligners(self) -> dict[str, Any]:
        return {}

    @property
    def _running(self) -> JoinedChains | None:
        """The running means of a fit that has not kept all draws; None of one that has."""
        if self.settings.get("keep", "all") == "all" or self.model is None:
            return None
        if "running" not in self._aligners:
            fields, running = (self.tree[group].to_dataset() for group in ("posterior", "running"))
            self._aligners["running"] = JoinedChains(self.model, fields, running, self._axes)
        return self._aligners["running"]

    def _aligned(self, what: str, kind: str) -> Any:
        """The draws in one order by the aligner ``kind``, to answer ``what``, or an error if the model has none."""
        self._with_model(what)
        kinds = aligned_as(self.model)
        if kind not in kinds:
            raise ALIGNERS[kind].refusal(what, self.model)
        if self._running is not None:
            return self._running
        if kind not in self._aligners:
            if kind != kinds[0]:  # components of a matrix are its topics, in their order
                order = self._aligned(what, kinds[0]).alignment.order
            else:
                order = None if self._shared_order is None else self._shared_order()
            fields = self.tree["posterior"].to_dataset()
            self._aligners[kind] = ALIGNERS[kind].of(self.model, fields, self._axes, order)
        return self._aligners[kind]

    def _observed(
        self, data: PrivateCounts | CombinedReleases | PlainCounts, as_plain: bool = False
    ) -> Observed:
        """``data`` as the likelihood of this fit sees it: what the model leaves out is missing."""
        return observe(modelled_part(self.model, self._as_fitted(data)), as_plain=as_plain)

    def _as_fitted(self, data: Counts) -> Counts:
        """A robust fit takes plain counts for ``max(y + tau, 0)``."""
        robust = self.tree["posterior"].attrs.get("robust")
        return as_if_released(data, robust) if robust is not None and isinstance(data, PlainCounts) else data

    @property
    def _rho_of_draws(self) -> np.ndarray | None:
        """-log(alpha) of every draw, (draws), where alpha was inferred; else None: the release says it."""
        found = self.tree["posterior"]
        # A model may have a field of that name, which is no noise.
        if "alpha" not in found or "alpha" in self._state_type._fields:
            return None
        alpha = found["alpha"].to_numpy().reshape(-1)
        if not ((alpha > 0) & (alpha < 1)).all():  # nor is NaN: counts would be drawn by it for ever
            raise ValueError("posterior: expected draws of alpha in (0, 1), got others")
        return -np.log(alpha)

    def _with_model(self, what: str) -> KeptStates:
        if self.model is None:
            raise ValueError(
                f"{what}: expected the model of this run, got none; load_posterior(path, model=...)"
            )
        return self._kept

    def _axis_labels(self, axis: int) -> np.ndarray:
        labels = self._labels[axis]
        return np.arange(self._shape[axis]) if labels is None else labels

    def _coordinates(self, dims: tuple[str, ...], *chosen: np.ndarray) -> dict[str, np.ndarray]:
        return {dim: self._axis_labels(axis)[chosen[axis]] for axis, dim in enumerate(dims)}
