"""How much of each topic there is in each group of rows, and how groups differ.

The rows of group g have theta_dk of mean b_gk (times the row's own activity), so that topic k has b_gk Phi_k of the
expected counts of such a row, Phi_k = sum_v phi_kv, and

    prevalence_gk = b_gk Phi_k / sum_l b_gl Phi_l       (with a fixed rate b_gk = shape / beta_gk)

whatever scale theta and phi have traded. Draws are aligned first.

It is a statement about the group, not about its rows: with n_g rows whose shares vary it stays uncertain even where
all counts are known. The mean of the rows' own shares is another thing, and posterior means of those are pulled
together by whatever hides the rows' counts: noise above all. ``align/memberships.py`` says how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts.shown_text import short_label
from countveil.posterior.align.matching import all_draws, shares_of
from countveil.posterior.diagnostics.select import say_selection
from countveil.posterior.diagnostics.summary import interval_dataset, mean_and_interval

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

#: Pairs of groups are compared all at once up to so many groups; beyond, with one of them.
MOST_PAIRED = 20


@dataclass(frozen=True, eq=False, repr=False)
class Prevalence:
    """Shares of the topics in the groups, topics in the order of ``topics()``.

    ``shares`` is a Dataset over (group, topic) with ``mean``, ``low`` and ``high``; ``draws`` all draws of them,
    (draw, group, topic); ``agreement`` how alike a topic is in two different draws, as in ``topics()``.

    Examples
    --------
    >>> import countveil as cv
    >>> counts = [[90, 60, 0, 3], [80, 70, 9, 0], [4, 0, 90, 10], [0, 9, 80, 20]]
    >>> model = cv.TopicModel(2, groups=["old", "old", "new", "new"])
    >>> posterior = cv.fit(model, counts, sweeps=400, seed=1, progress=False)
    >>> prevalence = posterior.prevalence()
    >>> prevalence.table.columns.tolist()
    ['group', 'topic', 'mean', 'low', 'high']
    >>> prevalence.differences().columns.tolist()
    ['topic', 'group', 'minus', 'mean', 'low', 'high', 'positive']
    >>> prevalence.shares["mean"].argmax("topic").to_numpy()
    array([1, 0])
    """

    shares: xr.Dataset
    draws: np.ndarray
    agreement: np.ndarray

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(self.shares["group"].to_numpy().tolist())

    @property
    def table(self) -> pd.DataFrame:
        """One row for every group and topic: group, topic, mean, low, high."""
        return (
            self.shares[["mean", "low", "high"]]
            .to_dataframe()
            .reset_index()[["group", "topic", "mean", "low", "high"]]
        )

    def differences(self, minus: str | None = None) -> pd.DataFrame:
        """Of every topic its share in one group minus that in another, with intervals.

        ``minus`` names the group that all others are compared with; None compares every two, the later one minus
        the earlier one. ``positive`` is the probability that the difference is above 0.
        """
        names = self.groups
        if minus is None:
            if len(names) > MOST_PAIRED:
                raise ValueError(
                    f"minus: expected one of the {len(names)} groups to compare the others with, got None, which "
                    f"compares every two of up to {MOST_PAIRED}"
                )
            pairs = [(b, a) for a, b in combinations(range(len(names)), 2)]
        elif minus in names:
            pairs = [(g, names.index(minus)) for g in range(len(names)) if names[g] != minus]
        else:
            raise ValueError(
                f"minus: expected one of the groups {', '.join(map(repr, names))}, got {minus!r}"
            )
        parts = []
        for one, other in pairs:
            apart = self.draws[:, one] - self.draws[:, other]
            mean, low, high = mean_and_interval(apart, self.shares.attrs["interval"])
            columns = {"mean": mean, "low": low, "high": high, "positive": (apart > 0).mean(axis=0)}
            topic = np.arange(len(mean))
            parts.append(
                pd.DataFrame({"topic": topic, "group": names[one], "minus": names[other], **columns})
            )
        if not parts:
            return pd.DataFrame(columns=["topic", "group", "minus", "mean", "low", "high", "positive"])
        found = pd.concat(parts, ignore_index=True).sort_values("topic", kind="stable", ignore_index=True)
        found.attrs |= {name: self.shares.attrs[name] for name in ("chains",) if name in self.shares.attrs}
        return found

    def __repr__(self) -> str:
        mean, low, high = (self.shares[name].to_numpy() for name in ("mean", "low", "high"))
        names = [short_label(name) for name in self.groups]
        width = max(len("10.0% (10% to 10%)"), *map(len, names))
        lines = ["topic  agreement  " + "  ".join(f"{name:>{width}}" for name in names)]
        for k in range(mean.shape[1]):
            cells = (
                f"{mean[g, k]:.1%} ({low[g, k]:.0%} to {high[g, k]:.0%})".rjust(width)
                for g in range(len(names))
            )
            lines.append(f"{k:>5}  {self.agreement[k]:9.2f}  " + "  ".join(cells))
        return "\n".join(lines)


def prevalence_of(posterior: Posterior, by: Any, interval: float) -> Prevalence:
    """Of a topic model with groups."""
    if by != "group":
        raise ValueError(f"by: expected 'group', the groups of the model, got {by!r}")
    aligned = posterior._aligned("prevalence", "topics")
    groups = getattr(posterior.model, "groups", None)
    if groups is None:
        raise ValueError(
            "prevalence: expected a model with groups of rows, TopicModel(..., groups=labels), got "
            f"{posterior.model!r}"
        )
    fields = posterior.tree["posterior"]
    if "theta_mean" not in fields or "phi" not in fields:
        raise ValueError(
            "keep: expected a fit with keep='all' or keep='columns', whose draws prevalence needs, got one that "
            "has kept summaries alone"
        )
    means = all_draws(fields["theta_mean"])[:, : len(groups.names)].astype(np.float64)
    weights = all_draws(fields["phi"]).sum(axis=2, dtype=np.float64)
    order = aligned.alignment.order
    shares = np.take_along_axis(shares_of(means * weights[:, None, :]), order[:, None, :], axis=2)
    coordinates = {
        "group": np.array(groups.names, dtype=object),
        "topic": np.arange(shares.shape[2]),
        "agreement": ("topic", aligned.alignment.agreement),
    }
    found = interval_dataset(("group", "topic"), mean_and_interval(shares, interval), coordinates, interval)
    return Prevalence(say_selection(posterior.tree, found), shares, aligned.alignment.agreement)
