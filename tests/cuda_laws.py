"""The laws of the GPU engine: run as a script on a machine with a GPU it makes every check and prints a line for each.

``inference/test_cuda_engine.py`` makes the same checks in numba's CUDA simulator, on tiny cases. Needs numpy, scipy
and numba alone, and on a device CuPy.

A check gives a p-value, or whether what must be equal is equal; those named "power" must be rejected.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import traceback

import numba
import numpy as np

from countveil.counts import PrivateCounts
from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.engines.cuda import counts as counts_module
from countveil.inference.engines.cuda import device, factors, look, sums
from countveil.inference.engines.cuda import network_chains as network_module
from countveil.inference.engines.cuda.counts import DeviceCounts
from countveil.inference.engines.cuda.device_tokens import DeviceTokens
from countveil.inference.engines.cuda.network_chains import NetworkChain
from countveil.inference.engines.cuda.sampler import sampler_of
from countveil.inference.engines.sharded.in_process import open_problem_in_shards
from countveil.inference.problem import Problem, make_problem
from countveil.inference.relocation import Relocation, roles_of
from countveil.inference.settings import check_settings
from countveil.kernels import steps
from countveil.kernels.philox import SweepKey, open_stream, philox_block
from countveil.models import CommunityModel, TensorModel, TopicModel
from countveil.models.einsum import prior
from countveil.runtime.workers import Workers
from exact_laws import count_given_release_cdf as count_cdf
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects
from inference.one_chain import OneChain, observed, view_of
from joint_test import joint_pvalues

#: Narrower than the default, under which no product of factors stays within what can be counted.
NARROW = prior.Hyper(level=6.0, log_shape=1.0, log_shape_sd=0.4, mean_shape=3.0)
TINY = device.SIMULATED
if TINY:
    from cuda_simulator import take_turns

    take_turns()
CHECKS = {}


@contextlib.contextmanager
def narrow_laws():
    """Priors whose laws are the narrow ones."""
    before, prior.HYPER = prior.HYPER, NARROW
    try:
        yield
    finally:
        prior.HYPER = before


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
        if rho is not None:
            y = y + rng.geometric(1 - np.exp(-rho), shape) - rng.geometric(1 - np.exp(-rho), shape)
        # What is missing is no data: the sampler does not know it.
        return state, (np.where(hidden, 0, y), observed(y, rho=rho, missing=hidden), hidden)

    return draw


def joint(model, shape, rho, missing, replicates, seed, sampled=None, shards=0):
    """The smallest p-value of the joint test, corrected; ``sampled`` is the model that the sampler has instead.

    With ``shards`` the rows are spread over so many, each of which draws its true counts on the device.
    """
    held = {}
    used = model if sampled is None else sampled

    def opened(data, seed):
        if not shards:
            return sampler_of(Problem(used, {"": view_of(used, data[1], shape)}, "exact"), seed)
        release = PrivateCounts(np.ma.array(data[0], mask=data[2]), alpha=float(np.exp(-rho)))
        return sharded(make_problem(used, release, "exact"), seed, shards)

    def sampler(state, data, key):
        if held.get("data") is not data:
            if shards and held:
                held["sampler"].__exit__(None, None, None)
            held.update(data=data, sampler=opened(data, int(key.seed)))
        held["sampler"].load(Carry(key.chain, key.sweep - 1, state._asdict(), {}))
        held["sampler"].sweep(key.chain)
        return model.state_type(**held["sampler"].carry(key.chain).state)

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
    n = 25 if TINY else 1000
    fixed, inferred = TopicModel(2, shape=1.1, rate=1.3), TopicModel(2, shape=1.1)
    cases = {
        "fixed prior": (fixed, (3, 4), 0.7, 0.0),
        "fixed prior, missing": (fixed, (4, 3), 1.5, 0.3),
        "fixed prior, mostly missing": (fixed, (4, 4), 1.0, 0.7),
        "inferred means": (inferred, (3, 4), 0.7, 0.0),
        "inferred means, missing": (inferred, (4, 3), 1.0, 0.3),
        "inferred means, plain": (inferred, (5, 2), None, 0.0),
    }
    with narrow_laws():
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


def sharded(problem, seed, shards):
    """A sampler of this process's shards, whose true counts the device draws."""
    settings = check_settings(
        sweeps=2, burn_in=0, thin=1, chains=1, seed=seed, method="exact", engine="cpu", threads=1, algorithm="cuda",
    )  # fmt: skip
    return open_problem_in_shards(problem, settings, shards)


