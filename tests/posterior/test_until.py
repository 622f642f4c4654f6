"""``until=`` and ``max_seconds=``: runs end when they are precise enough or their time is up, and no draw changes."""

import json

import numpy as np
import pytest

import countveil as cv
from countveil.inference import stopping
from countveil.posterior.runs import zarr_store

RELEASE = cv.simulate_release([[9, 0, 1], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1)
MODEL = cv.TopicModel(2)
LONG = {"sweeps": 800, "burn_in": 100, "thin": 2, "seed": 1, "progress": False}
UNTIL = {"ess": 150, "r_hat": 1.05}


def begins(part, whole):
    n = part.tree["posterior"].sizes["draw"]
    for group in ("posterior", "sample_stats"):
        assert part.tree[group].to_dataset().equals(whole.tree[group].to_dataset().isel(draw=slice(n)))
    return n


@pytest.fixture(scope="module")
def whole():
    return cv.fit(MODEL, RELEASE, **LONG)


@pytest.fixture(scope="module")
def enough():
    return cv.fit(MODEL, RELEASE, until=UNTIL, **LONG)


def scalars(posterior, draws):
    group = posterior.tree["sample_stats"].to_dataset().isel(draw=slice(draws))
    part = posterior.chains([0, 1])
    part.tree["sample_stats"] = group
    return part.summary(0)


def test_the_draws_are_how_the_longer_run_begins(whole, enough):
    n = begins(enough, whole)
    assert n < 350
    assert enough.settings["stopped"] == "precision"
    assert not enough.settings["interrupted"]
    # By the summary: precise enough here, and not at the look before.
    looks = [20]
    while looks[-1] < n:
        looks.append(int(np.ceil(1.1 * looks[-1])))
    assert looks[-1] == n
    assert len(looks) > 3
    reached = [
        bool((table["ess_bulk"] >= 150).all() and (table["r_hat"] <= 1.05).all())
        for table in (scalars(whole, look) for look in looks)
    ]
    assert reached == [False] * (len(looks) - 1) + [True]


def test_the_result_says_why_it_ended(whole, enough):
    told = enough.summary(0).verdict
    assert "of at most 800 sweeps: the monitored scalars have ESS 150 and R-hat 1.05, as asked." in told
    limit = cv.fit(MODEL, RELEASE, until={"ess": 10**6}, **LONG)
    assert limit.settings["stopped"] == "sweeps"
    assert "Ended at its limit of 800 sweeps, before" in limit.summary(0).verdict
    assert begins(limit, whole) == 350
    assert "Ended" not in whole.summary(0).verdict
    assert whole.settings["stopped"] == "sweeps"


@pytest.mark.long
def test_one_of_the_two_will_do(whole):
    part = cv.fit(MODEL, RELEASE, until={"r_hat": 1.2}, **LONG)
    assert begins(part, whole) < 350


def test_on_disk_stopped_and_resumed(enough, tmp_path, monkeypatch):
    run = tmp_path / "run.zarr"
    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: interrupted_after(151))
    with pytest.warns(UserWarning, match="interrupted: 25 of 350"):
        cv.fit(MODEL, RELEASE, until=UNTIL, store=run, **LONG)
    monkeypatch.undo()
    found = cv.resume(run, progress=False)
    n = begins(found, enough)
    assert n == enough.tree["posterior"].sizes["draw"]
    assert found.settings["stopped"] == "precision"
    assert cv.load_posterior(run).summary(0).verdict == enough.summary(0).verdict


def interrupted_after(n):
    def progress(sweeps, _):
        for sweep in sweeps:
            if sweep > n:
                raise KeyboardInterrupt
            yield sweep

    return progress


def test_killed_between_its_last_sweep_and_its_end_it_ends_there(enough, tmp_path, monkeypatch):
    run = tmp_path / "run.zarr"

    def die(*_):
        raise SystemExit

    monkeypatch.setattr(zarr_store, "mark_complete", die)
    with pytest.raises(SystemExit):
        cv.fit(MODEL, RELEASE, until=UNTIL, store=run, **LONG)
    monkeypatch.undo()
    found = cv.resume(run, progress=False)
    assert begins(found, enough) == enough.tree["posterior"].sizes["draw"]
    assert found.settings["stopped"] == "precision"


