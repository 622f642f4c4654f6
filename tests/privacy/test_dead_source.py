"""A source of bits that is plainly dead is refused: no true count is let through, nothing runs for ever."""

import os
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from countveil.cli import main
from countveil.counts import privatize, privatize_to_file
from countveil.privacy import Guarantee, add_noise, mechanism
from countveil.privacy.geometric import two_sided_geometric
from countveil.privacy.random_source import check_source, system_bits
from privacy.noise_law import repeatable_bits

REFUSED = "^bits: expected fresh ones from the system, got a dead source; nothing was released$"
COUNTS = np.arange(12).reshape(3, 4)


def constant(fill):
    return lambda size: bytes([fill]) * size


FAIR = os.urandom  # a test puts a dead source in its place
BLOCK = FAIR(4096)


def same_block(size):
    return (BLOCK * (size // len(BLOCK) + 1))[:size]


def circle(length):
    """One stream that repeats after so many bytes, wherever a call begins."""
    period, place = bytes(range(1, 255, 30))[:length], count()
    return lambda size: bytes(period[next(place) % length] for _ in range(size))


def two_values(size):
    return bytes(48 + byte % 2 for byte in FAIR(size))


DEAD = [constant(0), constant(255), constant(0x80), same_block, circle(2), circle(3), circle(4), two_values]


@pytest.mark.parametrize("source", DEAD)
@pytest.mark.parametrize("rate", ["1e-12", "0.01", "1", "1000"])
def test_a_dead_source_is_refused(source, rate, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "urandom", source)
    for counts in (COUNTS, COUNTS.tolist(), 3, np.zeros(100_000, dtype=np.uint8)):
        with pytest.raises(ValueError, match=REFUSED):
            add_noise(counts, Guarantee(rate))
    with pytest.raises(ValueError, match=REFUSED):
        privatize(COUNTS, rate)
    with pytest.raises(ValueError, match=REFUSED):
        privatize_to_file(COUNTS, tmp_path / "release", rate)
    assert not list(tmp_path.iterdir())


def test_the_command_says_so_and_writes_nothing(monkeypatch, tmp_path, capsys):
    np.save(tmp_path / "counts.npy", COUNTS)
    monkeypatch.setattr(os, "urandom", constant(0))
    to = str(tmp_path / "release")
    assert main(["privatize", str(tmp_path / "counts.npy"), "-o", to, "--epsilon", "1"]) == 2
    assert capsys.readouterr().err.startswith("countveil privatize: error: bits: expected fresh ones")
    assert [path.name for path in tmp_path.iterdir()] == ["counts.npy"]


def test_every_constant_is_refused():
    for fill in range(256):
        with pytest.raises(ValueError, match=REFUSED):
            check_source(constant(fill))


@pytest.mark.parametrize("size", [1, 70_000])
@pytest.mark.parametrize("rate", ["0.01", "1"])
def test_a_source_that_dies_on_the_way_is_refused(size, rate):
    """Fair at first and then stuck, after any number of calls: no part of such a draw is released."""

    def release(alive):
        calls, fair = count(), repeatable_bits()
        mechanism._release(
            np.zeros(size, dtype=int),
            Fraction(rate),
            lambda size: fair(size) if next(calls) < alive else b"\x80" * size,
        )
        return next(calls)

    needed = release(10**9)
    assert needed >= 3
    for alive in range(needed):
        with pytest.raises(ValueError, match=REFUSED):
            release(alive)


def test_without_the_health_test_true_counts_would_get_through(monkeypatch):
    """Why it is there: a stuck source gives no noise at all."""
    monkeypatch.setattr(mechanism, "check_source", lambda *_: b"")
    monkeypatch.setattr(os, "urandom", constant(0x80))
    assert np.array_equal(add_noise(COUNTS, Guarantee(1)), COUNTS)


@pytest.mark.parametrize("rate", ["0.01", "1", "1000"])
def test_no_constant_makes_a_draw_run_for_ever(rate):
    """Below the health test: draws end, with one noise for all cells or with the refusal."""
    refused = 0
    for fill in range(256):
        try:
            noise = two_sided_geometric(Fraction(rate), 3, constant(fill))
        except ValueError:
            refused += 1
        else:
            assert len(set(noise.tolist())) == 1
    assert refused == 1  # all ones: "beyond the table", which would go on and on


def test_a_live_source_passes():
    sample = b""
    for _ in range(20_000):
        sample = check_source(system_bits, sample)
