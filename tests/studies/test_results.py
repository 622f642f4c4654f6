"""What all studies rest on: results that survive a stop, the same release for all methods, tables that are right."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.studies import plan as plan_module
from countveil.studies import results, run
from countveil.studies.experiments.communities import STUDY as COMMUNITIES
from countveil.studies.experiments.links import STUDY as LINKS
from countveil.studies.plan import Found, Job, Settings
from countveil.studies.results import ResultFolder
from countveil.studies.run import run_study
from countveil.studies.summary import mean_and_interval, summary_text

SETTINGS = Settings(sweeps=10, levels=(3.0, 1.0), sizes=(2,), releases=2)


def planned(settings):
    return settings.repeated(settings.at_levels(["non-private", "exact", "naive"], size=2))


def made_up(job, settings=None, data=None):
    """Scores that depend on the job alone, as those of a seeded fit do."""
    rng = np.random.default_rng([sum(job.method.encode()), job.release, job.size])
    return Found({"mae": float(rng.random()) + (job.level or 0.0), "log_score": -float(rng.random())})


STUDY = replace(
    COMMUNITIES, name="made-up", load=lambda options: None, describe=lambda data: "nothing", plan=planned,
    perform=made_up, picture=lambda folder, path: path.write_bytes(b"picture"),
)  # fmt: skip


class StoppedError(Exception):
    pass


def stopping_after(n):
    left = [n]

    def perform(job, settings, data):
        if left[0] == 0:
            raise StoppedError
        left[0] -= 1
        return made_up(job)

    return replace(STUDY, perform=perform)


def without_seconds(folder):
    return {job: {n: v for n, v in s.items() if n != "seconds"} for job, s in folder.done().items()}


def test_a_stopped_study_goes_on_and_ends_as_if_nothing_had_happened(tmp_path):
    whole = run_study(STUDY, tmp_path / "whole", SETTINGS, {})
    with pytest.raises(StoppedError):
        run_study(stopping_after(5), tmp_path / "parts", SETTINGS, {})
    assert len(ResultFolder(tmp_path / "parts", STUDY, "nothing").done()) == 5
    ran = []
    counting = replace(STUDY, perform=lambda job, *rest: ran.append(job) or made_up(job))
    parts = run_study(counting, tmp_path / "parts", SETTINGS, {})
    assert len(ran) == len(planned(SETTINGS)) - 5
    assert without_seconds(parts) == without_seconds(whole)
    names = {"fits.csv", "summary.csv", "table.md", "figure.png", "settings.json"}
    assert {path.name for path in (tmp_path / "parts").iterdir()} == names
    ran.clear()
    run_study(counting, tmp_path / "parts", SETTINGS.changed(releases=3), {})
    assert {job.release for job in ran} == {2}


def test_half_a_line_is_a_fit_that_is_run_again(tmp_path):
    run_study(STUDY, tmp_path, SETTINGS, {})
    file = tmp_path / "fits.csv"
    complete = file.read_bytes()
    for cut in (1, 9):
        file.write_bytes(complete[:-cut])
        folder = ResultFolder(tmp_path, STUDY, "nothing")
        assert len(folder.done()) == len(planned(SETTINGS)) - 1
    file.write_bytes(complete[:10])  # not even the header
    assert ResultFolder(tmp_path, STUDY, "nothing").done() == {}
    run_study(STUDY, tmp_path, SETTINGS, {})
    assert len(ResultFolder(tmp_path, STUDY, "nothing").done()) == len(planned(SETTINGS))


def test_a_folder_of_other_data_or_another_study_is_refused(tmp_path):
    run_study(STUDY, tmp_path, SETTINGS, {})
    with pytest.raises(ValueError, match=r"output: expected .* made-up on something"):
        run_study(replace(STUDY, describe=lambda data: "something"), tmp_path, SETTINGS, {})
    with pytest.raises(ValueError, match=r"output: expected .* links on nothing, got one of made-up"):
        ResultFolder(tmp_path, LINKS, "nothing")


@pytest.mark.parametrize("name", ["fits.csv", "summary.csv", "table.md", "figure.png"])
def test_files_of_the_user_are_not_replaced(name, tmp_path):
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(FileExistsError, match=f"output: expected a new folder, .* which has another {name}"):
        run_study(STUDY, tmp_path, SETTINGS, {})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"mine")]


def test_the_summary_has_means_and_paired_differences(tmp_path):
    folder = run_study(STUDY, tmp_path, SETTINGS, {})
    summary = folder.summary()

    def line_of(measure):
        chosen = (summary["method"] == "exact") & (summary["prior"] == "paper") & (summary["level"] == 1.0)
        (line,) = summary[chosen & (summary["measure"] == measure)].to_dict("records")
        return line

    def score(method, level, release, prior="paper"):
        return made_up(Job(method, prior, level, release, 10, size=2)).scores["mae"]

    exact, naive = ([score(m, 1.0, release) for release in (0, 1)] for m in ("exact", "naive"))
    plain = [score("non-private", None, release) for release in (0, 1)]
    line = line_of("mae")
    assert (line["n"], line["mean"]) == (2, pytest.approx(np.mean(exact), rel=1e-5))
    for other, values in (("naive", naive), ("non-private", plain)):
        line = line_of(f"mae - {other}")
        differences = np.subtract(exact, values)
        low, high = stats.t.interval(0.95, 1, differences.mean(), stats.sem(differences))
        assert line["mean"] == pytest.approx(differences.mean(), rel=1e-4)
        assert (line["low"], line["high"]) == (pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4))
    assert (tmp_path / "summary.csv").read_text() == summary_text(folder.summary())


def test_intervals_hold_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = []
    for values in rng.normal(1.0, 2.0, (4000, 5)):
        _, low, high = mean_and_interval(values)
        held.append(low <= 1.0 <= high)
    assert stats.binomtest(sum(held), len(held), 0.95).pvalue > 1e-6
    assert stats.binomtest(sum(held), len(held), 0.90).pvalue < 1e-6  # power
    assert math.isnan(mean_and_interval([3.0])[1])


COUNTS = np.array([[0, 9, 0], [4, 0, 1], [0, 7, 0]])


def test_all_methods_see_one_release_and_levels_and_releases_others():
    job = Job("exact", "paper", 1.0, 0, 10, size=2)
    seen, options = job.observed(COUNTS)
    assert options == {"method": "exact"}
    assert job._replace(method="naive", prior="inferred").observed(COUNTS)[0] == seen
    for other in (job._replace(release=1), job._replace(level=2.0)):
        assert other.observed(COUNTS)[0] != seen
    plain, options = job._replace(method="non-private", level=None).observed(COUNTS)
    assert (plain is COUNTS, options) == (True, {})
    assert job._replace(method="robust").observed(COUNTS)[1] == {"robust": math.exp(-1)}


def test_literal_sees_the_same_values_with_the_alpha_that_the_printed_chain_has():
    job = Job("exact", "paper", 1.0, 0, 10, size=2)
    exact, literal = job.observed(COUNTS)[0], job._replace(method="literal").observed(COUNTS)[0]
    assert (exact.to_dense() == literal.to_dense().clip(0)).all()
    assert literal.alpha == pytest.approx(1 - exact.alpha)


def test_hidden_cells_are_hidden_from_every_method():
    hidden = np.zeros((3, 3), bool)
    hidden[0, 1] = True
    for method, level in (("exact", 1.0), ("naive", 1.0), ("literal", 1.0), ("non-private", None)):
        seen, _ = Job(method, "paper", level, 0, 10).observed(COUNTS, hidden)
        mask = seen.mask if method == "non-private" else seen.to_dense().mask
        assert (mask == hidden).all()


def test_a_fit_that_was_stopped_is_not_taken_for_a_whole_one(monkeypatch):
    job = Job("non-private", "paper", None, 0, 30, size=2)
    assert job.fitted(cv.CommunityModel(2), SETTINGS, COUNTS).n_draws == 20

    def stopped(model, data, **options):
        return cv.fit(model, data, **{**options, "sweeps": 20})

    monkeypatch.setattr(plan_module, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        job.fitted(cv.CommunityModel(2), SETTINGS, COUNTS)


@pytest.mark.parametrize("name", ["fits.csv", "settings.json", "figure.png", "arrays"])
def test_what_a_link_in_a_folder_leads_to_stays_as_it_is(name, tmp_path):
    """A folder that somebody gave one: lines would be added to the user's file, and its last one cut off."""
    run_study(STUDY, tmp_path / "study", SETTINGS, {})
    mine = tmp_path / "mine"
    mine.write_text("a line without an end")
    (tmp_path / "study" / name).unlink(missing_ok=True)
    (tmp_path / "study" / name).symlink_to(mine)
    with pytest.raises(ValueError, match=f"output: expected a folder of plain files, got {name}"):
        run_study(STUDY, tmp_path / "study", SETTINGS, {})
    assert mine.read_text() == "a line without an end"


