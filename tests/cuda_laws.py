"""The laws of the GPU engine: run as a script on a machine with a GPU it makes every check and prints a line for each.

``inference/test_cuda_engine.py`` makes the same checks in numba's CUDA simulator, on tiny cases. Needs numpy, scipy
and numba alone, and on a device CuPy.

A check gives a p-value, or whether what must be equal is equal; those named "power" must be rejected.
"""

from __future__ import annotations

import json
import sys
import time
import traceback

import numba
import numpy as np

from countveil.inference.carry import Carry
from countveil.inference.engines.cuda import counts as counts_module
from countveil.inference.engines.cuda import device, factors, look, sums
from countveil.inference.engines.cuda.counts import DeviceCounts
from countveil.inference.engines.cuda.sampler import CudaSampler
from countveil.inference.problem import Problem
from countveil.kernels import steps
from countveil.kernels.philox import open_stream, philox_block
from countveil.models import CommunityModel, TensorModel, TopicModel
from countveil.models.einsum import prior
from exact_laws import count_given_release_cdf as count_cdf
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects
from inference.one_chain import observed, view_of
from joint_test import joint_pvalues

#: Narrower than the default, under which no product of factors stays within what can be counted.
NARROW = prior.Hyper(level=6.0, log_shape=1.0, log_shape_sd=0.4, mean_shape=3.0)
TINY = device.SIMULATED
CHECKS = {}


def check(function):
    """Register a check: it gives (name, verdict, detail) triples."""
    CHECKS[function.__name__] = function
    return function


class Tokens:
    """Sweeps of one matrix with fixed factors: the tokens of rows and of columns."""

    def __init__(self, data, theta, phi):
        self.theta, self.phi = device.to_device(theta), device.to_device(phi)
        k = theta.shape[1]
        self.counts = DeviceCounts(data, k)
        self.rows, self.columns = device.empty(theta.shape, np.int64), device.empty(phi.shape, np.int64)
        self.buffer, (self.of_rows, self.of_columns) = sums.split_buffer([k, k])
        self.one = device.to_device(np.ones(1))

    def sweep(self, seed, sweep):
        key = device.to_device(np.array([seed, 0, sweep - 1], dtype=np.uint64))
        n = max(self.theta.size + self.phi.size, len(self.buffer))
        device.launch(factors.start_sweep, n, key, self.rows, self.columns, self.buffer)
        self.of_rows.find_largest(self.theta, self.one)
        self.of_columns.find_largest(self.phi, self.one)
        largest = self.of_rows.largest, self.of_columns.largest
        self.counts.draw(key, self.theta, self.phi, *largest, self.rows, self.columns)
        return device.to_host(self.rows), device.to_host(self.columns)


def drawn_counts(x, mu, n_rows, sweeps, seed, **noise):
    """True counts (replicates, columns): column v was released as x[v] and has the rate mu[v] in every row.

    Every column has a component of its own, so that tokens of rows are counts of cells.
    """
    data = observed(np.tile(np.asarray(x), (n_rows, 1)), **noise)
    tokens = Tokens(data, np.tile(np.asarray(mu, dtype=float), (n_rows, 1)), np.eye(len(mu)))
    return np.concatenate([tokens.sweep(seed, sweep)[0] for sweep in range(1, sweeps + 1)])


def grid():
    """Releases and rates: small and large, far apart and close."""
    released = (0, 1, 7) if TINY else (0, 1, 2, 7, 60, 300, 70_000)
    rates = (0.4, 6.0) if TINY else (1e-4, 0.03, 0.4, 2.0, 6.0, 45.0, 280.0)
    return np.array([(x, mu) for x in released for mu in rates])


@check
def true_counts():
    """Against the exact conditional, over a grid; and it is not that of a noise 10 % stronger."""
    x, mu = grid().T
    x = x.astype(np.int64)
    n_rows, sweeps = (100, 2) if TINY else (4000, 10)
    for rho in (1.0,) if TINY else (0.2, 1.0, 3.0):
        drawn = drawn_counts(x, mu, n_rows, sweeps, SEED + 1, rho=rho)
        right = [discrete_pvalue(drawn[:, v], count_cdf(x[v], mu[v], rho)) for v in range(len(x))]
        wrong = [discrete_pvalue(drawn[:, v], count_cdf(x[v], mu[v], 0.7 * rho)) for v in range(len(x))]
        worst = int(np.argmin(right))
        yield (
            f"counts at rho = {rho}",
            fits(min(right) * len(x)),
            f"p {min(right):.2g} at {x[worst]}, {mu[worst]}",
        )
        yield f"power at rho = {rho}", rejects(min(wrong)), f"p {min(wrong):.2g}"


