r"""Text of other people (labels, names of axes), made safe to look at: on a terminal, and in a spreadsheet.

A label may hold anything: a line break that makes one line of a table two, an escape sequence that recolours or
clears the terminal, a mark that turns the order of letters around (U+202E), a character that nobody sees. And
a spreadsheet takes a cell that begins with = for a program. Labels themselves stay as they are, in releases, runs
and DataFrames: both functions here are for the last step, where people look.
"""

from __future__ import annotations

import re
import unicodedata

# Neither control nor format characters by their category, and yet nothing to see: the fillers of Hangul, and the
# joiner of marks.
_BLANK = frozenset("\u034f\u115f\u1160\u3164\uffa0")
# These two change how letters join, inside ordinary words of Persian, Hindi, Sinhala or Khmer. They stay between
# two characters of the blocks from Arabic to Myanmar and of Khmer and Mongolian; anywhere else they only hide.
_JOINERS = "\u200c\u200d"
_JOINED = "[\u0600-\u109f\u1780-\u18af]"
_IN_A_WORD = re.compile(f"(?<={_JOINED})[{_JOINERS}](?={_JOINED})")

_MOST_IN_A_LINE = 100
_SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and full-width, read alike by some
# Where a spreadsheet may begin a new cell inside a cell. Not at a comma: what holds one is written in quotes.
_BREAKS = re.compile("([;\t\r\n])")


def visible(text: object) -> str:
    r"""The text with all that is not seen, or moves what is seen, written out as in Python's strings.

    That is: control characters, line and paragraph separators, marks of direction and other format characters,
    halves of a character, private and unassigned ones. Letters and marks of all scripts, digits, symbols and
    spaces stay.

    >>> print(visible("two\nlines"), visible("\x1b[31mred"), visible("a\u202eb"), visible("Öl 木 क्ष"))
    two\nlines \x1b[31mred a\u202eb Öl 木 क्ष
    """
    text = str(text)
    if text.isascii() and text.isprintable():  # nearly all
        return text
    kept = {found.start() for found in _IN_A_WORD.finditer(text)}
    return "".join(
        one if place in kept or _is_seen(one) else one.encode("unicode_escape").decode()
        for place, one in enumerate(text)
    )


def short_label(label: object) -> str:
    r"""A label among others in a line, visible, and no more than its first 100 letters.

    A label may have 2,000, and each may take ten to be written out: a table of some topics would be megabytes.

    >>> print(short_label("two\nlines"), len(short_label("a" * 2_000)), short_label("a" * 101)[-3:])
    two\nlines 101 aa…
    """
    text = str(label)
    return visible(text if len(text) <= _MOST_IN_A_LINE else f"{text[:_MOST_IN_A_LINE]}…")


def _is_seen(character: str) -> bool:
    # Python's "printable" leaves out the categories Cc, Cf, Cs, Co, Cn, Zl, Zp, and all spaces but one.
    return character not in _BLANK and (character.isprintable() or unicodedata.category(character) == "Zs")


def defused(text: str) -> str:
    r"""The text of a CSV cell, with an apostrophe before what a spreadsheet would run as a formula.

    So OWASP advises ("CSV injection") for cells that begin with = + - @, a tab or a line break. Here also where
    spaces or unseen characters come first, for the full-width signs, and behind a semicolon inside the cell:
    that is where spreadsheets of many countries split lines.

    >>> [defused(cell) for cell in ("=1+1", " @sum", "a;=1", "plain", "a-b")]
    ["'=1+1", "' @sum", "a;'=1", 'plain', 'a-b']
    """
    # Each once: a stranger's label may have millions, and each that is stripped is looked for among them.
    unseen = "".join({one for one in text if one.isspace() or not one.isprintable()})
    parts = _BREAKS.split(text)
    safe = "".join(f"'{part}" if part.lstrip(unseen).startswith(_SIGNS) else part for part in parts)
    return f"'{safe}" if safe.startswith(("\t", "\r", "\n")) else safe
