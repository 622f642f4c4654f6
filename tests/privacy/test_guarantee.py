"""Guarantee: exact arithmetic, plain words, clear refusals."""

import copy
import dataclasses
import json
import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from countveil.counts import privatize
from countveil.distributions import two_sided_geometric
from countveil.privacy import Guarantee, add_noise


@pytest.mark.parametrize(
    ("epsilon", "exact"),
    [
        (3, Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)),
        (0.1, Fraction(3602879701896397, 36028797018963968)),
        (np.float64(0.5), Fraction(1, 2)),
        (np.float32(0.1), Fraction(13421773, 134217728)),
        (np.longdouble("0.25"), Fraction(1, 4)),
        (np.int8(2), Fraction(2)),
        (np.uint64(2), Fraction(2)),
    ],
)
def test_epsilon_is_exact(epsilon, exact):
    assert Guarantee(epsilon).epsilon == exact
    assert Guarantee(epsilon, 7).rate == exact / 7


NOT_POSITIVE = [
    -1,
    0,
    0.0,
    "0",
    math.inf,
    -math.inf,
    math.nan,
    "nan",
    "inf",
    Decimal("sNaN"),
    np.float32("inf"),
]
NOT_NUMBERS = ["1/0", "abc", "", None, True]
OTHER_THINGS = [
    np.bool_(True),
    1j,
    [1],
    np.array([1.0]),
]  # of which an error says what they are, not what they hold
TOO_FAR_OUT = ["1e-999999999", "1e999999999"]


@pytest.mark.parametrize("epsilon", [*NOT_POSITIVE, *NOT_NUMBERS, *OTHER_THINGS, *TOO_FAR_OUT])
def test_epsilon_refused(epsilon):
    is_other = any(epsilon is other for other in OTHER_THINGS)
    got = f"a {type(epsilon).__name__}" if is_other else repr(epsilon)
    with pytest.raises(ValueError, match=r"^epsilon: expected a number > 0, got " + re.escape(got) + "$"):
        Guarantee(epsilon)


def test_messages_name_the_parameter_the_expected_and_the_given():
    with pytest.raises(ValueError, match=r"^epsilon: expected a number > 0, got -1$"):
        Guarantee(-1)
    with pytest.raises(ValueError, match=r"^unit: expected 'document', 'cell' or 'person', got 'row'$"):
        Guarantee(1, unit="row")


@pytest.mark.parametrize(
    "precision", [0, -1, 1.5, 1.0, "1", True, np.bool_(True), None, np.float64(2), Fraction(2)]
)
def test_precision_refused(precision):
    with pytest.raises(ValueError, match=r"^precision: expected a whole number >= 1, got "):
        Guarantee(1, precision)


def test_precision_may_be_a_numpy_integer():
    assert type(Guarantee(1, np.uint8(200)).precision) is int
    assert Guarantee(1, np.uint8(200)) == Guarantee(1, 200)


@pytest.mark.parametrize(
    ("epsilon", "precision"), [("9e-13", 1), (1, 2 * 10**12), ("1000.001", 1), (10**400, 1), (1, 10**400)]
)
def test_rate_out_of_range(epsilon, precision):
    with pytest.raises(ValueError, match=r"^epsilon / precision: expected 1e-12 to 1000, got "):
        Guarantee(epsilon, precision)


@pytest.mark.parametrize("epsilon", [1e-12, "1e-12", 1000, 1000.0])
def test_ends_of_the_range(epsilon):
    assert Guarantee(epsilon).rate == Fraction(epsilon)


def test_alpha_is_exp_of_minus_epsilon_over_precision():
    """Erratum: the paper prints alpha = -exp(eps/N)."""
    g = Guarantee(3, 2)
    assert g.alpha == pytest.approx(math.exp(-1.5), rel=1e-15)
    assert 0 < g.alpha < 1
    assert g.rho == 1.5


def test_loss_is_the_distance_times_the_rate():
    g = Guarantee("0.1", 3)
    assert g.loss(0) == 0
    assert g.loss(3) == g.epsilon
    assert g.loss(np.int64(7)) == Fraction(7, 30)
    for bad in (-1, 1.5, True, "1"):
        with pytest.raises(ValueError, match=r"^distance: expected a whole number >= 0, got "):
            g.loss(bad)


def test_documents_of_n_words_are_hidden_at_twice_epsilon():
    """Erratum: the paper says that precision N hides documents of at most N words at epsilon."""
    n = 5
    one, other = np.array([n, 0]), np.array([0, n])
    g = Guarantee(1, precision=n)
    assert g.loss(np.abs(one - other).sum()) == 2 * g.epsilon