@check
def shards():
    """Rows spread over shards with a device each: the right joint law, streams of their own, the same bits again."""
    n = 20 if TINY else 600
    fixed, inferred = TopicModel(2, shape=1.1, rate=1.3), TopicModel(2, shape=1.1)
    with narrow_laws():
        p, worst = joint(fixed, (4, 3), 0.7, 0.3, replicates=n, seed=50, shards=2)
        yield "joint law, two shards", fits(p), f"p {p:.2g} ({worst})"
        if not TINY:
            p, worst = joint(inferred, (5, 3), 1.0, 0.0, replicates=n, seed=51, shards=3)
            yield "joint law, three shards, inferred means", fits(p), f"p {p:.2g} ({worst})"
            p, worst = joint(fixed, (4, 3), 0.7, 0.3, n, 52, TopicModel(2, shape=1.1, rate=1.9), shards=2)
            yield "power: joint law, shards with another rate", rejects(p), f"p {p:.2g} ({worst})"
    # The same rows twice, with the same factors: as parts of one whole they are other rows.
    size = 8 if TINY else 200
    rng = np.random.default_rng(SEED)
    data = observed(rng.poisson(1.0, (size, 9)) + 3, rho=1.0)
    theta, phi = rng.gamma(1.0, 1.0, (size, 2)), rng.gamma(1.0, 1.0, (9, 2))
    tokens = DeviceTokens(data, 2, Workers(1))
    key = SweepKey(np.uint64(7), 0, 1)
    first, again, further = (
        tokens.draw(theta, phi, key._replace(first_row=row), Workers(1)) for row in (0, 0, size)
    )
    yield "the same rows, the same tokens", np.array_equal(first.rows, again.rows), ""
    yield "further down, other tokens", not np.array_equal(first.rows, further.rows), ""
    release = PrivateCounts(rng.poisson(1.0, (6, 7)) + 2, alpha=0.4)
    problem = make_problem(fixed, release, "exact")
    alone = CpuSampler(problem, 5, 1, "cuda")
    alone.start(0)
    one, three, anew = (sharded(problem, 5, n) for n in (1, 3, 3))
    for sampler in (one, three, anew):
        sampler.load(alone.carry(0))
    for sampler in (alone, one, three, anew):
        for _ in range(3):
            sampler.sweep(0)
    yield "one shard, the bits of none", equal(alone.carry(0), one.carry(0)), ""
    yield "three shards, the same bits again", equal(three.carry(0), anew.carry(0)), ""
    for sampler in (one, three, anew):
        sampler.__exit__(None, None, None)


def problem_of(model, shape, rho, missing=0.0, seed=0):
    rng = np.random.default_rng(SEED + seed)
    y = rng.poisson(rng.gamma(0.3, 2.0, shape))
    if rho is not None:
        y = y + rng.geometric(1 - np.exp(-rho), shape) - rng.geometric(1 - np.exp(-rho), shape)
    flat = y.reshape(shape[0], -1)
    data = observed(flat, rho=rho, missing=rng.random(flat.shape) < missing)
    return Problem(model, {"": view_of(model, data, shape)}, "exact")


def states_of(problem, carry, sweeps, chain=0):
    sampler = sampler_of(problem, 7)
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
        counts_module.SPLIT = False
        try:
            yield f"easy cells among hard ones, {name}", equal(first, states_of(problem, start, 2 * n)), ""
        finally:
            counts_module.SPLIT = True
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


