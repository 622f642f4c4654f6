"""Each author chooses: guarantees per row, and what they mean for a person with several rows."""

import decimal
from fractions import Fraction

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from countveil.counts import (
    append_release,
    combine_releases,
    load_release,
    privatize,
    privatize_to_file,
    stack_rows,
)
from countveil.counts.cells.layout import same_arrays
from countveil.privacy import Guarantee
from goodness_of_fit import discrete_pvalue, fits, rejects
from privacy.noise_law import cdf


def test_every_row_has_the_noise_it_was_promised():
    chosen = ["0.2", 3, "0.2", 1]
    release = privatize(np.full((4, 100_000), 50), chosen, keep_negative=True)
    noise = release.to_dense() - 50
    for row, epsilon in enumerate(chosen):
        rho = float(Fraction(epsilon))
        assert fits(discrete_pvalue(noise[row], cdf(rho)))
        assert rejects(discrete_pvalue(noise[row], cdf(1.1 * rho)))
        assert release.rho[row, 0] == rho
    assert release.row_guarantees == tuple(Guarantee(e) for e in chosen)
    assert not np.array_equal(noise[0], noise[2])


def test_rows_keep_their_places_across_blocks():
    counts = np.arange(3000)[:, None] * np.full(1000, 1000)
    epsilon = np.where(np.arange(3000) % 3 == 0, 900.0, 899.0)
    release = privatize(counts, epsilon)  # three blocks, next to no noise
    assert np.array_equal(release.to_dense(), counts)


def test_ways_to_say_it():
    counts = np.ones((3, 2), dtype=int)
    by_precision = privatize(counts, 3, [1, 2, 3], unit="cell")
    assert by_precision.row_guarantees == tuple(Guarantee(3, n, "cell") for n in (1, 2, 3))
    assert by_precision.guarantee == Guarantee(3, 1, "cell")  # holds for every row
    with pytest.raises(
        ValueError, match="unit: expected 'document' where rows have levels of their own, got 'person'"
    ):
        privatize(counts, 3, [1, 2, 3], unit="person")  # who may have two of the rows
    assert privatize(counts, guarantee=[Guarantee(1), Guarantee(2), Guarantee(1)]).guarantee == Guarantee(2)
    same = privatize(counts, [2, 2, 2])
    assert (same.guarantee, same.row_guarantees, same.rho.ndim) == (Guarantee(2), None, 0)
    assert "up to epsilon 3 at precision 1" in repr(by_precision)


def test_a_person_with_several_rows_has_the_weakest_of_their_promises():
    release = privatize(np.ones((4, 2), dtype=int), [1, 2, "1/2", 2], precision=[1, 4, 1, 2])
    person = release.guarantee_for([1, 2])
    assert person == Guarantee(2, 4, unit="person")
    # The loss over both rows together is below what was promised, however the distance is divided.
    rates = [g.rate for g in release.row_guarantees]
    for d in range(5):
        assert all(i * rates[1] + (d - i) * rates[2] <= person.loss(d) for i in range(d + 1))
    assert privatize([[1]], 3).guarantee_for([0]) == Guarantee(3, unit="person")
    for bad in ([], [4], [-1], ["a"]):
        with pytest.raises(ValueError, match="rows: expected row numbers from 0 to 3"):
            release.guarantee_for(bad)


@pytest.mark.parametrize("many", [False, True])
def test_files_keep_the_guarantees_of_rows(tmp_path, monkeypatch, many):
    if many:
        monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 2)
    release = privatize(np.ones((3, 2), dtype=int), ["1/3", 2, "1/3"], 7, unit="cell", rows=["a", "b", "c"])
    release.save(tmp_path / "r")
    assert (tmp_path / "r").is_dir() == many
    loaded = load_release(tmp_path / "r")
    assert same_arrays(loaded._contents, release._contents)
    assert loaded.row_guarantees[0].epsilon == Fraction(1, 3)
    promise = privatize_to_file(np.ones((3, 2), dtype=int), tmp_path / "s", [3, 1, 2])
    assert load_release(tmp_path / "s").row_guarantees == (Guarantee(3), Guarantee(1), Guarantee(2))
    assert promise == Guarantee(3)


BAD = [
    ({"epsilon": [1, 2]}, ValueError, "epsilon: expected one value or one per row, got 2, another number"),
    (
        {"epsilon": 1, "precision": [1]},
        ValueError,
        "precision: expected one value or one per row, got 1, another number",
    ),
    ({"epsilon": [1, 2, -1]}, ValueError, "epsilon: expected a number > 0, got another for one of the rows"),
    ({"epsilon": [1, 2, [3]]}, ValueError, "epsilon: expected a number > 0"),
    ({"guarantee": [Guarantee(1)]}, ValueError, "guarantee: expected one value or one per row"),
    ({"guarantee": [Guarantee(1), 1, 2]}, TypeError, "guarantee: expected a Guarantee, got int"),
    ({"guarantee": [Guarantee(1), Guarantee(1), Guarantee(1, unit="cell")]}, ValueError, "the same unit"),
    ({"guarantee": Guarantee(1), "precision": [1, 1, 1]}, ValueError, "guarantee: expected it alone"),
]


