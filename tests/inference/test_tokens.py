"""The token algorithm draws the same law of sums as the cell-by-cell reference, in every branch."""

from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.counts import CombinedReleases
from countveil.counts.sources.plain_counts import read_counts
from countveil.inference.engines.cpu.alias_tables import choose_slots, word_at, word_tables
from countveil.inference.engines.cpu.cells import Cells
from countveil.inference.engines.cpu.choose import make_plan
from countveil.inference.engines.cpu.rows import LARGE, code_matrix, counter_type
from countveil.inference.engines.cpu.sampler import ViewSampler
from countveil.inference.engines.cpu.tokens import Tokens
from countveil.inference.observed import observe
from countveil.inference.problem import make_problem
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.uniform import fill_uniforms
from countveil.models import TopicModel
from countveil.runtime.workers import Workers
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import IN_PLACE, OneChain, Splits, TopicState, changed, observed, tokens
from inference.two_samples import two_sample_pvalue as pvalue_of_pairs

MODEL = TopicModel(2, rate=1.0)


def sums_of(algorithm, state, key, workers=IN_PLACE):
    """The tokens of the matrix form, of one sweep."""
    prepared = algorithm.prepare(np.ascontiguousarray(state.phi.T), workers)
    return algorithm.draw(state.theta, prepared, key, workers)


def n_topics(state):
    return state.theta.shape[1]


def listed(algorithm):
    """The same algorithm with the release held as its positive cells."""
    return with_codes(algorithm, np.zeros((0, 0), dtype=np.uint8))


def dense(algorithm):
    """The same algorithm with one byte per cell."""
    return with_codes(algorithm, _all_codes(algorithm._data))


def with_codes(algorithm, codes):
    part = algorithm._whole
    algorithm._whole = part._replace(options=part.options._replace(codes=codes))
    return algorithm


def _all_codes(data):
    codes = np.zeros((data.n_rows, data.width), dtype=np.uint8)
    for d in range(data.n_rows):
        here = slice(data.row_starts[d], data.row_starts[d + 1])
        codes[d, data.columns[here]] = np.minimum(data.values[here], LARGE)
        codes[d, data.missing_columns[data.missing_starts[d] : data.missing_starts[d + 1]]] = 255
    return codes


STATE = TopicState(
    np.array([[1.0, 0.2], [0.1, 0.8], [2.0, 1.0]]), np.array([[0.9, 0.0, 0.4, 0.05], [0.1, 1.5, 0.3, 0.6]])
)


def _many_topics(n):
    """More topics than are added up side by side, a few of them without weight in places."""
    rng = np.random.default_rng(n)
    theta, phi = rng.gamma(0.4, size=(3, n)), rng.gamma(0.4, size=(4, n))
    theta[1, 2] = phi[3, n - 1] = 0.0
    return TopicState(theta * 4 / n, phi.T * 2)


# Cells of all kinds: x <= 0, rates far above and far below the release, several tokens and one.
VALUES = np.array([[1, 0, 2, 0], [0, 3, 0, 1], [5, 1, 1, 0]])
MISSING = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=bool)
PER_CELL = np.linspace(0.3, 2.5, 12).reshape(3, 4)

POSITIVE = observed(VALUES, 1.0)
PROBLEMS = {
    "plain noise": (STATE, observed(VALUES, 1.0)),
    "much noise": (STATE, observed(VALUES, 0.1)),
    "little noise": (STATE, observed(VALUES, 2.5)),
    "missing": (STATE, observed(VALUES, 1.0, missing=MISSING)),
    "per row": (STATE, observed(VALUES, np.array([0.3, 1.0, 2.0]))),
    "per cell": (STATE, observed(VALUES, cell_rho=PER_CELL)),
    "per cell, missing": (STATE, observed(VALUES, cell_rho=PER_CELL, missing=MISSING)),
    "rates above the release": (TopicState(STATE.theta * 4, STATE.phi * 2), observed(VALUES, 1.0)),
    "large values": (TopicState(STATE.theta * 20, STATE.phi * 15), observed(VALUES * 90, 0.5)),
    "wide values": (STATE, changed(POSITIVE, values=POSITIVE.values.astype(np.int64))),
    "many topics": (_many_topics(11), observed(VALUES, 1.0)),
    "many topics, little noise": (_many_topics(19), observed(VALUES, 2.5, missing=MISSING)),
}
PLANS = {
    "proposed": ([], []),
    "visited": ([0, 1, 2, 3], []),
    "whole": ([], [0, 1, 2, 3]),
    "mixed": ([1], [2]),
    "crowded": ([1], [], 0.0),
    "sometimes crowded": ([], [], 0.5),
}


