"""The audit looks at releases, not only at add_noise: faults of privatize, of levels by row, of graphs and files."""

import importlib

import numpy as np
import pytest

from auditing import zoo
from countveil.auditing.paths import check_paths
from countveil.counts.guarantees import RowGuarantees
from countveil.counts.inputs.graphs import GraphCounts
from countveil.privacy import Guarantee, add_noise

PRIVATIZE = importlib.import_module("countveil.counts.privatize")  # the module: the package has the function
GRAPHS = {"a directed graph", "an undirected graph"}
FORMS = {"an array of three axes", "a sparse matrix", "a file"} | GRAPHS


def failed(size=25_000):
    checks = check_paths([Guarantee(1), Guarantee(3)], size)
    assert {check.name.removeprefix("through ") for check in checks} == FORMS
    return {check.name.removeprefix("through ") for check in checks if not check.passed}


def test_a_right_installation_passes():
    assert failed() == set()
    assert failed(500) == set()


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
