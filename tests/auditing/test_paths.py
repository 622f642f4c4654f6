"""The audit looks at releases, not only at add_noise: faults of privatize, of levels by row, of graphs and files."""

import importlib
import re

import numpy as np
import pytest
from scipy import stats

from auditing import zoo
from countveil.auditing import paths
from countveil.auditing.check import POWER
from countveil.auditing.paths import check_paths
from countveil.counts.guarantees import RowGuarantees
from countveil.counts.inputs.graphs import GraphCounts
from countveil.privacy import Guarantee, add_noise
from goodness_of_fit import SEED, fits, rejects

GIVEN = []
PRIVATIZE = importlib.import_module("countveil.counts.privatize")  # the module: the package has the function
GRAPHS = {"a directed graph", "an undirected graph"}
TABLES = {"a wide table", "a long table"}
FORMS = {"an array of three axes", "a sparse matrix", "a file"} | TABLES | GRAPHS


def failed(size=25_000):
    checks = check_paths([Guarantee(1), Guarantee(3)], size)
    assert {check.name.removeprefix("through ") for check in checks} == FORMS
    return {check.name.removeprefix("through ") for check in checks if not check.passed}


def test_a_right_installation_passes():
    assert failed() == set()
    assert failed(500) == set()


def test_noise_that_hides_everything_is_no_reason_to_warn():
    """As ``privatize`` does of such releases, which an audit makes on purpose: warnings are errors here."""
    assert all(check.passed for check in check_paths([Guarantee("1e-12")], 2000))


def test_noise_that_tells_of_the_cell_beside_is_found(monkeypatch):
    """By its sign; by its own count it is right."""
    right = RowGuarantees.add_noise

    def broken(self, counts, start):
        noise = right(self, np.zeros_like(counts), start)
        beside = np.roll(counts, 1, axis=1)
        sign = np.where(beside >= 10, np.where(beside % 2 == 1, 1, -1), np.sign(noise))
        return counts + np.abs(noise) * sign

    monkeypatch.setattr(RowGuarantees, "add_noise", broken)
    assert failed() == FORMS


@pytest.mark.parametrize(
    "broken",
    [
        lambda counts, guarantee: counts,
        zoo.spared(lambda counts: counts == 0),
        zoo.spared(zoo.one_in(500)),
        zoo.one_value_for_a_row,
        zoo.rounded_laplace,
    ],
)
def test_other_noise_is_caught_in_every_form(broken, monkeypatch):
    monkeypatch.setattr("countveil.counts.guarantees.add_noise", broken)
    assert failed() == FORMS


def test_one_level_for_all_rows_is_caught(monkeypatch):
    monkeypatch.setattr(
        RowGuarantees, "add_noise", lambda self, counts, start: add_noise(counts, self.guarantee)
    )
    assert failed() == FORMS - GRAPHS  # whose rows share one level


def test_the_level_of_the_next_row_is_caught(monkeypatch):
    original = RowGuarantees.add_noise

    def turned(self, counts, start):
        rows = self.rows and (*self.rows[1:], self.rows[0])
        return original(self._replace(rows=rows), counts, start)

    monkeypatch.setattr(RowGuarantees, "add_noise", turned)
    assert failed() == FORMS - GRAPHS  # whose rows share one level


def test_noise_that_follows_bits_of_ordinary_counts_is_caught(monkeypatch):
    """In the mean over all counts it is right, and ``add_noise`` itself is."""
    right = RowGuarantees.add_noise

    def by_parity(self, counts, start):
        noise = right(self, np.zeros_like(counts), start)
        sign = np.where(counts >= 10, np.where(counts % 2 == 1, 1, -1), np.sign(noise))
        return counts + np.abs(noise) * sign

    monkeypatch.setattr(RowGuarantees, "add_noise", by_parity)
    assert failed() == FORMS


@pytest.fixture
def small_blocks(monkeypatch):
    """As at the usual size of an audit: an array does not fit into one block of rows."""
    monkeypatch.setattr("countveil.counts.cells.layout.CELLS_PER_BLOCK", 10_000)


