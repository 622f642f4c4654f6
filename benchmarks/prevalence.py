"""Does ``posterior.prevalence()`` hold the truth as often as it says? And what do averages of memberships show?

    python benchmarks/prevalence.py --processes 16 --replicates 300 --seconds 300

Every replicate draws counts of 60 rows by 30 words with three topics and two groups of 30 rows, releases them at
eps/N = 1, 2, 3 and 4, fits, and looks whether the 90 % intervals of the shares of topics in groups, and of their
differences, hold the truth.

* **Over draws from the prior**, of the fixed rate and of the inferred one. Bayesian intervals hold the truth as often
  as they say, on average over the prior, if the chains are long enough. The default laws are so wide that most draws
  of them have far too many counts for short chains, or none: narrower ones, in the draws and in the fit alike
  (beta_gk ~ Gamma(3, 3/rate) in place of Gamma(1, 1/rate)).
* **At a planted truth**, the same in every replicate: shares 0.60, 0.30, 0.10 and 0.35, 0.30, 0.35, rows that vary
  about them. No theorem says that the intervals hold this one as often; it is what a user meets. A model has one shape
  for rows and words: once both vary by it; once the words of topics are sparser (shape 0.1, one draw for all
  replicates), which the model does not know; and once the fit has the default 0.1, which takes rows for more different
  than they are.

Beside it, in two of the four, the obvious way: a fit without groups, its memberships averaged by group.

Topics have no names: those of a fit are matched with the true ones by their words. One column of coverage needs
no matching: half the sum of absolute differences between both groups.

Two chains a fit. Where an R-hat of what is judged is above 1.05, once more with chains of four times the length;
where it still is, the replicate counts, and the page says of how many that is so.

Results are appended to a CSV as they come. What is there is not computed again, so that the same command goes on where
it was stopped (remove the file after changing anything above ``draw_truth``); the page is made of the CSV alone.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import platform
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from scipy.optimize import linear_sum_assignment

import countveil as cv
from countveil.models.einsum import prior
from countveil.posterior import Posterior
from countveil.posterior.align.matching import all_draws

ROWS, WORDS, TOPICS, SHAPE, RATE = 60, 30, 3, 0.5, 1.0
GROUPS = np.repeat(["a", "b"], ROWS // 2)
CODE = np.repeat([0, 1], ROWS // 2)
NOISE = (1, 2, 3, 4)
SHARES = np.array([[0.60, 0.30, 0.10], [0.35, 0.30, 0.35]])
COUNTS_PER_ROW = 20.0
NARROW = prior.Hyper(level=6.0, log_shape=1.0, log_shape_sd=0.4, mean_shape=3.0)
SETTINGS: dict[str, Any] = {
    "sweeps": 800,
    "burn_in": 200,
    "thin": 4,
    "chains": 2,
    "threads": 1,
    "progress": False,
}
LONGER, MOST_R_HAT = 4, 1.05
INTERVAL = 0.9
#: Name, where the truth comes from, and the model.
CASES = {
    "prior, fixed rate": {"shape": SHAPE, "rate": RATE},
    "prior, inferred": {"shape": SHAPE},
    "planted, sparser words": {"shape": SHAPE},
    "planted, default shape": {},
    "planted, its shape": {"shape": SHAPE},
}
#: Where averages of memberships stand beside it.
COMPARED = ("prior, inferred", "planted, sparser words")
#: Columns of the CSV. ``_held``: the part of the intervals that hold their truth; ``_shown``: the sum of found times
#: true over topics, beside that of true squared.
KEY = ("case", "replicate", "epsilon")
FOUND = ("r_hat", "sweeps", "shares_held", "differences_held", "distance_held", "width", "shown", "of")
AVERAGED = ("averages_held", "averages_of_rows_held", "averages_shown", "averages_of_rows_shown", "of_rows")
COLUMNS = (*KEY, *FOUND, *AVERAGED)


def draw_truth(case: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """theta, phi, and the shares of topics in groups that they were drawn with."""
    if case == "prior, fixed rate":
        e = NARROW.mean_shape
        beta = rng.gamma(e, RATE / e, (2, TOPICS))
        theta, phi = rng.gamma(SHAPE, 1 / beta[CODE]), rng.gamma(SHAPE, 1 / RATE, (TOPICS, WORDS))
        mass = phi.sum(axis=1) / beta
    elif case == "prior, inferred":
        e = NARROW.mean_shape
        mean = 1 / rng.gamma(e, 1 / e, (2, TOPICS))
        level = rng.gamma(NARROW.level) / rng.gamma(NARROW.level)
        u, w = _scales(rng, ROWS), level * _scales(rng, WORDS)
        theta = rng.gamma(SHAPE, mean[CODE] * u[:, None] / SHAPE)
        phi = rng.gamma(SHAPE, w / SHAPE, (TOPICS, WORDS))
        mass = phi.sum(axis=1) * mean
    else:
        if case == "planted, its shape":
            phi = rng.dirichlet(np.full(WORDS, SHAPE), TOPICS)
        else:
            phi = np.random.default_rng(1).dirichlet(np.full(WORDS, 0.1), TOPICS)  # the same every time
        active = COUNTS_PER_ROW * rng.lognormal(0.0, 0.5, ROWS)
        theta = rng.gamma(SHAPE, active[:, None] * SHARES[CODE] / SHAPE)
        mass = SHARES
    return theta, phi, mass / mass.sum(axis=1, keepdims=True)


def _scales(rng: np.random.Generator, n: int) -> np.ndarray:
    s, t = np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd, 2))
    return rng.gamma(t, 1 / t, n) / rng.gamma(s, 1 / s, n)


def replicate(case: str, number: int, epsilon: int) -> dict[str, Any]:
    """One truth, released and fitted: a line of the CSV."""
    rng = np.random.default_rng([list(CASES).index(case), number])
    theta, phi, truth = draw_truth(case, rng)  # the same at every eps/N
    release = cv.simulate_release(rng.poisson(theta @ phi), epsilon=epsilon, seed=1000 * number + epsilon)
    wide = prior.HYPER
    prior.HYPER = NARROW if case.startswith("prior") else wide
    try:
        found = _by_prevalence(case, release, number, phi, truth)
        if case in COMPARED:
            found |= _by_averages(case, release, number, theta * phi.sum(axis=1), phi, truth)
    finally:
        prior.HYPER = wide
    return dict(zip(KEY, (case, number, epsilon), strict=True)) | found


def _by_prevalence(
    case: str, release: cv.PrivateCounts, number: int, phi: np.ndarray, truth: np.ndarray
) -> dict[str, float]:
    model = cv.TopicModel(TOPICS, groups=GROUPS, **CASES[case])
    for longer in (1, LONGER):
        settings = SETTINGS | {name: SETTINGS[name] * longer for name in ("sweeps", "burn_in", "thin")}
        posterior = cv.fit(model, release, seed=number, **settings)
        draws = posterior.prevalence(by="group").draws[:, :, _matched(posterior, phi)]
        apart = draws[:, 0] - draws[:, 1]
        distance = np.abs(apart).sum(axis=1) / 2
        r_hat = _worst_r_hat(np.column_stack([draws.reshape(len(draws), -1), distance]))
        if r_hat <= MOST_R_HAT:
            break
    true_apart = truth[0] - truth[1]
    return {
        "r_hat": r_hat,
        "sweeps": settings["sweeps"],
        "shares_held": float(_held(draws, truth).mean()),
        "differences_held": float(_held(apart, true_apart).mean()),
        "distance_held": float(_held(distance, np.abs(true_apart).sum() / 2)),
        "width": float(np.mean(np.diff(np.quantile(apart, _TAILS, axis=0), axis=0))),
        "shown": float(apart.mean(axis=0) @ true_apart),
        "of": float(true_apart @ true_apart),
    }


def _by_averages(
    case: str, release: cv.PrivateCounts, number: int, mass: np.ndarray, phi: np.ndarray, truth: np.ndarray
) -> dict[str, float]:
    """A fit that knows no groups; the means of the rows' shares by group."""
    posterior = cv.fit(cv.TopicModel(TOPICS, **CASES[case]), release, seed=number, **SETTINGS)
    theta, phis = (all_draws(posterior.tree["posterior"][name]) for name in ("theta", "phi"))
    share = theta * phis.sum(axis=2, dtype=np.float64)[:, None, :]
    share /= share.sum(axis=2, keepdims=True)
    order = posterior._aligned("memberships", "topics").alignment.order
    share = np.take_along_axis(share, order[:, None, :], axis=2)[:, :, _matched(posterior, phi)]
    apart, true = _between(share), truth[0] - truth[1]
    of_rows = _between((mass / mass.sum(axis=1, keepdims=True))[None])[0]
    return {
        "averages_held": float(_held(apart, true).mean()),
        "averages_of_rows_held": float(_held(apart, of_rows).mean()),
        "averages_shown": float(apart.mean(axis=0) @ true),
        "averages_of_rows_shown": float(apart.mean(axis=0) @ of_rows),
        "of_rows": float(of_rows @ of_rows),
    }


