"""What one method reached in a comparison: its scores, and a few of its topics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_METHODS, MOST_TOPICS = 4, 8


@dataclass(frozen=True)
class MethodResult:
    """Four scores, and the top words of a few topics: row k of every method is the same topic, as matched.

    A log score may be -inf (a count was declared impossible); everything else is finite.

    >>> from countveil.report import MethodResult
    >>> MethodResult("exact", 0.03, -0.1, 0.2, -80.0, [["matrix", "vector"], ["random", "sample"]]).name
    'exact'
    """

    name: str
    mae: float
    log_score: float
    npmi: float
    coherence: float
    topics: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name: expected the name of a method, got {self.name!r}")
        for field in ("mae", "log_score", "npmi", "coherence"):
            value = float(getattr(self, field))
            if not (math.isfinite(value) or (field == "log_score" and value == -math.inf)):
                raise ValueError(f"{field}: expected a finite number for {self.name!r}, got {value}")
        n_topics = len(self.topics)
        if not 1 <= n_topics <= MOST_TOPICS:
            raise ValueError(f"topics: expected 1 to {MOST_TOPICS} for {self.name!r}, got {n_topics}")
        for words in self.topics:
            if isinstance(words, str) or not len(words) or not all(isinstance(w, str) and w for w in words):
                raise ValueError(f"topics: expected lists of words for {self.name!r}, got {words!r}")


def check_results(results: Sequence[MethodResult]) -> None:
    """Two to four methods with different names and the same number of topics."""
    if not isinstance(results, Sequence) or not all(isinstance(r, MethodResult) for r in results):
        raise TypeError(f"results: expected a list of MethodResult, got {type(results).__name__}")
    if not 2 <= len(results) <= MOST_METHODS:
        raise ValueError(f"results: expected 2 to {MOST_METHODS} methods, got {len(results)}")
    names = [result.name for result in results]
    if len(set(names)) < len(names):
        raise ValueError(f"results: expected different names, got {names}")
    numbers = [len(result.topics) for result in results]
    if len(set(numbers)) > 1:
        raise ValueError(f"results: expected as many topics for every method, got {numbers}")
