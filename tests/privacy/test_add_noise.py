"""add_noise: what it accepts, what it refuses, and that refusal tells nothing about the counts."""

import inspect

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countveil.privacy import Guarantee, add_noise, mechanism

EXACTLY = Guarantee(1000)  # P(noise != 0) = exp(-1000): shows what happens to the counts themselves
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", ">i4", ">u8"]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (2, 0, 3), (2, 3, 4)])
def test_any_integer_type_and_shape(dtype, shape):
    counts = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    noisy = add_noise(counts, EXACTLY)
    assert type(noisy) is np.ndarray
    assert noisy.dtype == np.int64
    assert noisy.shape == shape
    assert np.array_equal(noisy, counts)


def test_any_order_and_layout():
    counts = np.arange(60).reshape(3, 4, 5)
    read_only = counts.copy()
    read_only.setflags(write=False)
    for view in (
        np.asfortranarray(counts),
        counts[::2, ::-1],
        counts.T,
        read_only,
        np.broadcast_to(counts[:1], (2, 4, 5)),
    ):
        before = view.copy()
        assert np.array_equal(add_noise(view, EXACTLY), before)
        assert np.array_equal(view, before)


@pytest.mark.parametrize("size", [2**15 - 1, 2**15, 2**15 + 1, 3 * 2**15 + 5])
def test_every_chunk_is_filled(size):
    counts = np.arange(size)
    assert np.array_equal(add_noise(counts, EXACTLY), counts)


@pytest.mark.parametrize(
    "counts", [5, True, [1, 2], (1, 2), [[1, 2], [3, 4]], [], [[]], [np.int8(3), True, 4]]
)
def test_lists_of_whole_numbers(counts):
    noisy = add_noise(counts, EXACTLY)
    assert noisy.dtype == np.int64
    assert np.array_equal(noisy, np.array(counts, dtype=np.int64))


def test_input_is_not_changed_and_not_shared():
    counts = np.zeros(1000, dtype=np.int64)
    noisy = add_noise(counts, Guarantee("0.1"))
    assert not counts.any()
    assert not np.shares_memory(counts, noisy)


@pytest.mark.parametrize("counts", [np.zeros(1000, dtype=np.uint8), np.zeros(1000, dtype=bool), [0] * 1000])
def test_zeros_get_noise_of_both_signs(counts):
    noisy = add_noise(counts, Guarantee("0.1"))
    assert noisy.min() < 0 < noisy.max()
    assert (noisy != 0).mean() > 0.8  # P(0) = 0.05


def test_small_types_do_not_wrap():
    high = add_noise(np.full(1000, 255, dtype=np.uint8), Guarantee("0.01"))
    assert high.max() > 255
    low = add_noise(np.full(1000, -128, dtype=np.int8), Guarantee("0.01"))
    assert low.min() < -128


WHOLE = {
    np.int64: st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
    np.uint64: st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**63 - 1, 2**63, 2**64 - 1]),
    np.uint8: st.integers(0, 255),
    list: st.integers(-(2**65), 2**65) | st.sampled_from([2**63, 2**64]),
}
NOISE = st.integers(-(2**62), 2**62) | st.integers(-3, 3)


@pytest.mark.parametrize("kind", WHOLE)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_exact_or_refused_and_refused_by_the_noisy_counts_alone(kind, data):
    """With any noise: the sums of Python's integers, refused just when one of them is beyond int64."""
    pairs = data.draw(st.lists(st.tuples(WHOLE[kind], NOISE), min_size=1, max_size=3))
    true, noise = ([pair[i] for pair in pairs] for i in (0, 1))
    counts = true if kind is list else np.array(true, dtype=kind)
    exact = [y + tau for y, tau in pairs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanism, "two_sided_geometric", lambda *_: np.array(noise, dtype=np.int64))
        if all(-(2**63) <= x < 2**63 for x in exact):
            assert add_noise(counts, Guarantee(1)).tolist() == exact
        else:
            with pytest.raises(OverflowError, match=r"within int64, got some beyond; nothing was released$"):
                add_noise(counts, Guarantee(1))


def test_refusal_says_nothing_about_values_or_positions():
    def message(position, value, size=100_000):
        counts = np.zeros(size, dtype=np.uint64)
        counts[position] = value
        with pytest.raises(OverflowError) as caught:
            add_noise(counts, EXACTLY)
        return str(caught.value)

    told = {message(3, 2**63 + 12345), message(77_777, 2**64 - 1), message(0, 2**63)}
    with pytest.raises(OverflowError) as caught:
        add_noise([1, 2**63 + 12345], EXACTLY)
    assert {*told, str(caught.value)} == told
    assert len(told) == 1


@pytest.mark.parametrize(
    "counts",
    [
        np.array([987654.0]),
        np.array([987654.5], dtype=np.float32),
        np.array([987654], dtype=object),
        np.array(["987654"]),
        np.array([b"987654"]),
        np.array([987654], dtype="timedelta64[s]"),
        np.array([987654], dtype="datetime64[s]"),
        np.array([987654 + 0j]),
        np.array([(987654,)], dtype=[("count", "i8")]),
        [987654.0],
        [1, [987654, 2]],
        ["987654"],
        [1, None],
        987654.5,
        "987654",
        None,
        {987654: 1},
    ],
)
def test_refusal_by_type_shows_no_value(counts):
    with pytest.raises(TypeError, match=r"^counts: expected whole numbers, got ") as caught:
        add_noise(counts, Guarantee(1))
    assert "987" not in str(caught.value)
    assert "6" not in str(caught.value).replace("float64", "").replace("datetime64", "").replace(
        "timedelta64", ""
    )
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_masked_arrays_are_refused():
    with pytest.raises(TypeError, match=r"^counts: expected an array without a mask"):
        add_noise(np.ma.masked_array([1, 2], mask=[True, False]), Guarantee(1))


def test_lists_of_what_has_masks_or_labels_are_refused():
    masked = np.ma.masked_array([1, 2], mask=[True, False])
    series = pd.Series([1, 2], ["tea", "sea"])
    for listed in ([masked, masked], [[masked]], (series, series[::-1]), [None], ["1"]):
        with pytest.raises(
            TypeError, match=r"^counts: expected whole numbers, got a list with something else"
        ):
            add_noise(listed, Guarantee(1))
    assert add_noise([np.array([1, 2]), [np.int8(3), True]], Guarantee(50)).tolist() == [[1, 2], [3, 1]]


@pytest.mark.parametrize("guarantee", [1, 1.0, None, "1", Guarantee])
def test_a_guarantee_is_needed(guarantee):
    with pytest.raises(TypeError, match=r"^guarantee: expected a Guarantee, got "):
        add_noise([1], guarantee)


def test_the_public_signature_offers_no_other_source():
    assert list(inspect.signature(add_noise).parameters) == ["counts", "guarantee"]
