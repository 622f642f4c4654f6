"""Combining releases of the same counts: guarantees add, labels and masks are compared, mistakes are refused."""

from fractions import Fraction

import numpy as np
import pytest

import countveil as cv
from countveil.counts import PrivateCounts, privatize, simulate_release
from countveil.privacy import Guarantee

COUNTS = np.random.default_rng(0).poisson(2.0, (6, 5))
LABELS = {"letter": list("abcdef"), "word": list("vwxyz")}


def test_losses_add():
    both = cv.combine_releases(privatize(COUNTS, 1, 2), privatize(COUNTS, 1, 4))
    assert both.guarantee == Guarantee("3/2", 2)
    assert both.row_guarantees is None
    by_row = cv.combine_releases(privatize(COUNTS, 1), privatize(COUNTS, [1, 2, 1, 1, 1, "1/2"]))
    assert [g.epsilon for g in by_row.row_guarantees] == [2, 3, 2, 2, 2, Fraction(3, 2)]
    assert by_row.guarantee == Guarantee(3)
    three = cv.combine_releases(by_row, privatize(COUNTS, 1))
    assert len(three.releases) == 3
    assert three.guarantee == Guarantee(4)
    assert cv.combine_releases(privatize(COUNTS, 1), PrivateCounts(COUNTS, alpha=0.3)).guarantee is None


def test_what_it_says():
    both = cv.combine_releases(simulate_release(COUNTS, 1, seed=0), simulate_release(COUNTS, 1, seed=1))
    assert repr(both).startswith(
        "CombinedReleases(6 x 5, the same counts released 2 times:\n  PrivateCounts(6 x 5"
    )
    assert both.simulated
    assert (both.n_missing, both.n_observed, both.missing) == (0, 30, None)
    assert both == cv.combine_releases(*both.releases)
    assert both != cv.combine_releases(*both.releases[::-1])
    assert both != 3


def test_masks_and_labels():
    first = simulate_release(COUNTS, 1, seed=0, labels=LABELS).hide(([0, 1, 2], [0, 1, 2]))
    second = simulate_release(COUNTS, 1, seed=1).hide(([1, 3], [1, 3]))
    both = cv.combine_releases(second, first)
    assert both.axes == ("letter", "word")
    assert both.labels[1].tolist() == LABELS["word"]
    assert (both.missing.row_starts.tolist(), both.missing.columns.tolist()) == ([0, 0, 1, 1, 1, 1, 1], [1])
    hidden = both.hide(([5], [4]))
    assert hidden.n_missing == 2
    disjoint = cv.combine_releases(first.hide(([5], [4])), second.hide(([5], [0])))
    assert disjoint.n_missing == 1


def test_the_total_is_that_of_the_counts():
    found = [
        cv.combine_releases(
            simulate_release(COUNTS, 1, seed=2 * i), simulate_release(COUNTS, 2, seed=2 * i + 1)
        ).total()
        for i in range(300)
    ]
    assert abs(np.mean(found) - COUNTS.sum()) < 5 * np.std(found) / np.sqrt(300)


def test_the_total_is_that_of_the_counts_where_masks_differ():
    counts = np.zeros((50, 3), int)
    counts[:, 0] = 100
    found, rows = [], np.arange(50)[:, None]
    for i in range(40):
        first, second, third = (simulate_release(counts, 1, seed=3 * i + j) for j in range(3))
        both = cv.combine_releases(first, second.hide((rows, [[1, 2]])), third.hide((rows, [[1]])))
        found.append(both.total())
    assert abs(np.mean(found) - 5000) < 5 * np.std(found) / np.sqrt(40) < 20
    nowhere = cv.combine_releases(first.hide(counts == 100), second.hide(counts == 100))
    assert abs(nowhere.total()) < 100


def test_saving_names_the_way(tmp_path):
    both = cv.combine_releases(privatize(COUNTS, 1), privatize(COUNTS, 1))
    with pytest.raises(
        ValueError, match="save: expected one release, got several combined; save each release"
    ):
        both.save(tmp_path / "both.parquet")


def test_one_release_twice_is_refused(tmp_path):
    counts = np.tile(COUNTS, (2, 1))  # so many cells do not agree by chance
    release = privatize(counts, 1)
    message = "releases: expected releases with noise of their own, got one of them twice"
    with pytest.raises(ValueError, match=message):
        cv.combine_releases(release, release)
    release.save(tmp_path / "r.parquet")
    with pytest.raises(ValueError, match=message):
        cv.combine_releases(release, privatize(counts, 1), cv.load_release(tmp_path / "r.parquet"))
    # Nor does it become another one with a cell hidden, or with a slightly different alpha.
    with pytest.raises(ValueError, match=message):
        cv.combine_releases(release, release.hide(([0], [0])))
    with pytest.raises(ValueError, match=message):
        cv.combine_releases(release, PrivateCounts(release.to_dense(), rho=release.rho * (1 + 1e-12)))


def test_releases_that_may_well_agree_are_not_refused():
    # With hardly any noise two releases of the same counts are the same.
    both = cv.combine_releases(privatize(COUNTS, 50), privatize(COUNTS, 50))
    assert both.releases[0] == both.releases[1]


RELEASE = privatize(COUNTS, 1)
BAD = [
    ((), ValueError, "releases: expected at least two of the same counts, got none"),
    ((RELEASE,), ValueError, "expected at least two of the same counts, got one, which cv.fit takes as it is"),
    (([RELEASE, RELEASE],), TypeError, r"expected PrivateCounts, got list; combine_releases\(\*releases\)"),
    ((RELEASE, COUNTS), TypeError, "releases: expected PrivateCounts, got ndarray"),
    ((RELEASE, privatize(COUNTS[:4], 1)), ValueError, r"releases: expected one shape, got \(6, 5\) and \(4, 5\)"),
    ((RELEASE, PrivateCounts(COUNTS, alpha=np.full((6, 5), 0.3))), ValueError, "vary within a row, got noise per cell"),
    ((RELEASE, PrivateCounts(COUNTS, alpha=[0.1, 0, 0.1, 0.1, 0.1, 0.1])), ValueError, "noise in every row, got plain"),
    ((RELEASE, privatize(COUNTS, 1, unit="person")), ValueError, "guarantees for one unit, got document and person"),
    (
        (simulate_release(COUNTS, 1, seed=0, labels=LABELS), simulate_release(COUNTS, 1, seed=1, labels={**LABELS, "word": list("vwxzy")})),
        ValueError,
        "releases: expected the same labels along axis 1, got them in another order",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("releases", "error", "message"), BAD)
def test_bad_input(releases, error, message):
    with pytest.raises(error, match=message):
        cv.combine_releases(*releases)
