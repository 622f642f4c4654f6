"""Ctrl-C loses nothing that was kept; progress says how fast it goes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import countveil as cv
from countveil.inference.chains import run_chains
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings

RELEASE = cv.PrivateCounts([[3, 0], [1, 2]], alpha=0.4)


def interrupted_after(n):
    def progress(sweeps, _):
        for sweep in sweeps:
            if sweep > n:
                raise KeyboardInterrupt
            yield sweep

    return progress


def settings(**changes):
    given = {
        "sweeps": 20,
        "burn_in": 4,
        "thin": 2,
        "chains": 2,
        "seed": 1,
        "method": "exact",
        "engine": "auto",
        "threads": 1,
    }
    return check_settings(**{**given, **changes})


def test_what_was_kept_is_returned():
    whole = run_chains(make_problem(cv.TopicModel(2), RELEASE), settings())
    part = run_chains(make_problem(cv.TopicModel(2), RELEASE), settings(), interrupted_after(11))
    assert part.interrupted
    assert not whole.interrupted
    assert part.states["theta"].shape[:2] == (2, 3)
    assert np.array_equal(part.states["theta"], whole.states["theta"][:, :3])
    assert np.array_equal(part.monitored["total_rate"], whole.monitored["total_rate"][:, :3])


def test_before_the_first_draw_there_is_nothing_to_return():
    with pytest.raises(KeyboardInterrupt):
        run_chains(make_problem(cv.TopicModel(2), RELEASE), settings(), interrupted_after(3))


def test_fit_warns_that_it_was_interrupted(monkeypatch):
    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: interrupted_after(11))
    with pytest.warns(UserWarning, match="interrupted: 3 of 8 draws per chain were kept"):
        posterior = cv.fit(cv.TopicModel(2), RELEASE, sweeps=20, burn_in=4, thin=2, seed=1)
    assert posterior.n_draws == 6


def test_progress_shows_speed_and_time_left(capsys):
    cv.fit(cv.TopicModel(2), RELEASE, sweeps=3000, seed=1)
    shown = capsys.readouterr().err
    assert "sweep 3,000 of 3,000" in shown
    assert "sweeps/s, 0:00 left, log-likelihood -" in shown
    cv.fit(cv.TopicModel(2), RELEASE, sweeps=30, seed=1, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.long
def test_a_cold_start_is_announced_once(tmp_path):
    # A cache of its own, so that this process finds nothing compiled; the second one finds everything.
    code = "import countveil as cv; cv.fit(cv.TopicModel(2), [[3, 0], [1, 2]], sweeps=4, thin=1, seed=1)"
    environment = {**os.environ, "COUNTVEIL_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    assert said[0].count("compiling for this machine") == 1
    assert "functions in " in said[0]
    assert "compil" not in said[1]
