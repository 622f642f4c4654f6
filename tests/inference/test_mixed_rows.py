"""Some rows released, some plain: the joint law holds, and a plain row is not taken for a released one."""

import numpy as np

from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.inference.mixed_rows import MixedRows
from countveil.models import TopicModel
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicState
from goodness_of_fit import FALSE_ALARM, SEED
from inference.small_problems import observations
from joint_test import joint_pvalues

ROWS, COLUMNS, TOPICS = 3, 4, 2
MODEL = TopicModel(TOPICS, shape=1.0, rate=0.7)
RHO = np.array([np.inf, 1.0, 0.4])
MISSING = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
IN_PLACE = RowWork(1)


def draw_pair(rng):
    theta = rng.gamma(MODEL.shape, 1 / MODEL.rate, (ROWS, TOPICS))
    phi = rng.gamma(MODEL.shape, 1 / MODEL.rate, (COLUMNS, TOPICS)).T
    geometric = rng.geometric(-np.expm1(-RHO)[:, None], (2, ROWS, COLUMNS))
    x = rng.poisson(theta @ phi) + geometric[0] - geometric[1]
    return TopicState(theta, phi), (observations(x, RHO, missing=MISSING), np.where(MISSING, 0, x))


def sampler(state, data, key):
    return MixedRows(MODEL, data[0]).sweep(state, key, IN_PLACE)[0]


def taking_plain_rows_for_released(state, data, key):
    noisy = data[0]._replace(row_rho=np.where(np.isinf(RHO), 0.4, RHO))
    return TopicTokens(MODEL, noisy).sweep(state, key, IN_PLACE)[0]


FUNCTIONS = {
    "plain row": lambda state, data: state.theta[0, 0],
    "released row": lambda state, data: state.theta[2, 1],
    "phi": lambda state, data: state.phi[1, 2],
    "fit of the plain row": lambda state, data: (state.theta @ state.phi)[0, 0] - data[1][0, 0],
    "fit of a released row": lambda state, data: (state.theta @ state.phi)[1, 1] - max(data[1][1, 1], 0),
    "total rate": lambda state, data: (state.theta @ state.phi).sum(),
}


def test_joint_law():
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, replicates=2500, sweeps=3, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


def test_the_joint_test_catches_plain_rows_taken_for_released():
    pvalues = joint_pvalues(
        draw_pair, taking_plain_rows_for_released, FUNCTIONS, replicates=3000, sweeps=5, seed=SEED + 2
    )
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def test_tokens_of_plain_rows_are_their_counts():
    rng = np.random.default_rng(SEED)
    state, (data, x) = draw_pair(rng)
    sums = MixedRows(MODEL, data).sums(state, SweepKey(np.uint64(SEED), 0, 1), IN_PLACE)
    assert sums.row_topic[0].sum() == x[0].sum()
    assert sums.row_topic.sum() == sums.column_topic.sum()
