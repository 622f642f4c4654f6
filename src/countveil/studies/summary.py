"""What the fits of a study come to: means over releases with intervals, differences between methods, tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from countveil.studies.plan import Job, Measure, Study

#: By which lines of the summary differ; a line is a mean over releases.
GROUPS = tuple(field for field in Job._fields if field != "release")
#: What exact fits are compared with, release by release.
REFERENCES = ("naive", "non-private")


def summarize(done: Mapping[Job, Mapping[str, float]], measures: Iterable[Measure]) -> pd.DataFrame:
    """Means over releases with 95 % t-intervals, a line for every kind of fit and measure."""
    lines, measures = [], list(measures)
    kinds: dict[tuple[Any, ...], list[dict[str, float]]] = {}
    names = [measure.name for measure in measures]
    names += [difference(m.name, other) for m in measures if m.better for other in REFERENCES]
    for job, scores in with_differences(done, measures).items():
        kinds.setdefault(tuple(getattr(job, name) for name in GROUPS), []).append(scores)
    for kind in sorted(kinds, key=_order):
        for name in names:
            values = [scores[name] for scores in kinds[kind] if name in scores]
            if values:
                lines.append((*kind, name, len(values), *mean_and_interval(values)))
    return pd.DataFrame(lines, columns=[*GROUPS, "measure", "n", "mean", "low", "high"])


def with_differences(
    done: Mapping[Job, Mapping[str, float]], measures: Iterable[Measure]
) -> dict[Job, dict[str, float]]:
    """The same, and for exact fits each score minus that of naive and non-private fits of the same data.

    Both see the same counts, and naive the same release, so that differences vary less from release to release
    than the scores do. A reference of another length will do where there is none of the same.
    """
    compared = [measure.name for measure in measures if measure.better]
    references: dict[Job, list[Job]] = {}
    for job in done:
        if job.method in REFERENCES:
            references.setdefault(job._replace(sweeps=0), []).append(job)
    found = {job: dict(scores) for job, scores in done.items()}
    for job, scores in found.items():
        for method in REFERENCES if job.method == "exact" else ():
            level = None if method == "non-private" else job.level
            others = references.get(job._replace(method=method, level=level, sweeps=0), [])
            if not others:
                continue
            other = done[min(others, key=lambda one: (one.sweeps != job.sweeps, -one.sweeps))]
            for name in compared:
                if name in scores and name in other:
                    scores[difference(name, method)] = scores[name] - other[name]
    return found


def difference(measure: str, method: str) -> str:
    """What the summary calls exact's score minus that of another method."""
    return f"{measure} - {method}"


def _order(kind: tuple[Any, ...]) -> tuple[Any, ...]:
    known = dict(zip(GROUPS, kind, strict=True))
    level = -1e9 if known["level"] is None else -float(known["level"])  # non-private first, then by noise
    front = (known["data"], known["hidden"], known["size"], known["start"], level)
    return (*front, known["method"], known["prior"], known["sweeps"])


def mean_and_interval(values: Iterable[float]) -> tuple[float, float, float]:
    """The mean with the ends of its 95 % t-interval, which one value does not have (NaN).

    >>> [round(x, 2) for x in mean_and_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    array = np.asarray(list(values), dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2 or not np.isfinite(array).all():
        return mean, math.nan, math.nan
    half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array)))
    return mean, mean - half, mean + half


def summary_text(summary: pd.DataFrame) -> str:
    """The summary as CSV, six digits."""
    return summary.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def table_text(summary: pd.DataFrame, study: Study) -> str:
    """The summary in Markdown: a line for every kind of fit, a column for every measure, mean ± half interval.

    A second table has the differences of exact fits from the others.
    """
    titles = {measure.name: measure.title for measure in study.measures}
    parts = [_table(summary, titles, list(study.shown) or list(titles))]
    titles = {
        difference(m.name, other): f"{m.title}, minus {other}"
        for m in study.measures
        if m.better
        for other in REFERENCES
    }
    differences = summary[summary["measure"].isin(list(titles))]
    if not differences.empty:
        parts.append(_table(differences, titles, list(titles)))
    return "\n".join(parts)


def _table(summary: pd.DataFrame, titles: Mapping[str, str], wanted: list[str]) -> str:
    present = [name for name in wanted if (summary["measure"] == name).any()]
    differing = [
        n for n in GROUPS if n in ("method", "prior", "level") or summary[n].astype(str).nunique() > 1
    ]
    head = [*(_HEADS.get(name, name) for name in differing), "n", *(titles[name] for name in present)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for kind, part in summary.groupby(list(GROUPS), dropna=False, sort=False):
        values = dict(zip(GROUPS, kind, strict=True))
        rows = part.set_index("measure")
        cells = [_shown_field(values[name]) for name in differing] + [str(int(rows["n"].max()))]
        for name in present:
            cells.append(_shown_mean(rows.loc[name]) if name in rows.index else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


_HEADS = {"level": "eps/N", "hidden": "held out"}


def _shown_field(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:g}"
    return str(value)


def _shown_mean(row: Any) -> str:
    half = (row["high"] - row["low"]) / 2
    mean = f"{row['mean']:.3g}" if abs(row["mean"]) < 1000 else f"{row['mean']:.0f}"
    return mean if not math.isfinite(half) else f"{mean} ± {half:.2g}"