def random_network(model, n, rho, missing, rng, cell_rho=None):
    """A state from the prior and a release given it; cells that are no part of the model are missing."""
    size = model.n_communities
    row_mean, block_mean, fields = np.full((n, size), 1 / model.shape), 1 / model.shape, {}
    if model.rate is not None:
        row_mean, block_mean = np.full((n, size), 1 / model.rate), 1 / model.rate
    else:
        s, t, of_receiving = np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd, 3))
        scales = rng.gamma(t, 1 / t, n) / rng.gamma(s, 1 / s, n)
        means = 1 / rng.gamma(NARROW.mean_shape, 1 / NARROW.mean_shape, size)
        level = rng.gamma(NARROW.level) / rng.gamma(NARROW.level)
        row_mean, block_mean = scales[:, None] * means / model.shape, level / model.shape
        fields = {"theta_scale": scales, "theta_mean": means}
        numbers = {"theta_scale_upper": s, "theta_scale_lower": t, "pi_level": level}
        if model.directed:
            fields["receiving"] = rng.gamma(of_receiving, 1 / of_receiving, n)
            numbers["receiving_shape"] = of_receiving
        fields |= {name: np.asarray(x) for name, x in numbers.items()}
    theta, pi = rng.gamma(model.shape, row_mean), rng.gamma(model.shape, block_mean, (size, size))
    if not model.directed:
        pi = np.triu(pi) + np.triu(pi, 1).T
    state = model.state_type(theta=theta, pi=pi, **fields)
    y = rng.poisson(rates_of_network(state))
    hidden = rng.random((n, n)) < missing
    hidden[model.left_out((n, n))] = True
    noise = cell_rho if cell_rho is not None else rho
    if noise is not None:
        stop = 1 - np.exp(
            -np.broadcast_to(np.asarray(noise).reshape(-1, 1) if np.ndim(noise) == 1 else noise, (n, n))
        )
        y = y + rng.geometric(stop) - rng.geometric(stop)
    return state, y, observed(y, rho=rho, cell_rho=cell_rho, missing=hidden)


def rates_of_network(state):
    return state.theta @ state.pi @ state.theta.T * getattr(state, "receiving", 1.0)


def seen_of(data):
    """1 where a cell is observed, 0 where it is missing."""
    seen = np.ones((data.n_rows, data.width))
    seen[np.repeat(np.arange(data.n_rows), np.diff(data.missing_starts)), data.missing_columns] = 0
    return seen


def network_problem(model, data):
    return Problem(model, {"": view_of(model, data)}, "exact")


def swept_together(problem, states, seed, sweeps=1, first=0):
    """A sampler whose chains have these states, after so many sweeps of all of them."""
    sampler = sampler_of(problem, seed)
    for chain, state in enumerate(states):
        sampler.load(Carry(first + chain, 0, state._asdict(), {}))
    for _ in range(sweeps):
        for chain in range(len(states)):
            sampler.sweep(first + chain)
    return sampler


NETWORKS = {
    "directed": (CommunityModel(3, shape=0.8, rate=1.1), 1.0, 0.0),
    "directed, missing": (CommunityModel(3, shape=1.2, rate=1.1), 0.7, 0.25),
    "directed, mostly missing": (CommunityModel(2, shape=1.2, rate=1.1), 0.7, 0.75),
    "undirected": (CommunityModel(2, directed=False, shape=0.8, rate=1.1), 1.0, 0.0),
    "undirected, missing": (CommunityModel(2, directed=False, shape=0.8, rate=1.1), None, 0.2),
}
INFERRED_NETWORKS = {
    "inferred": (CommunityModel(3, shape=0.8), 1.0, 0.0),
    "inferred, missing": (CommunityModel(2, shape=1.1), 0.7, 0.25),
    "inferred, mostly missing": (CommunityModel(2, shape=1.1), 0.7, 0.75),
    "inferred, plain": (CommunityModel(3, shape=0.8), None, 0.1),
    "inferred, undirected": (CommunityModel(2, directed=False, shape=0.8), 1.0, 0.0),
    "inferred, undirected, missing": (CommunityModel(3, directed=False, shape=1.1), None, 0.2),
}


def factors_again(model, state, seen, rows_drawn, blocks_drawn, all_at_once=False):
    """Both factors from the gammas of rate 1, before scales are traded: plainly, by their formulas."""
    theta, pi = state.theta.copy(), state.pi
    old = state.theta
    for r in range(len(theta)):
        others = old if all_at_once else theta
        met = pi @ (seen[r] @ others) + pi.T @ (seen[:, r] @ others)
        theta[r] = rows_drawn[r] / (model.rate + met)
    met = theta.T @ seen @ theta
    if model.directed:
        return theta, blocks_drawn / (model.rate + met)
    pi = np.triu(blocks_drawn / (model.rate + met + met.T - np.diag(np.diag(met))))
    return theta, pi + np.triu(pi, 1).T


