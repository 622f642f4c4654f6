"""What a default fit says of rare words, under noise that hides single counts.

Calibration by simulation (Talts et al. 2018): parameters from the prior, counts and a release from them, and the rank
of the truth among draws of the posterior, which is uniform if the posterior is right. Which words are rare is decided
by the release: ranks stay uniform given whatever was observed, and would not if planted scales decided.
"""

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.distributions import count_given_release
from countveil.models.einsum import prior
from goodness_of_fit import FALSE_ALARM, SEED
from inference import test_inferred_means_joint as joint

#: Shapes of both tails about 1: the largest scales fall as 1, 1/2, 1/3, ..., by Zipf's law, and most are small.
ZIPF = prior.Hyper(level=20.0, log_shape=0.0, log_shape_sd=0.3, mean_shape=3.0)
SHAPE, RARE, ALPHA = (15, 20), 5, 0.6
KEPT = 9
MODEL = cv.TopicModel(2, shape=0.5)
#: Beyond it a replicate is left out, which the release decides: such counts take long.
LARGEST = 10_000


def ranks(model, replicates, seed, monkeypatch):
    """Of the rate and of the true count of all rare words together, among those of draws: from 0 to KEPT."""
    monkeypatch.setattr(joint, "NARROW", ZIPF)
    monkeypatch.setattr(prior, "HYPER", ZIPF)
    found = []
    for replicate in range(replicates):
        rng = np.random.default_rng([SEED, seed, replicate])
        truth = joint.draw_state(MODEL, SHAPE, rng)
        rates = truth.theta @ truth.phi
        counts = rng.poisson(np.minimum(rates, 1e9))
        release = cv.simulate_release(counts, alpha=ALPHA, seed=int(rng.integers(2**31)))
        seen = np.asarray(release.to_dense())
        if seen.max() > LARGEST:
            continue
        rare = np.argsort(seen.sum(axis=0), kind="stable")[:RARE]
        fitted = cv.fit(
            model, release, sweeps=300 + 20 * KEPT, burn_in=300, thin=20, chains=1, seed=replicate, threads=1,
            progress=False,
        )  # fmt: skip
        drawn = np.concatenate([block for _, block in fitted.iter_rate_draws()], axis=1)[..., rare]
        hidden = count_given_release.rvs(seen[:, rare], drawn, -np.log(ALPHA), random_state=rng)
        # Ties of counts are broken at random.
        totals = hidden.sum(axis=(1, 2)) + rng.random(KEPT)
        found.append(
            (
                (drawn.sum(axis=(1, 2)) < rates[:, rare].sum()).sum(),
                (totals < counts[:, rare].sum() + rng.random()).sum(),
            )
        )
    return np.array(found)


def pvalues(found):
    """Of uniform ranks, for rates and for counts: by fifths of them."""
    return [stats.chisquare(np.bincount(each * 5 // (KEPT + 1), minlength=5)).pvalue for each in found.T]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:prior")
def test_intervals_of_rare_words_are_calibrated(monkeypatch):
    assert min(pvalues(ranks(MODEL, 110, 61, monkeypatch))) > FALSE_ALARM
    # Power: the paper's prior on the same words.
    paper = cv.TopicModel(2, shape=0.1, rate=1.0)
    assert max(pvalues(ranks(paper, 60, 62, monkeypatch))) < FALSE_ALARM
