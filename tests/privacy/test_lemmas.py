"""What docs/proof.md says of the noise and no other test does: exact values, forced paths, the joint law."""

import ast
import decimal
import inspect
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from countveil.privacy import Guarantee, geometric, guarantee, law, mechanism, thresholds
from countveil.privacy.geometric import two_sided_geometric
from goodness_of_fit import fits, rejects
from privacy.exact_series import exp_between, floors_of, powers_between, quotient
from privacy.noise_law import repeatable_bits, scripted_bits

BITS = 1700  # the smallest probability that a table of rate 1000 knows is exp(-1000) = 2**-1443


@pytest.mark.parametrize("x", ["1e-12", "1/3", "0.1", "1", "20.7", "1000"])
def test_exp_bounds_enclose_the_series(x):
    """Both enclose exp(-x), so they overlap; each is a few units wide; 10 % off they do not overlap."""
    x = Fraction(x)
    for bits in (64, 200, 1500):
        low, high = law.exp_bounds(x, bits)
        least, most = exp_between(x, bits)
        assert low <= most
        assert least <= high
        assert most - least <= 4
        assert high - low <= 4
    wrong = exp_between(x * Fraction(11, 10), 1700)
    assert wrong[1] < law.exp_bounds(x, 1700)[0]


def test_exp_bounds_do_not_depend_on_the_default_decimal_context(monkeypatch):
    """Which is where a context takes what it is not told."""
    x = Fraction(1000)
    expected = law.exp_bounds.__wrapped__(x, 200)
    default, hostile = (
        decimal.DefaultContext,
        {"prec": 3, "rounding": decimal.ROUND_UP, "Emin": -5, "Emax": 5, "clamp": 1},
    )
    for name, value in hostile.items():
        monkeypatch.setattr(default, name, value)
    monkeypatch.setitem(default.traps, decimal.Inexact, True)
    monkeypatch.setitem(default.traps, decimal.Subnormal, True)
    assert decimal.Context().Emin == -5
    assert law.exp_bounds.__wrapped__(x, 200) == expected


@pytest.mark.parametrize("place", [0, 1, 2**48 - 2, 2**48 - 1])
def test_a_threshold_at_the_edge_of_a_cell_of_16_bits(place):
    """Its cell, and no other, leaves the outcome open; words beside it fall on the right sides."""
    floor = (7 << 48) + place

    def bounds(k, bits):  # the threshold floor + 1/3, in units of 2**-64
        low = ((3 * floor + 1) << bits - 64) // 3
        return low, low + 1

    drawn = thresholds.Table(bounds, 0, 1)
    assert np.flatnonzero(drawn._cells == thresholds._UNSURE).tolist() == [7]
    assert drawn._cells[[0, 6, 8, 2**16 - 1]].tolist() == [0, 0, 1, 1]
    for word in {max(0, place - 1), min(2**48 - 1, place + 1)} - {place}:
        answers = [np.uint16(7).tobytes(), np.uint64(word << 16).tobytes()]
        assert drawn.draw(1, scripted_bits(answers)).tolist() == [int(word > place)]


@pytest.mark.parametrize("rate", ["5/128", "0.1", "1", "3", "20.723265836946411", "1000"])
def test_thresholds_of_the_noise_by_the_series(rate):
    """P(tau <= k) = a**-k/(1+a) below 0, and 1 - a**(k+1)/(1+a) from 0 on, to the last of 64 bits."""
    rate = Fraction(rate)
    width, drawn = geometric._two_sided_table(rate)
    one = 1 << BITS

    def thresholds(rate):
        powers = powers_between(rate, width, BITS)
        under = (one + powers[1][0], one + powers[1][1])
        tails = [quotient(powers[k], under, BITS) for k in range(1, width + 1)]
        return floors_of([*reversed(tails), *((one - high, one - low) for low, high in tails)], BITS, 64)

    assert drawn._thresholds.tolist() == thresholds(rate)
    if rate < 40:  # beyond, all is within 2**-64 of 0 and 1 either way
        assert drawn._thresholds.tolist() != thresholds(rate * Fraction(11, 10))


@pytest.mark.parametrize("rate", ["1e-12", "1e-6", "0.039"])
def test_thresholds_of_digits_by_the_series(rate):
    """P(r <= k) = (1 - a**(k+1)) / (1 - a**512), to the last of 64 bits."""
    rate, bits = Fraction(rate), 400

    def thresholds(rate):
        below = [((1 << bits) - high, (1 << bits) - low) for low, high in powers_between(rate, 512, bits)]
        return floors_of([quotient(below[k + 1], below[512], bits) for k in range(511)], bits, 64)

    found = geometric._digit_table(rate)._thresholds.tolist()
    assert found == thresholds(rate)
    assert found != thresholds(rate * Fraction(11, 10))


