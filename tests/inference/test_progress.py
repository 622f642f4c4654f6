"""Progress: for a function of the user's own, for a terminal, for a log; and what is said while numba compiles."""

import sys

import numpy as np
import pytest

import countveil as cv
from countveil.inference import progress
from countveil.inference.progress import Progress, shown, watched
from countveil.runtime.compilation_news import CompilationNews

RELEASE = cv.PrivateCounts([[3, 0], [1, 2]], alpha=0.4)
SHORT = {"sweeps": 20, "burn_in": 4, "thin": 2, "seed": 1}


def scalars():
    return {
        0: {"sampled_log_likelihood": -12_276.4, "total_rate": 9.0},
        1: {"sampled_log_likelihood": -13_533.0},
    }


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes a second further whenever somebody looks at it."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(progress, "time", type("Clock", (), {"perf_counter": lambda: float(next(ticks))}))


def test_a_function_of_ones_own(tmp_path):
    seen = []
    posterior = cv.fit(cv.TopicModel(2), RELEASE, progress=seen.append, **SHORT)
    last = seen[-1]
    assert isinstance(last, Progress)
    assert (last.sweep, last.sweeps, last.burn_in, last.seconds_left) == (20, 20, 4, 0.0)
    assert last.seconds > 0
    assert last.sweeps_per_second > 0
    final = posterior.tree["sample_stats"]["sampled_log_likelihood"].to_numpy()[:, -1]
    assert last.log_likelihoods == dict(enumerate(final)), "sweep 20 was kept: the same scalars"
    silent = cv.fit(cv.TopicModel(2), RELEASE, progress=False, **SHORT)
    assert silent.tree["posterior"].to_dataset().equals(posterior.tree["posterior"].to_dataset())
    run = tmp_path / "run.zarr"
    cv.fit(cv.TopicModel(2), RELEASE, progress=False, store=run, **SHORT)
    seen.clear()
    cv.extend(run, sweeps=30, progress=seen.append)
    assert (seen[-1].sweep, seen[-1].sweeps) == (30, 30)

    def fail(_):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        cv.fit(cv.TopicModel(2), RELEASE, progress=fail, **SHORT)
    with pytest.raises(TypeError, match="progress: expected True, False or a function, got 'yes'"):
        cv.fit(cv.TopicModel(2), RELEASE, progress="yes", **SHORT)


def test_the_figures(clock):
    seen = []
    assert list(watched(seen.append, burn_in=4)(range(1, 11), scalars)) == list(range(1, 11))
    assert seen[-1].sweep == 10
    assert [one.sweep for one in seen] == sorted({one.sweep for one in seen})
    middle = seen[1]
    # By this clock a sweep takes at least a second, and looking at the scalars another.
    assert 0 < middle.sweeps_per_second <= 1
    assert middle.seconds_left == pytest.approx((10 - middle.sweep) / middle.sweeps_per_second)
    limited = []
    list(watched(limited.append, burn_in=4, max_seconds=5.0)(range(1, 11), scalars))
    assert all(one.seconds_left <= max(0.0, 5.0 - one.seconds) for one in limited)
    assert list(watched(seen.append, burn_in=4)(range(5, 5), scalars)) == []


def test_looking_takes_a_small_share_of_the_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "time", type("Clock", (), {"perf_counter": lambda: now[0]}))

    def costly():
        now[0] += 10.0
        return scalars()

    seen = []
    for _ in watched(seen.append, burn_in=0)(range(1, 1001), costly):
        now[0] += 1.0
    assert len(seen) == 3, "after 1 s, 500 s later, and at the end; not every second"


def test_lines_in_a_log(capsys, clock, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    list(shown(6, None, lambda: None)(range(1, 101), scalars))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("countveil: sweep ")
    assert lines[-1].startswith("countveil: sweep 100 of 100, ")
    assert lines[-1].endswith("sweeps/s, 0:00 left, log-likelihood -12,276 -13,533")
    assert "(burn-in)" in lines[0]
    assert "(burn-in)" not in lines[-1]
    assert len(lines) < 12, "one now and then"


def test_a_moving_line_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    cv.fit(cv.TopicModel(2), RELEASE, **SHORT)
    told = capsys.readouterr().err
    assert "20/20" in told
    assert "log-likelihood -" in told


def test_notebooks_are_known(monkeypatch):
    assert not progress._in_notebook()
    for shell, expected in ((object(), False), (type("Shell", (), {"kernel": 1})(), True), (None, False)):
        python = type("IPython", (), {"get_ipython": staticmethod(lambda shell=shell: shell)})
        monkeypatch.setitem(sys.modules, "IPython", python)
        assert progress._in_notebook() is expected


def test_many_chains_are_shown_by_their_range():
    many = {
        chain: {"sampled_log_likelihood_words": -1000.0 - chain, "sampled_log_likelihood_authors": -1.0}
        for chain in range(9)
    }
    one = Progress(5, 10, 4, many, 1.0, 1.0, 5.0)
    assert one.levels() == "log-likelihood from -1,009 to -1,001"


def test_compilation_is_told_once_and_how_long_it_took(capsys):
    from numba import njit

    news = CompilationNews()
    with news.told(True):
        for _ in range(2):
            njit(lambda x: x + 1)(np.float64(1.0))
        news.finished()
        news.finished()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "compiling for this machine: a minute or more, once" in said[0]
    assert said[1].startswith("countveil: compiled 2 functions in ")
    with CompilationNews().told(False):
        njit(lambda x: x + 2)(np.float64(1.0))
    njit(lambda x: x + 3)(np.float64(1.0))
    assert capsys.readouterr().err == ""