@pytest.mark.parametrize("word", ["=1+1", "<script>", "a|b", "../x", "\x1b[31m", "@sum"])
def test_words_that_no_study_writes_are_refused(word, tmp_path):
    """They would stand in a table, and in the name of a file that is read."""
    folder = run_study(STUDY, tmp_path / "study", SETTINGS, {})
    lines = (folder.path / "fits.csv").read_text().split("\n")
    lines[1] = lines[1].replace(lines[1].split(",")[0], word, 1)
    (folder.path / "fits.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"fits\.csv: expected names of methods, priors and data"):
        run_study(STUDY, tmp_path / "study", SETTINGS, {})


def test_arrays_that_swell_are_refused(tmp_path, monkeypatch):
    folder, job = ResultFolder(tmp_path / "study", STUDY, "nothing"), planned(SETTINGS)[0]
    folder.add(job, Found({"mae": 1.0}, {"a": np.zeros(10**6)}), 1.0)
    assert folder.arrays(job)["a"].shape == (10**6,)
    monkeypatch.setattr(results, "MOST_BYTES", 10**6)
    with pytest.raises(ValueError, match="swell"):
        folder.arrays(job)


@pytest.mark.parametrize("about", ["[]", "{}", '{"study": "made-up", "data": "nothing", "runs": 3}'])
def test_settings_of_something_else_are_refused(about, tmp_path):
    (tmp_path / "settings.json").write_text(about)
    with pytest.raises(ValueError, match=r"settings\.json: expected that of a study"):
        run_study(STUDY, tmp_path, SETTINGS, {})


@pytest.mark.parametrize("name", ["level", "size", "sweeps"])
def test_a_strangers_study_has_few_panels_and_lengths(name, tmp_path):
    folder = ResultFolder(tmp_path / "study", STUDY, "nothing")
    for i in range(1, 42):
        folder.add(Job("exact", "paper", 1.0, 0, 100)._replace(**{name: i}), Found({}), 1.0)
    with pytest.raises(
        ValueError, match=rf"fits.csv: expected at most 40 different values of {name}, got more"
    ):
        folder.write_results()


@pytest.mark.parametrize("name", ["settings.json", "fits.csv"])
def test_a_strangers_file_that_is_a_hole_is_not_read(name, tmp_path):
    folder = ResultFolder(tmp_path / "study", STUDY, "nothing")
    folder.add(Job("exact", "paper", 1.0, 0, 100), Found({}), 1.0)
    with (folder.path / name).open("r+b") as file:
        file.truncate(2**33)
    with pytest.raises(ValueError, match=f"expected a whole file, got {name}, which is mostly a hole"):
        ResultFolder(folder.path, STUDY, "nothing")


def test_processes_import_nothing_from_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / "selectors.py").write_text("raise SystemExit(7)")
    begun = [sys.executable, "-c", "import selectors"]  # as processes of multiprocessing begin
    assert subprocess.run(begun).returncode == 7
    with run._safe_path():
        assert subprocess.run(begun).returncode == 0
    assert "PYTHONSAFEPATH" not in os.environ
