"""Each author chooses: guarantees per row, and what they mean for a person with several rows."""

from fractions import Fraction

import numpy as np
import pytest

from countveil.counts import load_release, privatize, privatize_to_file
from countveil.counts.layout import same_arrays
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
    by_precision = privatize(counts, 3, [1, 2, 3], unit="person")
    assert by_precision.row_guarantees == tuple(Guarantee(3, n, "person") for n in (1, 2, 3))
    assert by_precision.guarantee == Guarantee(3, 1, "person")  # holds for every row
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
    release = privatize(np.ones((3, 2), dtype=int), ["1/3", 2, "1/3"], 7, unit="person", rows=["a", "b", "c"])
    release.save(tmp_path / "r")
    assert (tmp_path / "r").is_dir() == many
    loaded = load_release(tmp_path / "r")
    assert same_arrays(loaded._contents, release._contents)
    assert loaded.row_guarantees[0].epsilon == Fraction(1, 3)
    promise = privatize_to_file(np.ones((3, 2), dtype=int), tmp_path / "s", [3, 1, 2])
    assert load_release(tmp_path / "s").row_guarantees == (Guarantee(3), Guarantee(1), Guarantee(2))
    assert promise == Guarantee(3)


BAD = [
    ({"epsilon": [1, 2]}, ValueError, r"epsilon: expected one value or 3 \(one per row\), got 2"),
    (
        {"epsilon": 1, "precision": [1]},
        ValueError,
        r"precision: expected one value or 3 \(one per row\), got 1",
    ),
    ({"epsilon": [1, 2, -1]}, ValueError, "epsilon: expected a number > 0, got -1"),
    ({"epsilon": [1, 2, [3]]}, ValueError, "epsilon: expected a number > 0"),
    ({"guarantee": [Guarantee(1)]}, ValueError, "guarantee: expected one value or 3"),
    ({"guarantee": [Guarantee(1), 1, 2]}, TypeError, "guarantee: expected a Guarantee, got int"),
    ({"guarantee": [Guarantee(1), Guarantee(1), Guarantee(1, unit="cell")]}, ValueError, "the same unit"),
    ({"guarantee": Guarantee(1), "precision": [1, 1, 1]}, ValueError, "guarantee: expected it alone"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_input(options, error, message):
    with pytest.raises(error, match=message):
        privatize(np.ones((3, 2), dtype=int), **options)


def test_the_line_about_a_release_rounds_epsilon_up():
    assert "epsilon 0.3334 at" in repr(privatize([[1]], "1/3"))
    assert "epsilon 0.1001 at" in repr(privatize([[1]], 0.1))  # which lies above one tenth
