"""Topics (communities, components) of all draws brought into one order by optimal matching.

Topics come in any order, and the order may differ between chains and change within one: averaging before
aligning averages different things. With r = sqrt(p) for a topic p, the affinity of two topics is r . r' =
sum_v sqrt(p_v p'_v) (Bhattacharyya: 1 for equal topics, 0 for topics without a common word). Every draw is put
into the order with the largest total affinity with the mean root of all draws, an optimal assignment, until no
order changes. Each step can only raise the affinity summed over all pairs of draws, so that this ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

#: Two or three are enough as a rule.
MOST_ROUNDS = 20
#: Each is compared with each: of so many that takes a gigabyte, and the time grows with their cube.
MOST_MATCHED = 2048
#: So many steps at most, draws x topics**3, in one round and in all: who chooses the topics can make a matching
#: take all of its steps (a third of a nanosecond each), and a thousand draws of that take some kilobytes.
MOST_STEPS, _IN_ALL = 2**39, 2**40
#: A draw takes so many more, however few topics it has.
_A_DRAW = 30_000


class Alignment(NamedTuple):
    """For every draw the topic of that draw that stands at each place, and how well it fits there."""

    order: np.ndarray  # int (draws, topics): place k of draw s is its topic order[s, k]
    agreement: np.ndarray  # (topics): mean affinity of a topic in two different draws; NaN for a single draw


class Matched(NamedTuple):
    """What the components of one view are matched on where several views share them."""

    weights: Mapping[str, np.ndarray]  # factor -> (draws, components, length), distributions over its axis
    mass: np.ndarray  # (draws, components): expected counts
    order: np.ndarray | None  # if something else than these draws decides it


class Aligner(ABC):
    """The draws of a model in one order, and what people ask of them; a model names its own in ``aligned_as``."""

    #: Whose posteriors it can align, for errors.
    of_models: ClassVar[str]
    #: The name of the dimension whose places are matched.
    dimension: str
    #: The order, and how well the draws agree; where every axis has its own, that of the first.
    alignment: Alignment

    @classmethod
    @abstractmethod
    def of(
        cls, model: Any, fields: Mapping[Any, Any], axes: tuple[str, ...], order: np.ndarray | None = None
    ) -> Self:
        """Of the draws ``fields`` (chain, draw, ...) of a model; ``order`` if it is known already."""

    def places(self, model: Any) -> Mapping[str, Alignment]:
        """For every dimension of the model's state whose places are matched, how they are."""
        spec, name = model._spec, model._spec.per_axis[0]
        return {model.dims[name][spec.term(name).index(spec.latent)]: self.alignment}

    @classmethod
    def summed_index(cls, model: Any) -> str | None:
        """The letter of the model's spec whose places are matched; None if there is no one such letter."""
        return model._spec.latent if model._spec.per_axis is not None else None

    @classmethod
    def matched(cls, model: Any, fields: Mapping[Any, Any]) -> Matched:
        """What those places are matched on: here, the factors of all axes."""
        factors = axis_draws(model, fields)
        mass = np.prod([f.sum(axis=1, dtype=np.float64) for f in factors], axis=0)
        weights = dict(zip(model._spec.per_axis, map(distributions, factors), strict=True))
        return Matched(weights, mass, fixed_places(model, len(mass)))

    @classmethod
    def refusal(cls, what: str, model: Any) -> TypeError:
        """The error where ``what`` is asked of a model that has no such alignment."""
        form = f" {model.spec!r}" if hasattr(model, "spec") else ""
        return TypeError(
            f"{what}: expected the posterior of {cls.of_models}, got {type(model).__name__}{form}"
        )


def all_draws(values: Any) -> np.ndarray:
    """Draws of all chains, one after the other."""
    array = np.asarray(values)
    return array.reshape(-1, *array.shape[2:])


def axis_draws(model: Any, fields: Mapping[Any, Any]) -> list[np.ndarray]:
    """For every axis its factor as (draws of all chains, length of the axis, components).

    The model is a matrix factorization such as ``dk,kv->dv``, or the CP form of a tensor: one factor for every
    axis, and one index that joins them.
    """
    spec, found = model._spec, []
    for axis, name in zip(spec.output, spec.per_axis, strict=True):
        values = all_draws(fields[name])
        found.append(values if spec.term(name)[0] == axis else np.swapaxes(values, 1, 2))
    return found


def fixed_places(model: Any, n_draws: int) -> np.ndarray | None:
    """The order of components that a fixed factor tells apart: always the same; None if it is to be found."""
    if not any(name in model._fixed for name in model._spec.per_axis):
        return None
    return np.tile(np.arange(model._sizes[model._spec.latent]), (n_draws, 1))