@check
def network_factors():
    """Given the gammas of rate 1 both factors are what their formulas say, up to scales that change no rate."""
    n = 5 if TINY else 40
    cases = (
        NETWORKS
        if TINY
        else NETWORKS | {"many communities": (CommunityModel(50, shape=0.3, rate=1.0), 1.0, 0.1)}
    )
    for name, (model, rho, missing) in cases.items():
        state, _, data = random_network(model, n, rho, missing, np.random.default_rng(SEED + 5))
        sampler = swept_together(network_problem(model, data), [state] * 2, 5)
        on_device = isinstance(sampler._chains[1], NetworkChain)
        after = sampler._chains[1].state()
        work = sampler._work
        drawn = device.to_host(work._rows_drawn)[1], device.to_host(work._blocks_drawn)[1]
        seen = seen_of(data)
        theta, pi = factors_again(model, state, seen, *drawn)
        by = after.theta / theta
        same = np.allclose(by, by[:1], rtol=1e-10) and np.allclose(
            after.pi * np.outer(by[0], by[0]), pi, rtol=1e-10
        )
        yield f"network on the device, {name}", on_device, ""
        yield f"factors from gammas, {name}", same, f"scales {by[0]}"
        by = after.theta / factors_again(model, state, seen, *drawn, all_at_once=True)[0]
        yield f"power: all rows at once, {name}", not np.allclose(by, by[:1], rtol=1e-3), ""
        tokens = sampler._chains[1].statistics()[""].tokens
        yield f"tokens agree, {name}", int(tokens[0].sum()) == 2 * int(tokens[1].sum()) > 0, ""


def state_again(model, state, seen, drawn, tokens, key, wrong=""):
    """The state after a sweep, given its gammas of rate 1 and its tokens: rates plainly, by their formulas, and
    everything that follows by the CPU's own functions. ``wrong`` leaves something out.
    """
    held = {name: np.array(value) for name, value in model._hold(state).items()}
    theta, pi, old = held["theta"], held["pi"], held["theta"].copy()
    h = held.get("receiving", np.ones(len(theta)))
    weights = np.ones(len(theta)) if wrong == "receiving in rows" else h
    of_rows = model.shape / held["theta_scale"][:, None] / held["theta_mean"]
    for r in range(len(theta)):
        others = old if wrong == "new rows" else theta
        met = pi @ ((seen[r] * weights) @ others) + weights[r] * (pi.T @ (seen[:, r] @ others))
        theta[r] = drawn[0][r] / (of_rows[r] + met)
    met = theta.T @ seen @ (h[:, None] * theta)
    if not model.directed:
        met = np.triu(met + met.T - np.diag(np.diag(met)))
    pi = drawn[1] / (model.shape / held["pi_level"] + met)
    held["pi"] = pi if model.directed else np.triu(pi) + np.triu(pi, 1).T
    if wrong != "the level's move":
        number, rate = int(tokens[1].sum()), float((pi * met).sum())
        prior.move_level("pi", model._inferred["pi"], held, number, rate, key, 1)
    if model.directed:
        s, met = float(held["receiving_shape"]), (seen * (theta @ held["pi"] @ theta.T)).sum(axis=0)
        for j in range(len(theta)):
            row = 2 * prior.ROWS_PER_FACTOR + j
            h[j] = factors.gamma_of(
                *key[:3], steps.DEVICE_FACTOR, row, s + tokens[2][j], s + met[j]
            )  # fmt: skip
    model._trade_scales(held, key, Workers(1))
    prior.draw_means(model._inferred, model._is_symmetric, held, key, Workers(1))
    return model._state(held)


def closest(one, other):
    """The largest relative difference of two states."""
    return max(float(np.abs(x / y - 1.0).max()) for x, y in zip(one, other, strict=True))


