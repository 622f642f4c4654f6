"""Does ``posterior.prevalence()`` hold the truth as often as it says? And what do averages of memberships show?

    python benchmarks/prevalence.py --replicates 40 --output benchmarks/PREVALENCE.md

Every replicate draws counts of 60 rows by 20 words with three topics and two groups of 30 rows, releases them at
eps/N = 1, 2, 3 and 4, fits, and looks whether the 90 % intervals of the shares of topics in groups, and of their
differences, hold the truth.

* **Over draws from the prior**, of the fixed rate (beta_gk ~ Gamma(1, 1/rate)) and of the inferred one. Bayesian
  intervals hold the truth as often as they say, on average over the prior, if the chains are long enough. The default
  laws of the inferred prior are so wide that most draws of them cannot be counted: narrower ones, in the draws and in
  the fit alike.
* **At a planted truth**, the same in every replicate: shares 0.60, 0.30, 0.10 and 0.35, 0.30, 0.35, rows that vary
  about them. No theorem says that the intervals hold this one as often; it is what a user meets. Once with the shape
  that rows vary by, and once with the default 0.1, which takes rows for more different than they are.

Beside it the obvious way: a fit without groups, its memberships averaged by group.

Topics have no names: those of a fit are matched with the true ones by their words. The last column of coverage needs
no matching: half the sum of absolute differences between both groups.
"""

from __future__ import annotations

import argparse
import json
import platform
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import countveil as cv
from countveil.models.einsum import prior
from countveil.posterior import Posterior

ROWS, WORDS, TOPICS, SHAPE, RATE = 60, 20, 3, 0.5, 1.0
GROUPS = np.repeat(["a", "b"], ROWS // 2)
CODE = np.repeat([0, 1], ROWS // 2)
NOISE = (1, 2, 3, 4)
SHARES = np.array([[0.60, 0.30, 0.10], [0.35, 0.30, 0.35]])
COUNTS_PER_ROW = 40.0
NARROW = prior.Hyper(level=6.0, log_shape=1.0, log_shape_sd=0.4, mean_shape=3.0)
SETTINGS: dict[str, Any] = {
    "sweeps": 600,
    "burn_in": 200,
    "thin": 2,
    "chains": 1,
    "threads": 1,
    "progress": False,
}
INTERVAL = 0.9
#: Replicates below which a page says that they are too few.
ENOUGH = 30
#: Name, where the truth comes from, and the model.
CASES = {
    "prior, fixed rate": {"shape": SHAPE, "rate": RATE},
    "prior, inferred": {"shape": SHAPE},
    "planted, its shape": {"shape": SHAPE},
    "planted, default shape": {},
}


#: Where averages of memberships stand beside it.
COMPARED = "planted, its shape"


def draw_truth(case: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """theta, phi, and the shares of topics in groups that they were drawn with."""
    if case == "prior, fixed rate":
        beta = rng.gamma(1.0, RATE, (2, TOPICS))
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
        phi = np.random.default_rng(1).dirichlet(np.full(WORDS, 0.3), TOPICS)  # the same every time
        active = COUNTS_PER_ROW * rng.lognormal(0.0, 0.5, ROWS)
        theta = rng.gamma(SHAPE, active[:, None] * SHARES[CODE] / SHAPE)
        mass = SHARES
    return theta, phi, mass / mass.sum(axis=1, keepdims=True)


def _scales(rng: np.random.Generator, n: int) -> np.ndarray:
    s, t = np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd, 2))
    return rng.gamma(t, 1 / t, n) / rng.gamma(s, 1 / s, n)


def replicate(case: str, number: int, noise: tuple[int, ...] = NOISE) -> list[dict[str, Any]]:
    """One truth, released and fitted at every eps/N."""
    rng = np.random.default_rng([list(CASES).index(case), number])
    theta, phi, truth = draw_truth(case, rng)
    counts = rng.poisson(theta @ phi)
    wide = prior.HYPER
    prior.HYPER = NARROW if case == "prior, inferred" else wide
    try:
        return [_one(case, number, epsilon, counts, theta, phi, truth) for epsilon in noise]
    finally:
        prior.HYPER = wide


def _one(
    case: str,
    number: int,
    epsilon: int,
    counts: np.ndarray,
    theta: np.ndarray,
    phi: np.ndarray,
    truth: np.ndarray,
) -> dict[str, Any]:
    release = cv.simulate_release(counts, epsilon=epsilon, seed=1000 * number + epsilon)
    model = cv.TopicModel(TOPICS, groups=GROUPS, **CASES[case])
    posterior = cv.fit(model, release, seed=number, **SETTINGS)
    draws = posterior.prevalence().draws[:, :, _matched(posterior, phi)]
    apart = draws[:, 0] - draws[:, 1]
    true_apart = truth[0] - truth[1]
    found = {
        "case": case,
        "epsilon": epsilon,
        "shares": _held(draws, truth).tolist(),
        "differences": _held(apart, true_apart).tolist(),
        "distance": _held(np.abs(apart).sum(axis=1) / 2, np.abs(true_apart).sum() / 2).tolist(),
        "width": float(np.mean(np.diff(np.quantile(apart, (0.05, 0.95), axis=0), axis=0))),
        "truth": true_apart.tolist(),
        "mean": apart.mean(axis=0).tolist(),
    }
    if case == COMPARED:
        found |= _by_averages(case, release, number, theta * phi.sum(axis=1), phi)
    return found


def _by_averages(
    case: str, release: cv.PrivateCounts, number: int, mass: np.ndarray, phi: np.ndarray
) -> dict[str, Any]:
    """A fit that knows no groups; the means of the rows' shares by group, against what they are in truth."""
    posterior = cv.fit(cv.TopicModel(TOPICS, **CASES[case]), release, seed=number, **SETTINGS)
    fields = posterior.tree["posterior"]
    weights = fields["phi"].sum("column").to_numpy()[0].astype(float)
    share = fields["theta"].to_numpy()[0] * weights[:, None, :]
    share /= share.sum(axis=2, keepdims=True)
    order = posterior._aligned("prevalence", "topics").alignment.order
    share = np.take_along_axis(share, order[:, None, :], axis=2)[:, :, _matched(posterior, phi)]
    apart = share[:, CODE == 0].mean(axis=1) - share[:, CODE == 1].mean(axis=1)
    true = mass / mass.sum(axis=1, keepdims=True)
    true_apart = true[CODE == 0].mean(axis=0) - true[CODE == 1].mean(axis=0)
    return {
        "average": apart.mean(axis=0).tolist(),
        "average truth": true_apart.tolist(),
        "average held": _held(apart, SHARES[0] - SHARES[1]).tolist(),
    }


def _matched(posterior: Posterior, phi: np.ndarray) -> np.ndarray:
    """For every true topic the place of the fit's topic that is most like it."""
    found = posterior.topics()
    roots = np.sqrt(found.weights["mean"].to_numpy()), np.sqrt(phi / phi.sum(axis=1, keepdims=True))
    return linear_sum_assignment(roots[1] @ roots[0].T, maximize=True)[1]


def _held(draws: np.ndarray, truth: Any) -> np.ndarray:
    low, high = np.quantile(draws, ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2), axis=0)
    return (low <= truth) & (truth <= high)


