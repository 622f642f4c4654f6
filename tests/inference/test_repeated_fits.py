"""The same counts released several times: what a user sees of a fit to all releases."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import countveil as cv
from countveil.evaluation import held_out_log_score, log_likelihood
from countveil.inference.observed import observe
from countveil.models import TopicModel

MODEL = TopicModel(2, shape=1.0, rate=0.7)
RNG = np.random.default_rng(4)
COUNTS = RNG.poisson([[0.3, 4.0, 1.0, 6.0, 0.1]], (130, 5))
HIDDEN = RNG.random((2, *COUNTS.shape)) < 0.15


def releases(garbage=0):
    found = []
    for r, alpha in enumerate((0.5, np.where(np.arange(130) < 60, 0.3, 0.6))):
        signed = cv.simulate_release(COUNTS, alpha=alpha, seed=r, keep_negative=True).to_dense()
        found.append(cv.PrivateCounts(np.where(HIDDEN[r], garbage, signed), alpha=alpha, mask=HIDDEN[r]))
    return found


@pytest.fixture(scope="module")
def both():
    return cv.combine_releases(*releases())


@pytest.fixture(scope="module")
def posterior(both):
    return cv.fit(MODEL, both, sweeps=60, thin=5, seed=1, progress=False)


@pytest.mark.parametrize("model", [MODEL, cv.Factorization("dk,kv->dv", k=2)])
def test_threads_and_masked_values_change_nothing(model):
    rates = [
        cv.fit(
            model, cv.combine_releases(*releases(garbage)), sweeps=10, thin=1, chains=1, seed=1, threads=threads,
            progress=False,
        ).rates()
        for garbage, threads in ((0, 1), (10**9, 2))
    ]  # fmt: skip
    assert rates[0].equals(rates[1])


def test_a_cell_is_observed_where_any_release_shows_it(both):
    assert np.array_equal(both.missing.columns, np.nonzero(HIDDEN.all(axis=0))[1])
    assert both.n_observed == (~HIDDEN.all(axis=0)).sum()
    data = observe(both)
    assert len(data.partial_columns) > 0
    expected = ~HIDDEN.all(axis=0) & (
        (releases()[0].to_dense(missing=0) + releases()[1].to_dense(missing=0)) > 0
    )
    assert np.array_equal(data.columns, np.nonzero(expected)[1])


def test_the_likelihood_by_row_by_cell_and_as_watched_is_the_same(both, posterior):
    by_row = log_likelihood(posterior)["log_likelihood"]["released"].to_numpy()
    watched = posterior.tree["sample_stats"]["sampled_log_likelihood"].to_numpy()
    assert np.allclose(by_row.sum(axis=2), watched, rtol=1e-5)  # kept draws are float32
    cells = np.nonzero(~HIDDEN.all(axis=0))
    by_cell = log_likelihood(posterior, cells=cells)["log_likelihood"]["released"].to_numpy()
    assert np.allclose(by_cell.sum(axis=2), by_row.sum(axis=2))
    # By hand, for a cell that both show and one that only the second shows.
    y = np.arange(300)
    state = next(posterior.states())
    for chosen in (~HIDDEN.any(axis=0), HIDDEN[0] & ~HIDDEN[1]):
        d, v = (int(i[3]) for i in np.nonzero(chosen))
        rates = state.theta[d] @ state.phi[:, v]
        log_p = stats.poisson.logpmf(y, rates)
        for r, release in enumerate(both.releases):
            if not HIDDEN[r, d, v]:
                x, alpha = (
                    release.to_dense(missing=-1)[d, v],
                    float(np.broadcast_to(release.alpha, COUNTS.shape)[d, v]),
                )
                peak = (1 - alpha) / (1 + alpha) * alpha ** np.abs(x - y)
                log_p = log_p + np.log(peak if x > 0 else alpha**y / (1 + alpha))
        place = list(zip(*cells, strict=True)).index((d, v))
        assert by_cell[0, 0, place] == pytest.approx(logsumexp(log_p))


def test_two_releases_say_more_than_one_about_the_true_counts(both, posterior):
    alone = cv.fit(MODEL, both.releases[0], sweeps=60, thin=5, seed=1, progress=False)
    errors = [np.abs(p.true_counts()["mean"].to_numpy() - COUNTS).mean() for p in (posterior, alone)]
    assert errors[0] < 0.9 * errors[1]
    found = posterior.true_counts()
    assert (found["low"] <= found["high"]).all()


def test_hidden_cells_are_scored_by_both_releases(both):
    cells = ([0, 5, 9], [1, 3, 1])
    posterior = cv.fit(MODEL, both.hide(cells), sweeps=40, thin=5, seed=1, progress=False)
    assert -12 < held_out_log_score(posterior, both, cells=cells) < -1
    assert held_out_log_score(posterior, COUNTS, cells=cells) < 0


def test_a_run_keeps_all_releases(both, posterior, tmp_path):
    posterior.save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr")
    assert loaded.release == both
    assert loaded.true_counts(rows=[3]).equals(posterior.true_counts(rows=[3]))


def test_ways_that_are_refused(both):
    refused = [
        ({"method": "naive"}, MODEL, "method: expected 'exact' for combined releases, got 'naive'"),
        ({"method": "bessel"}, MODEL, "method: expected 'exact' for combined releases, got 'bessel'"),
        ({"algorithm": "integrated"}, MODEL, "algorithm: expected 'integrated' for one release whose noise"),
        ({"robust": 0.1}, MODEL, "robust: expected None for a release"),
        ({"labels": (None, None)}, MODEL, "labels: expected None for a release"),
        (
            {},
            cv.UnknownNoise(MODEL),
            "data: expected one release, whose noise is to be inferred, got several",
        ),
    ]
    for options, model, message in refused:
        with pytest.raises(ValueError, match=message):
            cv.fit(model, both, progress=False, **options)


@pytest.mark.parametrize("model", [MODEL, cv.Factorization("dkv,k->dv", k=2)])
def test_any_model_and_the_reference_take_combined_releases(both, model):
    posterior = cv.fit(model, both, sweeps=20, algorithm="cells", seed=1, progress=False)
    assert np.isfinite(posterior.tree["sample_stats"]["sampled_log_likelihood"]).all()
    found = np.abs(posterior.true_counts()["mean"].to_numpy() - COUNTS).mean()
    assert found < np.abs(COUNTS.mean() - COUNTS).mean()
