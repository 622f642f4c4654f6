"""The noise follows its law, for every rate and on every path through the code."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from countveil.privacy import Guarantee, add_noise, geometric
from countveil.privacy.geometric import two_sided_geometric
from goodness_of_fit import discrete_pvalue, fits, rejects
from privacy.noise_law import cdf, geometric_cdf, repeatable_bits

# Digits up to 0.039, a direct table from 0.0390625 = 20/512 on; alpha = 1 - 1e-9 is rate 1e-9.
RATES = ["1e-12", "1e-9", "1e-6", "7.6e-5", "7.7e-5", "0.001", "0.039"]
RATES += ["0.0390625", "0.04", "0.1", "1/3", "1", "2", "3", "5", "9"]


@pytest.mark.parametrize("rate", RATES)
def test_follows_its_law(rate):
    exact = Fraction(rate)
    size = 300_000 if exact < 4 else 3_000_000
    noise = two_sided_geometric(exact, size, repeatable_bits())
    rho = float(exact)
    assert fits(discrete_pvalue(noise, cdf(rho)))
    assert rejects(discrete_pvalue(noise, cdf(1.1 * rho)))
    assert rejects(discrete_pvalue(noise, cdf(0.9 * rho)))


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "3"])
def test_add_noise_follows_its_law(epsilon):
    """The whole mechanism, with the system's bits; counts of all sizes, precision 2."""
    counts = np.arange(300_000) % 1000
    noise = add_noise(counts, Guarantee(epsilon, 2)) - counts
    rho = float(epsilon) / 2
    assert fits(discrete_pvalue(noise, cdf(rho)))
    assert rejects(discrete_pvalue(noise, cdf(1.1 * rho)))


def test_the_papers_printed_alpha_is_not_used():
    """Erratum: alpha = exp(-eps/N), not -exp(eps/N) and not exp(eps/N); P(0) = (1-alpha)/(1+alpha)."""
    noise = add_noise(np.zeros(200_000, dtype=int), Guarantee(2, 1))
    share = (noise == 0).mean()
    assert share == pytest.approx(np.tanh(1.0), abs=0.006)  # 0.762, six standard errors
    for printed in (-np.exp(2.0), np.exp(2.0)):
        assert abs((1 - printed) / (1 + printed) - share) > 0.1


@pytest.mark.parametrize("rate", ["15", "20.723265836946411"])
@pytest.mark.parametrize("end", [0, 0xFFFF])
def test_rare_noise_follows_its_law_within_the_end_cells(rate, end):
    """At alpha = 1e-9 noise is zero but for 2e-9. Given that the first 16 bits are all ones (or zeros) it is
    not zero with probability 65536 * alpha/(1+alpha), which can be seen."""
    rho, size = float(rate), 2_000_000
    first, fair = np.full(size, end, dtype=np.uint16).tobytes(), repeatable_bits()
    once = iter([first])
    noise = two_sided_geometric(Fraction(rate), size, lambda count: next(once, None) or fair(count))

    def pvalue(rho):
        return stats.binomtest(
            np.count_nonzero(noise), size, 65536 * np.exp(-rho) / (1 + np.exp(-rho))
        ).pvalue

    assert fits(pvalue(rho))
    assert rejects(pvalue(1.1 * rho))
    assert rejects(pvalue(0.9 * rho))
    assert set(np.sign(noise)) == {0, 1 if end else -1}


@pytest.mark.parametrize("rate", ["0.04", "1", "3", "20.7"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_beyond_the_table_it_goes_on_without_memory(rate, sign, monkeypatch):
    """The outcomes at the ends of a table, forced: beyond them lies a geometric."""
    exact, rho, size = Fraction(rate), float(rate), 200_000 if float(rate) < 5 else 2
    width, _ = geometric._two_sided_table(exact)
    monkeypatch.setattr(
        geometric, "_two_sided_table", lambda _: (width, Forced(np.full(size, sign * width, dtype=np.int16)))
    )
    beyond = sign * two_sided_geometric(exact, size, repeatable_bits()) - width
    assert beyond.min() == 0
    if size > 2:
        assert fits(discrete_pvalue(beyond, geometric_cdf(rho)))
        assert rejects(discrete_pvalue(beyond, geometric_cdf(1.1 * rho)))


@pytest.mark.parametrize("rate", ["1e-12", "0.001", "0.04", "1"])
def test_one_sided_goes_on_beyond_its_table_and_on(rate, monkeypatch):
    """The last digit at the end of its table twice over: 2 * width * scale more than it would have been."""
    plain = geometric._one_sided(Fraction(rate), 1000, repeatable_bits())
    scale = 1
    while not geometric._fits(scale * Fraction(rate)):
        scale *= 512
    width, table = geometric._one_sided_table(scale * Fraction(rate))
    ends = [np.full(1000, width, dtype=np.int16)] * 2
    forced = Forced(*ends, then=table)
    monkeypatch.setattr(geometric, "_one_sided_table", lambda _: (width, forced))
    monkeypatch.setattr(geometric, "check_source", lambda _: None)  # it would use up some of the bits
    beyond = geometric._one_sided(Fraction(rate), 1000, repeatable_bits())
    assert np.array_equal(beyond, plain + 2 * width * scale)


@pytest.mark.parametrize("rate", ["1e-12", "0.01", "1", "1000"])
def test_a_source_that_always_says_beyond_is_refused_before_noise_could_wrap(rate, monkeypatch):
    scale = 1
    while not geometric._fits(scale * Fraction(rate)):
        scale *= 512
    width, _ = geometric._one_sided_table(scale * Fraction(rate))
    assert (geometric._ROUNDS + 1) * scale * (width + 1) < 2**62
    monkeypatch.setattr(geometric, "_ROUNDS", 100)
    always = Forced(np.full(1, width, dtype=np.int16), again=True)
    monkeypatch.setattr(geometric, "_one_sided_table", lambda _: (width, always))
    with pytest.raises(ValueError, match="nothing was released"):
        geometric._one_sided(Fraction(rate), 1, repeatable_bits())


class Forced:
    """A table that gives these outcomes, then those of another one."""

    def __init__(self, *outcomes, then=None, again=False):
        self.outcomes, self.then, self.again = list(outcomes), then, again

    def draw(self, size, source):
        if not self.outcomes:
            return self.then.draw(size, source)
        return (self.outcomes[0] if self.again else self.outcomes.pop(0))[:size]