@pytest.mark.parametrize("rate", ["1e-12", "0.001", "0.039"])
def test_a_digit_and_the_rest_have_the_law_of_the_whole(rate):
    """P(r) * P(q) = P(512*q + r), by the laws the tables are made of, to 2**-350."""
    rate, bits = Fraction(rate), 400

    def pmf(cumulative, rate, k):
        """2**bits * P(k), a few units too low and too high."""
        low, high = cumulative(rate, k, bits)
        if k == 0:
            return low, high
        before_low, before_high = cumulative(rate, k - 1, bits)
        return low - before_high, high - before_low

    for g in (0, 1, 511, 512, 513, 1000, 5 * 512 + 7, 40 * 512):
        quotient_of, digit = divmod(g, 512)
        one, rest = pmf(law.digit, rate, digit), pmf(law.geometric, 512 * rate, quotient_of)
        low, high = pmf(law.geometric, rate, g)
        assert one[0] * rest[0] >> bits <= high + 1
        assert low - 1 <= -(-one[1] * rest[1] >> bits)
        assert (one[1] * rest[1] >> bits) - (one[0] * rest[0] >> bits) < 2**50


@pytest.mark.parametrize(("rate", "n_digits"), [("1e-12", 4), ("1e-6", 2), ("0.039", 1), ("0.04", 0)])
def test_digits_are_put_together(rate, n_digits):
    """g = r_0 + 512*r_1 + ... + 512**n * q, with digits and q from 16 bits that decide them."""
    rate, rng = Fraction(rate), np.random.default_rng(3)
    tables = [geometric._digit_table(512**i * rate) for i in range(n_digits)]
    tables.append(geometric._one_sided_table(512**n_digits * rate)[1])
    for _ in range(20):
        words = [rng.choice(np.flatnonzero(each._cells != thresholds._UNSURE)) for each in tables]
        expected = sum(
            512**i * int(each._cells[word]) for i, (each, word) in enumerate(zip(tables, words, strict=True))
        )
        source = scripted_bits(np.uint16(word).tobytes() for word in words)
        assert geometric._one_sided(rate, 1, source).tolist() == [expected]


def test_a_digit_and_the_rest_are_independent():
    """Of g drawn with one digit: the pair (r, q) has the product law, by groups of 64 digits."""
    rate, size = Fraction("0.002"), 300_000
    assert not geometric._fits(rate)
    assert geometric._fits(512 * rate)
    drawn = geometric._one_sided(rate, size, repeatable_bits())

    def pvalue(drawn, rho):
        groups, rests = (drawn % 512) // 64, np.minimum(drawn // 512, 3)
        observed = np.bincount(4 * groups + rests, minlength=32)
        digits = np.diff(-np.expm1(-rho * 64 * np.arange(9))) / -np.expm1(-512 * rho)
        rest = np.diff(np.append(-np.expm1(-512 * rho * np.arange(4)), 1.0))
        expected = np.outer(digits, rest).ravel() * size
        assert expected.min() > 20
        return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), 31))

    assert fits(pvalue(drawn, float(rate)))
    assert rejects(pvalue(drawn, 1.1 * float(rate)))
    repeated = drawn.copy()  # with one quotient in ten taken from its neighbour's digit
    repeated[::10] = 512 * (drawn[::10] % 2) + drawn[::10] % 512
    assert rejects(pvalue(repeated, float(rate)))


HEALTHY = bytes(range(16))
ONES, ZEROS = [b"\xff" * 2, b"\xff" * 8], [b"\0" * 2, b"\0" * 8]


@pytest.mark.parametrize(
    ("rate", "answers", "noise"),
    [
        # 16 + 48 ones are beyond the last threshold: "20 or more"; then the same of a fresh geometric; then, after a
        # look at the health of the source, 0.
        ("1", [*ONES, *ONES, HEALTHY, b"\0\0"], 40),
        ("1", [*ZEROS, *ONES, HEALTHY, b"\0\0"], -40),
        ("1", [*ONES, *ONES, HEALTHY, *ONES, HEALTHY, b"\0\0"], 60),
        # One digit, 511, and "40 or more" times 512, then 0; less a second geometric, which is 0.
        ("0.001", [b"\xff\xff", *ONES, HEALTHY, b"\0\0", b"\0\0", b"\0\0"], 511 + 512 * 40),
        ("0.001", [b"\0\0", b"\0\0", b"\xff\xff", *ONES, HEALTHY, b"\0\0"], -511 - 512 * 40),
    ],
)
def test_tails_by_scripted_bits(rate, answers, noise):
    """From bytes to noise: the last outcome of a table adds a fresh geometric, and again if need be."""
    source = scripted_bits(answers)
    assert two_sided_geometric(Fraction(rate), 1, source).tolist() == [noise]
    with pytest.raises(StopIteration):  # every byte was asked for
        source(1)


