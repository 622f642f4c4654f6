"""Which engine serves a model, a method and a kind of data."""

from __future__ import annotations

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.engines.cpu.cells import TopicCells
from countveil.inference.engines.cpu.fibers import CpFibers, fibers_pay
from countveil.inference.engines.cpu.integrated import TopicIntegrated, integrating_pays
from countveil.inference.engines.cpu.own_model import OwnModel
from countveil.inference.engines.cpu.plain import TopicPlain
from countveil.inference.engines.cpu.repeated import TopicRepeated
from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.inference.engines.cpu.unfolded import Unfolded
from countveil.inference.engines.engine import Engine
from countveil.inference.mixed_rows import MixedRows
from countveil.inference.observations import observe
from countveil.inference.plain_counts import PlainCounts
from countveil.models.count_model import CountModel
from countveil.models.factor_model import FactorModel
from countveil.models.topic_model import TopicModel


def choose_engine(
    model: CountModel, data: PrivateCounts | CombinedReleases | PlainCounts, method: str, engine: str
) -> Engine:
    """The engine for this fit, or an error if the method does not fit the data."""
    if isinstance(data, CombinedReleases):
        return _for_combined(model, data, method, engine)
    released = isinstance(data, PrivateCounts)
    if not released and method != "exact":
        raise ValueError(f"method: expected 'exact' for plain counts (nothing to invert), got {method!r}")
    observations = observe(data, as_plain=method == "naive")
    bessel = method == "bessel"
    if bessel and engine == "tokens":
        raise ValueError("engine: expected 'auto' or 'cells' for method 'bessel', got 'tokens'")
    # Plain rows among released ones. Cell by cell they need no engine of their own.
    mixed = bool(np.isinf(observations.row_rho).any())
    if mixed and bessel:
        raise ValueError("method: expected 'exact' or 'naive' where some rows are plain, got 'bessel'")
    if isinstance(model, FactorModel) and model.unfolds:
        cells = engine == "cells"
        if not (bessel or cells or mixed) and fibers_pay(model, observations, data.shape):
            return CpFibers(model, observations, data.shape)
        inner = MixedRows(TopicModel(model.n_topics), observations) if mixed and not cells else None
        return Unfolded(model, observations, data.shape, bessel, cells=cells, engine=inner)
    if not isinstance(model, TopicModel):
        if engine == "tokens":
            raise ValueError("engine: expected 'auto' or 'cells' for a model of your own, got 'tokens'")
        return OwnModel(model, observations, data.shape, bessel)
    if not observations.noisy:
        return TopicPlain(model, observations)
    if bessel or engine == "cells":
        return TopicCells(model, observations, bessel)
    if mixed:
        return MixedRows(model, observations, integrate=engine == "auto")
    if engine == "auto" and integrating_pays(observations):
        return TopicIntegrated(model, observations)
    return TopicTokens(model, observations)


def _for_combined(model: CountModel, data: CombinedReleases, method: str, engine: str) -> Engine:
    """Counts that were released several times."""
    if method != "exact":
        raise ValueError(f"method: expected 'exact' for combined releases, got {method!r}")
    if engine == "cells":
        raise ValueError("engine: expected 'auto' or 'tokens' for combined releases, got 'cells'")
    observations = observe(data)
    if isinstance(model, TopicModel):
        return TopicRepeated(model, observations)
    if isinstance(model, FactorModel) and model.unfolds:
        inner = TopicRepeated(TopicModel(model.n_topics), observations)
        return Unfolded(model, observations, data.shape, engine=inner)  # type: ignore[arg-type]
    raise TypeError(
        "model: expected a TopicModel, or a factorization whose first axis has a factor of its own, for combined "
        f"releases, got {type(model).__name__}"
    )
