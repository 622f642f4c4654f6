"""A release whose noise parameter is not known: alpha is one more unknown, with a beta prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from countveil.models.count_model import CountModel, positive_number


@dataclass(frozen=True)
class UnknownNoise:
    """``model``, seen through two-sided geometric noise of unknown alpha, alpha ~ Beta(p, q).

    ``x = y + tau``, ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``, one alpha for all cells. The release must
    have kept the sum of ``abs(x)`` over its cells x <= 0 (every release that was made here has; values that
    someone else had clamped have not). Its own alpha serves as the starting value and no further. Of cells that
    the model leaves out (a network's diagonal) the values below 0 are used, given which cells have such: a partial
    likelihood, as nothing is assumed about their true counts.

    Parameters
    ----------
    model
        Any model of the counts.
    prior
        (p, q) of the beta prior of alpha; (1, 1) is uniform.

    Examples
    --------
    >>> from countveil.models import TopicModel, UnknownNoise
    >>> UnknownNoise(TopicModel(n_topics=5), prior=(2, 2))
    UnknownNoise(model=TopicModel(n_topics=5, shape=0.1, rate=None), prior=(2.0, 2.0))
    """

    model: Any
    prior: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if not isinstance(self.model, CountModel):
            raise TypeError(
                f"model: expected a model such as TopicModel(n_topics=10), got {type(self.model).__name__}"
            )
        try:
            p, q = self.prior
        except (TypeError, ValueError):
            raise ValueError(f"prior: expected two numbers (p, q), got {self.prior!r}") from None
        checked = (positive_number("prior", p), positive_number("prior", q))
        object.__setattr__(self, "prior", checked)