def test_levels_of_the_first_block_in_all_are_caught(small_blocks, monkeypatch):
    original = RowGuarantees.add_noise
    monkeypatch.setattr(RowGuarantees, "add_noise", lambda self, counts, _: original(self, counts, 0))
    assert failed() == FORMS - GRAPHS


def test_noise_of_the_first_block_in_all_is_caught(small_blocks, monkeypatch):
    original = PRIVATIZE._noisy

    def noisy(given, promise):
        noise = None
        for block in original(given, promise):
            true = given.counts.rows(block.start, block.start + len(block.values))
            noise = block.values - true if noise is None else noise
            n = min(len(true), len(noise))
            block.values[:n] = true[:n] + noise[:n]
            yield block

    monkeypatch.setattr(PRIVATIZE, "_noisy", noisy)
    assert failed() == FORMS


def test_later_blocks_without_noise_are_caught(small_blocks, monkeypatch):
    original = PRIVATIZE._noisy

    def noisy(given, promise):
        for block in original(given, promise):
            if block.start:
                block.values[:] = given.counts.rows(block.start, block.start + len(block.values))
            yield block

    monkeypatch.setattr(PRIVATIZE, "_noisy", noisy)
    assert failed() == FORMS


def test_noise_of_an_earlier_release_is_caught(monkeypatch):
    kept = {}

    def remembered(counts, guarantee):
        key = counts.shape, guarantee
        if key not in kept:
            kept[key] = add_noise(np.zeros(counts.shape, dtype=np.int64), guarantee)
        return counts + kept[key]

    monkeypatch.setattr("countveil.counts.guarantees.add_noise", remembered)
    assert failed() == FORMS


def test_noise_that_is_kept_by_all_that_a_call_is_is_caught(monkeypatch):
    """The difference of two releases of one call would be that of the counts."""
    kept, calls, right = {}, [], RowGuarantees.add_noise

    def remembered(self, counts, start):
        key = (calls[-1], counts.shape, start, self.guarantee, self.rows)
        if key not in kept:
            kept[key] = right(self, np.zeros_like(counts, dtype=np.int64), start).astype(np.int64)
        return counts + kept[key]

    def told(release):
        return lambda counts, *more, **options: (
            calls.append((type(counts), release, options["keep_negative"]))
            or release(counts, *more, **options)
        )

    monkeypatch.setattr(RowGuarantees, "add_noise", remembered)
    for name in ("privatize", "privatize_to_file"):
        monkeypatch.setattr(paths, name, told(getattr(paths, name)))
    assert failed() == FORMS


@pytest.mark.parametrize(
    "spared", [lambda true: true >= 0, lambda true: true == 0, lambda true: true > 2**37]
)
def test_counts_that_are_raw_where_negative_values_are_dropped_are_caught(spared, monkeypatch):
    original = PRIVATIZE.clamp

    def clamped(blocks, *more, **options):
        if options.get("keep_negative"):
            return original(blocks, *more, **options)
        return original(map(without_noise, blocks), *more, **options)

    def without_noise(block):
        true = GIVEN[-1].counts.rows(block.start, block.start + len(block.values))
        return block._replace(values=np.where(spared(true), true, block.values))

    noisy = PRIVATIZE._noisy

    def seen(given, promise):
        GIVEN.append(given)
        return noisy(given, promise)

    monkeypatch.setattr(PRIVATIZE, "_noisy", seen)
    monkeypatch.setattr(PRIVATIZE, "clamp", clamped)
    assert failed() >= FORMS - GRAPHS - {"a file"}


def by_parity(noise, counts):
    return np.where((counts >= 10) & (counts < 1000), np.abs(noise) * np.where(counts % 2 == 1, 1, -1), noise)


def by_parity_beside(noise, counts):
    return by_parity(noise, np.roll(counts, 1, axis=1))