def draw_sums(algorithm, state, n, first):
    """(n, ...) sums of all sweeps, flattened: row by topic, then column by topic."""
    out = []
    for i in range(n):
        sums = sums_of(algorithm, state, SweepKey(np.uint64(SEED + 5), 0, first + i))
        out.append(np.concatenate([sums.rows.ravel(), sums.columns.ravel()]))
    return np.array(out)


def two_sample_pvalue(first, second):
    """Of the sums of two algorithms, rows with columns in the pairs."""
    last = first.shape[1] - 1
    return pvalue_of_pairs(first, second, ((0, 1), (0, 6), (1, last), (2, 3), (2, 8), (4, 6), (6, 8)))


@lru_cache(maxsize=2)  # the cases of a problem follow each other
def reference_sums(problem, n):
    state, data = PROBLEMS[problem]
    return draw_sums(Cells(data), state, n, 0)


def check(problem, plan, n):
    state, data = PROBLEMS[problem]
    reference = reference_sums(problem, n)
    algorithm = tokens(data, n_topics(state), *PLANS[plan])
    algorithm = listed(algorithm) if plan == "mixed" else dense(algorithm)
    found = draw_sums(algorithm, state, n, 10**6)
    assert two_sample_pvalue(reference, found) > FALSE_ALARM


#: Every problem once and every plan once or twice, but for what is compiled for it alone.
QUICK = [*zip((name for name in PROBLEMS if name != "wide values"), 2 * [*PLANS], strict=False)]


@pytest.mark.parametrize(("problem", "plan"), QUICK)
def test_one_sweep_has_the_law_of_the_reference(problem, plan):
    check(problem, plan, 1500)


#: The number of sweeps by which what is wrong below is caught.
FULL = 20_000


@pytest.mark.long
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_one_sweep_has_the_law_of_the_reference_with_many_draws(problem, plan):
    check(problem, plan, FULL)


@pytest.mark.long
@pytest.mark.parametrize("plan", PLANS)
def test_the_comparison_catches_ten_percent(plan):
    state, data = PROBLEMS["plain noise"]
    reference = reference_sums("plain noise", FULL)
    for wrong_state, wrong_data in (
        (state, changed(data, row_rho=data.row_rho * 1.1)),
        (TopicState(state.theta * 1.1, state.phi), data),
        (state, observed(np.where(VALUES == 5, 6, VALUES), 1.0)),
    ):
        algorithm = tokens(wrong_data, 2, *PLANS[plan])
        assert two_sample_pvalue(reference, draw_sums(algorithm, wrong_state, FULL, 10**6)) < FALSE_ALARM


@pytest.mark.long
def test_one_alpha_for_both_passes_would_be_caught():
    # Where noise varies by cell, the positive pass must thin from the smallest alpha and the other from the
    # largest; swapping them is the mistake to fear.
    state, data = PROBLEMS["per cell"]
    reference = reference_sums("per cell", FULL)
    algorithm = tokens(data, 2)
    part = algorithm._whole
    wrong = part.options._replace(lowest_rho=part.options.highest_rho)
    algorithm._whole = part._replace(options=wrong)
    assert two_sample_pvalue(reference, draw_sums(algorithm, state, FULL, 10**6)) < FALSE_ALARM


@pytest.mark.parametrize(("visited", "whole"), [([], []), ([0, 5, 17], [2, 29]), (list(range(30)), [])])
def test_sums_do_not_depend_on_how_rows_are_split(visited, whole):
    rng = np.random.default_rng(SEED)
    values = rng.poisson(0.5, (100, 30)) + rng.geometric(0.6, (100, 30)) - rng.geometric(0.6, (100, 30))
    data = observed(values, 1.0, missing=rng.random((100, 30)) < 0.1)
    state = TopicState(rng.gamma(0.5, size=(100, 4)), rng.gamma(0.5, size=(30, 4)).T)
    algorithm = tokens(data, 4, visited, whole, tokens_per_visit=0.2)
    key = SweepKey(np.uint64(3), 1, 9)
    whole = sums_of(algorithm, state, key)
    for workers in (Splits(1), Splits(7), Splits(33), Splits(64), Workers(2), Workers(5)):
        with workers:
            split = sums_of(algorithm, state, key, workers)
        assert np.array_equal(whole.rows, split.rows)
        assert np.array_equal(whole.columns, split.columns)
    assert whole.rows.sum() == whole.columns.sum() > 0


