"""Scale moves of several views change no rate of any of them, and leave the prior as it is."""

import numpy as np
import pytest
from scipy import stats

from countveil.kernels.philox import SweepKey
from countveil.models import CommunityModel, Factorization, SharedFactors, TensorModel
from countveil.models.einsum.scales import ScaleMove, trade_scales
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED, fits, rejects

WORDS = Factorization("dk,kv->dv", names=["theta", "phi"], k=2, shape={"theta": 2.0, "phi": 1.1}, rate=1.0)
AUTHORS = Factorization("ic,ca->ia", names=["theta", "psi"], c=2, shape={"theta": 2.0, "psi": 0.7}, rate=1.0)
EVENTS = Factorization("dk,jk,tk->djt", names=["theta", "what", "when"], k=2, shape={"theta": 2.0}, rate=1.0)
TUCKER = Factorization(
    "ia,jb,ab->ij", names=["theta", "to", "core"], a=2, b=3, shape={"theta": 2.0}, rate=1.0
)
KNOWN = Factorization("dk,kv->dv", names=["theta", "phi"], k=2, fixed={"theta": np.ones((5, 2))}, rate=1.0)
SIZES = {"words": (5, 4), "authors": (5, 3), "events": (5, 3, 2), "ties": (5, 4), "mails": (5, 5)}

MODELS = {
    "words, authors": (SharedFactors(words=WORDS, authors=AUTHORS), 1),
    "words, events": (SharedFactors(words=WORDS, events=EVENTS), 2),
    "four views": (SharedFactors(words=WORDS, authors=AUTHORS, events=EVENTS, ties=TUCKER), 3),
    "a tied factor stays": (
        SharedFactors(
            mails=CommunityModel(2, rate=1.0),
            words=Factorization("ik,kv->iv", names=["theta", "phi"], k=2, rate=1.0),
        ),
        0,
    ),
    "a fixed factor stays": (SharedFactors(words=KNOWN), 0),
    "one tensor": (SharedFactors(events=TensorModel(rank=2, rate=1.0)), 2),
}


def draw(model, rng):
    held = {}
    for name, view in model.views.items():
        shapes = view._layout(SIZES[name]).shapes
        for factor, shape in zip(view._spec.factors, shapes, strict=True):
            prior = view._prior(factor)
            held.setdefault(factor, rng.gamma(prior.shape, 1 / prior.rate, shape))
    return held


def rates(model, held):
    state = model._state(held)
    return {
        name: view.rates(model.view_state(name, state), slice(0, 5)) for name, view in model.views.items()
    }


def trade(model, held, sweep=1):
    """What a sweep does after the factors have been drawn; they lie by axis."""
    key = SweepKey(np.uint64(SEED), 0, sweep)
    trade_scales(model._scale_moves, held, model._prior, model._inferred, key, Workers(1))


@pytest.mark.parametrize("name", MODELS)
def test_no_rate_of_any_view_changes(name):
    model, n_moves = MODELS[name]
    assert len(model._scale_moves) == n_moves
    held = draw(model, np.random.default_rng(SEED))
    before, factors = rates(model, held), {factor: values.copy() for factor, values in held.items()}
    trade(model, held)
    for view, after in rates(model, held).items():
        np.testing.assert_allclose(after, before[view], rtol=1e-9)
    moved = {factor for factor in held if not np.array_equal(held[factor], factors[factor])}
    assert moved == {factor for move in model._scale_moves for side in move for factor, _ in side}


def test_a_move_that_forgets_a_view_would_be_seen():
    model = SharedFactors(words=WORDS, authors=AUTHORS)
    vars(model)["_scale_moves"] = [ScaleMove((("theta", 1),), (("phi", 1),))]  # by axis: dk, vk
    held = draw(model, np.random.default_rng(SEED))
    before = rates(model, held)
    trade(model, held)
    after = rates(model, held)
    np.testing.assert_allclose(after["words"], before["words"], rtol=1e-9)
    assert np.abs(after["authors"] / before["authors"] - 1).max() > 1e-3


def law_after(model, moved_with, replicates=4000):
    """Smallest p-value of "factors after the move have the law of fresh ones"."""
    rng = np.random.default_rng(SEED + 2)
    found = np.empty((2, replicates, 2 * len(model.factors)))
    for i in range(replicates):
        for which in range(2):
            held = draw(model, rng)
            if which:
                trade(moved_with, held, i)
            found[which, i] = [v for f in held.values() for v in (f[0, 0].sum(), f.sum())]
    return min(stats.ks_2samp(*found[:, :, f]).pvalue for f in range(found.shape[2]))


def test_the_prior_stays():
    model = SharedFactors(words=WORDS, authors=AUTHORS)
    assert fits(law_after(model, model))
    other = SharedFactors(
        words=WORDS,
        authors=Factorization(
            "ic,ca->ia", names=["theta", "psi"], c=2, shape={"theta": 2.0, "psi": 1.4}, rate=1.0
        ),
    )
    assert rejects(law_after(model, other)), "a wrong power must be caught"
