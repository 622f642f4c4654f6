"""Posterior mean rates of chosen cells."""

import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil.posterior import states


def brute_force(posterior):
    group = posterior.tree["posterior"]
    theta, phi = (group[name].to_numpy().astype(float) for name in ("theta", "phi"))
    return np.einsum("csdk,cskv->csdv", theta, phi)


def test_they_are_the_mean_over_all_draws(posterior):
    found = posterior.rates()
    np.testing.assert_allclose(found, brute_force(posterior).mean(axis=(0, 1)), rtol=1e-12)
    assert found.dims == ("document", "word")
    assert found.name == "rate"
    assert float(found.sel(document="日本 🙂", word="Öl")) == float(found[1, 3])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        (2, [2]),
        (-1, [5]),
        ([4, 0, 4], [4, 0, 4]),
        (range(2), [0, 1]),
        (np.array([3], dtype=np.uint8), [3]),
        (slice(1, 5, 2), [1, 3]),
        (slice(None, None, -1), [5, 4, 3, 2, 1, 0]),
        ("", [0]),
        ("a\0", [2]),
        (["d, e", "日本 🙂"], [3, 1]),
        (np.array(["f", "g"]), [4, 5]),
        (np.array(["f", "g"], dtype=object), [4, 5]),
        (pd.Index(["f"]), [4]),
        (pd.Series([1, 2]), [1, 2]),
        ([True, False, False, True, False, False], [0, 3]),
        (np.arange(6) > 3, [4, 5]),
        ([], []),
        (np.zeros(6, dtype=bool), []),
    ],
)
def test_rows_by_position_label_slice_and_mask(posterior, rows, expected):
    everything = posterior.rates()
    found = posterior.rates(rows=rows, columns=["gas", "oil"])
    assert found.sizes == {"document": len(expected), "word": 2}
    assert found["document"].to_numpy().tolist() == everything["document"].to_numpy()[expected].tolist()
    np.testing.assert_allclose(found, everything.to_numpy()[expected][:, [1, 0]], rtol=1e-12)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([6], "rows: expected positions below 6, got 6"),
        ([1, -7], "rows: expected positions below 6, got -7"),
        ("nobody", "rows: expected known labels, got 'nobody'"),
        (["f", "a"], "rows: expected known labels, got 'a'"),
        ([1.0], "rows: expected positions, labels or a mask, got 1.0"),
        ([None], "rows: expected positions, labels or a mask, got None"),
        (["f", 1], "rows: expected positions, labels or a mask, got 1"),
        ([True, False], "rows: expected a mask of length 6, got 2"),
        ([[1, 2]], "rows: expected positions, labels or a mask, got \\[1, 2\\]"),
        (slice("a", "b"), "rows: expected a slice of positions, got 'a' in it"),
    ],
)
def test_bad_rows(posterior, rows, message):
    with pytest.raises(ValueError, match=message):
        posterior.rates(rows=rows)


def test_labels_where_there_are_none_and_numbers_that_are_labels(plain):
    with pytest.raises(ValueError, match=r"columns: expected positions \(there are no labels\), got 'oil'"):
        plain.rates(columns="oil")
    release = cv.PrivateCounts([[1, 2], [3, 4]], rho=1.0, labels=([2001, 2002], None))
    years = cv.fit(cv.TopicModel(1), release, sweeps=4, thin=1, seed=1, progress=False)
    assert years.rates(rows="2002").sizes == {"row": 1, "column": 2}
    with pytest.raises(ValueError, match="expected positions below 2, got 2002; a label is text: '2002'"):
        years.rates(rows=[2002])


def test_beyond_one_gigabyte_iter_rates_is_named(with_draws, plain):
    """Refused before any work: the state is small, the array of rates would not be."""
    counts = np.zeros((1, 1))
    small = cv.fit(cv.TopicModel(1), counts, sweeps=2, thin=1, chains=1, seed=1, progress=False)
    small._shape = (20_000, 10_000)
    with pytest.raises(
        ValueError, match=r"at most 125,000,000 cells, got 200,000,000; go through iter_rates\(\)"
    ):
        small.rates()
    with pytest.raises(ValueError, match="expected at most 31,250,000 cells, got 200,000,000"):
        small.true_counts()


@pytest.mark.parametrize("numbers", [1, 11, 61, 2**23])
def test_blocks_of_any_size_hold_every_row_once(posterior, own, monkeypatch, numbers):
    monkeypatch.setattr(states, "NUMBERS_PER_BLOCK", numbers)
    for one in (posterior, own):
        whole = np.stack([one.model.rates(state, slice(0, 6)) for state in one.states()])
        for draws, blocks in ((True, one.iter_rate_draws()), (False, one.iter_rates())):
            rows, parts = zip(*blocks, strict=True)
            assert [i for block in rows for i in range(block.start, block.stop)] == list(range(6))
            found = np.concatenate(parts, axis=1 if draws else 0)
            np.testing.assert_allclose(found, whole if draws else whole.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(
            one.rates([5, 0, 3], [4, 1]), whole.mean(axis=0)[[5, 0, 3]][:, [4, 1]], rtol=1e-12
        )


def test_blocks_stay_small_however_many_draws():
    """400 draws of 1,000 x 500: all of their rates would be 1.6 GB."""
    rows = list(states.row_slices(1000, 500 * 400))
    assert max(b.stop - b.start for b in rows) * 500 * 400 <= states.NUMBERS_PER_BLOCK


def test_states_are_those_of_the_model(posterior):
    states = list(posterior.states())
    group = posterior.tree["posterior"]
    assert len(states) == posterior.n_draws == 60
    assert type(states[0]) is posterior.model.state_type
    assert states[0]._fields == (
        "theta", "phi", "theta_scale", "theta_scale_upper", "theta_scale_lower", "theta_mean", "phi_scale",
        "phi_scale_upper", "phi_scale_lower", "phi_level",
    )  # fmt: skip
    assert states[0].theta.dtype == np.float64
    np.testing.assert_array_equal(states[31].phi, group["phi"][1, 1])


def test_more_than_two_axes(own):
    class Flat(type(own.model)):
        dims = {"level": (), "overall": ()}  # noqa: RUF012

        def init(self, data, rng):
            return super().init(data, rng)._replace(level=np.array(2.0))

        def rates(self, state, rows):
            return np.full((rows.stop - rows.start, 2, 2), state.level)

        def update(self, state, counts, rng):
            return state

    release = cv.PrivateCounts(np.ones((3, 2, 2), int), rho=1.0, labels=(list("abc"), None, list("xy")))
    tensor = cv.fit(Flat(2), release, sweeps=8, thin=1, seed=1, progress=False)
    for method in (tensor.rates, tensor.true_counts):
        assert tuple(method().sizes.values()) == (3, 2, 2)
        some = method(["c"], (None, ["y"]))
        assert tuple(some.sizes.values()) == (1, 2, 1)
        assert some[list(some.sizes)[2]].to_numpy().tolist() == ["y"]
        with pytest.raises(ValueError, match="columns: expected None or a tuple of 2 choices"):
            method(columns=["y"])
    assert next(tensor.iter_rates())[1].shape == (3, 2, 2)
    assert next(tensor.iter_rate_draws())[1].shape == (8, 3, 2, 2)
    assert "rate[a, 0, x]" in tensor.summary(2).index
    assert repr(tensor).endswith("3 x 2 x 2, 2 chains x 4 draws)")
