"""What is promised: limited-precision local privacy, as exact numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from countveil.privacy.sentences import UNITS, adjacency, explanation, sentence

_SMALLEST_RATE = Fraction(1e-12)  # the float, which lies just below the decimal 1e-12
_LARGEST_RATE = Fraction(1000)
_LONGEST = 1000  # digits of a number: to read a million of them, as a stranger's file may have, takes hours
_MOST_BITS = 1600  # of a numerator or a denominator: both, written as digits, are shorter than that


@dataclass(frozen=True, init=False, repr=False)
class Guarantee:
    """Changes of one unit by up to ``precision`` counts are hidden at the odds exp(``epsilon``).

    For versions y, y' of the data that differ in one unit alone, at L1 distance ``d = sum_i abs(y_i - y'_i)``, no
    set of releases is more than exp(loss(d)) times likelier under one than under the other, ``loss(d) = d *
    epsilon/precision``. At ``d <= precision`` this is limited-precision local privacy (Schein et al., ICML 2019);
    two-sided geometric noise gives the line through all d, and no better. A count added or removed is at distance
    1, one replaced by another at distance 2. Two documents of at most n words each lie up to 2n apart, so hiding a
    whole document takes ``precision = 2n`` (the paper says n).

    A guarantee is what its numbers say: the class is final, so that none can state another rate than it has.

    epsilon: > 0; int, Fraction, Decimal, text ("0.1", "1/3"), or float, meaning its exact binary value.
    precision: up to how many counts added or removed are hidden at these odds, >= 1.
    unit: what the counts are of: a "document" (one row), a "cell" (one number) or a "person" (several rows).

    >>> g = Guarantee(epsilon=3, precision=2)
    >>> g.rate, g.loss(4)
    (Fraction(3, 2), Fraction(6, 1))
    >>> round(g.alpha, 3)
    0.223
    >>> print(g)
    Between two versions of the data that differ only by up to 2 counts of one document (one row), added or \
removed, seeing the release shifts nobody's odds by more than a factor of 20.1; if they are replaced by others, \
which is twice as far, by more than 404.
    """

    epsilon: Fraction
    precision: int
    unit: str

    def __init__(
        self, epsilon: int | float | str | Fraction | Decimal, precision: int = 1, unit: str = "document"
    ) -> None:
        exact = _exact(epsilon)
        if exact is None or exact <= 0:
            raise ValueError(f"epsilon: expected a number > 0, got {shown(epsilon)}")
        precision = _whole("precision", precision, 1)
        if precision.bit_length() > _MOST_BITS:
            raise ValueError(
                f"precision: expected a number of counts, got one of more than {_MOST_BITS} bits"
            )
        if unit not in list(UNITS):  # a list: what cannot be hashed is a wrong unit too
            raise ValueError(f"unit: expected 'document', 'cell' or 'person', got {shown(unit)}")
        if not _SMALLEST_RATE <= exact / precision <= _LARGEST_RATE:
            raise ValueError(
                f"epsilon / precision: expected 1e-12 to 1000, got {shown(epsilon)} / {precision}"
            )
        object.__setattr__(self, "epsilon", exact)
        object.__setattr__(self, "precision", precision)
        object.__setattr__(self, "unit", unit)

    def __init_subclass__(cls) -> None:
        raise TypeError(
            "Guarantee: expected no subclasses, got one: it could promise what its noise does not keep"
        )

    @classmethod
    def for_local_privacy(
        cls, epsilon: int | float | str | Fraction | Decimal, max_length: int, unit: str = "document"
    ) -> Guarantee:
        """Hide everything about a unit that holds at most ``max_length`` counts, at the odds exp(epsilon).

        Two documents (or all rows of two persons) of at most n words each share no word at worst and lie
        2n apart, so ``precision = 2 * max_length``; two values of one cell lie n apart. A longer one than
        was said is not wholly hidden: its loss is as ``loss`` says.

        >>> Guarantee.for_local_privacy(1, max_length=50)
        Guarantee(epsilon='1', precision=100, unit='document')
        >>> Guarantee.for_local_privacy(1, max_length=50, unit="cell").precision
        50
        """
        length = _whole("max_length", max_length, 1)
        return cls(epsilon, length if unit == "cell" else 2 * length, unit)

    @property
    def rate(self) -> Fraction:
        """epsilon / precision, exactly: the loss per count."""
        return self.epsilon / self.precision

    @property
    def rho(self) -> float:
        """``rate`` as a float."""
        return float(self.rate)

    @property
    def alpha(self) -> float:
        """exp(-rho), the noise parameter as a float; 0.0 from rho = 746 on."""
        return math.exp(-self.rho)

    def loss(self, distance: int) -> Fraction:
        """The exact privacy loss between two observations ``distance`` apart: distance * epsilon/precision.

        >>> float(Guarantee(epsilon=1, precision=4).loss(2))
        0.5
        """
        return _whole("distance", distance, 0) * self.rate

    def compose(self, other: Guarantee) -> Guarantee:
        """What holds for two releases of the same data: losses add, at this guarantee's precision.

        >>> Guarantee(epsilon=1, precision=2).compose(Guarantee(epsilon=1, precision=4))
        Guarantee(epsilon='3/2', precision=2, unit='document')
        """
        if type(other) is not Guarantee:
            raise TypeError(f"other: expected a Guarantee, got {type(other).__name__}")
        if other.unit != self.unit:
            raise ValueError(f"other: expected a guarantee for one {self.unit}, got one for one {other.unit}")
        return Guarantee(self.precision * (self.rate + other.rate), self.precision, self.unit)

    def __repr__(self) -> str:
        return f"Guarantee(epsilon={str(self.epsilon)!r}, precision={self.precision}, unit={self.unit!r})"

    def __str__(self) -> str:
        return sentence(self.loss, self.precision, self.unit)

    def explain(self) -> str:
        """What is hidden, at which odds, and what is not protected, in plain lines.

        >>> print(Guarantee(1, 10).explain())  # doctest: +ELLIPSIS
        Between two versions of the data that differ only by up to 10 counts of one document ...
        """
        return explanation(self.loss, self.precision, self.unit)

    def to_dict(self) -> dict[str, str]:
        """All that is promised as text, numbers exactly: for records, JSON and other programs.

        >>> for name, said in Guarantee("0.5", 2).to_dict().items():
        ...     print(f"{name}: {said}")
        epsilon: 1/2
        precision: 2
        unit: document
        rate: 1/4
        adjacency: versions of the data that differ only in one document (one row); their distance is the number \