def table(results: list[dict[str, Any]]) -> str:
    """Coverage in per cent, with its standard error over replicates; how much of the differences is shown."""
    lines = [
        "| truth | eps/N | replicates | shares held | differences held | distance held | mean width | "
        "shown by prevalence | shown by averages | true difference held by averages |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        for epsilon in NOISE:
            some = [one for one in results if one["case"] == case and one["epsilon"] == epsilon]
            if not some:
                continue
            cells = [case, str(epsilon), str(len(some))]
            cells += [_percent(some, name) for name in ("shares", "differences", "distance")]
            cells += [f"{np.mean([one['width'] for one in some]):.2f}", _shown(some, "mean", "truth")]
            if case == COMPARED:
                cells += [_shown(some, "average", "average truth"), _percent(some, "average held")]
            else:
                cells += ["", ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(some: list[dict[str, Any]], name: str) -> str:
    each = np.array([np.mean(one[name]) for one in some])
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    return f"{100 * each.mean():.0f} ± {100 * error:.0f} %"


def _shown(some: list[dict[str, Any]], name: str, truth: str) -> str:
    """The slope of what is found on what is true, through 0, over all topics and replicates."""
    found, true = (np.array([one[key] for one in some]) for key in (name, truth))
    return f"{100 * np.sum(found * true) / np.sum(true**2):.0f} %"


def main() -> None:
    """Run the replicates, and write the table as it grows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replicates", type=int, default=40, help="of every case (default 40)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default 2)")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("PREVALENCE.md"))
    parser.add_argument("--results", type=Path, help="a file for every result, one JSON object in a line")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        jobs = [pool.submit(replicate, case, n) for n in range(arguments.replicates) for case in CASES]
        for job in as_completed(jobs):
            results += job.result()
            if arguments.results is not None:
                arguments.results.write_text("".join(json.dumps(one) + "\n" for one in results))
            arguments.output.write_text(page(results))
    print(table(results))


def page(results: list[dict[str, Any]]) -> str:
    """The table, and how to read it."""
    least = min(sum(one["case"] == case for one in results) // len(NOISE) for case in CASES)
    few = (
        f"**This table judges nothing yet**: {least} replicates of some cases. The same rows are released at all four "
        "eps/N, so that lines of one truth are not independent. Run it again with more.\n\n"
    )
    return f"""# Prevalence of topics in groups: does it hold the truth?

Made by `python benchmarks/prevalence.py` (countveil {cv.__version__}, Python {platform.python_version()}).
{ROWS} rows by {WORDS} words, {TOPICS} topics, two groups of {ROWS // 2} rows; chains of {SETTINGS["sweeps"]} sweeps.

Columns: how often the {INTERVAL:.0%} intervals of prevalence, of its differences between both groups, and of the
distance between the groups (which needs no matching of topics) held the truth, with standard errors over replicates;
the mean width of the intervals of differences; and the slope of differences found on true ones, 100 % where nothing
is lost. *By averages*: memberships of a fit without groups, averaged by group; their slope is on the same averages of
the true memberships of these very rows, and the last column says how often their intervals held the true difference
between the groups.

{few if least < ENOUGH else ""}{table(results)}
"""


if __name__ == "__main__":
    main()
