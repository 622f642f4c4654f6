"""Blocks (the paper's figure 1): a small synthetic network, three levels of noise, and what each method makes of
it.

20 actors, 5 communities, ``theta, pi ~ Gamma(0.01, rate 0.5)``, N the mean of the counts, ``alpha = exp(-eps/N)``.

**Usable draws.** Drawn as the paper says, nearly all networks are empty, and their N is so small that there is no
noise: see the line ``prior draws`` of the table. So a draw is made under the condition that every community has
at least five actors, a quarter of them, and deals with at least one community, with a weight above 0.5. The
columns of theta and rows of pi are independent, so each is drawn by itself given its part of that: how many
entries are above 0.5 (binomial, truncated), which, and then each of them from its side of 0.5. That is exactly
the law given the condition.

**Errors** are those of the mean rates against the true ones (not the counts), over all pairs and repetitions.
Beside the two priors of all studies stands ``generating``, Gamma(0.01, 0.5), by which the networks were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import SymLogNorm
from scipy import stats
from scipy.special import gammainccinv, gammaincinv

from countveil.counts import simulate_release
from countveil.evaluation import log_score
from countveil.models import CommunityModel
from countveil.studies.experiments.networks import off_diagonal
from countveil.studies.experiments.panels import COLOURS, new_figure, plain_frame, save_figure
from countveil.studies.plan import METHODS, PRIORS, Found, Job, Measure, Settings, Study

ACTORS, COMMUNITIES = 20, 5
SHAPE, RATE = 0.01, 0.5
LEAST_ACTORS, HEAVY = 5, 0.5  # what makes a draw usable
MODELS = {"generating": {"shape": SHAPE, "rate": RATE}, **PRIORS}
_LAW = stats.gamma(SHAPE, scale=1 / RATE)
#: Draws without the condition, to say how many would do.
PRIOR_DRAWS = 100_000

MEASURES = (
    Measure("error", "error of rates", "lower"),
    Measure("error_empty", "where rate < 0.01", "lower"),
    Measure("log_score", "log score", "higher"),
    Measure("mean_count", "N"),
    Measure("alpha", "alpha"),
    Measure("share_any", "share of draws with a count"),
    Measure("share_one", "share with N > 0.5"),
    Measure("seconds", "CPU s"),
)


class Network(NamedTuple):
    """True rates and counts."""

    rates: np.ndarray
    counts: np.ndarray


def draw_network(seed: int) -> Network:
    """Rates given the condition, and their counts.

    >>> network = draw_network(0)
    >>> network.rates.shape, bool(network.counts.sum() > 0)
    ((20, 20), True)
    """
    rng = np.random.default_rng([7, seed])
    theta = np.stack([entries_given(rng, ACTORS, LEAST_ACTORS) for _ in range(COMMUNITIES)], axis=1)
    pi = np.stack([entries_given(rng, COMMUNITIES, 1) for _ in range(COMMUNITIES)])
    rates = (theta @ pi @ theta.T) * off_diagonal(ACTORS)
    return Network(rates, rng.poisson(rates))


def entries_given(rng: np.random.Generator, length: int, least: int) -> np.ndarray:
    """Gamma(0.01, 0.5) entries, given that at least ``least`` of them are above 0.5."""
    above = float(_LAW.sf(HEAVY))
    numbers = np.arange(least, length + 1)
    chances = stats.binom.pmf(numbers, length, above)
    n = rng.choice(numbers, p=chances / chances.sum())
    u = rng.random(length)
    heavy = np.zeros(length, dtype=bool)
    heavy[rng.choice(length, n, replace=False)] = True
    # The upper tail by its survival function, from which nothing is lost to rounding.
    return np.where(heavy, gammainccinv(SHAPE, u * above), gammaincinv(SHAPE, u * (1 - above))) / RATE


def plan(settings: Settings) -> list[Job]:
    """Every method, level and prior for every repetition; one line for draws without the condition."""
    jobs = settings.at_levels(METHODS, size=COMMUNITIES)
    jobs += settings.at_levels(METHODS[:2], ["generating"], size=COMMUNITIES)
    return [Job("prior draws", "generating", None, 0, 0, size=COMMUNITIES), *settings.repeated(jobs)]


def perform(job: Job, settings: Settings, data: Mapping[str, Any]) -> Found:
    """One repetition: a network of its own, its release at eps/N, a fit."""
    if job.method == "prior draws":
        return Found(_share_of_usable_draws())
    network = draw_network(job.release)
    n = float(network.counts[off_diagonal(ACTORS)].mean())
    # The levels of this study are eps, and N is the mean of the counts.
    noisy = job._replace(level=None if job.level is None else job.level / n)
    seen, options = noisy.observed(network.counts)
    model = CommunityModel(COMMUNITIES, **MODELS[job.prior])
    posterior = job.fitted(model, settings, seen, kept=300, **options)
    mean = np.concatenate([block for _, block in posterior.iter_rates()])
    cells = off_diagonal(ACTORS)
    far = np.abs(mean - network.rates)
    scores = {
        "error": float(far[cells].mean()),
        "error_empty": float(far[cells & (network.rates < 0.01)].mean()),
        "log_score": log_score(posterior.iter_rate_draws(), network.counts, cells=cells),
        "mean_count": n,
    }
    if noisy.level is not None:
        scores["alpha"] = float(np.exp(-noisy.level))
    return Found(scores, {"mean": mean.astype(np.float32)} if job.release == SHOWN else {})


#: The repetition that the picture shows: the first, not the best.
SHOWN = 0


def _share_of_usable_draws() -> dict[str, float]:
    """Of networks drawn as the paper says: how many have any count at all, how many a mean above 0.5."""
    rng = np.random.default_rng(11)
    any_count = above = 0
    for _ in range(PRIOR_DRAWS // 5000):
        theta = rng.gamma(SHAPE, 1 / RATE, (5000, ACTORS, COMMUNITIES))
        pi = rng.gamma(SHAPE, 1 / RATE, (5000, COMMUNITIES, COMMUNITIES))
        rates = (theta @ pi @ theta.transpose(0, 2, 1)) * off_diagonal(ACTORS)
        counts = rng.poisson(rates).sum(axis=(1, 2))
        any_count += int((counts > 0).sum())
        above += int((counts > 0.5 * ACTORS * (ACTORS - 1)).sum())
    return {"share_any": any_count / PRIOR_DRAWS, "share_one": above / PRIOR_DRAWS}


def picture(folder: Any, path: Path) -> None:
    """Above, one network: data and estimates by level. Below, errors of all repetitions."""
    summary, done = folder.summary(), folder.done()
    levels = sorted({job.level for job in done if job.level is not None}, reverse=True)
    network = draw_network(SHOWN)
    figure = new_figure(9.6, 9.4)
    upper, lower = figure.subfigures(2, 1, height_ratios=[2.5, 1])
    upper.suptitle(
        "One network (the first): data above, estimated rates below; red positive, blue negative, white 0",
        fontsize=11, x=0.01, ha="left",
    )  # fmt: skip
    order = np.argsort(-(network.rates.sum(axis=0) + network.rates.sum(axis=1)), kind="stable")
    most = max(1.0, float(network.counts.max()))
    norm = SymLogNorm(linthresh=0.5, vmin=-most, vmax=most)
    grid = upper.subplots(3, 1 + len(levels))
    for at in grid.flat:
        at.set_axis_off()

    def show(at: Any, values: np.ndarray, title: str) -> None:
        at.set_axis_on()
        at.imshow(values[np.ix_(order, order)], cmap="RdBu_r", norm=norm, interpolation="nearest")
        at.set(xticks=[], yticks=[])
        at.set_title(title, fontsize=9)

    show(grid[0, 0], network.counts, "true counts")
    show(grid[1, 0], network.rates, "true rates")
    n = float(network.counts[off_diagonal(ACTORS)].mean())
    longest = max((job.sweeps for job in done), default=0)
    for job in done:
        if job.release != SHOWN or job.prior != "paper" or job.sweeps != longest:
            continue
        found = folder.arrays(job)
        if found is None:
            continue
        if job.level is None:
            show(grid[2, 0], found["mean"], "non-private")
            continue
        column = 1 + levels.index(job.level)
        show(
            grid[1 if job.method == "exact" else 2, column], found["mean"], f"{job.method}, eps {job.level:g}"
        )
        if job.method == "exact":
            noise = job._replace(level=job.level / n)
            release = simulate_release(
                network.counts, alpha=np.exp(-job.level / n), seed=noise.noise(), keep_negative=True
            )
            show(grid[0, column], release.to_dense() * off_diagonal(ACTORS), f"released, eps {job.level:g}")
    panels = lower.subplots(1, 2)
    for at, measure in zip(panels, MEASURES[:2], strict=True):
        part = summary[summary["measure"] == measure.name]
        _draw_errors(at, part, levels)
        at.set_title(
            f"{measure.title}, mean over repetitions; {measure.better} is better", fontsize=9, loc="left"
        )
    panels[1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, path)


def _draw_errors(ax: Any, part: Any, levels: list[float]) -> None:
    styles = {"paper": "-", "inferred": "--", "generating": ":"}
    for (method, prior), mine in part.groupby(["method", "prior"]):
        mine = mine.sort_values("n").drop_duplicates("level", keep="last")  # most repetitions
        look = {"color": COLOURS[method], "linestyle": styles[prior], "label": f"{method}, {prior}"}
        if method == "non-private":
            ax.axhline(float(mine["mean"].iloc[0]), linewidth=1.0, **look)
            continue
        mine = mine.sort_values("level", ascending=False)
        x = [levels.index(level) for level in mine["level"]]
        half = ((mine["high"] - mine["low"]) / 2).fillna(0)
        ax.errorbar(x, mine["mean"], yerr=half, marker="o", markersize=3, capsize=2, linewidth=1.2, **look)
    ax.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    ax.set_xlabel("eps: more noise to the right", fontsize=8)
    plain_frame(ax, grid="y")


def load(options: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing: every job draws its own counts."""
    return {}


def describe(data: Any) -> str:
    """A line about the data."""
    return "synthetic networks"


STUDY = Study(
    "blocks",
    "Blocks: a small network",
    MEASURES,
    paper=Settings(8500, (2.5, 1.0, 0.75), (COMMUNITIES,), 50, threads=1),
    quick=Settings(120, (2.5, 0.75), (COMMUNITIES,), 2, threads=1),
    load=load,
    describe=describe,
    plan=plan,
    perform=perform,
    picture=picture,
)
