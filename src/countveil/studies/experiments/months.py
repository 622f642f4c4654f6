"""Who, whom, when (beyond the paper): components of a tensor of messages, sender x recipient x month.

The paper says that its method serves any Poisson factorization and shows two; this is a third. ``private``
components are matched with those of a non-private fit: the affinity of two components is the product over the
axes of ``sum_i sqrt(p_i q_i)``, and a component survives if that of its match is above one half. Held out are
half of the cells of every sixth month: a month that nobody saw has no factor that data could tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from countveil.evaluation import log_score, mean_absolute_error
from countveil.models import TensorModel
from countveil.posterior import Posterior
from countveil.report.canvas import SMALL, plain_frame
from countveil.studies.experiments.panels import COLOURS, new_figure, save_figure
from countveil.studies.plan import METHODS, Found, Job, Measure, Settings, Study

SURVIVES = 0.5
#: Components of the picture, the largest.
SHOWN = 6

MEASURES = (
    Measure("mae", "MAE, held out", "lower"),
    Measure("log_score", "log score, held out", "higher"),
    Measure("covered_open", "90 % covers, where not surely 0"),
    Measure("survives", "components that survive", "higher"),
    Measure("survives_counts", "their share of counts", "higher"),
    Measure("seconds", "CPU s"),
)


def load_messages(options: Mapping[str, Any]) -> dict[str, Any]:
    """Counts by sender, recipient and month, with names of months; planted ones where no path is given."""
    path = options.get("edges")
    if path is None:
        return planted_messages()
    return messages_by_month(pd.read_csv(Path(path)))


def messages_by_month(records: pd.DataFrame) -> dict[str, Any]:
    """Distinct (time, sender, recipient) records by month, in a tensor.

    >>> records = pd.DataFrame({"time": ["2001-01-02", "2001-03-05", "2001-03-05"],
    ...                         "sender": [1, 2, 2], "recipient": [2, 1, 1]})
    >>> found = messages_by_month(records)
    >>> found["counts"].shape, int(found["counts"].sum()), found["months"].tolist()
    ((2, 2, 3), 2, ['2001-01', '2001-02', '2001-03'])
    """
    missing = {"time", "sender", "recipient"} - set(records.columns)
    if missing:
        raise ValueError(f"edges: expected columns time, sender, recipient, got none named {sorted(missing)}")
    once = records[["time", "sender", "recipient"]].drop_duplicates()
    once = once[once["sender"] != once["recipient"]]
    period = pd.to_datetime(once["time"]).dt.to_period("M")
    months = pd.period_range(period.min(), period.max(), freq="M")
    actors = pd.Index(sorted(set(once["sender"]) | set(once["recipient"])))
    places = [actors.get_indexer(once[name]) for name in ("sender", "recipient")]
    counts = np.zeros((len(actors), len(actors), len(months)), dtype=np.int64)
    np.add.at(counts, (*places, months.get_indexer(period)), 1)
    return {
        "counts": counts,
        "months": months.astype(str).to_numpy(),
        "actors": actors.astype(str).to_numpy(),
    }


def planted_messages(n: int = 20, n_months: int = 12, seed: int = 0) -> dict[str, Any]:
    """Three groups, each busy for some months."""
    rng = np.random.default_rng(seed)
    group, time = np.arange(n) % 3, np.arange(n_months)
    busy = np.exp(-0.5 * ((time - np.array([2, 6, 9])[:, None]) / 2.0) ** 2)
    activity = rng.gamma(1.0, 1.0, n)
    within = (group[:, None] == group) * activity[:, None] * activity
    counts = rng.poisson(2.0 * within[:, :, None] * busy[group][:, None, :])
    counts[np.arange(n), np.arange(n)] = 0
    months = np.array([f"2001-{month + 1:02d}" for month in range(n_months)])
    return {"counts": counts, "months": months, "actors": np.arange(n).astype(str)}


def describe(data: Mapping[str, Any]) -> str:
    """One line that tells two tensors apart."""
    return f"{' x '.join(map(str, data['counts'].shape))}, {data['counts'].sum()} messages"


def held_out(shape: tuple[int, ...]) -> np.ndarray:
    """Half of the cells of every sixth month, drawn once and for all; no actor writes to itself."""
    hidden = np.random.default_rng(3).random(shape) < 0.5
    hidden[:, :, np.arange(shape[2]) % 6 != 3] = False
    hidden[np.arange(shape[0]), np.arange(shape[0])] = False
    return hidden


def plan(settings: Settings) -> list[Job]:
    """The non-private reference of a prior comes before what is matched with it."""
    jobs: list[Job] = []
    for size in settings.sizes:
        jobs += settings.at_levels(METHODS, size=size, data="messages")
    return settings.repeated(jobs)


def perform(job: Job, settings: Settings, data: dict[str, Any]) -> Found:
    """One fit without the held-out cells, its scores on them, and how many reference components it has."""
    counts = data["counts"]
    hidden = held_out(counts.shape)
    posterior = _fit(job, settings, counts, hidden)
    scores = {
        "mae": mean_absolute_error(posterior.iter_rates(), counts, cells=hidden),
        "log_score": log_score(posterior.iter_rate_draws(), counts, cells=hidden),
    }
    if job.method != "naive":
        found = posterior.true_counts(interval=0.9)
        low, high = found["low"].to_numpy(), found["high"].to_numpy()
        open_cells = hidden & (high > 0)
        if open_cells.any():
            scores["covered_open"] = float(((low <= counts) & (counts <= high))[open_cells].mean())
    mine = component_arrays(posterior)
    reference = _reference(job, settings, data, hidden, mine)
    order, alike = match_components(reference, mine)
    survives = alike > SURVIVES
    scores["survives"] = float(survives.sum())
    scores["survives_counts"] = float(reference["share"][survives].sum())
    keep = {name: array[order].astype(np.float32) for name, array in mine.items()}
    return Found(scores, {**keep, "alike": alike} if job.release == 0 else {})


def _fit(job: Job, settings: Settings, counts: np.ndarray, hidden: np.ndarray) -> Posterior:
    seen, options = job.observed(counts, hidden)
    return job.fitted(TensorModel(job.size, **job.given), settings, seen, **options)


def _reference(
    job: Job, settings: Settings, data: dict[str, Any], hidden: np.ndarray, mine: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Components of the first non-private fit of this prior; that fit itself is compared with a second chain."""
    key = f"reference {job.prior} {job.size} {job.sweeps}"
    if key not in data:
        first = Job("non-private", job.prior, None, 0, job.sweeps, size=job.size, data=job.data)
        if job == first:
            data[key] = mine
        else:
            data[key] = component_arrays(_fit(first, settings, data["counts"], hidden))
    if job.method == "non-private" and job.release == 0:
        # How many survive nothing but another start: the most that any method can be asked for.
        other = job._replace(release=job.release + 1000)
        return component_arrays(_fit(other, settings, data["counts"], hidden))
    return data[key]


