"""Whole fits of documents: their time, and scores for other numbers of topics."""

from __future__ import annotations

import importlib.util
import time

import numpy as np

from gpu_stages.million import arrays
from gpu_stages.session import LEVELS, SOURCES, milliseconds, opened, say


def whole(session):
    """7,500 sweeps with monitoring and 50 kept draws, compiled before."""
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    sweeps, thin = session.small(7500, 6), session.small(100, 2)
    for turn, level in enumerate((LEVELS[0], *LEVELS)):  # the first one compiles
        release = session.release(counts, level)
        began = time.perf_counter()
        problem = make_problem(TopicModel(session.small(50, 3)), release, "exact")
        sampler = opened(problem, threads=16)
        started = time.perf_counter() - began
        kept = []
        for sweep in range(1, (sweeps if turn else 3) + 1):
            sampler.sweep(0)
            if sweep % thin == 0:
                state = sampler.carry(0).state
                if sweep > sweeps // 3:
                    kept.append({name: np.asarray(x, np.float32) for name, x in state.items()})
                sampler.monitor(0)
        sampler.monitor(0)
        took = time.perf_counter() - began
        sampler.__exit__(None, None, None)
        if turn:
            found[f"{level:g}"] = {"seconds": round(took, 2), "of it to start": round(started, 2)}
            say(f"7,500 sweeps at eps/N = {level:g}: {found[f'{level:g}']}")
    session.write("whole", found)


def scores_of(session, counts, kept):
    """As the study of topics scores them: rates on the device, words on the processor."""
    from scipy.special import gammaln

    def part(name):
        """A module of ``evaluation`` without the package's others, which need xarray."""
        path = SOURCES / f"countveil/evaluation/{name}.py"
        spec = importlib.util.spec_from_file_location(f"_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    xp, topics = arrays(), part("topics")
    n, width = counts.shape
    thetas = [xp.asarray(state["theta"]) for state in kept]
    phis = [xp.asarray(state["phi"]) for state in kept]
    error = score = 0.0
    at_once = max(1, session.small(200, 5))
    for first in range(0, n, at_once):
        truth = counts[first : first + at_once].toarray()
        y, log_factorial = xp.asarray(truth), xp.asarray(gammaln(truth + 1.0))
        rates = xp.stack(
            [theta[first : first + at_once] @ phi for theta, phi in zip(thetas, phis, strict=True)]
        )
        error += float(xp.abs(rates.mean(axis=0) - y).sum())
        terms = y * xp.log(xp.maximum(rates, 1e-300)) - rates - log_factorial
        top = terms.max(axis=0)
        score += float((xp.log(xp.exp(terms - top).mean(axis=0)) + top).sum())
    tops = []
    for phi in phis:
        order = xp.argsort(-phi, axis=1)[:, :10]
        tops.append(order if xp is np else xp.asnumpy(order))
    tops = np.concatenate(tops)
    return {
        "MAE": error / n / width, "log score": score / n / width,
        "NPMI": float(topics.npmi(tops, counts).mean()), "coherence": float(topics.coherence(tops, counts).mean()),
    }  # fmt: skip


def sizes(session):
    """Other numbers of topics: exact, at three levels."""
    cases = [(k, 0.1, level) for k in session.small((25, 50, 100, 200), (2, 3)) for level in LEVELS]
    scored(session, "sizes", cases, "K = {k}, eps/N = {level:g}")


def shapes(session):
    """Other shapes of the inferred prior: does a sparser one, or a denser one, know the total better?"""
    k, values = session.small(50, 2), session.small((0.02, 0.05, 0.1, 0.2, 0.5), (0.1, 0.5))
    cases = [(k, shape, level) for level in session.small((1.0, 3.0), (1.0,)) for shape in values]
    scored(session, "shapes", cases, "shape = {shape:g}, eps/N = {level:g}")


def scored(session, stage, cases, name):
    """A fit of 7,500 sweeps of every case, scored by the true counts."""
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    sweeps, thin = session.small(7500, 4), session.small(100, 1)
    for k, shape, level in cases:
        problem = make_problem(TopicModel(k, shape=shape), session.release(counts, level), "exact")
        sampler, kept, totals = opened(problem, threads=16), [], []
        for sweep in range(1, sweeps + 1):
            sampler.sweep(0)
            if sweep > sweeps // 3 and sweep % thin == 0:
                state = sampler.carry(0).state
                kept.append({factor: np.asarray(state[factor]) for factor in ("theta", "phi")})
                totals.append(float(kept[-1]["theta"].sum(axis=0) @ kept[-1]["phi"].sum(axis=1)))
        line = {"ms": milliseconds(sampler, session.small(100, 1))}
        sampler.__exit__(None, None, None)
        began = time.perf_counter()
        line |= scores_of(session, counts, kept)
        line |= {
            "total": float(np.mean(totals) / counts.sum()), "draws": len(kept),
            "scoring, s": round(time.perf_counter() - began, 1),
        }  # fmt: skip
        case = name.format(k=k, shape=shape, level=level)
        found[case] = line
        say(f"{case}: {line}")
        session.write(stage, found)