def weak_on_large_counts(noise, counts):
    return np.where((counts > 1000) & (counts < 2**36), noise // 100, noise)


@pytest.mark.parametrize("fault", [by_parity, by_parity_beside, weak_on_large_counts])
def test_noise_that_follows_counts_where_negative_values_are_dropped_is_caught(fault, monkeypatch):
    original = PRIVATIZE._noisy
    dropped = []

    def noisy(given, promise):
        for block in original(given, promise):
            if dropped[-1]:
                true = given.counts.rows(block.start, block.start + len(block.values)).astype(np.int64)
                true = true.reshape(block.values.shape)
                block.values[:] = true + fault(block.values - true, true)
            yield block

    def told(*given, **options):
        dropped.append(not options["keep_negative"])
        return released(*given, **options)

    released, to_file = paths.privatize, paths.privatize_to_file
    monkeypatch.setattr(PRIVATIZE, "_noisy", noisy)
    monkeypatch.setattr(paths, "privatize", told)
    monkeypatch.setattr(
        paths,
        "privatize_to_file",
        lambda *given, **options: dropped.append(not options["keep_negative"]) or to_file(*given, **options),
    )
    assert failed() == FORMS


@pytest.mark.parametrize("level", ["person", "rows"])
def test_noise_that_tells_of_the_cell_beside_at_one_level_alone_is_caught(level, monkeypatch):
    right = RowGuarantees.add_noise

    def broken(self, counts, start):
        noise = right(self, np.zeros_like(counts), start)
        here = bool(self.rows) if level == "rows" else self.guarantee.unit == "person"
        return counts + (by_parity_beside(noise, counts) if here else noise)

    monkeypatch.setattr(RowGuarantees, "add_noise", broken)
    assert failed(100_000) == (FORMS - GRAPHS if level == "rows" else FORMS)  # whose rows share one level


@pytest.mark.parametrize(
    "dropped", ["always", pytest.param("without negative values", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("level", ["one for all", "rows", "a person", "a cell"])
def test_usual_calls_without_noise_are_caught(level, dropped, monkeypatch):
    """Where it is right for guarantees so strong that nobody gives them."""
    original, drops = PRIVATIZE._noisy, []

    def noisy(given, promise):
        for block in original(given, promise):
            shared, units = promise.rows is None, {one.unit for one in promise.rows or [promise.guarantee]}
            here = shared == (not level.startswith("rows")) and (not shared or promise.guarantee.rho > 1e-3)
            of_unit = next((unit for unit in ("person", "cell") if unit in level), None)
            if here and (of_unit is None or units == {of_unit}) and (dropped == "always" or drops[-1]):
                true = given.counts.rows(block.start, block.start + len(block.values))
                block.values[:] = np.asarray(true).reshape(block.values.shape)
            yield block

    def told(release):
        return lambda *given, **options: (
            drops.append(not options["keep_negative"]) or release(*given, **options)
        )

    monkeypatch.setattr(PRIVATIZE, "_noisy", noisy)
    for name in ("privatize", "privatize_to_file"):
        monkeypatch.setattr(paths, name, told(getattr(paths, name)))
    assert failed() == (FORMS - GRAPHS if level.startswith("rows") else FORMS)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_noise_that_tells_of_the_cell_beside_along_each_of_three_axes_is_found(axis, monkeypatch):
    right = RowGuarantees.add_noise

    def broken(self, counts, start):
        noise = right(self, np.zeros_like(counts), start)
        if counts.ndim == 2 and counts.shape[1] % paths._LAST == 0:  # a row comes flattened
            counts_of = counts.reshape(len(counts), -1, paths._LAST)
            beside = np.roll(counts_of, 1, axis=axis).reshape(counts.shape)
            noise = np.where((beside >= 10), np.abs(noise) * np.where(beside % 2 == 1, 1, -1), noise)
        return counts + noise

    monkeypatch.setattr(RowGuarantees, "add_noise", broken)
    assert "an array of three axes" in failed()


def test_another_rate_for_a_person_is_caught(monkeypatch):
    def other(counts, guarantee):
        faster = (
            Guarantee(guarantee.epsilon * 50, guarantee.precision)
            if guarantee.unit == "person"
            else guarantee
        )
        return add_noise(counts, faster)

    monkeypatch.setattr("countveil.counts.guarantees.add_noise", other)
    assert failed() == FORMS


def test_levels_in_the_order_of_sorted_labels_are_caught(monkeypatch):
    original = PRIVATIZE._noisy

    def noisy(given, promise):
        names = given.labels[0]
        if names is not None and promise.rows is not None:
            rows = tuple(promise.rows[place] for place in np.argsort(names))
            promise = promise._replace(rows=rows)
        return original(given, promise)

    monkeypatch.setattr(PRIVATIZE, "_noisy", noisy)
    assert failed() == TABLES


def test_rows_without_a_count_that_get_no_noise_are_caught(monkeypatch):
    original = RowGuarantees.add_noise

    def noisy(self, counts, start):
        empty = ~counts.reshape(len(counts), -1).any(axis=1)
        return np.where(empty.reshape(-1, *[1] * (counts.ndim - 1)), 0, original(self, counts, start))

    monkeypatch.setattr(RowGuarantees, "add_noise", noisy)
    assert failed() == FORMS


def test_a_graph_that_spares_pairs_without_an_edge_is_caught(monkeypatch):
    original = PRIVATIZE._noisy

    def noisy(given, promise):
        for block in original(given, promise):
            if isinstance(given.counts, GraphCounts):
                true = given.counts.rows(block.start, block.start + len(block.values))
                block.values[true == 0] = 0
            yield block

    monkeypatch.setattr(PRIVATIZE, "_noisy", noisy)
    assert failed() == GRAPHS


def test_a_pair_that_is_released_twice_is_caught(monkeypatch):
    """Noise of its own on both halves of an undirected graph would double the loss."""

    def diagonal(self, start, stop):
        return np.arange(start, stop)[:, None] == np.arange(self.shape[1])

    monkeypatch.setattr(GraphCounts, "missing", diagonal)
    assert failed() == {"an undirected graph"}


def test_a_file_that_holds_other_values_is_caught(monkeypatch):
    original = PRIVATIZE.stream_release

    def stream(path, draft, blocks, **options):
        rounded = (block._replace(values=block.values // 2 * 2) for block in blocks)
        return original(path, draft, rounded, **options)

    monkeypatch.setattr(PRIVATIZE, "stream_release", stream)
    assert failed() == {"a file"}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "sign"), [("of those with a count", 1), ("of those without", 0)])
def test_the_share_of_raw_cells_in_one_way_that_is_named_is_found(kind, sign, monkeypatch):
    """Through a whole check: levels by row, without negative values, which have fewest, leave so many cells raw."""
    right, released, way, share = RowGuarantees.add_noise, paths.privatize, [], [0.0]
    rng = np.random.default_rng([SEED, 3])

    def told(*given, **options):
        way.append(not options["keep_negative"] and isinstance(options["guarantee"], list))
        return released(*given, **options)

    def broken(self, counts, start):
        raw = (np.sign(counts) == sign) & (rng.random(counts.shape) < share[0]) & way[-1]
        return np.where(raw, counts, right(self, counts, start))

    form = "a sparse matrix"
    only = {form: paths._paths()[form]}
    monkeypatch.setattr(paths, "_paths", lambda: only)
    monkeypatch.setattr(paths, "privatize", told)
    monkeypatch.setattr(RowGuarantees, "add_noise", broken)
    usual = [Guarantee(1), Guarantee(3)]
    found = {1.0: [], 0.3: []}
    for part, alarms in found.items():
        for _ in range(40):
            share[0] = 0.0
            named = re.search(rf"one in ([0-9,]+) {kind}", str(check_paths(usual, 25_000)[0]))[1]
            share[0] = part / int(named.replace(",", ""))
            alarms.append(not check_paths(usual, 25_000)[0].passed)
    assert fits(stats.binomtest(sum(found[1.0]), 40, POWER, alternative="less").pvalue)
    assert rejects(stats.binomtest(sum(found[0.3]), 40, POWER, alternative="less").pvalue)
