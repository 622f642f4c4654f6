"""Groups of rows: the forms in which people have them, what is missing, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import countveil as cv
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from countveil.kernels.philox import SweepKey
from countveil.models.einsum.prior import draw_means, prior_rates
from countveil.models.groups import NO_GROUP, Groups, read_groups
from countveil.models.shared_factors import SharedFactors
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects
from inference.one_chain import Splits

NAMES = [f"letter {i}" for i in range(4)]


@pytest.mark.parametrize(
    ("given", "names", "codes"),
    [
        (["b", "a", "b"], ("a", "b"), [1, 0, 1]),
        (("b", None, float("nan")), ("b",), [0, -1, -1]),
        (np.array([10, 9, 10]), ("9", "10"), [1, 0, 1]),
        (np.array([2021.0, np.nan, 1999.0]), ("1999", "2021"), [1, -1, 0]),
        (["10", "9", ""], ("", "10", "9"), [1, 2, 0]),
        ([True, False, True], ("False", "True"), [1, 0, 1]),
        (pd.Series(["x", pd.NA, "y"]), ("x", "y"), [0, -1, 1]),
        (pd.Categorical(["late", "early", None], ["early", "late", "never"]), ("early", "late"), [1, 0, -1]),
        (
            pd.Series(["late", "early"], dtype=pd.CategoricalDtype(["late", "early"])),
            ("late", "early"),
            [0, 1],
        ),
    ],
)
def test_one_for_each_row(given, names, codes):
    groups = read_groups(given)
    assert (groups.names, groups.codes.tolist(), groups.rows) == (names, codes, None)
    assert groups == read_groups(groups.describe())
    assert hash(groups) == hash(read_groups(groups.describe()))


def test_rows_without_a_group_are_one_more():
    groups = read_groups(["b", None, "a", None])
    assert groups.labels == ("a", "b", NO_GROUP)
    assert [rows.tolist() for rows in groups.members] == [[2], [0], [1, 3]]
    assert groups.of_rows.tolist() == [1, 2, 0, 2]


BY_LABEL = {"letter 3": "x", "letter 0": "y", "letter 1": None, "letter 2": "x", "other": "z"}


@pytest.mark.parametrize("given", [BY_LABEL, pd.Series(BY_LABEL)])
def test_groups_by_the_labels_of_rows(given):
    release = cv.PrivateCounts(np.ones((4, 2), int), alpha=0.3, labels=(NAMES, None))
    model = make_problem(cv.TopicModel(2, groups=given), release).model
    assert model.groups == Groups(("x", "y"), [1, -1, 0, 0])
    signed = cv.PrivateCounts(np.full((4, 2), -1), alpha=0.3, labels=(NAMES, None))
    inside = make_problem(cv.UnknownNoise(cv.TopicModel(2, groups=given)), signed).model
    assert inside == model


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ab", "groups: expected a label for each row, or a mapping from rows to labels, got str"),
        (3, "groups: expected a label for each row, or a mapping from rows to labels, got int"),
        ({"a", "b"}, "groups: expected a label for each row, or a mapping from rows to labels, got set"),
        ([None, None], "groups: expected a group for at least one row, got none"),
        ([], "groups: expected a group for at least one row, got none"),
        ([["a"], ["b"]], "groups: expected one label for each row, got a list for one"),
        (np.ones((2, 2)), "groups: expected one label for each row, got 2 axes"),
        (pd.DataFrame({"a": [1]}), "groups: expected one column, got 2 axes"),
        ([1, "1"], "groups: expected labels that differ as text, got '1' as text and as another kind"),
        (pd.Series(["a", "b"], index=["r", "r"]), "groups: expected every row once, got 'r' more than once"),
        (
            {"names": ["a"], "codes": [1]},
            "groups: expected names and the number of one for each row, got others",
        ),
    ],
)
def test_what_is_refused_when_it_is_given(given, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        cv.TopicModel(2, groups=given)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("given", "labels", "words"),
    [
        (["a", "b"], None, "groups: expected a group, or None, for each of the 4 rows, got 2"),
        (
            {"r": "a"},
            None,
            "expected one for each row, in order, as the rows have no labels, got them by label",
        ),
        ({"letter 1": "a"}, NAMES, "for every row, got nothing for 'letter 0' and 2 others"),
        (
            {**BY_LABEL, **dict.fromkeys(NAMES)},
            NAMES,
            "groups: expected a group for at least one row, got none",
        ),
    ],
)
def test_what_is_refused_once_the_rows_are_known(given, labels, words):
    release = cv.PrivateCounts(np.ones((4, 2), int), alpha=0.3, labels=(labels, None))
    with pytest.raises(ValueError, match=words):
        cv.fit(cv.TopicModel(2, groups=given), release, sweeps=20, progress=False)


def test_no_view_has_groups():
    with pytest.raises(ValueError, match="words: expected a model without groups as a view, got TopicModel"):
        SharedFactors(words=cv.TopicModel(2, groups=["a"]))


def test_a_model_says_its_groups():
    model = cv.TopicModel(2, groups=["a", None])
    assert cv.TopicModel(**model.describe()) == model != cv.TopicModel(2)
    assert "groups" not in cv.TopicModel(2).describe()
    assert model.dims["theta_mean"] == ("group", "topic")
    assert cv.TopicModel(2, rate=1.0, groups=["a"]).state_type._fields == ("theta", "phi", "theta_mean")


@pytest.mark.parametrize("rate", [None, 2.5])
def test_means_of_groups_given_the_factor(rate):
    """1 / b_gk ~ Gamma(1 + a n_g, b0 + a sum theta_dk / u_d); with a fixed rate, beta_gk = a / b_gk, as in print."""
    shape, n_topics = 0.7, 4000  # as many draws
    model = cv.TopicModel(n_topics, shape=shape, rate=rate, groups=["a", "b", "a"])
    theta = np.repeat([[0.5], [2.0], [1.5]], n_topics, axis=1)
    state = model.init(cv.PrivateCounts(np.ones((3, 2), int), alpha=0.3), np.random.default_rng(1))
    held = model._hold(state) | {"theta": theta}
    scales = np.array([2.0, 0.5, 1.25])
    if rate is None:
        held["theta_scale"] = scales
    draw_means(model._inferred, lambda name: False, held, SweepKey(np.uint64(SEED), 0, 1), Workers(1))
    assert held["theta_mean"].shape == (2, n_topics)
    for g, rows in enumerate(([0, 2], [1])):
        if rate is None:
            drawn = 1 / held["theta_mean"][g]
            law = stats.gamma(
                1 + shape * len(rows), scale=1 / (1 + shape * np.sum(theta[rows, 0] / scales[rows]))
            )
        else:
            drawn = shape / held["theta_mean"][g]
            law = stats.gamma(1 + shape * len(rows), scale=1 / (1 / rate + theta[rows, 0].sum()))
        assert fits(continuous_pvalue(drawn, law.cdf))
        assert rejects(continuous_pvalue(1.3 * drawn, law.cdf))


def test_each_row_has_the_rates_of_its_group():
    model = cv.TopicModel(2, shape=0.5, rate=1.0, groups=["b", None, "a"])
    means = np.array([[1.0, 2.0], [4.0, 8.0], [0.5, 0.25]])
    held = {"theta": np.ones((3, 2)), "phi": np.ones((5, 2)), "theta_mean": means}
    rates = prior_rates("theta", model._prior("theta"), model._inferred["theta"], held)
    each = [[rates.of_rows[0] * rates.of_components[2 * g + k] for k in (0, 1)] for g in rates.group_of]
    assert np.allclose(each, 0.5 / means[[1, 2, 0]])


@pytest.mark.parametrize("rate", [None, 1.0])
def test_draws_do_not_depend_on_how_rows_are_split(rate):
    rng = np.random.default_rng(SEED)
    counts = rng.poisson(rng.gamma(0.4, size=(100, 6)))
    groups = [["a", "b", None][i] for i in rng.integers(0, 3, 100)]
    problem = make_problem(
        cv.TopicModel(3, rate=rate, groups=groups), cv.simulate_release(counts, alpha=0.3, seed=1)
    )

    def drawn(workers):
        with CpuSampler(problem, 5, workers.threads, "auto", workers) as sampler:
            sampler.start(0)
            for _ in range(3):
                sampler.sweep(0)
            return sampler.carry(0).state

    whole = drawn(Workers(1))
    for workers in (Splits(1, -1), Splits(34), Workers(2)):
        again = drawn(workers)
        assert all(np.array_equal(whole[name], again[name]) for name in whole)


def test_the_order_of_rows_does_not_matter_to_sums_of_groups():
    rng = np.random.default_rng(SEED)
    theta, turn = rng.gamma(0.3, size=(50, 2)), rng.permutation(50)
    names = np.array(["a", "b"])[rng.integers(0, 2, 50)]

    def means(theta, names):
        model = cv.TopicModel(2, rate=1.0, groups=names)
        held = {"theta": theta, "phi": np.ones((3, 2)), "theta_mean": np.ones((2, 2))}
        draw_means(model._inferred, lambda name: False, held, SweepKey(np.uint64(3), 0, 1), Workers(1))
        return held["theta_mean"]

    assert np.array_equal(means(theta, names), means(theta[turn], names[turn]))
