"""The words by which a topic is shown and scored."""

from __future__ import annotations

from typing import Any

import numpy as np


def top_words(topic_weights: Any, n: int = 10) -> np.ndarray:
    """Column indices of the ``n`` heaviest words of each topic, heaviest first.

    Words of equal weight come in the order of their index, so the answer does not depend on the machine.

    Parameters
    ----------
    topic_weights
        Shape (..., topics, words); leading axes, e.g. of draws, are kept.
    n
        How many words, at most as many as there are.

    Examples
    --------
    >>> from countveil.evaluation import top_words
    >>> top_words([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]], n=2)
    array([[1, 2],
           [0, 2]])
    """
    weights = np.asarray(topic_weights)
    if weights.dtype.kind not in "iuf":
        raise TypeError(f"topic_weights: expected numbers, got {weights.dtype}")
    if weights.ndim < 2:
        raise ValueError(f"topic_weights: expected shape (..., topics, words), got {weights.shape}")
    if np.isnan(weights).any():
        raise ValueError("topic_weights: expected numbers, got NaN")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= weights.shape[-1]:
        raise ValueError(f"n: expected a whole number from 1 to {weights.shape[-1]}, got {n!r}")
    # Sorting the negative weights stably keeps ties in order of index.
    return np.argsort(-weights.astype(np.float64), axis=-1, kind="stable")[..., :n]
