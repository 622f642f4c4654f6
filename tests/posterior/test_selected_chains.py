"""``posterior.chains([...])``: the draws of some chains, and whatever comes of them says so."""

import json

import numpy as np
import pytest

import countveil as cv
from countveil.evaluation import log_likelihood

TOLD = "Selected: 3 of 4 chains (0, 2, 3)."


@pytest.fixture(scope="module")
def whole(release):
    return cv.fit(cv.TopicModel(2), release, sweeps=60, thin=2, chains=4, seed=1, progress=False)


@pytest.fixture(scope="module")
def chosen(whole):
    return whole.chains([3, 0, np.int64(2)])


def test_the_draws_are_those_of_the_chains(whole, chosen):
    for group in ("posterior", "sample_stats"):
        same = whole.tree[group].to_dataset().sel(chain=[0, 2, 3])
        assert chosen.tree[group].to_dataset().equals(same)
    assert chosen.n_draws == 45
    each = [whole.chains([c]).rates() for c in (0, 2, 3)]
    assert np.allclose(chosen.rates(), sum(each) / 3)
    assert whole.n_draws == 60, "the posterior itself stays as it was"


def test_whatever_comes_of_it_says_so(whole, chosen):
    assert "3 of 4 chains (selected) x 15 draws" in repr(chosen)
    assert chosen.summary(0).verdict.startswith(TOLD)
    assert str(chosen.topics(2)).endswith(TOLD)
    assert json.loads(chosen.tree.attrs["selected"]) == {"chains": [0, 2, 3], "of": 4}
    results = [chosen.memberships(), chosen.rates(), chosen.true_counts([0]), chosen.topics().weights]
    results += [chosen.scales("word"), log_likelihood(chosen)]
    assert [result.attrs["chains"] for result in results] == [TOLD] * len(results)
    likelihood = log_likelihood(chosen)
    assert likelihood["log_likelihood"]["chain"].values.tolist() == [0, 2, 3]
    for result in (repr(whole), whole.summary(0).verdict, str(whole.topics(2)), whole.tree.attrs):
        assert "elected" not in str(result)
    assert "chains" not in whole.rates().attrs


def test_predictive_draws_are_those_of_their_chains(whole, chosen):
    """Under their numbers, and the same whether others were left out."""
    for kind in ("true", "released"):
        one, other = (
            each.posterior_predictive(kind=kind)["posterior_predictive"].to_dataset()
            for each in (chosen, whole)
        )
        assert one.drop_attrs().equals(other.sel(chain=[0, 2, 3]).drop_attrs())
    assert chosen.posterior_predictive().attrs["chains"] == TOLD
    assert (
        whole.chains([2]).true_counts()["mean"].equals(whole.chains([2, 3]).chains([2]).true_counts()["mean"])
    )


def test_views_of_several_arrays_can_be_selected(release):
    views = {name: cv.Factorization("dk,kv->dv", names=["theta", name], k=2) for name in ("one", "other")}
    data = {"one": release, "other": release}
    whole = cv.fit(cv.SharedFactors(**views), data, sweeps=60, thin=2, chains=3, seed=1, progress=False)
    for select in (lambda each: each.chains([2]), lambda each: each.with_burn_in(50)):
        one, other = select(whole["one"]), select(whole)["one"]
        assert one.topics(2).weights.sizes == other.topics(2).weights.sizes
        assert np.allclose(one.memberships()["mean"], other.memberships()["mean"], atol=0.1)


def test_views_of_saved_selections_keep_the_numbers_of_their_chains(release, tmp_path):
    views = {name: cv.Factorization("dk,kv->dv", names=["theta", name], k=2) for name in ("one", "other")}
    data = {"one": release, "other": release}
    whole = cv.fit(cv.SharedFactors(**views), data, sweeps=60, thin=2, chains=4, seed=1, progress=False)
    whole.chains([0, 2, 3]).with_burn_in(50).save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr")
    told = "Selected: 3 of 4 chains (0, 2, 3), draws after sweep 50 (fitted with burn-in 30)."
    assert loaded["one"].memberships().attrs["chains"] == told
    for chain in (0, 2, 3):
        same = [each.chains([chain])["one"].rates() for each in (whole.with_burn_in(50), loaded)]
        assert np.array_equal(*same)


def test_the_noise_of_a_selection_is_that_of_its_draws(release):
    unsigned = cv.PrivateCounts(release.to_dense(), alpha=0.3, clamped=False)
    whole = cv.fit(cv.UnknownNoise(cv.TopicModel(2)), unsigned, sweeps=60, chains=4, seed=1, progress=False)
    one = whole.chains([2])
    for each in (whole, one):
        assert float(each.release.alpha) == pytest.approx(float(each.tree["posterior"]["alpha"].mean()))
    assert float(one.release.alpha) != float(whole.release.alpha)


