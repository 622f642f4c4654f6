"""Intervals of prevalence hold the truth about as often as they say: a short form of ``benchmarks/prevalence.py``."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "prevalence.py"
REPLICATES = 60


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("prevalence_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
@pytest.mark.parametrize("case", ["prior, fixed rate", "prior, inferred"])
def test_intervals_hold_the_truth_over_the_prior(study, case):
    found = [study.replicate(case, n, noise=(2,))[0] for n in range(REPLICATES)]
    # One number of each replicate, so that they are independent: the distance between the groups.
    held = sum(one["distance"] for one in found)
    law = stats.binom(REPLICATES, study.INTERVAL)
    assert law.cdf(held) > 1e-6, held
    # So many were enough to see intervals that hold two thirds of what they say.
    assert law.cdf(stats.binom(REPLICATES, 0.6).ppf(0.5)) < 1e-6


@pytest.mark.long
def test_averages_of_memberships_show_less_than_there_is(study):
    found = [study.replicate("planted, its shape", n, noise=(1,))[0] for n in range(12)]
    shown = {}
    for name, truth in (("mean", "truth"), ("average", "average truth")):
        apart, true = (np.array([one[key] for one in found])[:, 0] for key in (name, truth))
        shown[name] = apart.mean() / true.mean()
    assert shown["average"] < 0.75, shown
    assert shown["mean"] > shown["average"], shown