def test_losses_add_under_composition():
    a, b = Guarantee(1, 2), Guarantee("0.3", 5)
    both = a.compose(b)
    assert both.precision == a.precision
    assert all(both.loss(d) == a.loss(d) + b.loss(d) for d in range(10))
    assert both.loss(4) == b.compose(a).loss(4)
    assert Guarantee(1, 4).compose(Guarantee(2, 4)) == Guarantee(3, 4)


def test_composition_refuses_what_it_cannot_add():
    with pytest.raises(
        ValueError, match=r"^other: expected a guarantee for one document, got one for one cell$"
    ):
        Guarantee(1).compose(Guarantee(1, unit="cell"))
    with pytest.raises(TypeError, match=r"^other: expected a Guarantee, got int$"):
        Guarantee(1).compose(1)


def test_value_semantics():
    g = Guarantee("0.5", 2, "cell")
    assert g == Guarantee(0.5, 2, unit="cell")
    assert hash(g) == hash(Guarantee(0.5, 2, unit="cell"))
    assert g != Guarantee(1, 4, "cell")  # the same line of guarantees, another statement
    assert Guarantee("0.1") != Guarantee(0.1)
    assert eval(repr(g)) == pickle.loads(pickle.dumps(g)) == copy.deepcopy(g) == dataclasses.replace(g) == g
    with pytest.raises(dataclasses.FrozenInstanceError):
        g.epsilon = 1


def number(text):
    return float(text.replace(",", ""))


def log_ratio(rho, one, other):
    """The largest log P(x|one) / P(x|other) over all releases x: cells are independent, so it is their sum."""
    total = 0.0
    for y, z in zip(one, other, strict=True):
        x = np.arange(min(y, z) - 3, max(y, z) + 4)  # beyond the two counts the ratio no longer changes
        ratio = two_sided_geometric.logpmf(x - y, rho) - two_sided_geometric.logpmf(x - z, rho)
        total += ratio.max()
    return total


UNITS = ["document", "cell", "person"]
# Two cells of the unit (for "cell": one of it, one of another), before and after n counts are ...
CHANGES = {
    "added to": lambda n: ((4, 2), (4 + n, 2)),
    "removed from": lambda n: ((n + 4, 2), (4, 2)),
    "twice as far": lambda n: ((n + 4, 2), (4, n + 2)),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    ("epsilon", "precision"),
    [
        ("1e-12", 1),
        ("1e-6", 3),
        ("0.1", 10),
        (0.1, 1),
        (1, 1),
        (1, 7),
        (2.5, 2),
        (3, 1),
        ("4.61", 9),
        (7, 1),
        (14, 20),
    ],
)
def test_the_stated_odds_are_those_of_the_law_for_the_stated_change(epsilon, precision, unit):
    g = Guarantee(epsilon, precision, unit)
    form = r".* only by (1 count|up to [\d,]+ counts) of one (\w+) \(.*\), added or removed, seeing .* factor of "
    form += r"([\d.,]+); if (it is|they are) (replaced by|moved to) .* by more than ([\d.,]+)\."
    some, named, odds, _, _, odds_twice = re.fullmatch(form, str(g)).groups()
    n = int(number(re.search(r"[\d,]+", some).group()))
    assert (n, named) == (precision, unit)
    for change, pair in CHANGES.items():
        stated = number(odds_twice if change == "twice as far" else odds)
        lost = max(log_ratio(g.rho, *pair(n)), log_ratio(g.rho, *reversed(pair(n))))
        assert math.exp(lost) * (1 - 1e-9) <= stated, change  # never more privacy than there is
        assert stated - 0.0101 * max(1, stated) <= math.exp(lost), change  # and less by rounding only


def test_fewer_counts_than_stated_are_hidden_better():
    g = Guarantee(2, 5)
    for d in range(6):
        assert log_ratio(g.rho, (9, 9), (9 - d, 9)) <= float(g.epsilon) + 1e-12
    assert log_ratio(g.rho, (9, 9), (3, 9)) > float(g.epsilon)  # six are not


def test_sentence_names_the_counts_and_the_unit():
    assert "differ only by up to 1,000 counts of one document (one row), added or removed" in str(
        Guarantee(1, 1000)
    )
    assert "only by 1 count of one cell (one number), added or removed" in str(Guarantee(1, unit="cell"))
    assert "if it is replaced by another, which is twice as far," in str(Guarantee(1, unit="person"))
    assert "if they are moved to other cells, which is twice as far," in str(Guarantee(1, 2, unit="cell"))
    for unit in UNITS:
        assert "e-mail" not in Guarantee(1, unit=unit).explain()  # a row of a network is none
    assert "\n" not in str(Guarantee(1))
    assert "Hardly anything is hidden" in str(Guarantee(10**30, 10**29))


