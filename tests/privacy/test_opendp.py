"""OpenDP's geometric mechanism, an independent exact implementation, agrees in law and in privacy map."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from countveil.privacy import Guarantee, add_noise
from goodness_of_fit import fits, rejects

dp.enable_features("contrib")

SIZE = 100_000


def opendp_mechanism(rate):
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_geometric(*space, scale=float(1 / Fraction(rate)))


def two_sample_pvalue(one, other):
    """Chi-square of two samples over groups of about equal size."""
    edges = np.unique(
        np.quantile(np.concatenate([one, other]), np.linspace(0.001, 0.999, 40)).astype(np.int64)
    )
    table = [np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1) for sample in (one, other)]
    table = np.array(table)[:, np.sum(table, axis=0) > 40]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("rate", ["0.01", "0.1", "1", "2.5"])
def test_noise_has_the_law_of_opendp(rate):
    theirs = np.array(opendp_mechanism(rate)([0] * SIZE))
    zeros = np.zeros(SIZE, dtype=np.int64)
    assert fits(two_sample_pvalue(add_noise(zeros, Guarantee(rate)), theirs))
    wrong = Guarantee(Fraction(rate) * Fraction(11, 10))
    assert rejects(two_sample_pvalue(add_noise(zeros, wrong), theirs))


@pytest.mark.parametrize("rate", ["0.1", "0.125", "1", "4"])
def test_loss_is_the_privacy_map_of_opendp(rate):
    """Theirs is a float rounded up, ours is exact."""
    mechanism, guarantee = opendp_mechanism(rate), Guarantee(rate)
    for distance in (1, 2, 3, 10, 1000):
        exact, theirs = guarantee.loss(distance), Fraction(mechanism.map(distance))
        assert exact <= theirs <= exact * (1 + Fraction(1, 10**12))