def distributions(factor: np.ndarray) -> np.ndarray:
    """(draws, length, components) as (draws, components, length), every one over its sum."""
    return shares_of(np.swapaxes(factor, 1, 2).astype(np.float64))


def align(topics: np.ndarray) -> Alignment:
    """Align (draws, topics, words) weights; places are ordered by nothing in particular.

    >>> weights = np.array([[[8.0, 2.0], [0.0, 5.0]], [[0.0, 4.0], [8.0, 2.0]]])
    >>> align(weights)
    Alignment(order=array([[1, 0],
           [0, 1]]), agreement=array([1., 1.]))
    """
    steps = checked_steps(*topics.shape[:2])
    # Roots are computed again in every round: all of them at once would double the memory of the draws.
    reference, order = root_of(topics[-1]), np.zeros((0, 0), dtype=np.int64)
    for _ in range(min(MOST_ROUNDS, max(2, _IN_ALL // max(steps, 1)))):
        before, order = order, np.stack([match(reference, root_of(draw)) for draw in topics])
        if np.array_equal(before, order):
            break
        reference = np.zeros(reference.shape)
        for draw, places in zip(topics, order, strict=True):
            reference += root_of(draw)[places] / len(topics)
    return Alignment(order, _agreement(topics, order))


def in_order(
    topics: np.ndarray, mass: np.ndarray, order: np.ndarray | None = None
) -> tuple[Alignment, np.ndarray]:
    """Aligned draws, and the mean share of every place in ``mass`` (draws, topics), the largest first.

    Where an ``order`` is given the draws stay in it.

    >>> weights = np.array([[[8.0, 2.0], [0.0, 5.0]], [[0.0, 4.0], [8.0, 2.0]]])
    >>> in_order(weights, np.array([[9.0, 1.0], [1.0, 9.0]]))[1]
    array([0.9, 0.1])
    """
    found = align(topics) if order is None else Alignment(order, _agreement(topics, order))
    share = shares_of(np.take_along_axis(mass, found.order, axis=1)).mean(axis=0)
    if order is not None:
        return found, share
    places = np.argsort(-share, kind="stable")
    return Alignment(found.order[:, places], found.agreement[places]), share[places]


def shares_of(mass: np.ndarray) -> np.ndarray:
    """Along the last axis, each over their sum."""
    return mass / np.maximum(mass.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)


def root_of(draw: np.ndarray) -> np.ndarray:
    """Roots of the topics of one draw, each of length 1 (or 0, where all weights underflowed)."""
    weights = draw.astype(np.float64)
    return np.sqrt(weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny))


def checked_steps(n_draws: int, n_topics: int) -> int:
    """What a round of so many matchings takes at worst, or an error."""
    if n_topics > MOST_MATCHED:
        raise _too_many(n_topics)
    steps = n_draws * (n_topics**3 + _A_DRAW)
    if steps > MOST_STEPS:
        most = MOST_STEPS // (n_topics**3 + _A_DRAW)
        raise ValueError(
            f"draws: expected at most {most:,} to be brought into one order, of {n_topics:,} components, "
            f"got {n_draws:,}: posterior.chains and posterior.with_burn_in leave some out"
        )
    return steps


def _too_many(n_topics: int) -> ValueError:
    return ValueError(
        f"components: expected at most {MOST_MATCHED:,} of which draws are brought into one order, got {n_topics:,}"
    )


def match(reference: np.ndarray, root: np.ndarray) -> np.ndarray:
    """The draw's topic for each place of the reference."""
    if len(root) > MOST_MATCHED:
        raise _too_many(len(root))
    # For a square matrix the places come back as 0, 1, 2, ...
    return linear_sum_assignment(reference @ root.T, maximize=True)[1]


def _agreement(topics: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Mean of r_s . r_t over draws s != t: (|sum_s r_s|^2 - sum_s |r_s|^2) / (S (S - 1))."""
    n_draws, n_topics, width = topics.shape
    if n_draws == 1:
        return np.full(n_topics, np.nan)
    total, lengths = np.zeros((n_topics, width)), np.zeros(n_topics)
    for draw, places in zip(topics, order, strict=True):
        root = root_of(draw)[places]
        total += root
        lengths += (root**2).sum(axis=1)
    mean = ((total**2).sum(axis=1) - lengths) / (n_draws * (n_draws - 1))
    return np.clip(mean, 0.0, 1.0)
