"""Intervals of prevalence hold the truth about as often as they say: a short form of ``benchmarks/prevalence.py``."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "prevalence.py"
REPLICATES = 40


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("prevalence_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.MOST_R_HAT = np.inf  # no second, longer fits
    return module


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:prior. shape and rate expect")
@pytest.mark.parametrize("case", ["prior, fixed rate", "prior, inferred"])
def test_intervals_hold_the_truth_over_the_prior(study, case, monkeypatch):
    monkeypatch.setattr(study, "COMPARED", ())
    # One number of each replicate, so that they are independent: the distance between the groups.
    held = sum(study.replicate(case, n, epsilon=2)["distance_held"] for n in range(REPLICATES))
    law = stats.binom(REPLICATES, study.INTERVAL)
    assert law.cdf(held) > 1e-6, held
    # So many were enough to see intervals that hold six in ten.
    assert law.cdf(stats.binom(REPLICATES, 0.6).ppf(0.5)) < 1e-6


@pytest.mark.long
def test_averages_of_memberships_show_less_than_there_is(study):
    found = [study.replicate("planted, sparser words", n, epsilon=1) for n in range(12)]
    total = {name: sum(one[name] for one in found) for name in study.FOUND + study.AVERAGED}
    shown = total["averages_of_rows_shown"] / total["of_rows"]
    assert shown < 0.75, shown
    assert total["shown"] / total["of"] > shown


def test_intervals_of_coverage_are_those_of_wilson(study):
    """Of single trials; and of parts of replicates that tell the same, which are no more trials than replicates."""
    held = np.repeat([1.0, 0.0], [81, 10])
    known = stats.binomtest(81, 91).proportion_ci(0.95, "wilson")
    assert study.wilson(held) == pytest.approx((81 / 91, known.low, known.high), abs=1e-4)
    apart = np.random.default_rng(1).binomial(6, 0.9, 400) / 6  # six independent trials in each
    p, low, high = study.wilson(apart)
    known = stats.binomtest(round(2400 * p), 2400).proportion_ci(0.95, "wilson")
    assert high - low == pytest.approx(known.high - known.low, rel=0.15)


def test_a_study_goes_on_where_it_was_stopped(study, tmp_path, monkeypatch):
    """Half a line, as a kill may leave it, is computed again; the page is made of what is there."""
    made = []

    def fake(case, number, epsilon):
        made.append((case, number, epsilon))
        key = {"case": case, "replicate": number, "epsilon": epsilon}
        return dict.fromkeys(study.FOUND, 0.5) | {"sweeps": 800} | key

    class Here:
        """A pool that runs at once, in this process."""

        def __init__(self, *_args, **_options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def submit(self, function, *arguments):
            job = study.Future()
            job.set_result(function(*arguments))
            return job

    monkeypatch.setattr(study, "replicate", fake)
    monkeypatch.setattr(study, "ProcessPoolExecutor", Here)
    path = tmp_path / "found.csv"
    study.compute(path, 1, 2, np.inf)
    whole = path.read_text().splitlines()
    assert len(whole) == 1 + 20
    path.write_text("\n".join(whole[:6]) + "\n" + whole[6][:12])
    made.clear()
    study.compute(path, 1, 2, np.inf)
    assert sorted(path.read_text().splitlines()) == sorted(whole)
    assert len(made) == len({*made}) == 20 - 5
    study.compute(path, 2, 2, 0.0)
    assert len(path.read_text().splitlines()) < 1 + 40  # time was up
    assert "| prior, inferred | 4 | 1 | 0 | 50.0" in study.page(study.read(path))