def test_what_noise_will_never_change_is_called_plain():
    for rate, plain in ((89, False), (90, True), (1000, True)):
        a = mpmath.exp(-rate)
        chance = 2**64 * 2 * a / (1 + a)  # of any noise in 2**64 cells
        assert (chance < mpmath.mpf(2) ** -64) or not plain
        for g in (Guarantee(rate), Guarantee(5 * rate, 5)):
            assert str(g).startswith("PLAIN, nothing is protected") == plain
            assert g.explain().startswith("PLAIN") == plain


def test_a_guarantee_cannot_be_made_to_lie():
    with pytest.raises(TypeError, match=r"^Guarantee: expected no subclasses, got one"):

        class Lying(Guarantee):
            rate = Fraction(1000)

    class Silent:  # keeps Python from asking Guarantee
        def __init_subclass__(cls):
            pass

    class Hidden(Silent, Guarantee):
        rate = Fraction(1000)

    for taken in (lambda g: add_noise([3], g), Guarantee(1).compose, lambda g: privatize([[3]], guarantee=g)):
        with pytest.raises(TypeError, match=r"(guarantee|other): expected a Guarantee, got Hidden$"):
            taken(Hidden("0.1"))


@pytest.mark.parametrize("unit", UNITS)
def test_a_guarantee_as_text_says_all_of_it_exactly(unit):
    g = Guarantee("1/3", 10**11, unit)
    said = json.loads(json.dumps(g.to_dict()))
    assert Guarantee(said["epsilon"], int(said["precision"]), said["unit"]) == g
    assert Fraction(said["rate"]) == g.rate
    assert said["adjacency"].startswith(f"versions of the data that differ only in one {unit} (")
    assert ("a replaced one being one removed and one added" in said["adjacency"]) == (unit != "cell")


@pytest.mark.parametrize("n", [1, 5, 1000])
def test_local_privacy_covers_the_two_observations_that_are_furthest_apart(n):
    whole = Guarantee.for_local_privacy("0.7", max_length=n)
    assert whole.loss(2 * n) == whole.epsilon == Fraction(7, 10)  # n words of one kind against n of another
    assert Guarantee.for_local_privacy("0.7", n, unit="person").loss(2 * n) == Fraction(7, 10)
    assert Guarantee.for_local_privacy("0.7", n, unit="cell").loss(n) == Fraction(7, 10)  # 0 against n


def test_local_privacy_refuses_what_has_no_length():
    for bad in (0, -1, 1.5, "3", None, True):
        with pytest.raises(ValueError, match=r"^max_length: expected a whole number >= 1, got "):
            Guarantee.for_local_privacy(1, bad)
    with pytest.raises(ValueError, match="unit: expected"):
        Guarantee.for_local_privacy(1, 3, unit="row")


@pytest.mark.parametrize("unit", ["document", "cell", "person"])
def test_explain_says_what_is_hidden_and_what_is_not(unit):
    told = Guarantee("1.5", 10, unit=unit).explain()
    assert told.startswith(str(Guarantee("1.5", 10, unit=unit)))
    hidden, not_protected = told.split("Not protected:")
    assert "10: 4.49" in hidden
    assert "20: 20.1" in hidden
    for matter in (
        "several releases",
        "labels",
        "shape",
        "many more counts than 10",
        "how long",
        "together",
        "counts that are not the",
    ):
        assert matter in not_protected
    assert ("over all of them together" in hidden) == (unit == "person")
    for matter in ("in a network", "is two counts, one removed and one added", '"did it say vote?"'):
        assert matter in hidden


@pytest.mark.parametrize("epsilon", ["1e-6", 0.1, 1, 2.5, 13, 14, 15, 40, 1000])
def test_explain_never_claims_more_privacy_than_there_is(epsilon):
    g = Guarantee(epsilon, 3)
    for line in g.explain().splitlines():
        if found := re.fullmatch(r"  ([\d,]+): ([\d.,]+)", line):
            distance, odds = (float(text.replace(",", "")) for text in found.groups())
            assert odds >= math.exp(g.loss(int(distance))) * (1 - 1e-12)


@pytest.mark.parametrize(
    "long",
    ["1." + "3" * 10**6, "1/" + "3" * 10**6, Decimal("1." + "3" * 10**6)],
    ids=["text", "fraction", "decimal"],
)
def test_numbers_of_a_million_digits_are_refused_at_once(long):
    with pytest.raises(ValueError, match="epsilon: expected a number > 0"):
        Guarantee(long)


@pytest.mark.parametrize(
    "epsilon", [10**600, Fraction(10**600 + 1, 10**600), Fraction(10**5000 + 1, 10**5000)]
)
def test_numbers_that_could_not_be_read_again_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon: expected a number > 0"):
        Guarantee(epsilon)


def test_precisions_beyond_all_counts_are_refused():
    with pytest.raises(
        ValueError, match="precision: expected a number of counts, got one of more than 1600 bits"
    ):
        Guarantee(1, 10**1500)