def test_extended_it_goes_on(whole, enough, tmp_path):
    run = tmp_path / "run.zarr"
    n = cv.fit(MODEL, RELEASE, until={"ess": 60}, store=run, **LONG).tree["posterior"].sizes["draw"]
    done = 100 + 2 * n
    with pytest.raises(ValueError, match=rf"sweeps: expected a new total of at least {done}, .*, got 90"):
        cv.extend(run, sweeps=90, progress=False)
    found = cv.extend(run, sweeps=800, until=UNTIL, progress=False)
    assert begins(found, enough) == enough.tree["posterior"].sizes["draw"]
    assert found.settings["until_ess"] == 150
    found = cv.extend(run, sweeps=800, progress=False)
    assert begins(found, whole) == 350
    assert "until_ess" not in found.settings
    assert found.settings["stopped"] == "sweeps"


@pytest.mark.parametrize("stored", [False, True])
def test_when_the_time_is_up(whole, tmp_path, monkeypatch, stored):
    clock = iter(range(10**6))  # a second for every look at it
    monkeypatch.setattr(stopping, "time", type("Clock", (), {"monotonic": lambda: next(clock)}))
    run = tmp_path / "run.zarr"
    part = cv.fit(MODEL, RELEASE, max_seconds=200, store=run if stored else None, **LONG)
    assert begins(part, whole) == 50
    assert part.settings["stopped"] == "time"
    assert part.settings["interrupted"]
    assert "Ended when its time was up, with 50 of 350 draws per chain." in part.summary(0).verdict
    if stored:
        with pytest.warns(UserWarning, match="unfinished: .* has 50 of 350"):
            assert cv.load_posterior(run).settings["stopped"] == "time"
        part = cv.resume(run, max_seconds=200, progress=False)
        assert begins(part, whole) == 149, "where it goes on, somebody looks at the clock, too"
        assert cv.resume(run, progress=False).settings["stopped"] == "sweeps"
        begins(cv.load_posterior(run), whole)
    with pytest.raises(TimeoutError, match="max_seconds: expected time for a first draw, got 9 s"):
        cv.fit(MODEL, RELEASE, max_seconds=9, store=tmp_path / "none.zarr" if stored else None, **LONG)
    if stored:
        assert begins(cv.resume(tmp_path / "none.zarr", progress=False), whole) == 350


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (400, "until: expected a dict with 'ess', 'r_hat' or both"),
        ({}, "until: expected a dict"),
        ({"rhat": 1.01}, "until: expected a dict"),
        ({"ess": 0}, "until: expected a number above 0 for 'ess', got 0"),
        ({"ess": "400"}, "until: expected a number above 0 for 'ess', got '400'"),
        ({"r_hat": 1}, "until: expected a number above 1 for 'r_hat', got 1"),
        ({"ess": float("nan")}, "until: expected a number above 0 for 'ess', got nan"),
    ],
)
def test_bad_precisions(until, message):
    with pytest.raises(ValueError, match=message):
        cv.fit(MODEL, RELEASE, until=until, **LONG)


def test_chains_apart_cannot_see_each_other(tmp_path):
    with pytest.raises(ValueError, match="until: expected none beside chain, got one: how precise a run is"):
        cv.fit(MODEL, RELEASE, until=UNTIL, chain=0, store=tmp_path / "run", **LONG)
    with pytest.raises(ValueError, match="until: expected chains=2 or more for 'r_hat'"):
        cv.fit(MODEL, RELEASE, until=UNTIL, chains=1, **LONG)
    run = tmp_path / "one.zarr"
    cv.fit(MODEL, RELEASE, sweeps=20, thin=2, chain=0, seed=1, store=run, progress=False)
    with pytest.raises(ValueError, match="until: expected a run of all its 2 chains, got 1 of them"):
        cv.extend(run, sweeps=40, until=UNTIL, progress=False)
    assert not (tmp_path / "run").exists()
    for bad in (-1, float("inf"), "10", True):
        with pytest.raises(ValueError, match="max_seconds: expected a number >= 0, got"):
            cv.fit(MODEL, RELEASE, max_seconds=bad, **LONG)


@pytest.mark.long
def test_a_run_whose_scalars_lie_elsewhere_is_refused(tmp_path, monkeypatch):
    run = tmp_path / "run.zarr"
    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: interrupted_after(151))
    with pytest.warns(UserWarning, match="interrupted"):
        cv.fit(MODEL, RELEASE, until=UNTIL, store=run, **LONG)
    monkeypatch.undo()
    file = run / "zarr.json"
    found = json.loads(file.read_text())
    found["attributes"]["scalars"] = json.dumps(["../posterior/phi"])
    file.write_text(json.dumps(found))
    with pytest.raises(ValueError, match="expected a whole run, got a damaged one"):
        cv.resume(run, progress=False)