def test_groups_and_new_rows_of_a_selection_say_so(release):
    groups = ["a", "b"] * (release.shape[0] // 2) + ["a"] * (release.shape[0] % 2)
    whole = cv.fit(cv.TopicModel(2, groups=groups), release, sweeps=60, chains=4, seed=1, progress=False)
    one, told = whole.chains([0, 2, 3]), {"chains": TOLD}
    results = [one.prevalence().shares, one.prevalence().differences()]
    results.append(cv.transform(one, release, seed=1, progress=False))
    assert all(told.items() <= result.attrs.items() for result in results)


def test_selected_again_and_all_of_them(whole, chosen):
    again = chosen.chains([0, 3])
    assert json.loads(again.tree.attrs["selected"]) == {"chains": [0, 3], "of": 4}
    assert "selected" not in whole.chains(range(4)).tree.attrs, "nothing was left out"
    assert "selected" in chosen.chains([0, 2, 3]).tree.attrs


def test_saved_and_loaded(chosen, tmp_path):
    chosen.save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr")
    assert repr(loaded) == repr(chosen)
    assert loaded.summary(0).verdict == chosen.summary(0).verdict
    assert loaded.tree["posterior"].to_dataset().equals(chosen.tree["posterior"].to_dataset())
    file = tmp_path / "run.zarr" / "zarr.json"
    found = json.loads(file.read_text())
    found["attributes"]["selected"] = json.dumps({"chains": [0, 2, 3], "of": 3})
    file.write_text(json.dumps(found))
    with pytest.raises(cv.PosteriorFileError, match="its checksum differs"):
        cv.load_posterior(tmp_path / "run.zarr")


def test_a_selection_has_no_run_to_extend(release, tmp_path):
    run = tmp_path / "run.zarr"
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=20, thin=2, seed=1, store=run, progress=False)
    assert posterior.chains([1]).path is None
    with pytest.raises(ValueError, match="path: expected the folder of a run"):
        cv.extend(posterior.chains([1]), sweeps=40)


@pytest.mark.parametrize("given", [[], [4], [0, 0], [-1], [0.0], [True]])
def test_bad_numbers(whole, given):
    with pytest.raises(
        ValueError, match=r"chains: expected some of the chains 0, 1, 2, 3, each once, got \["
    ):
        whole.chains(given)


@pytest.mark.parametrize("given", [0, "01", None])
def test_what_is_no_list(whole, given):
    with pytest.raises(
        TypeError, match="chains: expected some of the chains 0, 1, 2, 3, each once, as a list"
    ):
        whole.chains(given)


LATER = "Selected: draws after sweep 40 (fitted with burn-in 30)."


def test_later_draws_are_those_after_a_sweep(whole):
    """Draws are of sweeps 32, 34, ..., 60: after 41 there are those of 42 on, as after 40."""
    for sweep in (40, 41):
        later = whole.with_burn_in(sweep)
        for group in ("posterior", "sample_stats"):
            kept = whole.tree[group].to_dataset().isel(draw=slice(5, None)).assign_coords(draw=np.arange(10))
            assert later.tree[group].to_dataset().equals(kept)
        assert later.settings == whole.settings | {"burn_in": 40}
    assert whole.n_draws == 60, "the posterior itself stays as it was"
    assert whole.with_burn_in(59).n_draws == 4
    same = whole.with_burn_in(31)
    assert repr(same) == repr(whole)
    assert "elected" not in str(same.summary(0).verdict)


def test_later_draws_say_so(whole, tmp_path):
    later = whole.with_burn_in(36).with_burn_in(40)
    assert later.summary(0).verdict.startswith(LATER)
    assert str(later.topics(2)).endswith(LATER)
    assert later.rates().attrs["chains"] == LATER
    both = later.chains([1]).summary(0).verdict
    assert both.startswith("Selected: 1 of 4 chains (1), draws after sweep 40 (fitted with burn-in 30).")
    assert whole.chains([1]).with_burn_in(40).summary(0).verdict == both
    later.save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr")
    assert (repr(loaded), loaded.summary(0).verdict) == (repr(later), later.summary(0).verdict)
    assert later.path is None, "there is no run of these draws to extend"


def test_later_draws_of_several_arrays():
    model = cv.SharedFactors(
        a=cv.TopicModel(2), b=cv.Factorization("dk,kw->dw", names=["theta", "psi"], k=2, rate=None)
    )
    data = {"a": [[9, 0], [0, 8]], "b": [[3, 0], [0, 2]]}
    posterior = cv.fit(model, data, sweeps=40, thin=2, seed=1, progress=False)
    later = posterior.with_burn_in(30)
    assert [later.n_draws, later["a"].n_draws, later["b"].topics().weights.sizes["topic"]] == [10, 10, 2]
    assert later.summary(0).verdict.startswith("Selected: draws after sweep 30")


@pytest.mark.parametrize("sweep", [29, 60, 61])
def test_a_burn_in_that_leaves_no_draws_or_is_shorter(whole, sweep):
    words = f"burn_in: expected at least the 30 sweeps .*, and fewer than 60, .*, got {sweep}"
    with pytest.raises(ValueError, match=words):
        whole.with_burn_in(sweep)


def test_running_means_have_no_later_draws(release):
    kept = cv.fit(cv.TopicModel(2), release, sweeps=60, thin=2, seed=1, progress=False, keep="columns")
    with pytest.raises(ValueError, match="burn_in: expected a fit with keep='all', got keep='columns'"):
        kept.with_burn_in(40)