def _between(share: np.ndarray) -> np.ndarray:
    return share[:, CODE == 0].mean(axis=1) - share[:, CODE == 1].mean(axis=1)


def _matched(posterior: Posterior, phi: np.ndarray) -> np.ndarray:
    """For every true topic the place of the fit's topic that is most like it."""
    found = posterior.topics()
    roots = np.sqrt(found.weights["mean"].to_numpy()), np.sqrt(phi / phi.sum(axis=1, keepdims=True))
    return linear_sum_assignment(roots[1] @ roots[0].T, maximize=True)[1]


_TAILS = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)


def _held(draws: np.ndarray, truth: Any) -> np.ndarray:
    low, high = np.quantile(draws, _TAILS, axis=0)
    return (low <= truth) & (truth <= high)


def _worst_r_hat(draws: np.ndarray) -> float:
    """Of quantities (draw, quantity), the draws of one chain after those of the other."""
    chains = draws.reshape(SETTINGS["chains"], -1, draws.shape[1])
    return max(float(array_stats.rhat(chains[:, :, q])) for q in range(chains.shape[2]))


def wilson(held: np.ndarray, z: float = 1.96) -> tuple[float, float, float]:
    """Coverage and Wilson's 95 % interval of it; ``held`` is the part that held, of every replicate.

    The parts of one replicate depend on each other: as many trials are counted as independent ones would show
    the variance that there is between replicates, and at least as many as replicates.
    """
    p, n = float(held.mean()), float(len(held))
    spread = float(held.var(ddof=1)) if n > 1 else 0.0
    if spread > 0:
        n = max(n, n * p * (1 - p) / spread)
    middle, wide = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return p, float((middle - wide) / (1 + z**2 / n)), float((middle + wide) / (1 + z**2 / n))