@check
def inferred_network_factors():
    """A sweep with the inferred prior is what the CPU's functions make of the same gammas and tokens."""
    n, sweeps = (5, 2) if TINY else (40, 20)
    cases = dict(INFERRED_NETWORKS)
    if not TINY:
        cases |= {
            "inferred, many communities": (CommunityModel(50, shape=0.3), 1.0, 0.1),
            "inferred, undirected, many": (CommunityModel(70, directed=False, shape=0.3), 1.0, 0.1),
        }
    with narrow_laws():
        for name, (model, rho, missing) in cases.items():
            before, y, data = random_network(model, n, rho, missing, np.random.default_rng(SEED + 5))
            seen, worst = seen_of(data), 0.0
            sampler = swept_together(network_problem(model, data), [before] * 2, 5, sweeps=0)
            for sweep in range(1, sweeps + 1):
                before = sampler._chains[1].state()
                for chain in range(2):
                    sampler.sweep(chain)
                after = sampler._chains[1].state()
                drawn = [
                    device.to_host(x)[1] for x in (sampler._work._rows_drawn, sampler._work._blocks_drawn)
                ]
                tokens, key = sampler._chains[1].statistics()[""].tokens, SweepKey(np.uint64(5), 1, sweep)
                again = state_again(model, before, seen, drawn, tokens, key)
                worst = max(worst, closest(after, again))
            on_device = isinstance(sampler._chains[1], NetworkChain)
            yield f"a sweep by the CPU's functions, {name}", on_device and worst < 1e-8, f"within {worst:.2g}"
            for wrong in ("receiving in rows", "new rows", "the level's move"):
                if model.directed or wrong != "receiving in rows":
                    far = closest(after, state_again(model, before, seen, drawn, tokens, key, wrong))
                    yield f"power: without {wrong}, {name}", far > 1e-5, f"beyond {far:.2g}"
            total = int(tokens[1].sum())
            sums = [int(x.sum()) for x in tokens]
            whole = sums == [2 * total, total, total][: len(sums)]
            yield f"tokens agree, {name}", whole and (total > 0 or missing > 0.5), ""
            if model.directed and rho is None:
                same = np.array_equal(tokens[2], (y * seen).sum(axis=0))
                yield f"tokens of receiving, {name}", same, ""


@check
def network_sweep():
    """One sweep from one state has the law that the CPU engine's has: tokens, memberships, blocks."""
    yield from one_sweep_of(NETWORKS, "directed, missing")


@check
def inferred_network_sweep():
    """The same with the inferred prior, and with all that is inferred."""
    with narrow_laws():
        yield from one_sweep_of(INFERRED_NETWORKS, "inferred, missing")


def one_sweep_of(cases, tiny):
    """In the simulator of one case alone."""
    from scipy.stats import ks_2samp

    n, chains, times = (4, 100, 1) if TINY else (6, 4000, 3)
    for name, (model, rho, missing) in cases.items():
        if TINY and name != tiny:
            continue
        rng = np.random.default_rng(SEED + 7)
        state, _, data = random_network(model, n, rho, missing, rng)
        found, of_cpu, of_wrong = [], [], []
        for time_ in range(times):
            sampler = swept_together(network_problem(model, data), [state] * chains, 11 + time_)
            for chain in sampler._chains.values():
                found.append(functions_of_sweep(chain.state(), chain.statistics()[""].tokens))
        by = 4 if TINY else 1.5
        prior_ = (
            {"shape": model.shape, "rate": by * model.rate} if model.rate else {"shape": by * model.shape}
        )
        kind = CommunityModel(model.n_communities, directed=model.directed, **prior_)
        for used, to in ((model, of_cpu), (kind, of_wrong)):
            one = OneChain(used, data, algorithm="cells")
            for sweep in range(1, 1 + (800 if TINY else 12_000)):
                key = SweepKey(np.uint64(3), 0, sweep)
                after = one.sweep(state, key)
                to.append(functions_of_sweep(after, one.sampler._chains[0].statistics[""].tokens))
        found, of_cpu, of_wrong = map(np.array, (found, of_cpu, of_wrong))
        p = [ks_2samp(a, b).pvalue for a, b in zip(found.T, of_cpu.T, strict=True)]
        yield (
            f"one sweep, {name}",
            fits(min(p) * len(p)),
            f"p {min(p):.2g} at {int(np.argmin(p))} of {len(p)}",
        )
        p = [ks_2samp(a, b).pvalue for a, b in zip(found.T, of_wrong.T, strict=True)]
        yield f"power: one sweep, {name}", rejects(min(p)), f"p {min(p):.2g}"


