"""A scale move changes no rate and leaves the prior as it is."""

import numpy as np
import pytest
from scipy import stats

from countveil.kernels.philox import SweepKey
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.scales import ScaleMove, trade_in_blocks, trade_scales
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED, fits, rejects

N, C, SHAPE, RATE = 7, 2, 1.3, 0.7


def blocks_after(symmetric, replicates, moved_with=SHAPE):
    """Smallest p-value of "factors after the move have the law of fresh ones"."""
    rng = np.random.default_rng(SEED + 1)
    found = np.empty((2, replicates, 6))
    for i in range(replicates):
        for which in range(2):
            theta, pi = rng.gamma(SHAPE, 1 / RATE, (N, C)), rng.gamma(SHAPE, 1 / RATE, (C, C))
            if symmetric:
                pi = np.triu(pi) + np.triu(pi, 1).T
            before = theta @ pi @ theta.T
            if which:
                key = SweepKey(np.uint64(SEED), 0, i)
                trade_in_blocks(key, moved_with, RATE, RATE, symmetric, theta, pi, np.zeros(0), 0.0)
                np.testing.assert_allclose(theta @ pi @ theta.T, before, rtol=1e-9)
            found[which, i] = (
                theta[0, 0],
                theta.sum(),
                pi[0, 0],
                pi[1, 0],
                pi.sum(),
                theta[:, 0].sum() * pi[1, 0],
            )
    return min(stats.ks_2samp(*found[:, :, f]).pvalue for f in range(6))


SIZES = pytest.mark.parametrize("replicates", [1500, pytest.param(8000, marks=pytest.mark.long)])


@SIZES
@pytest.mark.parametrize("symmetric", [True, False])
def test_memberships_and_blocks(symmetric, replicates):
    assert fits(blocks_after(symmetric, replicates))
    assert rejects(blocks_after(symmetric, replicates, moved_with=2 * SHAPE)), "a wrong power must be caught"


#: ik and kjt along k.
MOVES = [ScaleMove(up=(("one", 1),), down=(("two", 0),))]


def pair_after(priors, moved_with, replicates):
    rng = np.random.default_rng(SEED + 2)
    found = np.empty((2, replicates, 3))
    for i in range(replicates):
        for which in range(2):
            one, two = (
                rng.gamma(p.shape, 1 / p.rate, s) for p, s in zip(priors, ((3, 2), (2, 4, 2)), strict=True)
            )
            if which:
                before = np.einsum("ik,kjt->ijt", one, two)
                held, prior_of = {"one": one, "two": two}, dict(zip(("one", "two"), moved_with, strict=True))
                trade_scales(MOVES, held, prior_of.get, {}, SweepKey(np.uint64(SEED), 0, i), Workers(1))
                np.testing.assert_allclose(np.einsum("ik,kjt->ijt", one, two), before, rtol=1e-9)
            found[which, i] = one[0, 0], one.sum(), two.sum()
    return min(stats.ks_2samp(*found[:, :, f]).pvalue for f in range(3))


@SIZES
def test_two_factors_with_priors_of_their_own(replicates):
    priors = (Prior(2.0, 0.5), Prior(1.1, 3.0))
    assert fits(pair_after(priors, priors, replicates))
    assert rejects(pair_after(priors, (priors[1], priors[0]), replicates))