LETTERS = pd.DataFrame({"from": ["ann"], "to": ["bo"], "n": [40]})
PEOPLE = {"rows": ["ann", "bo"], "columns": ["bo", "ann"]}
NETWORKS = {
    "directed": (nx.DiGraph([("ann", "bo", {"weight": 40})]), {"rows": ["ann", "bo"]}),
    "undirected": (nx.Graph([("ann", "bo", {"weight": 40})]), {"rows": ["ann", "bo"]}),
    "part": (nx.DiGraph([("ann", "bo")]), {"rows": ["ann", "bo"], "columns": ["cy"]}),
    "table": (LETTERS, {"long": ("from", "to", "n"), **PEOPLE}),
    "array": (np.full((2, 2), 40), PEOPLE),
    "tensor": (np.full((2, 3, 2), 40), {"labels": (["ann", "bo"], None, ["ann", "bo"])}),
}
CHOSEN = [
    {"epsilon": [900, "0.1"]},
    {"epsilon": 1, "precision": [1, 10]},
    {"guarantee": [Guarantee(900), Guarantee(1)]},
]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_a_pair_belongs_to_two_people_so_networks_have_one_promise(name, chosen, tmp_path):
    """Bo was promised a factor of 1.11, and what ann sent him came out as it was: a pair has its sender's noise."""
    counts, options = NETWORKS[name]
    message = (
        rf"^{list(chosen)[-1]}: expected one value for a network, got a list: .*pass the strictest for all"
    )
    with pytest.raises(ValueError, match=message):
        privatize(counts, **chosen, **options)
    with pytest.raises(ValueError, match=message):
        privatize_to_file(counts, tmp_path / "r", **chosen, **options)
    assert not list(tmp_path.iterdir())
    assert privatize(counts, [2, 2], **options).guarantee == Guarantee(2)  # all the same is one value


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        privatize(np.ones((3, 2), dtype=int), **options)


def test_rows_that_come_sorted_have_one_promise():
    lines = pd.DataFrame({"who": ["zoe", "zoe", "ann"], "word": ["tea", "sea", "tea"], "n": [5, 6, 7]})
    given = {"long": ("who", "word", "n"), "public_labels": True}
    with pytest.raises(
        ValueError, match="epsilon: expected one value where rows are taken from a long table, got a"
    ):
        privatize(lines, ["1/10", 3], **given)
    release = privatize(lines, ["1/10", 3], rows=["zoe", "ann"], **given)
    assert [str(one.epsilon) for one in release.row_guarantees] == ["1/10", "3"]


def test_the_line_about_a_release_rounds_epsilon_up():
    assert "epsilon 0.3334 at" in repr(privatize([[1]], "1/3"))
    assert "epsilon 0.1001 at" in repr(privatize([[1]], 0.1))  # which lies above one tenth
    with decimal.localcontext(prec=2, rounding=decimal.ROUND_DOWN):  # of other code
        assert "epsilon 1.999 at" in repr(privatize([[1]], "1.999"))


def test_a_person_of_a_network_has_the_weakest_promise_of_all_rows():
    one, other = (
        privatize([[0, 3, 1]], epsilon=epsilon, rows=[row], columns=["a", "b", "c"])
        for epsilon, row in ((1, "a"), (3, "b"))
    )
    last = privatize([[2, 2, 0]], epsilon=2, rows=["c"], columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="expected rows that stand on no other axis, got a network's people"):
        stack_rows(one, other, last)
    network = stack_rows(one, other, last, different_rows=True)
    assert network.guarantee_for([0]) == Guarantee(3, unit="person")  # what b sent to a has b's noise
    words = stack_rows(*(privatize([[1]], epsilon=e, rows=[str(e)], columns=["x"]) for e in (1, 2)))
    assert words.guarantee_for([0]) == Guarantee(1, unit="person")


def test_some_people_on_both_axes_make_a_network():
    messages = pd.DataFrame({"f": ["bo"], "t": ["ann"], "n": [3]})
    names = {"rows": ["ann", "bo"], "columns": ["ann", "bo", "dee"]}
    with pytest.raises(ValueError, match="epsilon: expected one value for a network"):
        privatize(messages, ["1/10", 3], long=("f", "t", "n"), **names)
    with pytest.raises(ValueError, match="epsilon: expected one value for a network"):
        privatize([[0, 1], [2, 0]], ["1/10", 3], rows=[1, 2], columns=[1.0, 2.0])
    with pytest.raises(ValueError, match="epsilon: expected one value for a network"):
        privatize([[0, 1], [2, 0]], ["1/10", 3], rows=["ann", "bo"], columns=["Ann", "cy"])