def functions_of_sweep(state, tokens):
    """Numbers in which a sweep may be wrong."""
    return [x for array in (*state, *tokens, rates_of_network(state)) for x in array.ravel()]


@check
def network_joint():
    """Sweeps leave the joint law of a network and its state as it was; another prior is noticed."""
    n, replicates = (3, 30) if TINY else (5, 1000)
    by_row = np.array([0.4, 1.0, np.inf, 2.0, 0.8])[:n]
    cases = {name: (model, rho, missing, None) for name, (model, rho, missing) in NETWORKS.items()}
    prior_ = CommunityModel(2, shape=1.2, rate=1.1)
    cases |= {
        "noise by row": (prior_, by_row, 0.1, None),
        "noise by cell": (prior_, None, 0.2, np.linspace(0.3, 3.0, n * n).reshape(n, n)),
        "plain": (prior_, None, 0.1, None),
    }
    for number, (name, (model, rho, missing, cell_rho)) in enumerate(cases.items()):
        if TINY and name not in ("directed, missing", "undirected"):
            continue
        p, worst = network_joint_pvalue(model, n, rho, missing, cell_rho, replicates, 50 + number)
        yield f"joint law of a network, {name}", fits(p), f"p {p:.2g} ({worst})"
    if not TINY:
        wrong = CommunityModel(2, shape=1.2, rate=3.0)
        p, worst = network_joint_pvalue(prior_, n, 0.7, 0.2, None, replicates, 70, sampled=wrong)
        yield "power: joint law of a network, another rate", rejects(p), f"p {p:.2g} ({worst})"


@check
def inferred_network_joint():
    """The same with the inferred prior; another shape is noticed."""
    n, replicates = (3, 30) if TINY else (5, 1000)
    with narrow_laws():
        for number, (name, (model, rho, missing)) in enumerate(INFERRED_NETWORKS.items()):
            if TINY and name != "inferred, missing":
                continue
            p, worst = network_joint_pvalue(model, n, rho, missing, None, replicates, 80 + number)
            yield f"joint law of a network, {name}", fits(p), f"p {p:.2g} ({worst})"
        if not TINY:
            model, wrong = CommunityModel(2, shape=1.1), CommunityModel(2, shape=3.5)
            p, worst = network_joint_pvalue(model, n, 0.7, 0.2, None, replicates, 90, sampled=wrong)
            yield "power: joint law of a network, another shape", rejects(p), f"p {p:.2g} ({worst})"


def network_joint_pvalue(model, n, rho, missing, cell_rho, replicates, seed, sampled=None):
    held = {}

    def pair(rng):
        state, x, data = random_network(model, n, rho, missing, rng, cell_rho)
        return state, (x * seen_of(data), data)  # what is missing is no data: the sampler does not know it

    def sampler(state, data, key):
        if held.get("data") is not data:
            used = model if sampled is None else sampled
            held.update(data=data, sampler=sampler_of(network_problem(used, data[1]), int(key.seed)))
        held["sampler"].load(Carry(key.chain, key.sweep - 1, state._asdict(), {}))
        held["sampler"].sweep(key.chain)
        return held["sampler"]._chains[key.chain].state()

    functions = {
        "first membership": lambda state, data: state.theta[0, 0],
        "last membership": lambda state, data: state.theta[-1, -1],
        "a block": lambda state, data: state.pi[0, 1],
        "a block of its own": lambda state, data: state.pi[1, 1],
        "total rate": lambda state, data: rates_of_network(state).sum(),
        "a cell": lambda state, data: rates_of_network(state)[0, 1] - max(data[0][0, 1], 0),
    }
    for name in model.state_type._fields:
        functions[f"product of {name}"] = lambda state, data, n=name: float(np.log(getattr(state, n)).sum())
        if name not in ("theta", "pi"):
            functions[name] = lambda state, data, n=name: getattr(state, n).reshape(-1)[-1]
    found = joint_pvalues(pair, sampler, functions, replicates=replicates, sweeps=2, seed=SEED + seed)
    worst = min(found, key=found.get)
    return found[worst] * len(found), worst


