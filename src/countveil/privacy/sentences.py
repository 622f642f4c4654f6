"""What a guarantee promises, in words: true of the adjacency they name, and never more privacy than there is.

Two versions of the data are d apart if they differ in one unit alone, by d counts added or removed in all. A count
that is replaced by another is one removed and one added, so it lies at distance 2.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

Loss = Callable[[int], Fraction]  # the privacy loss between two versions so many counts apart

# At this loss per count 2**64 cells together have noise anywhere with chance 2**65 * exp(-90) < 2**-64.
_PLAIN = 90


class Unit(NamedTuple):
    """What an observation is: where its counts are, what moves them twice as far, what it is and is not."""

    place: str
    twice: tuple[str, str]  # for one count, for several
    meaning: str
    beyond: str


UNITS = {
    "document": Unit(
        "one row",
        ("replaced by another", "replaced by others"),
        "A row is a document or a line of a table; in a network it is what one person sent, and in a tensor one "
        "entry of the first axis.",
        "what several rows of one person show together: that is the unit 'person'",
    ),
    "cell": Unit(
        "one number",
        ("moved to another cell", "moved to other cells"),
        "A cell is one word's count in a document; in a network it is what one person sent to another, so a pair "
        "that writes both ways has two, and in a network without directions one.",
        "what several cells of one row show together: that is the unit 'document'",
    ),
    "person": Unit(
        "all rows and cells of theirs",
        ("replaced by another", "replaced by others"),
        "A person may have several rows: counts are added up over all of them together; in a network over all "
        "that the person sent and received.",
        "what several persons of one family or group show together",
    ),
}


def adjacency(unit: str) -> str:
    """Between which versions of the data the loss is promised, and how they are measured."""
    replaced = "" if unit == "cell" else ", a replaced one being one removed and one added"
    return (
        f"versions of the data that differ only in one {unit} ({UNITS[unit].place}); "
        f"their distance is the number of counts added or removed{replaced}"
    )


def sentence(loss: Loss, precision: int, unit: str) -> str:
    """The promise about ``precision`` counts of one unit, in one plain sentence."""
    if loss(1) >= _PLAIN:
        return (
            "PLAIN, nothing is protected: in any release of up to 2**64 counts the chance that noise changes a "
            "single one of them is below 2**-64."
        )
    one = precision == 1
    some = "1 count" if one else f"up to {precision:,} counts"
    where = f"{some} of one {unit} ({UNITS[unit].place}), added or removed"
    versions = f"between two versions of the data that differ only by {where}"
    if loss(precision) > 14:  # exp(14) = 1.2 million
        return (
            f"Hardly anything is hidden: {versions}, seeing the release may shift the odds by a factor "
            "of more than a million."
        )
    return (
        f"{versions.capitalize()}, seeing the release shifts nobody's odds by more than a factor of "
        f"{_odds(loss(precision))}; if {'it is' if one else 'they are'} {UNITS[unit].twice[not one]}, which is "
        f"twice as far, by more than {_odds(loss(2 * precision))}."
    )


def explanation(loss: Loss, precision: int, unit: str) -> str:
    """The same sentence, the odds at other distances, and what is not protected, in plain lines."""
    shown = {d: _odds(loss(d)) for d in (precision, 2 * precision, 10 * precision)}
    _, twice, meaning, beyond = UNITS[unit]
    return f"""{sentence(loss, precision, unit)}
{meaning}
If only one {unit} differs, by so many counts added or removed, odds shift by at most these factors:
{chr(10).join(f"  {d:,}: {odds}" for d, odds in shown.items())}
A count {twice[0]} is two counts, one removed and one added. A fact may be many: "did it say vote?" is as many
counts as the word was said.
Not protected:
* facts about one {unit} that show in many more counts than {precision:,}: the factor grows as above;
* {beyond};
* what is in counts that are not the {unit}'s: quotes of a text, answers to it, what others say about a person;
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