@pytest.mark.parametrize("visited", [[], [0, 5, 17], list(range(30))])
def test_integrated_sums_do_not_depend_on_how_rows_are_split(visited):
    rng = np.random.default_rng(SEED)
    values = rng.poisson(0.5, (100, 30)) + rng.geometric(0.6, (100, 30)) - rng.geometric(0.6, (100, 30))
    data = observed(values, 1.0, missing=rng.random((100, 30)) < 0.1)
    state = TopicState(rng.gamma(0.5, size=(100, 4)), rng.gamma(0.5, size=(30, 4)).T)
    algorithm = tokens(data, 4, visited, tokens_per_visit=0.2, integrate=True)
    chain, key = OneChain(TopicModel(4, rate=1.0), data, matrix=algorithm), SweepKey(np.uint64(3), 1, 9)
    whole = chain.sweep(state, key)
    for workers in (Splits(1), Splits(7), Splits(33), Workers(2), Workers(5)):
        with workers:
            split = chain.sweep(state, key, workers)
        assert np.array_equal(whole.theta, split.theta)
        assert np.array_equal(whole.phi, split.phi)


def test_integrating_is_chosen_where_noise_is_strong():
    def integrates(rho, algorithm="auto"):
        view = make_problem(MODEL, cv.PrivateCounts(VALUES, rho=rho)).views[""]
        chosen = ViewSampler(view, algorithm, IN_PLACE)
        assert isinstance(chosen._matrix, Tokens)
        integrate = chosen._matrix._integrate is not None
        assert integrate == (chosen.algorithm == "integrated")
        return integrate

    assert integrates(0.5)
    assert not integrates(0.5, "tokens")
    assert not integrates(2.0)
    assert integrates(2.0, "integrated")
    assert not integrates(PER_CELL)


# What follows in the long stage is compiled for wide counts alone: half a minute each.


def test_counts_and_counters_are_wide_where_they_must_be():
    for largest, kind in ((2**16 - 1, np.uint16), (2**16, np.int64)):
        release = cv.PrivateCounts([[largest, 0]], alpha=0.5)
        for data in (release, CombinedReleases((release, release)), read_counts(np.array([[largest, 0]]))):
            assert observe(data).values.dtype == kind
            assert observe(data).values.tolist() == [largest]
    one = np.ones((1, 1))
    assert counter_type(0.9 * 2**28, one, one) is np.int32
    assert counter_type(2.0**28, one, one) is counter_type(0.0, 2.0**28 * one, one) is np.int64


@pytest.mark.long
@pytest.mark.parametrize("integrate", [False, True])
def test_more_tokens_than_32_bits_hold_are_counted(integrate):
    large = 5 * 10**9
    data = observed(np.array([[large, 5], [4, 6]]), 0.5)
    state = TopicState(np.array([[1.0], [1e-9]]), np.array([[float(large), 5.0]]))
    sums = sums_of(Tokens(data, 1, IN_PLACE, integrate=integrate), state, SweepKey(np.uint64(1), 0, 1))
    assert sums.columns[0, 0] == pytest.approx(large, rel=1e-4)
    assert sums.rows.sum() == sums.columns.sum()


@pytest.mark.long
def test_no_row_gets_more_tokens_than_it_could_be_visited_for():
    # A row that is missing but for one cell, and a rate far beyond what the data say: tokens without end.
    rng = np.random.default_rng(SEED)
    missing = np.zeros((20, 50), dtype=bool)
    missing[7, 1:] = True
    data = observed(rng.poisson(0.2, (20, 50)), 1.0, missing=missing)
    state = TopicState(np.full((20, 3), 1e12), np.full((50, 3), 1.0).T)
    for integrate in (False, True):
        sums = sums_of(Tokens(data, 3, IN_PLACE, integrate=integrate), state, SweepKey(np.uint64(1), 0, 1))
        assert sums.rows.sum() > 0
        assert sums.rows.dtype == np.int64


def test_missing_cells_take_no_tokens():
    data = observed(np.full((3, 4), 7), 1.0, missing=np.array([[True] * 4, [False] * 4, [False] * 4]))
    for visited in ([], [0, 1, 2, 3]):
        state = TopicState(STATE.theta * 10, STATE.phi)
        sums = sums_of(tokens(data, 2, visited), state, SweepKey(np.uint64(1), 0, 1))
        assert sums.rows[0].sum() == 0
        assert sums.rows[1:].sum() > 0