of counts added or removed, a replaced one being one removed and one added
        """
        return {
            "epsilon": str(self.epsilon),
            "precision": str(self.precision),
            "unit": self.unit,
            "rate": str(self.rate),
            "adjacency": adjacency(self.unit),
        }


def shown(value: object, *, numbers: bool = True) -> str:
    """A wrong argument, for an error: names and (some) numbers as they are, of anything else what it is.

    Whoever confuses the order of arguments gives counts where a number should be, and errors show no counts.

    >>> shown("1/0"), shown(-2), shown([[40, 2]]), shown(["from", None])
    ("'1/0'", '-2', 'a list', "['from', None]")
    """
    number = numbers and isinstance(value, (int, float, Fraction, Decimal, np.number))
    names = value if isinstance(value, list | tuple) else [value]
    if not number and not all(isinstance(name, str | None) for name in names):
        return f"a {type(value).__name__}"
    try:
        return repr(value)[:100]
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "one of thousands of digits"


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got {shown(value)}")
    return int(value)


def _exact(value: object) -> Fraction | None:
    """The rational number that ``value`` means, or None."""
    try:
        if isinstance(value, str):
            if len(value) > _LONGEST:
                return None
            value = Fraction(value) if "/" in value else Decimal(value)
        if (
            isinstance(value, Decimal)
            and not max(abs(value.adjusted()), len(value.as_tuple().digits)) < _LONGEST
        ):
            return None  # far out of range, and "1e-999999999" would fill the memory as a fraction
        if isinstance(value, np.integer):
            value = int(value)
        if not isinstance(value, (int, float, Fraction, Decimal, np.floating)) or isinstance(value, bool):
            return None
        found = Fraction(*value.as_integer_ratio())
        # What is written down must be read again: both halves together have fewer digits than the longest text.
        return found if max(abs(found.numerator), found.denominator).bit_length() <= _MOST_BITS else None
    except (ArithmeticError, ValueError):  # not a number as text, infinite, or not a number at all
        return None