@check
def network_chains():
    """The same draws alone and with others, after a carry, and whoever is asked first; very many tokens, too."""
    n, sweeps = (4, 2) if TINY else (60, 20)
    for name, (model, rho, missing) in (NETWORKS | INFERRED_NETWORKS).items():
        if TINY and name not in ("undirected, missing", "inferred, missing"):
            continue
        rng = np.random.default_rng(SEED + 9)
        state, _, data = random_network(model, n, rho, missing, rng)
        problem = network_problem(model, data)
        together = swept_together(problem, [state] * 3, 5, 2 * sweeps)
        alone = swept_together(problem, [state], 5, 2 * sweeps, first=1)
        first = together.carry(1)
        yield f"alone and with others, {name}", equal(first, alone.carry(1)), ""
        network_module.LEAST_OF_GROUP, before = 1, network_module.LEAST_OF_GROUP
        try:
            in_groups = swept_together(problem, [state] * 3, 5, 2 * sweeps)
        finally:
            network_module.LEAST_OF_GROUP = before
        same = all(equal(together.carry(chain), in_groups.carry(chain)) for chain in range(3))
        yield f"in groups, {name}", same and len(in_groups._work._groups) == 3, ""
        other = together.carry(2)
        yield f"chains differ, {name}", not np.array_equal(first.state["theta"], other.state["theta"]), ""
        half = swept_together(problem, [state] * 3, 5, sweeps)
        resumed = sampler_of(problem, 5)
        for chain in (2, 1):
            resumed.load(half.carry(chain))
        for _ in range(sweeps):  # one after the other, not in step
            resumed.sweep(1)
        resumed.load(half.carry(0))
        yield f"resumed, {name}", equal(first, resumed.carry(1)), ""
        for _ in range(sweeps):
            resumed.sweep(2)
            resumed.monitor(1)
        yield f"resumed out of step, {name}", equal(other, resumed.carry(2)), ""
        yield f"finite, {name}", all(np.isfinite(x).all() for x in resumed.monitor(2).values()), ""
    model = CommunityModel(2, shape=1.2, rate=1.1)
    y = np.full((3, 3), 50_000)
    missing = np.eye(3, dtype=bool)
    sampler = swept_together(
        network_problem(model, observed(y, missing=missing)),
        [model.state_type(np.ones((3, 2)), np.array([[1.0, 0.0], [3.0, 1.0]]))], 5,
    )  # fmt: skip
    tokens = sampler._chains[0].statistics()[""].tokens
    share = tokens[1] / 300_000
    close = np.abs(share - np.array([[0.2, 0.0], [0.6, 0.2]])).max() < 5 * np.sqrt(0.25 / 300_000)
    whole = int(tokens[1].sum()) == 300_000 and int(tokens[0].sum()) == 600_000
    yield "very many tokens", bool(close and whole), f"{share.ravel()}"


@check
def network_relocation():
    """Communities are moved in burn-in: a chain that is stopped in the middle of a trial goes on as if it had not been."""
    yield from relocation_of_network(CommunityModel(2, shape=1.2, rate=1.1), "fixed")
    yield from relocation_of_network(CommunityModel(2, shape=1.1), "inferred")


def relocation_of_network(model, kind):
    state, _, data = random_network(model, 4, 1.0, 0.1, np.random.default_rng(SEED + 11))
    problem, burn_in = network_problem(model, data), 80  # one trial, from sweep 16 to 56

    def opened(carry):
        relocation = Relocation(model, data, roles_of(model._spec.by_axis), burn_in)
        sampler = sampler_of(problem, 5, relocation=relocation)
        sampler.load(carry)
        return sampler

    def swept(sampler, n):
        for _ in range(n):
            sampler.sweep(0)
        return sampler.carry(0)

    before = swept(opened(Carry(0, 0, state._asdict(), {})), 15)
    whole = opened(before)
    moved = swept(whole, 1)
    plain = sampler_of(problem, 5)
    plain.load(before)
    kept = swept(plain, 1)
    yield f"nothing before a trial, {kind}", not before.extra, ""
    same = all(np.array_equal(moved.extra[f"before:{name}"], kept.state[name]) for name in kept.state)
    yield f"the state before a trial is kept, {kind}", same and not equal(moved, kept), ""
    middle = swept(whole, 5)
    after = swept(whole, 36)
    yield f"resumed within a trial, {kind}", equal(after, swept(opened(middle), 36)) and not after.extra, ""


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
