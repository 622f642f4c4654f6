"""Draws in one order: what has no order of its own is matched between draws before anything is averaged."""

from __future__ import annotations

from typing import Any

from countveil.posterior.align.communities import AlignedCommunities
from countveil.posterior.align.components import AlignedComponents
from countveil.posterior.align.matching import Aligner
from countveil.posterior.align.topics import AlignedTopics

#: By the names that models give in ``aligned_as``.
ALIGNERS: dict[str, type[Aligner]] = {
    "topics": AlignedTopics,
    "communities": AlignedCommunities,
    "components": AlignedComponents,
}


def aligned_as(model: Any) -> tuple[str, ...]:
    """The aligners of a model, that which decides the order first; none for a model of a user's own."""
    return getattr(model, "aligned_as", ())
