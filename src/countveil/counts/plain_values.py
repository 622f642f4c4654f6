"""Plain counts, seen by whoever fits a model: the layout of a release without its noise."""

from __future__ import annotations

from typing import Any

from countveil.counts.private_counts import PrivateCounts


def read_plain_values(counts: Any, labels: Any, name: str) -> PrivateCounts:
    """Counts from a numpy array (masked: missing), lists, scipy.sparse or a DataFrame, held like a release.

    Its noise is a placeholder and means nothing. Negative values are refused with a hint: they look like a
    release.
    """
    if labels is None and hasattr(counts, "columns") and hasattr(counts, "index"):
        labels = ([str(i) for i in counts.index], [str(c) for c in counts.columns])
    if hasattr(counts, "columns") and hasattr(counts, "to_numpy"):
        counts = counts.to_numpy()
    held = PrivateCounts(counts, rho=1.0, labels=labels, keep_negative=True)
    if held.negative is not None and len(held.negative.columns):
        raise ValueError(
            f"{name}: expected counts >= 0, got negative values; if these are released (noisy) counts, "
            "say so: cv.PrivateCounts(values, alpha=...)"
        )
    return held