@pytest.mark.parametrize("rate", ["1e-12", "0.001"])
def test_small_rates_subtract_two_geometrics(rate):
    source = repeatable_bits()
    one, other = (geometric._one_sided(Fraction(rate), 1000, source) for _ in range(2))
    assert np.array_equal(two_sided_geometric(Fraction(rate), 1000, repeatable_bits()), one - other)


@pytest.mark.parametrize("rate", [guarantee._SMALLEST_RATE, Fraction("1e-6"), Fraction(1)])
def test_noise_is_refused_less_often_than_once_in_exp_of_a_million(rate):
    """Refused when g >= rounds*scale*width, where P(g >= m) = exp(-rate*m); until then all fits 64 bits."""
    scale = 1
    while not geometric._fits(scale * rate):
        scale *= law.BASE
    width, _ = geometric._one_sided_table(scale * rate)
    assert rate * geometric._ROUNDS * scale * width >= 10**6
    assert 2 * (geometric._ROUNDS + 1) * scale * (width + 1) < 2**63


def test_every_cell_has_bytes_of_its_own():
    """Two bytes of the first request belong to one cell: other values for them change this cell alone."""
    rate, size = Fraction(1), 200
    _, drawn = geometric._two_sided_table(rate)
    fair = repeatable_bits()
    first = np.frombuffer(fair(2 * size), dtype=np.uint16).copy()
    further = [fair(8 * np.count_nonzero(drawn._cells[first] == thresholds._UNSURE))]
    noise = two_sided_geometric(rate, size, scripted_bits([first.tobytes(), *further]))
    sure = np.flatnonzero(drawn._cells != thresholds._UNSURE)
    for cell in np.flatnonzero(drawn._cells[first] != thresholds._UNSURE):
        other = first.copy()
        other[cell] = sure[0] if drawn._cells[first[cell]] > 0 else sure[-1]
        again = two_sided_geometric(rate, size, scripted_bits([other.tobytes(), *further]))
        assert np.flatnonzero(again != noise).tolist() == [cell]


@pytest.mark.parametrize("rate", ["1/7", "1", "3"])
def test_the_loss_is_reached_and_never_passed(rate):
    """sup over x of log P(x|y)/P(x|y') by the law the table is made of: distance * rate, exactly."""
    rate, bits = Fraction(rate), 400
    with mpmath.workprec(bits):

        def log_pmf(k):
            low, high = (law.two_sided(rate, end, bits) for end in (k - 1, k))
            return mpmath.log(mpmath.mpf(sum(high) - sum(low)) / 2)

        logs = {k: log_pmf(k) for k in range(-20, 21)}
        for y in range(4):
            for other in range(4):
                losses = [logs[x - y] - logs[x - other] for x in range(-15, 16)]
                loss = Guarantee(rate).loss(abs(y - other))
                exact = mpmath.mpf(loss.numerator) / loss.denominator
                assert abs(max(losses) - exact) < mpmath.mpf(2) ** -200
                assert abs(min(losses) + exact) < mpmath.mpf(2) ** -200


@pytest.mark.parametrize(
    "module", [law, thresholds, geometric, mechanism], ids=lambda module: module.__name__
)
def test_no_floating_point_number_decides(module):
    """No float is written down or made in the files between bits and noise, and no division but of fractions."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Constant) or type(node.value) not in (float, complex)
        if isinstance(node, ast.Name):
            assert node.id not in ("float", "complex", "math", "statistics")
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith(("float", "half", "single", "double", "longdouble"))
            of_decimals = ast.unparse(node.value) in ("down", "up")
            assert of_decimals or node.attr not in ("exp", "log", "sqrt", "divide")
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            assert ast.unparse(node) == "_REACH / rate"  # of a Fraction


def test_tables_for_fractions_are_exact():
    """_REACH / rate and its ceiling are whole numbers and fractions, never floats."""
    for rate in (Fraction(1, 3), Fraction("0.1"), Fraction(1000)):
        assert type(geometric._REACH / rate) is Fraction
        width, _ = geometric._two_sided_table(rate)
        assert type(width) is int
        assert (width - 1) * rate < geometric._REACH <= width * rate