def component_arrays(posterior: Posterior) -> dict[str, np.ndarray]:
    """Mean weights of every component over every axis, and its share of all counts."""
    found = posterior.components()
    axes = list(found.factors)
    names = ("senders", "recipients", "months")
    arrays = {name: found.factors[axis]["mean"].to_numpy() for name, axis in zip(names, axes, strict=True)}
    return {**arrays, "share": np.asarray(found.share[axes[0]])}


def match_components(
    reference: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """For every reference component its match among the others, and their affinity."""
    affinity = np.ones((len(reference["share"]), len(other["share"])))
    for name in ("senders", "recipients", "months"):
        affinity = affinity * (np.sqrt(reference[name]) @ np.sqrt(other[name]).T)
    rows, order = linear_sum_assignment(affinity, maximize=True)
    return order, affinity[rows, order]


def picture(folder: Any, path: Path) -> None:
    """The largest components of the non-private fit, and their matches: when, who, whom."""
    done = folder.done()
    longest = max(job.sweeps for job in done)
    jobs = [j for j in done if j.release == 0 and j.prior == "paper" and j.sweeps == longest]
    levels = sorted({j.level for j in jobs if j.level is not None}, reverse=True)
    wanted = [j for j in jobs if j.method == "non-private"]
    wanted += [j for level in levels for method in ("exact", "naive") for j in jobs
               if j.method == method and j.level == level]  # fmt: skip
    found = [(job, folder.arrays(job)) for job in wanted]
    reference = next(arrays for job, arrays in found if job.method == "non-private")
    # The reference was matched with a second chain, in whose order it stands; by size is what a reader wants.
    sizes = np.argsort(-reference["share"], kind="stable")[: min(SHOWN, len(reference["share"]))]
    columns = [(job, arrays, match_components(reference, arrays)) for job, arrays in found]
    figure = new_figure(2.3 * len(columns) + 0.3, 1.55 * len(sizes) + 1.0)
    figure.suptitle(
        "The largest components of the plain messages, and what is left of them in a release:\n"
        "months as bars, who > whom (heaviest actors); grey: did not survive",
        fontsize=10, x=0.01, ha="left",
    )  # fmt: skip
    grid = figure.subplots(len(sizes), len(columns), squeeze=False)
    for column, (job, arrays, (order, alike)) in enumerate(columns):
        for row, k in enumerate(sizes):
            ax = grid[row][column]
            mine = order[k]
            survived = job.method == "non-private" or alike[k] > SURVIVES
            ax.bar(
                np.arange(len(arrays["months"][mine])), arrays["months"][mine], width=1.0,
                color=COLOURS[job.method] if survived else "#cccccc",
            )  # fmt: skip
            who, whom = (np.argsort(-arrays[name][mine])[:3] for name in ("senders", "recipients"))
            told = f"{', '.join(map(str, who))} > {', '.join(map(str, whom))}"
            ax.set_title(told, fontsize=SMALL - 1, color="black" if survived else "#999999")
            ax.set(yticks=[], xticks=[])
            plain_frame(ax, None)
            if job.method != "non-private":
                ax.text(
                    0.98,
                    0.92,
                    f"{alike[k]:.2f}",
                    transform=ax.transAxes,
                    ha="right",
                    va="top",
                    fontsize=SMALL - 1,
                )
            if column == 0:
                ax.set_ylabel(f"{100 * arrays['share'][mine]:.0f} % of counts", fontsize=SMALL)
        level = "" if job.level is None else f", eps/N = {job.level:g}"
        grid[-1][column].set_xlabel(f"{job.method}{level}", fontsize=9)
    save_figure(figure, path)


STUDY = Study(
    "months",
    "Who, whom, when",
    MEASURES,
    paper=Settings(3000, (3.0, 1.0), (20,), 5, threads=1),
    quick=Settings(90, (3.0, 1.0), (3,), 1, threads=1),
    load=load_messages,
    describe=describe,
    plan=plan,
    perform=perform,
    picture=picture,
    data_options=("edges",),
)
