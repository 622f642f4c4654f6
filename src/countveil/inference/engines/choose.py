"""Which engine serves a model, a method and a kind of data."""

from __future__ import annotations

from countveil.counts import PrivateCounts
from countveil.inference.engines.cpu.cells import TopicCells
from countveil.inference.engines.cpu.integrated import TopicIntegrated, integrating_pays
from countveil.inference.engines.cpu.own_model import OwnModel
from countveil.inference.engines.cpu.plain import TopicPlain
from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.inference.engines.cpu.unfolded import Unfolded
from countveil.inference.engines.engine import Engine
from countveil.inference.observations import observe
from countveil.inference.plain_counts import PlainCounts
from countveil.models.count_model import CountModel
from countveil.models.factor_model import FactorModel
from countveil.models.topic_model import TopicModel


def choose_engine(model: CountModel, data: PrivateCounts | PlainCounts, method: str, engine: str) -> Engine:
    """The engine for this fit, or an error if the method does not fit the data."""
    released = isinstance(data, PrivateCounts)
    if not released and method != "exact":
        raise ValueError(f"method: expected 'exact' for plain counts (nothing to invert), got {method!r}")
    observations = observe(data, as_plain=method == "naive")
    bessel = method == "bessel"
    if bessel and engine == "tokens":
        raise ValueError("engine: expected 'auto' or 'cells' for method 'bessel', got 'tokens'")
    if isinstance(model, FactorModel) and model.unfolds:
        return Unfolded(model, observations, data.shape, bessel, cells=engine == "cells")
    if not isinstance(model, TopicModel):
        if engine == "tokens":
            raise ValueError("engine: expected 'auto' or 'cells' for a model of your own, got 'tokens'")
        return OwnModel(model, observations, data.shape, bessel)
    if not observations.noisy:
        return TopicPlain(model, observations)
    if bessel or engine == "cells":
        return TopicCells(model, observations, bessel)
    if engine == "auto" and integrating_pays(observations):
        return TopicIntegrated(model, observations)
    return TopicTokens(model, observations)
