"""Answers as plain tables, for pandas, R and spreadsheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

CHOICES = ("topics", "memberships", "blocks", "rates", "true_counts", "scalars")


def to_table(posterior: Posterior, what: str, options: dict[str, Any]) -> pd.DataFrame:
    """One of the CHOICES as a long table: one row per cell, word, or draw."""
    if what not in CHOICES:
        raise ValueError(f"what: expected one of {', '.join(CHOICES)}, got {what!r}")
    if what == "scalars":
        if options:
            raise TypeError(f"options: expected none for 'scalars', got {', '.join(options)}")
        return posterior.tree["sample_stats"].to_dataset().to_dataframe().reset_index()
    found = getattr(posterior, what)(**options)
    return found.table if what == "topics" else found.to_dataframe().reset_index()
