"""Relocation: weak components move in burn-in, and nothing of that is left after it."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest

import countveil as cv
from countveil.inference import relocation
from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.sampler import CpuSampler, open_problem
from countveil.inference.problem import make_problem
from countveil.inference.relocation import TRIAL, relocation_of, roles_of, trials
from countveil.inference.settings import check_settings
from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.kernels.philox import SweepKey
from countveil.kernels.poisson import log_poisson
from countveil.models.einsum.spec import read_spec
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED

RNG = np.random.default_rng(5)
NETWORK = RNG.poisson(4.0, (12, 12))
TENSOR = RNG.poisson(4.0, (12, 5, 4))
TUCKER = cv.Factorization("ia,ab,jb->ij", a=2, b=3)
MODELS = {
    "directed": (cv.CommunityModel(3, rate=1.0), NETWORK),
    "directed, inferred": (cv.CommunityModel(3, rate=None), NETWORK),
    "undirected": (cv.CommunityModel(3, directed=False, rate=1.0), NETWORK),
    "Tucker": (TUCKER, NETWORK),
    "CP": (cv.TensorModel(3), TENSOR),
    "CP, inferred": (cv.TensorModel(3, rate=None), TENSOR),
    "tied": (cv.Factorization("tk,ik,jk->tij", names=["time", "actor", "actor"], k=2), TENSOR[:5, :4, :]),
}
BURN_IN = 80
(BEGIN,) = trials(BURN_IN)
WORKERS = Workers(1)


def settings(**changes):
    given = {"sweeps": 100, "burn_in": BURN_IN, "thin": 1, "chains": 1, "seed": SEED, "method": "exact"}
    return check_settings(**{**given, "engine": "cpu", "threads": 1, **changes})


def released(counts, share=0.2):
    hidden = np.random.default_rng(1).random(counts.shape) < share
    return cv.simulate_release(counts, alpha=0.4, seed=2).hide(np.nonzero(hidden))


def swept(problem, chosen, until, carry=None):
    """The carry of a chain after so many sweeps."""
    with open_problem(problem, chosen) as sampler:
        if carry is None:
            sampler.start(0)
        else:
            sampler.load(carry)
        while sampler.carry(0).sweep < until:
            sampler.sweep(0)
        return sampler.carry(0)


def same(one, two):
    return one.sweep == two.sweep and all(np.array_equal(one.state[n], two.state[n]) for n in one.state)


@pytest.mark.parametrize("kind", MODELS)
def test_a_carry_in_the_middle_of_a_trial_goes_on_bit_by_bit(kind):
    model, counts = MODELS[kind]
    problem, chosen = make_problem(model, released(counts)), settings()
    middle = swept(problem, chosen, BEGIN + 3)
    assert "before:log_likelihood" in middle.extra
    again = Carry.from_bytes(middle.to_bytes())
    end, resumed = (swept(problem, chosen, BEGIN + TRIAL + 3, carry) for carry in (middle, again))
    assert same(end, resumed)
    assert same(end, swept(problem, chosen, BEGIN + TRIAL + 3))
    assert end.extra == {}
    # It does something.
    assert not same(end, swept(problem, settings(start="plain"), BEGIN + TRIAL + 3))


def test_after_burn_in_the_kernel_is_the_plain_one():
    model, counts = MODELS["directed"]
    problem = make_problem(model, released(counts))
    at_end = swept(problem, settings(), BURN_IN)
    with_it, without = (swept(problem, settings(start=s), BURN_IN + 20, at_end) for s in ("auto", "plain"))
    assert same(with_it, without)


@pytest.mark.parametrize("burn_in", [0, 1, 67, 68, 100, 1000, 2500])
def test_every_trial_lies_in_the_middle_of_burn_in(burn_in):
    found = list(trials(burn_in))
    assert all(b - a > TRIAL for a, b in pairwise(found))
    assert all(0.2 * burn_in <= s and s + TRIAL <= 0.8 * burn_in for s in found)
    assert (len(found) > 0) == (burn_in >= 68)


@pytest.mark.parametrize("kind", ["directed", "undirected", "CP"])
@pytest.mark.parametrize("data", ["release", "plain", "by row"])
def test_the_log_likelihood_is_that_of_all_observed_cells(kind, data):
    model, counts = MODELS[kind]
    if data == "plain":
        given, alpha = np.ma.array(counts, mask=np.random.default_rng(1).random(counts.shape) < 0.2), None
    else:
        by_row = np.linspace(0.2, 0.6, len(counts)).reshape(-1, *[1] * (counts.ndim - 1))
        alpha = np.broadcast_to(0.4 if data == "release" else by_row, counts.shape)
        noise = np.random.default_rng(3).integers(-2, 3, counts.shape)
        hidden = np.random.default_rng(1).random(counts.shape) < 0.2
        given = cv.PrivateCounts(counts + noise, alpha=0.4 if data == "release" else by_row, mask=hidden)
    problem = make_problem(model, given)
    moves = relocation_of(problem, settings())

    def both(seed):
        state = problem.start(SweepKey(np.uint64(seed), 0, 0), WORKERS)
        rates = model.rates(state, slice(None)).reshape(counts.shape)
        seen = np.random.default_rng(1).random(counts.shape) >= 0.2
        outside = model.left_out(counts.shape)
        if outside is not None:
            seen[outside] = False
        total = 0.0
        for cell in zip(*np.nonzero(seen), strict=True):
            if alpha is None:
                total += log_poisson(int(counts[cell]), rates[cell])
            else:
                x = max(int(counts[cell] + noise[cell]), 0)
                total += log_marginal_clamped(x, rates[cell], -np.log(alpha[cell]))
        return moves._log_likelihood(model._hold(state), WORKERS), total

    (one, exact_one), (two, exact_two) = both(1), both(2)
    assert abs(exact_one - exact_two) > 1.0
    assert one - two == pytest.approx(exact_one - exact_two, abs=1e-8)


def test_a_component_moves_to_a_block_that_is_not_explained():
    """Two groups explained, the third not: the component that is moved becomes the third."""
    group = np.repeat([0, 1, 2], 8)
    counts = np.where(group[:, None] == group, 6, 0)
    np.fill_diagonal(counts, 0)
    model = cv.CommunityModel(3, rate=1.0)
    problem = make_problem(model, counts)
    theta = np.full((24, 3), 1e-3)
    theta[group == 0, 0] = theta[group == 1, 1] = 1.0  # and the last one is idle
    state = problem.state_type(theta, np.full((3, 3), 1e-3) + np.diag([6.0, 6.0, 1e-3]))
    moves = relocation_of(problem, settings())
    key = SweepKey(np.uint64(SEED), 0, BEGIN)
    with patch.object(relocation, "WEAKEST", 1):
        moved = moves.after_sweep(state, {}, key, WORKERS)
    assert moved.theta[group == 2, 2].min() > 20 * moved.theta[group != 2, 2].max()
    assert np.array_equal(moved.theta[:, :2], theta[:, :2])
    # Its rate is what was missed.
    assert moved.pi[2, 2] * np.median(moved.theta[group == 2, 2]) ** 2 == pytest.approx(6.0, rel=0.7)
    rates = model.rates(moved, slice(None)) - model.rates(state, slice(None))
    assert rates.sum() - np.trace(rates) == pytest.approx(counts[group == 2].sum(), rel=0.5)


@pytest.mark.parametrize(("loss", "returns"), [(np.inf, False), (-np.inf, True)])
def test_a_trial_that_fails_is_taken_back(loss, returns):
    model, counts = MODELS["directed"]
    problem = make_problem(model, released(counts))
    before = swept(problem, settings(), BEGIN)
    old = {name.removeprefix("before:"): value for name, value in before.extra.items()}
    with patch.object(relocation, "LOSS", loss):
        after = swept(problem, settings(), BEGIN + TRIAL, before)
    assert all(np.array_equal(after.state[name], old[name]) for name in after.state) == returns


@pytest.mark.parametrize("kind", ["directed", "CP"])
def test_draws_do_not_depend_on_threads(kind):
    model, _ = MODELS[kind]
    counts = np.random.default_rng(6).poisson(0.7, (150, 150) if kind == "directed" else (150, 4, 3))
    problem = make_problem(model, released(counts))
    one, two = (swept(problem, settings(threads=n), BEGIN + TRIAL + 1) for n in (1, 3))
    assert same(one, two)


def test_who_is_served():
    release = released(NETWORK)
    assert relocation_of(make_problem(cv.CommunityModel(3), release), settings(start="plain")) is None
    assert relocation_of(make_problem(cv.CommunityModel(3), release), settings(burn_in=10)) is None
    assert relocation_of(make_problem(cv.TopicModel(3), release), settings()) is None
    assert (
        relocation_of(
            make_problem(cv.UnknownNoise(TUCKER), cv.PrivateCounts(NETWORK, alpha=0.4, clamped=False)),
            settings(),
        )
        is None
    )
    assert relocation_of(make_problem(cv.CommunityModel(3), release, "bessel"), settings()) is None
    given = cv.Factorization(
        "ia,ab,jb->ij", names=["one", "core", "two"], a=2, b=3, start={"one": np.ones((12, 2))}
    )
    assert relocation_of(make_problem(given, release), settings()) is None
    assert relocation_of(make_problem(TUCKER, release), settings()) is not None


@pytest.mark.parametrize(
    ("spec", "names", "of_axis"),
    [
        ("ic,cd,jd->ij", ["theta", "pi", "theta"], (0, 0)),
        ("ik,jk,tk->ijt", None, (0, 0, 0)),
        ("ia,jb,tc,abc->ijt", None, (0, 1, 2)),
        ("dk,kv,v->dv", None, (0, 0)),
    ],
)
def test_roles(spec, names, of_axis):
    roles = roles_of(read_spec(spec, names).by_axis)
    assert roles.of_axis == of_axis


@pytest.mark.parametrize("spec", ["dkl,kv,lv->dv", "dk,kl,lm,mv->dv", "dk,kv,dv->dv"])
def test_specs_without_components_of_their_own_have_no_roles(spec):
    assert roles_of(read_spec(spec).by_axis) is None


def test_a_run_that_was_stopped_in_a_trial_goes_on(tmp_path):
    release = released(NETWORK)
    given = {"sweeps": 110, "burn_in": BURN_IN, "thin": 2, "chains": 2, "seed": 1, "progress": False}
    whole = cv.fit(cv.CommunityModel(3), release, **given)
    swept, path = CpuSampler.sweep, tmp_path / "run.zarr"

    def stopped(sampler, chain):
        if chain == 0 and sampler.carry(0).sweep == BEGIN + 20:
            raise KeyboardInterrupt
        swept(sampler, chain)

    with patch.object(CpuSampler, "sweep", stopped), pytest.raises(KeyboardInterrupt):
        cv.fit(cv.CommunityModel(3), release, store=path, checkpoint_seconds=0, **given)
    again = cv.resume(path, progress=False)
    for name in ("theta", "pi"):
        assert np.array_equal(whole.tree["posterior"][name], again.tree["posterior"][name])


@pytest.mark.long
def test_chains_find_planted_groups_that_plain_ones_miss():
    """At eps/N = 3 one of four plain chains merges two of five groups."""
    rng = np.random.default_rng(5)
    group = np.arange(100) % 5
    activity = rng.gamma(1.0, 1.0, 100)
    counts = rng.poisson(activity[:, None] * (0.02 + 1.5 * np.eye(5))[group][:, group] * activity)
    np.fill_diagonal(counts, 0)
    release = cv.simulate_release(counts, alpha=np.exp(-3.0), seed=2)
    given = {"sweeps": 1500, "burn_in": 1000, "chains": 6, "seed": 1, "progress": False}
    ends = {
        start: cv.fit(cv.CommunityModel(5, rate=1.0), release, start=start, **given)
        .tree["sample_stats"]["sampled_log_likelihood"]
        .mean("draw")
        .values
        for start in ("plain", "auto")
    }
    assert np.ptp(ends["plain"]) > 100
    assert np.ptp(ends["auto"]) < 30
    assert ends["auto"].min() > ends["plain"].max() - 30
