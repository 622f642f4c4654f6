"""What a guarantee promises, in words: true of the adjacency they name, and never more privacy than there is."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

Loss = Callable[[int], Fraction]  # the privacy loss between two observations so many counts apart


class Unit(NamedTuple):
    """What an observation is: an example, and what its guarantee does not reach."""

    example: str
    beyond: str


UNITS = {
    "document": Unit(
        "an e-mail", "what several documents of one person show together: that is the unit 'person'"
    ),
    "cell": Unit(
        "one word's count in an e-mail",
        "what several cells of one document show together: that is the unit 'document'",
    ),
    "person": Unit("all their e-mails", "what others write about a person"),
}


def sentence(loss: Loss, precision: int, unit: str) -> str:
    """The promise about any ``precision`` counts of one unit, in one plain sentence."""
    one = precision == 1
    some = "word (or other count)" if one else f"{precision:,} words (or other counts)"
    what = f"{some} of one {unit}, {UNITS[unit].example} say,"
    if loss(precision) > 14:  # exp(14) = 1.2 million
        return (
            f"Hardly anything is hidden: seeing the release may shift the odds on any {what} "
            "by more than a factor of a million."
        )
    return (
        f"Any {what} {'is' if one else 'are'} hidden: seeing the release shifts nobody's odds on "
        f"{'it' if one else 'them'} by more than a factor of {_odds(loss(precision))}, "
        "and on twice as many by more than its square."
    )


def explanation(loss: Loss, precision: int, unit: str) -> str:
    """The same sentence, the odds at other distances, and what is not protected, in plain lines."""
    rows = "\nA person may have several rows: words are counted over all of them together."
    shown = {d: _odds(loss(d)) for d in (precision, 2 * precision, 10 * precision)}
    return f"""{sentence(loss, precision, unit)}{rows if unit == "person" else ""}
Odds on facts that differ in so many words of one {unit} shift by at most these factors:
{chr(10).join(f"  {d:,}: {odds}" for d, odds in shown.items())}
Not protected:
* facts about one {unit} that show in many more words than {precision:,}: the factor grows as above;
* {UNITS[unit].beyond};
* what several releases of the same data show together: their losses add, as compose() says;
* the labels of rows and columns, the shape, the noise level: they are released as they are;
* how long privatizing took, and copies of the true counts elsewhere;
* what is true of many {unit}s at once: showing that is what the release is for."""


def _odds(loss: Fraction) -> str:
    """exp(loss), rounded up: never more privacy than there is."""
    if loss > 40:
        return "more than 10**17, which hides nothing"
    up = Context(prec=30, rounding=ROUND_CEILING)
    odds = up.next_plus(up.exp(up.divide(Decimal(loss.numerator), Decimal(loss.denominator))))
    step = Decimal("0.01") if odds < 10 else Decimal("0.1") if odds < 100 else Decimal(1)
    return f"{odds.quantize(step, context=up):,}"
