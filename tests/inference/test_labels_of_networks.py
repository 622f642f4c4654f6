"""One factor on two axes: both have the same labels in the same order, or nothing is fitted."""

import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil.evaluation import held_out_log_score

NAMES = ["ann", "bo", "cy", "dan"]
OTHERS = ["cy", "dan", "ann", "bo"]
GROUP = np.array([0, 0, 1, 1])
MAILS = 20 * (GROUP[:, None] == GROUP) * (1 - np.eye(4, dtype=int))
TABLE = pd.DataFrame(MAILS, index=NAMES, columns=NAMES)
TIED = cv.Factorization("ic,cd,jd->ij", names=["theta", "pi", "theta"], c=2, d=2)
QUICK = {"sweeps": 20, "seed": 1, "progress": False}


def shared(**views):
    words = cv.Factorization("ic,cv->iv", names=["theta", "phi"], c=2)
    return cv.SharedFactors(mails=TIED, words=words), views


def test_networks_in_two_orders():
    release, again = (cv.privatize(TABLE[OTHERS], epsilon=5, rows=NAMES, columns=OTHERS) for _ in range(2))
    several = shared(mails=TABLE[OTHERS], words=np.ones((4, 3), int))
    for model, data in (
        (cv.CommunityModel(2), TABLE[OTHERS]),
        (cv.CommunityModel(2, directed=False, rate=1.0), release),
        (
            cv.UnknownNoise(cv.CommunityModel(2)),
            cv.PrivateCounts(MAILS - 1, alpha=0.3, labels=(NAMES, OTHERS)),
        ),
        (TIED, cv.combine_releases(release, again)),
        several,
    ):
        with pytest.raises(
            ValueError, match=r"data: expected the labels of axis 0 along axis 1.*another order"
        ):
            cv.fit(model, data, **QUICK)


def test_networks_of_different_people():
    strangers = TABLE.set_axis(["ann", "bo", "cy", "eve"], axis=1)
    with pytest.raises(ValueError, match=r"axis 1.*one factor stands on both.*got 'eve' in place of 'dan'"):
        cv.fit(cv.CommunityModel(2), strangers, **QUICK)


def test_a_side_that_pandas_numbers_has_no_labels_to_compare():
    posterior = cv.fit(cv.CommunityModel(2), pd.DataFrame(MAILS, index=NAMES), **QUICK)
    assert posterior.memberships()["row"].to_numpy().tolist() == NAMES


@pytest.mark.parametrize("labels", [(NAMES, None), (None, NAMES)])
def test_labels_of_one_side_are_those_of_both(labels):
    """Also when they come back from a run, and where new counts are compared with them."""
    hidden = np.ma.masked_array(MAILS, np.arange(16).reshape(4, 4) == 1)
    posterior = cv.fit(cv.CommunityModel(2), hidden, labels=labels, **QUICK)
    assert posterior.memberships(["cy"])["row"].to_numpy().tolist() == ["cy"]
    assert posterior.rates(columns=["cy"])["column"].to_numpy().tolist() == ["cy"]
    new = pd.DataFrame([[9, 9, 0, 0]], index=["new"], columns=OTHERS)
    for given in ({"data": new}, {"data": [[9, 9, 0, 0]], "received": new}):
        with pytest.raises(ValueError, match="columns that were fitted, got them in another order"):
            cv.transform(posterior, **given, seed=1, progress=False)
    with pytest.raises(ValueError, match="data: expected the labels that were fitted along axis 1"):
        held_out_log_score(posterior, TABLE.loc[NAMES, OTHERS])
    assert np.isfinite(held_out_log_score(posterior, TABLE))


def test_labels_of_one_side_are_compared_with_other_views():
    model, data = shared(
        mails=cv.PrivateCounts(MAILS, alpha=0.3, labels=(None, OTHERS)),
        words=pd.DataFrame(np.ones((4, 3), int), index=NAMES),
    )
    with pytest.raises(ValueError, match=r"words: expected the labels of mails.*got them in another order"):
        cv.fit(model, data, **QUICK)


def test_pairs_on_the_other_side_of_the_diagonal_are_told_of():
    """Else a directed model guesses the half that an undirected graph does not have, and an undirected one sees none."""
    pairs = np.triu(np.random.default_rng(0).poisson(5, (6, 6)), 1)
    lower = np.tri(6, dtype=bool)
    settings = {"sweeps": 10, "burn_in": 5, "seed": 1, "progress": False}
    release = cv.PrivateCounts(np.where(lower, 0, pairs), alpha=0.3, mask=lower)
    with pytest.warns(UserWarning, match="^model: nothing below the diagonal is observed"):
        cv.fit(cv.CommunityModel(2), release, **settings)
    with pytest.warns(UserWarning, match="^model: all counts lie below the diagonal"):
        cv.fit(cv.CommunityModel(2, directed=False), pairs.T, **settings)
    for model, counts in (
        (cv.CommunityModel(2, directed=False), release),
        (cv.CommunityModel(2), pairs + pairs.T),
    ):
        cv.fit(model, counts, **settings)  # warnings are errors
    cv.fit(cv.CommunityModel(2), pairs, **settings)  # a network in which nobody answers is one
