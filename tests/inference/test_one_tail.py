"""The forms of scales with which ours are compared (benchmarks/one_tail.py) are drawn by their own laws."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from goodness_of_fit import FALSE_ALARM, SEED
from inference import test_inferred_means_joint as joint
from inference.test_inferred_means_joint import CASES, narrow, pvalues  # noqa: F401 (fixtures)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from one_tail import INFINITE, gamma_posterior, law_of_scales


@pytest.mark.parametrize(
    ("power", "rate", "inverse"),
    [
        (-4.9, 0.3, 2.0),
        (2.0, 1.0, 1e-6),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((30.0, 4.0, 7.0), (-4.9, 1e3, 1e-12))),
    ],
)
def test_scales_given_a_factor(power, rate, inverse):
    law = stats.geninvgauss(power, 2 * np.sqrt(rate * inverse), scale=np.sqrt(inverse / rate))
    drawn = gamma_posterior(np.random.default_rng(SEED), power, rate, np.full(20_000, inverse))
    assert stats.kstest(drawn, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(1.1 * drawn, law.cdf).pvalue < FALSE_ALARM


TAILS = {"gamma": lambda s, t: (INFINITE, t), "inverse gamma": lambda s, t: (s, INFINITE)}


@pytest.mark.long
@pytest.mark.parametrize("form", TAILS)
def test_joint_law(form, pvalues, monkeypatch):  # noqa: F811
    right = joint.draw_tails
    monkeypatch.setattr(joint, "draw_tails", lambda rng: TAILS[form](*right(rng)))
    with law_of_scales(form):
        least, each = pvalues(CASES["topics"], replicates=600, sweeps=4, seed=51)
        assert least > FALSE_ALARM, each
        wrong = joint.NARROW._replace(
            log_shape=joint.NARROW.log_shape + 0.4
        )  # one of its standard deviations
        monkeypatch.setattr(joint.prior, "HYPER", wrong)
        least, each = pvalues(CASES["topics"], replicates=600, sweeps=4, seed=51)
    assert least < FALSE_ALARM, each
