"""Shards give the same draws as one machine: to the last bit, whatever their number, for every model they serve."""

import numpy as np
import pytest

import countveil as cv
from countveil.counts.sources.plain_counts import read_counts
from countveil.inference.carry import Carry
from countveil.inference.chains import run_chains
from countveil.inference.engines.cpu import open_problem
from countveil.inference.engines.sharded.chains_apart import ChainsApart
from countveil.inference.engines.sharded.in_process import open_chains_in_shards, open_problem_in_shards
from countveil.inference.engines.sharded.shard import check_served, total_of_all
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from countveil.inference.store import MemoryStore
from countveil.models import TensorModel, TopicModel
from countveil.models.einsum import exposure, prior, scales
from countveil.runtime.shards import ShardWorkers, ThreadShards, _ThreadCommunicator
from goodness_of_fit import SEED
from inference.kinds import DATA, MATRIX, MODELS, TENSOR, counts_of
from inference.plain_sums import plain_sums
from inference.test_splits import WAYS, algorithm_of

#: One pair of numbers for each case: every model and every kind of data meets all four.
SHARDS = ((1, 3), (2, 7))
SWEEPS = 3
#: One group has no rows in the first shards, and some rows have none.
GROUPS = ["late" if d > 60 else None if d == 33 else "early" for d in range(MATRIX[0])]
SERVED = {
    **{
        name: MODELS[name]
        for name in (
            "topics",
            "topics, fixed prior",
            "CP",
            "CP in another order",
            "Tucker",
            "fixed columns",
            "fixed rows",
        )
    },
    "groups": (TopicModel(3, groups=GROUPS), MATRIX),
    "groups, fixed prior": (TopicModel(3, rate=1.0, groups=GROUPS), MATRIX),
    "Tucker, fixed prior": (TensorModel(core=(2, 2, 2)), TENSOR),
}


def settings_of(way, **changed):
    method = way if way in ("bessel", "naive") else "exact"
    options = {
        "sweeps": 10,
        "burn_in": None,
        "thin": 1,
        "chains": 2,
        "seed": SEED + 3,
        "engine": "cpu",
        "threads": 1,
        "start": "plain",  # as shards start
    }
    return check_settings(
        **(options | changed), method=method, algorithm=algorithm_of(way) if method == "exact" else "auto"
    )


def problem_of(name, data, way):
    one, shape = SERVED[name]
    try:
        problem = make_problem(one, DATA[data](counts_of(shape)), settings_of(way).method)
        with open_problem(problem, settings_of(way)):
            return problem
    except ValueError as error:
        if str(error).startswith(("method: expected", "algorithm: expected")):
            return None
        raise


def drawn(sampler, chain=1):
    """All that a chain has before and after a few sweeps, and what it is watched by."""
    with sampler:
        sampler.start(chain)
        before = sampler.carry(chain)
        for _ in range(SWEEPS):
            sampler.sweep(chain)
        after = sampler.carry(chain)
        watched = sampler.monitor(chain)
    return [before.state, before.extra, after.state, after.extra, watched]


def same(one, two):
    return all(
        here.keys() == there.keys() and all(np.array_equal(here[name], there[name]) for name in here)
        for here, there in zip(one, two, strict=True)
    )


def check(name, data, way, numbers):
    problem, settings = problem_of(name, data, way), settings_of(way)
    if problem is None:
        return False
    whole = drawn(open_problem(problem, settings))
    assert not all(np.array_equal(whole[0][field], whole[2][field]) for field in whole[0])
    for shards in numbers:
        assert same(whole, drawn(open_problem_in_shards(problem, settings, shards))), (
            name,
            data,
            way,
            shards,
        )
    return True


#: Every model once, and every kind of data.
QUICK = [
    ("topics", "missing", "auto"),
    ("topics, fixed prior", "mixed", "integrated"),
    ("groups", "mostly missing", "tokens"),
    ("groups, fixed prior", "per row", "auto"),
    ("CP", "missing", "fibers"),
    ("CP", "plain", "tokens"),
    ("CP in another order", "released", "auto"),
    ("Tucker", "mixed", "tokens"),
    ("topics", "combined", "auto"),
    ("topics", "little noise", "tokens"),
]


