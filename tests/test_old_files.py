"""Files of earlier versions load, and say what they said: see files_of_version_1/README.md."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import countveil as cv
from countveil.evaluation import log_likelihood
from countveil.posterior.runs.schema import stored_model

FOLDER = Path(__file__).parent / "files_of_version_1"
PROMISE = (
    "is hidden: seeing the release shifts nobody's odds on it by more than a factor of 7.39, and on twice as many by "
    "more than its square."
)
SETTINGS = {
    "sweeps": 400, "burn_in": 200, "thin": 50, "chains": 2, "seed": 1, "method": "exact", "engine": "auto",
    "threads": 2, "interrupted": False,
}  # fmt: skip


def same(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


def settings_of(posterior):
    return {name: value for name, value in posterior.settings.items() if name != "seconds"}


def test_a_release():
    release = cv.load_release(FOLDER / "release.parquet")
    assert release.to_dense().tolist() == [[7, 10, None, 3], [0, 1, 6, 9], [6, 7, 0, None]]
    assert (release.axes, release.simulated) == (("letter", "word"), False)
    assert [each.tolist() for each in release.labels] == [
        ["a", "Öl", "c d"],
        ["oil", "gas", "power", "sun"],
    ]
    assert release.rho.tolist() == [[1.0], [2.0], [0.5]]
    assert release.row_guarantees == (cv.Guarantee(1), cv.Guarantee(2), cv.Guarantee("1/2"))
    assert release.guarantee == cv.Guarantee(2)
    assert str(release.guarantee) == str(cv.Guarantee(2))


def test_a_folder_from_before_generations(tmp_path, monkeypatch):
    release = cv.load_release(FOLDER / "labels")
    assert release.to_dense().tolist() == [[7, 7, None, 4], [1, 1, 7, 9], [1, 9, 4, None]]
    assert release.rho.tolist() == [[1.0], [2.0], [0.5]]
    assert [each.tolist() for each in release.labels] == [["a", "Öl", "c d"], ["oil", "gas", "power", "sun"]]
    # It can be overwritten by one of today's.
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 0)
    target = shutil.copytree(FOLDER / "labels", tmp_path / "labels")
    new = cv.PrivateCounts([[1, 2]], alpha=0.5, labels=(["a"], ["b", "c"]))
    new.save(target, overwrite=True)
    assert sorted(path.name for path in target.iterdir()) == ["generation-1", "release.json"]
    assert cv.load_release(target) == new


def test_a_run_of_an_undirected_network():
    run = cv.load_posterior(FOLDER / "network.zarr")
    assert run.model == cv.CommunityModel(2, directed=False, rate=1.0)
    assert settings_of(run) == SETTINGS
    assert run.tree.attrs["model"] == (
        '{"name": "countveil.CommunityModel", "settings": {"n_communities": 2, "directed": false, '
        '"self_loops": false, "shape": 0.1, "rate": 1.0}}'
    )
    promise = f"Any word (or other count) of one cell, one word's count in an e-mail say, {PROMISE}"
    assert run.tree.attrs["guarantee"] == promise  # in the words of its time
    assert run.release.guarantee == cv.Guarantee(2, unit="cell")
    # Called log_likelihood in the file, which ArviZ takes for that of single observations.
    assert list(run.tree["sample_stats"].data_vars) == ["sampled_log_likelihood", "total_rate", "log_joint"]
    assert run.release.total() == pytest.approx(311.7478588580027, rel=1e-12)
    draw = run.tree["posterior"]["pi"].to_numpy()[0, 1]
    assert draw.tobytes().hex() == "46d4be3f55dc223955dc2239c4611b40"
    state = list(run.states())[1]
    assert type(state)._fields == ("theta", "pi")
    assert np.array_equal(state.pi, draw.astype(float))
    rates = [0.0, 8.39396874999202, 8.094599767251976, 7.7260223869729545, 0.8837196638548118, 0.825626431119356,
             1.0054789820084231, 0.9948050336324928]  # fmt: skip
    same(run.rates(["a"])[0], rates)
    same(run.rates(columns=["a"])[:, 0], rates)
    blocks = run.blocks()
    same(blocks["mean"], [[50.332086383705814, 9.518226377459937], [9.518226377459937, 48.639890910030736]])
    same(blocks["agreement"], [0.9844432964529063, 0.9818241766809438])
    same(run.memberships(["a"])["mean"], [[0.02406944524283381, 0.9759305547571662]])
    # Counts are drawn when asked for, by whatever sampler the present version has.
    np.testing.assert_allclose(
        run.true_counts(["a"])["mean"][0], [0.0, 9.0, 8.0, 9.0, 0.125, 0.75, 0.75, 1.125], atol=2.5
    )
    likely = log_likelihood(run)["log_likelihood"]["released"].sum("sender")
    same(likely[1], [-44.92681018515311, -42.64589013126759, -45.70478571319947, -47.784021263447116])


@pytest.mark.parametrize(
    ("name", "model"), [("TopicModel", cv.TopicModel), ("CommunityModel", cv.CommunityModel)]
)
def test_a_description_without_a_rate_means_the_default_of_its_time(name, model):
    size = {"TopicModel": "n_topics", "CommunityModel": "n_communities"}[name]
    described = {"name": f"countveil.{name}", "settings": {size: 2, "shape": 0.1}}
    assert stored_model(described) == model(2, rate=1.0)
    described["settings"]["rate"] = None
    assert stored_model(described) == model(2, rate=None) == model(2)


def test_a_run_of_several_views():
    run = cv.load_posterior(FOLDER / "shared.zarr")
    assert run.model == cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], rate=1.0, k=2),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], shape={"psi": 0.5}, rate=1.0, k=2),
    )
    assert settings_of(run) == SETTINGS
    assert settings_of(run["words"]) == {
        **SETTINGS,
        "algorithm": "auto",
        "start": "plain",
        "stopped": "sweeps",
        "keep": "all",
    }
    promise = f"Any word (or other count) of one document, an e-mail say, {PROMISE}"
    assert run.tree.attrs["guarantee"] == f"words: {promise}"
    assert run["words"].tree.attrs["guarantee"] == promise
    assert run["words"].release.guarantee == cv.Guarantee(2)
    assert run["authors"].release is None
    draw = run.tree["posterior"]["psi"].to_numpy()[1, 3]
    assert draw.tobytes().hex() == "c2f5a03e73d6103b5322023f215d433e"
    assert run.tree["posterior"]["theta"].dims == ("chain", "draw", "letter", "k")
    same(
        run["words"].rates(["a"]),
        [[6.488385887839818, 7.063624177459348, 0.3589492638979938, 0.1503998313994434]],
    )
    same(run["authors"].rates([0]), [[1.1644114305174784, 0.15937289156492587]])
    assert run["words"].topics().table["word"].tolist() == [
        "gas", "oil", "power", "sun", "sun", "power", "gas", "oil",
    ]  # fmt: skip
    assert run["authors"].topics().top_words().tolist() == [[0, 1], [1, 0]]
    same(run["words"].topics().prevalence, [0.7084929774982762, 0.2915070225017238])
    same(run["authors"].topics().prevalence, [0.6079743189424056, 0.39202568105759433])
    same(run["words"].memberships(["c d"])["mean"], [[0.9615796039591626, 0.03842039604083738]])
    same(run["authors"].memberships([2])["mean"], [[0.9485051230125817, 0.05149487698741827]])
    table = run.summary(1)
    assert table.index.tolist()[4:] == ["log_joint", "words: rate[a, oil]", "authors: rate[0, 0]"]
    same(table["mean"].iloc[4:], [76.0705224310847, 6.488385887839817, 1.1644114305174784])
