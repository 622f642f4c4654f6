"""16 chains of a network: do they agree?"""

from __future__ import annotations

import itertools
import time

import numpy as np

from gpu_stages.session import LEVELS, say


def rhat(draws):
    """Of (chains, draws): split R-hat."""
    n = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :n], draws[:, n : 2 * n]])
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))


def summed_up(draws, seconds):
    """What 16 chains look like beside each other."""
    means = draws.mean(axis=1)
    return {
        "log-likelihood of each chain": [round(x, 1) for x in sorted(means, reverse=True)],
        "R-hat": round(rhat(draws), 2), "spread": round(float(means.max() - means.min()), 1),
        "sd within": round(float(draws.std(axis=1).mean()), 1), "s": round(seconds, 1),
    }  # fmt: skip


def network_settings(session, engine):
    from countveil.inference.settings import check_settings

    return check_settings(
        sweeps=session.small(7500, 60), burn_in=session.small(2500, 40), thin=session.small(100, 5),
        chains=session.small(16, 2), seed=1, method="exact", engine=engine, threads=session.small(16, 1),
    )  # fmt: skip


def chains(session):
    """16 chains of the network at each C and level, with both priors and better starts."""
    from countveil.inference.engines.cuda.sampler import open_problem
    from countveil.inference.monitor import LOG_LIKELIHOOD
    from countveil.inference.problem import make_problem
    from countveil.models import CommunityModel

    counts, found, settings = session.network(), {}, network_settings(session, "cuda")
    cases = itertools.product(("inferred", "fixed"), session.small((20, 5, 10), (2,)), LEVELS)
    for prior, size, level in cases:
        model = CommunityModel(size, rate=None if prior == "inferred" else 1.0)
        problem = make_problem(model, session.release(counts, level), "exact")
        began = time.perf_counter()
        draws = [[] for _ in range(settings.chains)]
        with open_problem(problem, settings) as sampler:
            for chain in range(settings.chains):
                sampler.start(chain)
            for sweep in range(1, settings.sweeps + 1):
                for chain in range(settings.chains):
                    sampler.sweep(chain)
                if sweep > settings.burn_in and sweep % settings.thin == 0:
                    for chain in range(settings.chains):
                        draws[chain].append(sampler.monitor(chain)[LOG_LIKELIHOOD])
        line = summed_up(np.array(draws), time.perf_counter() - began)
        found[f"{prior}, C = {size}, eps/N = {level:g}"] = line
        say(f"{prior}, C = {size}, eps/N = {level:g}: {line}")
        session.write("chains", found)