@check
def noise_of_rows_and_cells():
    """Noise by row and by cell, plain rows among noisy ones, and missing cells, which have no tokens."""
    x, mu = np.array([0, 1, 3, 0]), np.array([0.5, 0.8, 2.0, 1.5])
    n = 60 if TINY else 20_000
    rho = np.tile([0.5, 2.0, np.inf], n)
    drawn = drawn_counts(x, mu, 3 * n, 1, SEED + 2, rho=rho)
    for which, here in ((0, 0.5), (1, 2.0)):
        p = min(discrete_pvalue(drawn[which::3, v], count_cdf(x[v], mu[v], here)) for v in range(4))
        yield f"rows of rho = {here}", fits(4 * p), f"p {p:.2g}"
    yield "plain rows", bool((drawn[2::3] == x).all()), ""
    by_cell = np.tile([0.4, 2.5, 1.0, 0.2], (3 * n, 1))
    missing = np.zeros((3 * n, 4), dtype=bool)
    missing[:, 3] = missing[0] = True
    drawn = drawn_counts(x, mu, 3 * n, 1, SEED + 3, cell_rho=by_cell, missing=missing)
    p = min(discrete_pvalue(drawn[1:, v], count_cdf(x[v], mu[v], by_cell[0, v])) for v in range(3))
    yield "noise by cell", fits(3 * p), f"p {p:.2g}"
    p = discrete_pvalue(drawn[1:, 2], count_cdf(x[2], mu[2], 0.3))
    yield "power: noise by cell", rejects(p), f"p {p:.2g}"
    yield "missing cells", int(drawn[:, 3].sum() + drawn[0].sum()) == 0, ""


@check
def allocation():
    """Tokens of plain counts fall on components in proportion to the products; few, and many at once."""
    rng = np.random.default_rng(SEED)
    k = 3 if TINY else 37
    theta, phi = rng.gamma(0.5, 1.0, k), rng.gamma(0.5, 1.0, (1, k))
    theta[1] = 0.0
    share = theta * phi[0] / (theta @ phi[0])
    n = 200 if TINY else 40_000
    from scipy.stats import binom

    for y in (1, 6, 900):
        tokens = Tokens(observed(np.full((n, 1), y)), np.tile(theta, (n, 1)), phi)
        rows, columns = tokens.sweep(SEED + y, 1)
        ps = [discrete_pvalue(rows[:, j], binom(y, share[j]).cdf) for j in range(k)]
        yield f"{y} tokens", fits(min(ps) * k), f"p {min(ps):.2g}"
        same = (rows.sum(axis=1) == y).all() and (columns[0] == rows.sum(axis=0)).all()
        yield f"sums of {y} tokens", bool(same), ""
        wrong = discrete_pvalue(rows[:, int(share.argmax())], binom(y, 0.8 * share.max()).cdf)
        yield f"power: {y} tokens", rejects(wrong), f"p {wrong:.2g}"
    # Products that have all underflowed count as equal.
    rows, _ = Tokens(observed(np.full((n, 1), 2)), np.zeros((n, k)), phi).sweep(SEED, 1)
    p = min(discrete_pvalue(rows[:, j], binom(2, 1 / k).cdf) for j in range(k))
    yield "tokens where nothing is known", fits(p * k), f"p {p:.2g}"


@check
def bounds():
    """The products in half precision bound every rate, for factors of any scale."""
    rng = np.random.default_rng(SEED)
    n, width, k = (20, 9, 5) if TINY else (700, 900, 50)
    for scale in (1e-200, 1e-3, 1.0, 1e6, 1e150):
        theta, phi = rng.gamma(0.1, 10.0, (n, k)) * scale, rng.gamma(0.1, 10.0, (width, k)) / scale
        phi[:, 0] *= 1e9  # a component beyond halves
        tokens = Tokens(observed(np.ones((n, width), dtype=np.int64), rho=1.0), theta, phi)
        tokens.sweep(1, 1)
        found = device.to_host(tokens.counts._bounds)[:n, :width].view(np.float16).astype(float)
        with np.errstate(invalid="ignore"):
            bound = np.where(np.isfinite(found), np.maximum(found, 2.0**-15) * (1 + 2.0**-8), np.inf)
        rates = theta @ phi.T
        tight = np.median(
            bound[np.isfinite(bound) & (rates > 1e-2)] / rates[np.isfinite(bound) & (rates > 1e-2)]
        )
        yield f"bounds at scale {scale:g}", bool((bound >= rates).all()), f"median {tight:.4f} of the rate"


@numba.njit
def _same_words(seed, row):
    s = open_stream(seed, 9, 77, steps.DEVICE_LOOK, row)
    a, b, c, d = philox_block(s.key0, s.key1, s.block, s.counter1, s.counter2, s.counter3)
    e, f, g, h = look.words_of(seed, 9, 77, steps.DEVICE_LOOK, row, 0)
    return a == e and b == f and c == g and d == h


