"""The studies of the paper: what they draw, hide and match; and each of them, small, from the command to the picture."""

import importlib
import pickle

import numpy as np
import pytest
from scipy import stats

from countveil.cli import main
from countveil.cli.commands.study import STUDIES, find_study
from countveil.studies.experiments.blocks import HEAVY, RATE, SHAPE, draw_network, entries_given
from countveil.studies.experiments.links import hidden_cells
from countveil.studies.experiments.months import match_components, messages_by_month, planted_messages
from countveil.studies.experiments.networks import planted_network
from countveil.studies.plan import PRIORS
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects


def test_entries_of_usable_networks_have_the_law_given_the_condition():
    rng = np.random.default_rng(SEED)
    drawn = np.array([entries_given(rng, 20, 5) for _ in range(4000)])
    heavy = drawn > HEAVY
    assert (heavy.sum(axis=1) >= 5).all()

    def above(rate):
        law = stats.gamma(SHAPE, scale=1 / rate)
        return lambda x: (law.cdf(x) - law.cdf(HEAVY)) / law.sf(HEAVY)

    assert fits(continuous_pvalue(drawn[heavy], above(RATE)))
    assert rejects(continuous_pvalue(drawn[heavy], above(1.1 * RATE)))
    # How many are heavy: binomial given that there are at least five.
    p = stats.gamma(SHAPE, scale=1 / RATE).sf(HEAVY)
    expected = stats.binom.pmf(5, 20, p) / stats.binom.sf(4, 20, p)
    assert stats.binomtest(int((heavy.sum(axis=1) == 5).sum()), 4000, expected).pvalue > 1e-6
    # Every place is as likely to be heavy, and the light ones have what is left of the law.
    assert stats.chisquare(heavy.sum(axis=0)).pvalue > 1e-6
    light = drawn[~heavy]
    law = stats.gamma(SHAPE, scale=1 / RATE)
    share = law.cdf(1e-3) / law.cdf(HEAVY)
    assert stats.binomtest(int((light < 1e-3).sum()), light.size, share).pvalue > 1e-6


def test_networks_differ_from_repetition_to_repetition_and_not_otherwise():
    one, again, other = draw_network(3), draw_network(3), draw_network(4)
    assert (one.counts == again.counts).all()
    assert (one.rates != other.rates).any()
    assert (np.diag(one.rates) == 0).all()


def test_both_readings_of_held_out_links():
    counts = planted_network()["counts"]
    either, both = hidden_cells(counts, "any"), hidden_cells(counts, "both")
    n, top = len(counts), len(counts) // 3
    senders = set(np.argsort(-counts.sum(axis=1), kind="stable")[:top])
    recipients = set(np.argsort(-counts.sum(axis=0), kind="stable")[:top])
    for i in range(n):
        for j in range(n):
            if i != j:
                assert either[i, j] == (i in senders or j in recipients)
                assert both[i, j] == (i in senders and j in recipients)
    assert not np.diag(either).any()


def test_components_are_matched_whatever_their_order():
    rng = np.random.default_rng(0)
    sizes = {"senders": 8, "recipients": 8, "months": 5}
    reference = {name: rng.dirichlet(np.full(n, 0.3), 4) for name, n in sizes.items()}
    reference["share"] = np.full(4, 0.25)
    order = np.array([2, 0, 3, 1])
    other = {name: array[order] for name, array in reference.items()}
    found, alike = match_components(reference, other)
    assert (order[found] == np.arange(4)).all()
    assert np.allclose(alike, 1.0)


def test_messages_are_counted_once_a_month_without_those_to_oneself():
    import pandas as pd

    records = pd.DataFrame(
        {"time": ["2001-01-02", "2001-01-02", "2001-01-03", "2001-02-01"],
         "sender": [5, 5, 5, 7], "recipient": [7, 7, 7, 7]}
    )  # fmt: skip
    found = messages_by_month(records)
    assert found["counts"].tolist() == [[[0], [2]], [[0], [0]]]
    with pytest.raises(ValueError, match="edges: expected columns time, sender, recipient"):
        messages_by_month(records.drop(columns="time"))
    assert planted_messages()["counts"].shape == (20, 20, 12)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_both_priors_and_the_papers_settings(name):
    study = find_study(name)
    assert study.name == name
    jobs = study.plan(study.paper)
    assert len(jobs) == len(set(jobs))
    if name != "samplers":
        assert {job.prior for job in jobs} >= set(PRIORS)
        assert {job.method for job in jobs} >= {"exact", "naive", "non-private"}
    if name in ("topics", "communities", "links"):
        assert (study.paper.sweeps, study.paper.levels, study.paper.releases) == (7500, (3, 2, 1), 5)
    if name in ("communities", "links"):
        assert study.paper.sizes == (5, 10, 20)
    if name == "topics":
        assert study.paper.sizes == (50,)
    if name == "blocks":
        assert (study.paper.sweeps, study.paper.levels, study.paper.releases) == (8500, (2.5, 1, 0.75), 50)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["blocks", "--network", "x.npz"], "--network: expected none for the study blocks"),
        (["links", "--sizes", "5;10"], "--sizes: expected whole numbers"),
        (["topics", "--part", "3,4"], "--part: expected two numbers, with --documents"),
        (["links", "--sweeps", "1"], "--sweeps: expected at least 6, got 1"),
        (["links", "--network", "nowhere.npz"], "No such file"),
        (["links", "--methods", "exact,best"], "--methods: expected some of ['exact', 'naive'"),
        (
            ["links", "--priors", "papers"],
            "--priors: expected some of ['inferred', 'none', 'paper'], got ['papers']",
        ),
        (["links", "--processes", "0"], "--processes: expected at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(words, said, tmp_path, capsys):
    assert main(["study", *words, "--quick", "-o", str(tmp_path / "new")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_the_quick_setting_runs_from_the_command_to_the_picture(name, tmp_path, capsys):
    folder = tmp_path / name
    assert main(["study", name, "--quick", "-o", str(folder)]) == 0, capsys.readouterr().err
    study = find_study(name)
    n = len(study.plan(study.quick))
    assert len((folder / "fits.csv").read_text().splitlines()) == n + 1
    assert (folder / "figure.png").read_bytes()[:4] == b"\x89PNG"
    first = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(["study", name, "--quick", "-o", str(folder)]) == 0
    assert f"{n} lines, {n} of them done before" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == first


def test_that_there_is_no_gpu_is_said_in_words(tmp_path, capsys, monkeypatch):
    serves = importlib.import_module("countveil.inference.engines.cuda.serves")
    monkeypatch.setattr(serves, "find_device", lambda: "no card")
    words = ["--quick", "--engine", "cuda", "--methods", "exact", "-o", str(tmp_path)]
    assert main(["study", "topics", *words]) == 2
    assert "error: engine: expected a GPU for 'cuda', got none: no card" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_every_study_can_go_to_other_processes(name):
    study = find_study(name)
    assert pickle.loads(pickle.dumps(study)) == study


@pytest.mark.long
def test_several_processes_find_the_same(tmp_path):
    found = []
    for processes in ("1", "2"):
        folder = tmp_path / processes
        words = ["--quick", "--methods", "exact,non-private", "--processes", processes, "-o", str(folder)]
        assert main(["study", "links", *words]) == 0
        lines = (folder / "fits.csv").read_text().splitlines()
        found.append(sorted(line.rsplit(",", 1)[0] for line in lines))  # without the seconds
    assert found[0] == found[1]
    assert all(line.startswith(("exact", "non-private", "method")) for line in found[0])