def test_codes_say_what_was_released():
    values = np.array([[0, 1, 253, 254, 255, 70_000]])
    missing = np.array([[False] * 5 + [True]])
    many = np.tile(values, (50, 1))
    data = observed(many, 1.0, missing=np.tile(missing, (50, 1)))
    codes = code_matrix(data)
    assert codes.shape == many.shape, "few zeros: a byte per cell is smaller"
    assert codes[3].tolist() == [0, 1, 253, LARGE, LARGE, 255]
    sparse_data = observed(np.eye(50, dtype=int), 1.0)
    assert code_matrix(sparse_data).size == 0, "few positive cells: listing them is smaller"


def test_huge_counts_cost_no_tokens():
    # A cell of ten million must not propose millions of tokens: its column is visited as a whole.
    values = np.array([[10_000_000, 0, 1], [12_000_000, 2, 0]])
    plan, cells = make_plan(observed(values, 1.0), 2, False, IN_PLACE)
    assert 0 not in {*plan.visited.tolist(), *plan.proposed.tolist()}
    visited = list(zip(cells.rows, cells.columns, cells.values, strict=True))
    assert (0, 0, 10_000_000) in visited


def test_whole_columns_list_all_their_observed_cells():
    missing = np.zeros((3, 4), dtype=bool)
    missing[1, 2] = True
    data = observed(VALUES, 1.0, missing=missing)
    cells = tokens(data, 2, [0], [2, 3])._whole.cells
    found = sorted(zip(cells.rows.tolist(), cells.columns.tolist(), cells.values.tolist(), strict=True))
    expected = [(d, v, int(VALUES[d, v])) for d in range(3) for v in (2, 3) if not missing[d, v]]
    expected += [(d, 0, int(VALUES[d, 0])) for d in range(3) if VALUES[d, 0] > 0]
    assert found == sorted(expected)


def test_the_plan_visits_heavy_columns_and_only_looks_at_the_data():
    rng = np.random.default_rng(SEED)
    rates = np.full(40, 0.01)
    rates[:3] = 5.0
    y = rng.poisson(rates, (2000, 40))
    x = y + rng.geometric(1 - np.exp(-3.0), y.shape) - rng.geometric(1 - np.exp(-3.0), y.shape)
    plan, cells = make_plan(observed(x, 3.0), 20, False, IN_PLACE)
    assert not {0, 1, 2} & set(plan.proposed.tolist())
    assert len(plan.proposed) > 0
    whole = sorted(set(range(40)) - {*plan.visited.tolist(), *plan.proposed.tolist()})
    assert len(cells.rows) == (x[:, plan.visited] > 0).sum() + len(x) * len(whole)
    again, _ = make_plan(observed(x, 3.0), 20, False, IN_PLACE)
    assert np.array_equal(plan.visited, again.visited)


@pytest.mark.parametrize(
    "weights",
    [
        np.ones((6, 1)),
        np.array([[0.0], [3.0], [1e-300], [0.2], [7.0]]),
        0.8 ** np.arange(300.0)[:, None],
        np.array([[2.0]]),
    ],
)
def test_word_tables_hold_the_weights(weights):
    import numba

    columns = np.arange(len(weights), dtype=np.int32)
    tables = word_tables(weights, columns, IN_PLACE)
    assert tables.mass[0] == pytest.approx(weights.sum(), rel=1e-14)

    @numba.njit
    def many(seed, n, mass, heavy_mass, n_heavy, per_weight, slots):
        out = np.empty(n, dtype=np.int32)
        uniforms = np.empty(n)
        fill_uniforms(open_stream(seed, 0, 0, 0, 0), uniforms, n)
        choose_slots(0, 0, n, mass, heavy_mass, n_heavy, per_weight, slots.shape[1], uniforms, out)
        for i in range(n):
            out[i] = word_at(0, out[i], uniforms[i], slots)
        return out

    drawn = many(SEED, 400_000, *tables)
    counts = np.bincount(drawn, minlength=len(weights))
    assert (counts[weights[:, 0] == 0] == 0).all()
    expected = weights[:, 0] / weights.sum() * len(drawn)
    seen = expected > 20
    if seen.sum() > 1:
        others = max(expected[~seen].sum(), 1e-9)
        statistic = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
        statistic += (counts[~seen].sum() - others) ** 2 / others if others > 20 else 0
        assert stats.chi2.sf(statistic, seen.sum()) > FALSE_ALARM


def test_tables_over_some_columns_draw_only_those():
    weights = np.random.default_rng(1).gamma(0.3, size=(50, 3))
    some = np.array([3, 10, 11, 40], dtype=np.int32)
    tables = word_tables(weights, some, IN_PLACE)
    assert np.allclose(tables.mass, weights[some].sum(axis=0))
    both = tables.slots[:, :, 1]
    assert set((both & 0xFFFFFFFF).ravel()) | set((both >> 32).ravel()) <= set(some.tolist())