@check
def words():
    """The look's words are those of Philox."""
    rows = (0, 5, 2**32 + 7, 2**42 - 1)
    yield "words of the look", all(_same_words(np.uint64(2**63 + 12345), row) for row in rows), ""


def draw_pair_of(model, shape, rho, missing):
    """A state from the prior and a release given it."""

    def draw(rng):
        (n, width), k = shape, model.n_topics
        if model.rate is not None:
            theta = rng.gamma(model.shape, 1 / model.rate, (n, k))
            phi = rng.gamma(model.shape, 1 / model.rate, (k, width))
            state = model.state_type(theta, phi)
        else:
            level = rng.gamma(NARROW.level) / rng.gamma(NARROW.level)
            s, t, s_, t_ = np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd, 4))
            rows = rng.gamma(t, 1 / t, n) / rng.gamma(s, 1 / s, n)
            columns = level * rng.gamma(t_, 1 / t_, width) / rng.gamma(s_, 1 / s_, width)
            means = 1 / rng.gamma(NARROW.mean_shape, 1 / NARROW.mean_shape, k)
            theta = rng.gamma(model.shape, rows[:, None] * means / model.shape)
            phi = rng.gamma(model.shape, np.tile(columns / model.shape, (k, 1)))
            state = model.state_type(
                theta=theta, phi=phi, theta_scale=rows, theta_scale_upper=np.asarray(s), theta_mean=means,
                theta_scale_lower=np.asarray(t), phi_scale=columns, phi_scale_upper=np.asarray(s_),
                phi_scale_lower=np.asarray(t_), phi_level=np.asarray(level),
            )  # fmt: skip
        y = rng.poisson(theta @ phi)
        hidden = rng.random(shape) < missing
        if rho is None:
            return state, (y, observed(y, missing=hidden))
        noise = rng.geometric(1 - np.exp(-rho), shape) - rng.geometric(1 - np.exp(-rho), shape)
        return state, (y + noise, observed(y + noise, rho=rho, missing=hidden))

    return draw


def joint(model, shape, rho, missing, replicates, seed, sampled=None):
    """The smallest p-value of the joint test, corrected; ``sampled`` is the model that the sampler has instead."""
    held = {}

    def sampler(state, data, key):
        if held.get("data") is not data:
            used = model if sampled is None else sampled
            problem = Problem(used, {"": view_of(used, data[1], shape)}, "exact")
            held.update(data=data, sampler=CudaSampler(problem, int(key.seed)))
        held["sampler"].load(Carry(key.chain, key.sweep - 1, state._asdict(), {}))
        held["sampler"].sweep(key.chain)
        return held["sampler"]._chains[key.chain].state()

    functions = {
        name: lambda state, data, n=name: getattr(state, n).reshape(-1)[-1]
        for name in model.state_type._fields
    }
    functions |= {
        f"product of {name}": lambda state, data, n=name: float(np.sum(np.log(getattr(state, n))))
        for name in model.state_type._fields
    }
    functions |= {
        "total rate": lambda state, data: (state.theta @ state.phi).sum(),
        "first cell": lambda state, data: (state.theta @ state.phi)[0, 1] - max(data[0][0, 1], 0),
    }
    pair = draw_pair_of(model, shape, rho, missing)
    found = joint_pvalues(pair, sampler, functions, replicates=replicates, sweeps=2, seed=SEED + seed)
    worst = min(found, key=found.get)
    return found[worst] * len(found), worst


@check
def joint_laws():
    """Sweeps leave the joint law of state and data as it was; a wrong shape is noticed."""
    before, prior.HYPER = prior.HYPER, NARROW
    n = 25 if TINY else 1000
    fixed, inferred = TopicModel(2, shape=1.1, rate=1.3), TopicModel(2, shape=1.1)
    try:
        cases = {
            "fixed prior": (fixed, (3, 4), 0.7, 0.0),
            "fixed prior, missing": (fixed, (4, 3), 1.5, 0.3),
            "fixed prior, mostly missing": (fixed, (4, 4), 1.0, 0.7),
            "inferred means": (inferred, (3, 4), 0.7, 0.0),
            "inferred means, missing": (inferred, (4, 3), 1.0, 0.3),
            "inferred means, plain": (inferred, (5, 2), None, 0.0),
        }
        for number, (name, case) in enumerate(cases.items()):
            if TINY and name not in ("fixed prior", "inferred means, missing"):
                continue
            p, worst = joint(*case, replicates=n, seed=10 + number)
            yield f"joint law, {name}", fits(p), f"p {p:.2g} ({worst})"
        if not TINY:
            p, worst = joint(*cases["inferred means"], n, 30, sampled=TopicModel(2, shape=3.5))
            yield "power: joint law, another shape", rejects(p), f"p {p:.2g} ({worst})"
            p, worst = joint(*cases["fixed prior"], n, 31, sampled=TopicModel(2, shape=1.1, rate=1.9))
            yield "power: joint law, another rate", rejects(p), f"p {p:.2g} ({worst})"
    finally:
        prior.HYPER = before