@pytest.mark.parametrize(
    "given",
    [
        {1: 0.1, 9: 0.1},
        {0.1, 0.2},
        pd.Series([0.1, 9.0], index=[9, 1]),
        pd.DataFrame([[0.1, 0.1]], columns=[1, 9]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_levels_by_label_are_refused(given):
    """Listed, a mapping gives its labels: row 9 would get an epsilon of 9. A set and a Series have another order."""
    kind = type(given).__name__
    with pytest.raises(
        TypeError, match=f"epsilon: expected one value or a list in the order .* got a {kind}"
    ):
        privatize([[3, 0], [0, 3]], epsilon=given, rows=[1, 9])
    with pytest.raises(
        TypeError, match=f"precision: expected one value or a list in the order .* got a {kind}"
    ):
        privatize([[3, 0], [0, 3]], epsilon=1, precision=given, rows=[1, 9])
    in_order = privatize([[3, 0], [0, 3]], epsilon=pd.Series([0.5, 9.0]), rows=[1, 9])
    assert in_order.row_guarantees == (Guarantee(0.5), Guarantee(9))


WRITERS = ["ann", "bo", "cy"]
LETTERS = pd.DataFrame({"from": WRITERS, "to": ["bo", "cy", "ann"], "n": 1})
NETWORKS_BY_FORM = {
    "graph": lambda: {"counts": nx.DiGraph(list(zip(LETTERS["from"], LETTERS["to"], strict=True)))},
    "long table": lambda: {"counts": LETTERS, "long": ("from", "to", "n"), "columns": WRITERS},
    "wide table": lambda: {
        "counts": LETTERS.pivot_table(index="from", columns="to", values="n", fill_value=0),
        "columns": WRITERS,
    },
    "array": lambda: {"counts": np.eye(3, dtype=int), "columns": WRITERS},
}


@pytest.mark.parametrize("form", NETWORKS_BY_FORM)
def test_stacked_networks_are_networks_whatever_their_rows_are_called(form, tmp_path):
    """What somebody received lies in the rows of others."""
    strong, weak = (
        privatize(epsilon=n, unit="person", rows=WRITERS, **NETWORKS_BY_FORM[form]()) for n in (1, 3)
    )
    years = [[f"{name} {year}" for name in WRITERS] for year in (2024, 2025)]
    both = stack_rows(strong, weak, rows=[*years[0], *years[1]], different_rows=True)
    both.save(tmp_path / "both.parquet")
    for one in (both, load_release(tmp_path / "both.parquet")):
        assert one.guarantee_for([0]).epsilon == 3
    renamed = [stack_rows(one, rows=names) for one, names in zip((strong, weak), years, strict=True)]
    for names, one in zip(("a", "b"), renamed, strict=True):
        one.save(tmp_path / f"{names}.parquet")
    if form != "graph":
        with pytest.raises(ValueError, match="got a network's people"):
            stack_rows(*renamed)
        with pytest.raises(ValueError, match="got a network's people"):
            append_release(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert stack_rows(*renamed, different_rows=True).guarantee_for([0]).epsilon == 3


@pytest.mark.parametrize("by_row", [False, True])
def test_what_is_promised_is_compared_once_not_in_every_row(by_row, tmp_path, monkeypatch):
    """A release of a kilobyte may have millions of rows, and fractions of hundreds of digits."""
    n_rows, calls = 5_000, []
    counts = np.zeros((n_rows, 1), int)
    for epsilon in (1, 3):
        chosen = [1, 2] * (n_rows // 2) if by_row else epsilon
        privatize(counts, chosen).save(tmp_path / f"{epsilon}.parquet")
    first, second = (load_release(tmp_path / f"{epsilon}.parquet") for epsilon in (1, 3))

    def counted(kind, name):
        right = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given: calls.append(name) or right(*given))

    for name in ("__hash__", "__eq__", "compose", "to_dict"):
        counted(Guarantee, name)
    both = combine_releases(first, second)
    assert both.guarantee == Guarantee(4)
    assert both.row_guarantees == ((Guarantee(2), Guarantee(4)) * (n_rows // 2) if by_row else None)
    stacked = stack_rows(first, second, different_rows=True)
    assert len(stacked.row_guarantees) == 2 * n_rows
    assert len((first if by_row else stacked).to_dict()["row_guarantees"]) >= n_rows
    # The tuple above is compared with another one, row by row.
    assert len([name for name in calls if name != "__eq__"]) < 100