@pytest.mark.parametrize(("name", "data", "way"), QUICK)
def test_draws_do_not_depend_on_the_number_of_shards(name, data, way):
    assert check(name, data, way, (1, 3, 7))


@pytest.mark.parametrize(
    "case", [QUICK[0], *(pytest.param(one, marks=pytest.mark.long) for one in QUICK[1:])]
)
def test_columns_that_shards_draw_by_slices_are_those_that_each_draws(case, monkeypatch):
    slices, gather = [], _ThreadCommunicator.gather_to_all

    def noted(self, values):
        slices.append(len(values))
        return gather(self, values)

    monkeypatch.setattr(ShardWorkers, "SHARES_OUT", True)
    monkeypatch.setattr(_ThreadCommunicator, "gather_to_all", noted)
    assert check(*case, (1, 3, 7))
    assert slices


def test_columns_are_drawn_by_slices_where_that_is_faster():
    def decided(shard):
        workers, out = ShardWorkers(1, shard, 0, ["theta"]), np.zeros((1000, 10))
        slow = workers._shares_out(1000, out.nbytes, 10**9)  # a second for each row
        fast = workers._shares_out(1001, out.nbytes, 200)  # 0.2 ms for all of them
        return slow, fast

    found = ThreadShards(3).run(decided)
    assert [slow for slow, _ in found] == [True] * 3
    assert len({fast for _, fast in found}) == 1  # whichever, all agree


@pytest.mark.long
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", SERVED)
def test_all_draws_do_not_depend_on_the_number_of_shards(name, data):
    numbers = SHARDS[([*SERVED].index(name) + [*DATA].index(data)) % 2]
    served = [way for way in (*WAYS, "naive") if check(name, data, way, numbers)]
    assert "auto" in served


@pytest.mark.parametrize(
    ("name", "data", "place", "attribute", "wrong"),
    [
        ("topics", "released", exposure, "exact_sums", plain_sums),
        ("topics, fixed prior", "missing", scales, "exact_sums", plain_sums),
        ("topics", "missing", prior, "exact_sums", plain_sums),
    ],
)
def test_sums_of_each_shard_alone_would_be_caught(name, data, place, attribute, wrong, monkeypatch):
    monkeypatch.setattr(place, attribute, wrong)
    with pytest.raises(AssertionError):
        check(name, data, "tokens", (3,))


#: Models whose rows are not spread.
APART = ["a directed network", "an undirected network", "tied on later axes", "one's own", "unknown noise"]


def problem_apart(name):
    model, shape = MODELS[name]
    data = DATA["released"](counts_of(shape))
    if name.startswith("unknown"):
        data = cv.PrivateCounts(counts_of(shape) - 1, alpha=0.5)
    return make_problem(model, data)


@pytest.mark.parametrize("name", APART)
def test_rows_that_are_not_spread_are_refused_in_words(name):
    with pytest.raises(ValueError, match="engine: expected a model whose first axis has a factor of its own"):
        check_served(problem_apart(name))


@pytest.mark.parametrize("name", APART)
def test_chains_that_are_spread_draw_what_they_draw_together(name):
    """Starts and all: relocation looks at one chain alone."""
    problem, settings = problem_apart(name), settings_of("auto", chains=3, sweeps=120, thin=20, start="auto")
    expected = run_chains(problem, settings)
    for shards in (1, 2, 3):
        with open_chains_in_shards(problem, settings, shards) as sampler:
            store = MemoryStore(settings)
            for chain in range(3):
                sampler.start(chain)
            for sweep in range(1, 121):
                for chain in range(3):
                    sampler.sweep(chain)
                for chain in range(3) if settings.keeps(sweep) else ():
                    sampler.keep(chain, store)
                if sweep == 50:  # in the midst of it, one goes on from its bytes
                    sampler.load(Carry.from_bytes(sampler.carry(1).to_bytes()))
        found = store.draws(0.0, "sweeps")
        assert same([expected.states, expected.monitored], [found.states, found.monitored]), shards