Results = dict[tuple[str, int], dict[str, np.ndarray]]


def by_setting(lines: list[dict[str, str]]) -> Results:
    """The columns of the results, by case and eps/N; what was not computed is NaN."""
    found: Results = {}
    for case in CASES:
        for epsilon in NOISE:
            some = [one for one in lines if one["case"] == case and int(one["epsilon"]) == epsilon]
            if some:
                columns = {name: [float(one[name] or "nan") for one in some] for name in COLUMNS[2:]}
                found[case, epsilon] = {name: np.array(values) for name, values in columns.items()}
    return found


def coverage_table(results: Results) -> str:
    """How often intervals of prevalence held the truth."""
    lines = [
        "| truth | eps/N | replicates | R-hat above 1.05 | shares held | differences held | distance held | "
        "mean width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (case, epsilon), some in results.items():
        held = (_percent(some[f"{name}_held"]) for name in ("shares", "differences", "distance"))
        few = (str(len(some["r_hat"])), str(int((some["r_hat"] > MOST_R_HAT).sum())))
        cells = (case, str(epsilon), *few, *held, f"{some['width'].mean():.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def averages_table(results: Results) -> str:
    """What averages of memberships show of differences, beside prevalence."""
    lines = [
        "| truth | eps/N | shown by prevalence | shown by averages | ... of these rows | held by prevalence | "
        "held by averages | ... of these rows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (case, epsilon), some in results.items():
        if case not in COMPARED:
            continue
        pairs = (("shown", "of"), ("averages_shown", "of"), ("averages_of_rows_shown", "of_rows"))
        shown = (f"{100 * some[a].sum() / some[b].sum():.0f} %" for a, b in pairs)
        names = ("differences_held", "averages_held", "averages_of_rows_held")
        cells = (case, str(epsilon), *shown, *(_percent(some[name]) for name in names))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(held: np.ndarray) -> str:
    return "{:.1f} ({:.1f} to {:.1f}) %".format(*(100 * x for x in wilson(held)))


def page(lines: list[dict[str, str]]) -> str:
    """The tables, and how to read them."""
    results = by_setting(lines)
    longer = sum(int(one["sweeps"]) > SETTINGS["sweeps"] for one in lines)
    return f"""# Prevalence of topics in groups: does it hold the truth?

Made by `python benchmarks/prevalence.py` (countveil {cv.__version__}, Python {platform.python_version()}) of
[prevalence.csv](prevalence.csv), one line for every fit. {ROWS} rows by {WORDS} words, {TOPICS} topics, two groups of
{ROWS // 2} rows; {SETTINGS["chains"]} chains of {SETTINGS["sweeps"]:,} sweeps, and of
{LONGER * SETTINGS["sweeps"]:,} where an R-hat of the shares or of the distance was above {MOST_R_HAT}
({longer:,} of {len(lines):,} fits). The column says where it still was; they are counted with the others.

How often the {INTERVAL:.0%} intervals of prevalence, of its differences between both groups, and of the distance
between the groups (half the sum of absolute differences, which needs no matching of topics) held the truth; in
brackets Wilson's 95 % intervals of that, which take topics of one replicate for as many trials as they are worth.
The same rows are released at all four eps/N, so that the lines of one truth are not independent.

{coverage_table(results)}

Beside it **averages**: memberships of a fit without groups, averaged by group. *Shown* is the slope of differences
found on true ones, over all topics and replicates: 100 % where nothing is lost. The truth is the difference between
the groups that rows were drawn from; *of these rows*: between the averages of the true memberships of these very rows,
which are another thing, and all that averages could show.

{averages_table(results)}
"""


def read(path: Path) -> list[dict[str, str]]:
    """The lines of the CSV, or none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise SystemExit(f"--results: expected a file with the columns {', '.join(COLUMNS)}, got {path}")
        # The last line of a killed run may be half a line.
        return [line for line in reader if None not in (line[name] for name in COLUMNS)]


def compute(path: Path, replicates: int, processes: int, seconds: float) -> None:
    """Append what is missing of so many replicates, and start nothing after so many seconds."""
    began = time.monotonic()
    lines = read(path)
    there = {(one["case"], int(one["replicate"]), int(one["epsilon"])) for one in lines}
    wanted = ((case, n, e) for n in range(replicates) for case in CASES for e in NOISE)
    missing = iter([task for task in wanted if task not in there])
    first = next(missing, None)
    if first is None:
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(lines)
        # Here first: what it compiles is then there for all processes.
        for warm in (first, *(() if first[0] in COMPARED else ((COMPARED[0], 0, 1),))):
            line = replicate(*warm)
            if warm == first:
                writer.writerow(line)
        file.flush()
        print(f"{time.monotonic() - began:.0f} s: compiled", flush=True)
        for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ[f"{library}_NUM_THREADS"] = "1"  # of the processes, which have not loaded any
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            running: set[Future] = {pool.submit(replicate, *task) for task in islice(missing, processes)}
            done = 1
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for job in ended:
                    writer.writerow(job.result())
                    done += 1
                    if done % 100 == 0:
                        print(f"{time.monotonic() - began:.0f} s: {done} done", flush=True)
                file.flush()
                if time.monotonic() - began < seconds:
                    running |= {pool.submit(replicate, *task) for task in islice(missing, len(ended))}
    print(f"{time.monotonic() - began:.0f} s: {done} done, {sum(1 for _ in missing)} left", flush=True)


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(__file__)
    parser.add_argument(
        "--replicates", type=int, default=100, help="of every case (default 100; 0: the page)"
    )
    parser.add_argument("--processes", type=int, default=2, help="at a time (default 2)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing after so many")
    parser.add_argument("--results", type=Path, default=here.with_name("prevalence.csv"))
    parser.add_argument("--output", type=Path, default=here.with_name("PREVALENCE.md"))
    arguments = parser.parse_args()
    compute(arguments.results, arguments.replicates, arguments.processes, arguments.seconds)
    lines = read(arguments.results)
    if lines:
        arguments.output.write_text(page(lines), encoding="utf-8")
        print(page(lines))


if __name__ == "__main__":
    main()