def problem_of(model, shape, rho, missing=0.0, seed=0):
    rng = np.random.default_rng(SEED + seed)
    y = rng.poisson(rng.gamma(0.3, 2.0, shape))
    if rho is not None:
        y = y + rng.geometric(1 - np.exp(-rho), shape) - rng.geometric(1 - np.exp(-rho), shape)
    flat = y.reshape(shape[0], -1)
    data = observed(flat, rho=rho, missing=rng.random(flat.shape) < missing)
    return Problem(model, {"": view_of(model, data, shape)}, "exact")


def states_of(problem, carry, sweeps, chain=0):
    sampler = CudaSampler(problem, 7)
    sampler.load(carry)
    for _ in range(sweeps):
        sampler.sweep(chain)
    return sampler.carry(chain)


def equal(a, b):
    return all(np.array_equal(a.state[name], b.state[name]) for name in a.state)


@check
def reproducible():
    """Twice the same bits, also in blocks of rows, and after a carry in between; chains are told apart."""
    shape = (9, 12) if TINY else (300, 500)
    n = 2 if TINY else 20
    for name, model, missing in (
        ("inferred", TopicModel(3), 0.0),
        ("fixed", TopicModel(3, rate=1.0), 0.1),
    ):
        problem = problem_of(model, shape, 1.0, missing)
        rng = np.random.default_rng(0)
        theta, phi = rng.gamma(1.0, 0.6, (shape[0], 3)), rng.gamma(1.0, 0.6, (3, shape[1]))
        fields = {"theta": theta, "phi": phi}
        if model.rate is None:
            fields |= {
                "theta_scale": np.ones(shape[0]), "phi_scale": np.ones(shape[1]), "theta_mean": np.ones(3),
                "phi_level": np.ones(()),
            }  # fmt: skip
            fields |= {
                f"{f}_scale_{tail}": np.ones(()) for f in ("theta", "phi") for tail in ("upper", "lower")
            }
        start = Carry(0, 0, {f: fields[f] for f in model.state_type._fields}, {})
        first = states_of(problem, start, 2 * n)
        yield f"same seed, {name}", equal(first, states_of(problem, start, 2 * n)), ""
        yield f"resumed, {name}", equal(first, states_of(problem, states_of(problem, start, n), n)), ""
        before, counts_module.CELLS_PER_BLOCK = counts_module.CELLS_PER_BLOCK, 128 * (4 if TINY else 64)
        try:
            yield f"blocks of rows, {name}", equal(first, states_of(problem, start, 2 * n)), ""
        finally:
            counts_module.CELLS_PER_BLOCK = before
        other = states_of(problem, start._replace(chain=1), 2 * n, 1)
        yield f"another chain, {name}", not np.array_equal(first.state["theta"], other.state["theta"]), ""


@check
def other_factorizations():
    """Networks and tensors: counts on the device, factors by the model; they run, and reproduce."""
    n = 6 if TINY else 40
    cases = {
        "communities": (CommunityModel(2, rate=1.0), (n, n)),
        "CP": (TensorModel(2, rate=1.0), (n, 5, 4)),
        "Tucker": (TensorModel(core=(2, 2, 2), rate=1.0), (n, 5, 4)),
    }
    rng = np.random.default_rng(1)
    for name, (model, shape) in cases.items():
        problem = problem_of(model, shape, 1.0)
        factors_ = zip(model._spec.factors, model._layout(shape).shapes, strict=True)
        held = {factor: rng.gamma(1.0, 0.5, size) for factor, size in factors_}
        start = Carry(0, 0, model._state(held)._asdict(), {})
        first = states_of(problem, start, 2)
        finite = all(np.isfinite(value).all() for value in first.state.values())
        yield f"{name} run", finite, ""
        yield f"{name} reproduce", equal(first, states_of(problem, start, 2)), ""


def run(names=None):
    """All checks, or these: [check, name, verdict, detail, seconds]; none stops the others."""
    found = []
    for name, function in CHECKS.items():
        if names and name not in names:
            continue
        began = time.perf_counter()
        try:
            for line, verdict, detail in function():
                found.append([name, line, bool(verdict), detail, time.perf_counter() - began])
                print(f"{'ok' if verdict else 'WRONG':6} {line}: {detail}", file=sys.stderr, flush=True)
        except Exception:
            found.append([name, name, False, traceback.format_exc(), time.perf_counter() - began])
            print(f"WRONG  {name}\n{traceback.format_exc()[-3000:]}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    results = run(sys.argv[1:])
    json.dump(results, sys.stdout)
    sys.exit(not all(verdict for _, _, verdict, _, _ in results))