def test_shards_work_at_the_same_time():
    """What is asked of chains on different shards is done together, and a chain's own sweeps one after another."""
    together = []

    class Crew:
        size = 2

        def call_each(self, method, asked):
            together.append(asked)
            return [[None] * len(one) for one in asked]

    sampler = ChainsApart(Crew(), tuple, 3)
    for chain in range(3):
        sampler.start(chain)
    for _ in range(2):
        for chain in range(3):
            sampler.sweep(chain)
    sampler.monitor(2)
    first = [[("start", 0), ("start", 2), ("sweep", 0), ("sweep", 2)], [("start", 1), ("sweep", 1)]]
    assert together == [first, [[("sweep", 0), ("sweep", 2), ("monitor", 2)], [("sweep", 1)]]]


def test_shards_without_a_chain_are_told_of():
    problem, settings = problem_apart("a directed network"), settings_of("auto", chains=2)
    with (
        pytest.warns(UserWarning, match="3 shards, 2 chains: .* 1 of the shards have nothing to do"),
        open_chains_in_shards(problem, settings, 3),
    ):
        pass


def test_more_shards_than_rows_are_refused():
    problem = make_problem(TopicModel(2), cv.simulate_release([[3, 1], [0, 2]], epsilon=1, seed=0))
    with pytest.raises(ValueError, match="shards: expected at most one for each of the 2 rows, got 3"):
        open_problem_in_shards(problem, settings_of("auto"), 3)


def test_a_carry_goes_on_with_another_number_of_shards():
    problem, settings = problem_of("groups", "mostly missing", "tokens"), settings_of("tokens")
    with (
        open_problem_in_shards(problem, settings, 3) as one,
        open_problem_in_shards(problem, settings, 7) as two,
    ):
        one.start(0)
        one.sweep(0)
        two.load(Carry.from_bytes(one.carry(0).to_bytes()))
        one.sweep(0)
        two.sweep(0)
        assert same([one.carry(0).state, one.monitor(0)], [two.carry(0).state, two.monitor(0)])


def test_draws_are_kept_whole():
    problem, settings = problem_of("Tucker", "mixed", "tokens"), settings_of("tokens")
    stores = []
    for sampler in (open_problem(problem, settings), open_problem_in_shards(problem, settings, 3)):
        stores.append(MemoryStore(settings))
        with sampler:
            for chain in (0, 1):
                sampler.start(chain)
                sampler.sweep(chain)
                sampler.keep(chain, stores[-1])
    one, two = (store.draws(0.0, "sweeps") for store in stores)
    assert same([one.states, one.monitored], [two.states, two.monitored])


def test_a_shard_that_fails_does_not_leave_the_others_waiting():
    def fail(shard):
        if shard.rank == 1:
            raise KeyError("of shard 1")
        return shard.total(np.ones(1, dtype=np.int64))

    with pytest.raises(KeyError, match="of shard 1"):
        ThreadShards(3).run(fail)


def test_shards_gather_and_broadcast():
    def said(shard):
        found = shard.gather(np.arange(shard.rank))
        shard.barrier()
        return None if found is None else [len(part) for part in found], shard.broadcast(b"%d" % shard.rank)

    assert ThreadShards(3).run(said) == [([0, 1, 2], b"0"), (None, b"0"), (None, b"0")]


class Alike:
    """As if each of 300 shards had the same rows."""

    def total(self, values):
        return 300 * values


def test_counts_that_fit_every_shard_but_not_all_of_them_are_refused():
    rows = read_counts(np.full((1, 4), 2**53))
    assert total_of_all(read_counts([[70_000, 2**40]]), Alike()) == (300 * (70_000 + 2**40), 600)
    with pytest.raises(ValueError, match=r"sum is below 2\*\*62"):
        total_of_all(rows, Alike())
