"""What one label is called, in whatever type it comes, and what else the same one is called elsewhere.

``label_text`` is the name, ``spellings`` has other names that mean the same, and ``coarse_keys`` find rows that may
be one, however people spell them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Literal

import numpy as np

from countveil.counts.foreign import comes_from

#: Letters of a number that is known by others: more than floats of 64 bits have without a power of ten.
LONGEST_NUMBER = 400
_NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})(e[+-]?\d{1,3})?$", re.ASCII)
# Those that are spaces (tabs, ends of lines) stay spaces.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
# A time of day after a date, and one that says nothing: midnight, no fraction, no offset.
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)t(\d\d:)", re.ASCII)
_MIDNIGHT = re.compile(
    r"(?<=\d\d-\d\d) 00:00(:00)?(\.0+)?(z|[+-]00:?00)?$|(?<=:\d\d)(\.0+)?(z|[+-]00:?00)?$", re.ASCII
)
# Zeros at the end of a fraction of a second, and a duration of whole days.
_ZEROS = re.compile(r"(?<=:\d\d)(\.\d*?[1-9])0+(?=z|[+-]\d|$)", re.ASCII)
_NO_TIME = re.compile(r"(?<=days) \+?00:00:00(\.0+)?$", re.ASCII)
# A time by the clock, to the nanosecond, and where that clock hangs; as coarse keys have it.
_CLOCK = re.compile(
    r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d(?::\d\d)?)(\.\d{1,9})?)? ?"
    r"(z|utc|gmt|([+-])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?)?$",
    re.ASCII,
)
_POWER = re.compile(r"^-?[\d.]+e[+-]?\d+$", re.ASCII)
_FEW_LETTERS, _MOST_MARKS = 300, 30  # of a label that needs no care, and on one letter of another
_WRITTEN = 15  # digits of a float that people may mean
_DAY = re.compile(r"(?<=\d\d-\d\d)[ T]00:00:00(\.0+)?$", re.ASCII)
_EARLIER = re.compile(rf"(?<=\d)\.0$|{_DAY.pattern}", re.ASCII)
_TRUTH = {"true": "1", "false": "0"}
# Letters that are their own in Unicode and others with a stroke to people; signs that some leave out.
_PLAIN = str.maketrans(
    {
        "ł": "l",
        "ø": "o",
        "đ": "d",
        "ħ": "h",
        "\u0131": "i",
        "ŧ": "t",
        "æ": "ae",
        "œ": "oe",
        "ð": "d",
        "þ": "th",
        "—": "-",
    }
    | dict.fromkeys(" \"'`", "")
)
# Nanoseconds in what numpy keeps durations in. Months and years have no such number.
_NANOSECONDS = {
    "W": 604_800_000_000_000,
    "D": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
# What Python and pandas put around the parts of a label where they write it as a text.
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_WRAPPED = re.compile(r"^[\s()\[\]]*(?:np\.\w+|Timestamp|Timedelta|Period|Interval|Decimal)\(")
_AROUND, _DEEPEST = "()[]'\" \t\r\n", 3
_UNSEEN = frozenset("\u115f\u1160\u2800\u3164")  # fillers of Hangul, and Braille without a dot
_DECIMAL = Context(prec=2000)  # of our own: that of other code might round
_QUOTES = str.maketrans(
    {
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "-",
        "\u2013": "-",
        "\u2212": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u02bc": "'",
    }
)


def label_text(label: Any) -> str | None:
    """What a label is called; None for one that is missing.

    >>> label_text(7.0), label_text(np.datetime64("2025-01-02")), label_text(("ann", np.int64(7)))
    ('7', '2025-01-02', "('ann', 7)")
    """
    if isinstance(label, str):
        return str.__str__(label)  # a class of its own may call itself otherwise
    if label is None or type(label).__name__ in ("NAType", "NaTType"):  # first: that of pandas is a time, too
        return None
    if isinstance(label, np.datetime64):
        if np.isnat(label):
            return None
        if _is_finer(label):
            return str(label).replace("T", " ")  # as pandas says it
        label = label.astype("datetime64[us]").item()
    if isinstance(label, datetime):  # a day is called by its date, whatever it was kept as
        return label.isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(label, timedelta | np.timedelta64):
        return _duration(label)
    if isinstance(label, tuple):
        return str(tuple(map(_part, label)))
    if _is_interval(label):
        ends = f"{label_text(label.left)}, {label_text(label.right)}"
        return f"{'(['[label.closed in ('left', 'both')]}{ends}{')]'[label.closed in ('right', 'both')]}"
    if isinstance(label, float | np.floating):
        if label != label:
            return None
        return str(int(label)) if float(label).is_integer() else str(label)
    try:
        if isinstance(label, bytes):
            return label.decode()
        return str(label)
    except Exception:  # whatever it is, it is no label; and no message may tell that it was there
        return None


def _is_interval(label: Any) -> bool:
    """Whether it is one of pandas, whose ends become floats as soon as one in a column is missing."""
    return type(label).__name__ == "Interval" and comes_from(label, "pandas", "Interval")


def _part(label: Any) -> Any:
    """A part of a label of several: a whole number or a text, whatever it was kept as."""
    # A duration is an integer to numpy.
    is_whole = isinstance(label, int | np.integer) and not isinstance(label, bool | np.timedelta64)
    if is_whole or (isinstance(label, float | np.floating) and float(label).is_integer()):
        return int(label)
    return label_text(label)


def _duration(label: timedelta | np.timedelta64) -> str | None:
    """As pandas says it, whatever it was kept as; None if it is missing.

    >>> import datetime
    >>> _duration(np.timedelta64(26, "h")), _duration(datetime.timedelta(milliseconds=-1))
    ('1 days 02:00:00', '-1 days +23:59:59.999000')
    """
    if isinstance(label, timedelta):
        micro = (label.days * 86_400 + label.seconds) * 10**6 + label.microseconds
        nano = micro * 1000 + int(getattr(label, "nanoseconds", 0))  # which those of pandas have
    else:
        unit, step = np.datetime_data(label.dtype)
        if np.isnat(label):
            return None
        if unit not in _NANOSECONDS:
            return str(label)
        nano = int(label.astype(np.int64)) * step * _NANOSECONDS[unit]
    days, rest = divmod(nano, _NANOSECONDS["D"])
    seconds, parts = divmod(rest, _NANOSECONDS["s"])
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{parts:09}" if parts % 1000 else f".{parts // 1000:06}" if parts else ""
    return f"{days} days {'+' * (days < 0)}{clock}{fraction}"


def spellings(label: Any) -> list[str]:
    """What a label is called, and then what else people and files call the same one; none if it is missing.

    >>> spellings(True), spellings(Decimal("7.0")), spellings(float(np.float32(0.1)))
    (['True', '1', 'true', 'TRUE'], ['7.0', '7'], ['0.10000000149011612', '0.1'])
    >>> spellings(10**5), spellings(timedelta(1))
    (['100000', '100000.0', '1e+05', '1e5'], ['1 days 00:00:00', '1 days 00:00:00.000000', '1 days'])
    """
    with suppress(Exception):  # whatever it is, it is no label; and no message may tell that it was there
        text = label_text(label)
        if text is None:
            return []
        others = _others(label, text)
        if not isinstance(
            label, str | tuple
        ):  # longer numbers have one name: coarse keys tell no number of them
            others = [other for other in others if max(len(text), len(other)) <= LONGEST_NUMBER]
        return list(dict.fromkeys([text, *others]))
    return []


def is_rounded(label: Any) -> bool:
    """Whether it is a float so large that not every whole number is one: which was meant is lost.

    >>> is_rounded(2.0**53), is_rounded(2**53), is_rounded(("ann", np.float32(2**24))), is_rounded(float("inf"))
    (True, False, True, False)
    """
    if isinstance(label, tuple):
        return any(map(is_rounded, label))
    if not isinstance(label, float | np.floating):
        return False
    kind = type(label) if isinstance(label, np.floating) else float
    return 2.0 ** (np.finfo(kind).nmant + 1) <= abs(float(label)) < np.inf


def _others(label: Any, text: str) -> list[str]:
    if isinstance(label, str):
        return [] if text.isascii() else [_normalized("NFC", text)]
    if _is_interval(label):
        return [str(label)]
    if isinstance(label, tuple):  # each part by the shortest, without a power of ten
        return [str(tuple(map(_shortest, label)))]
    if isinstance(label, bool | np.bool_):
        return [str(int(label)), text.lower(), text.upper()]
    if isinstance(label, timedelta | np.timedelta64):  # the latter is an integer to numpy
        is_whole = "days" in text and "." not in text  # numpy has months, too
        return [f"{text}.000000", text.removesuffix(" 00:00:00")] if is_whole else []
    is_float = isinstance(label, float | np.floating)
    if isinstance(label, int | np.integer) or (is_float and float(label).is_integer()):
        # The former as files have it where another number is missing.
        return [f"{text}.0", *_powers(Decimal(int(label)))]
    if is_float and isinstance(label, np.floating) and label.dtype.itemsize < 8:
        wide = str(float(label))  # as others write it, who make it longer first
        return [wide, *(form for one in (text, wide) if np.isfinite(label) for form in _powers(Decimal(one)))]
    if is_float:
        # Nobody writes so many digits: 32 bits made them. Fewer might be meant: 37.59375 is not 37.6 to 16 bits.
        came_from_32 = (
            len(text.strip("-0.").replace(".", "")) > _WRITTEN and float(np.float32(label)) == label
        )
        short = str(np.float32(label)) if came_from_32 else text
        return [short, *([] if short in ("inf", "-inf") else _powers(Decimal(short)))]
    if isinstance(label, Decimal) and label.is_finite():
        return [format(label.normalize(_DECIMAL), "f")]
    if isinstance(label, np.datetime64):
        if _is_finer(label):
            return [text.replace(" ", "T")]
        label = label.astype("datetime64[us]").item()
    if isinstance(label, date):
        return _instant(label)
    return []


def _shortest(label: Any) -> str | None:
    known = [_DAY.sub("", name) for name in spellings(label)]
    return min([one for one in known if not _POWER.search(one)] or known, key=len, default=None)


def _powers(number: Decimal) -> list[str]:
    """With and without a power of ten, as R, polars and Python write large, round and small numbers.

    >>> _powers(Decimal("1e-05")), _powers(Decimal(1200000)), _powers(Decimal(100000))
    (['0.00001', '1e-05', '1e-5'], ['1200000'], ['100000', '1e+05', '1e5'])
    """
    fixed = format(number, "f")
    sign, digits, power = number.normalize(_DECIMAL).as_tuple()
    power = int(power) + len(digits) - 1
    head, *rest = map(str, digits)
    short = f"{'-' * sign}{head}{'.' * bool(rest)}{''.join(rest)}e"
    return [fixed, f"{short}{power:+03}", f"{short}{power}"] if len(short) + 3 < len(fixed) else [fixed]


def _instant(label: date) -> list[str]:
    """A day or a time as pandas, polars, numpy, R and ISO 8601 write it, in its own zone and in UTC.

    >>> _instant(date(2025, 1, 2))[:4]
    ['2025-01-02', '2025-01-02 00:00:00', '2025-01-02 00:00:00.000', '2025-01-02 00:00:00.000000']
    >>> _instant(datetime.fromisoformat("2025-01-01 12:00+01:00"))[-1]
    '2025-01-01T11:00:00.000000000Z'
    """
    moment = label if isinstance(label, datetime) else datetime.combine(label, time())
    if moment.tzinfo is None:
        return _by_the_clock(moment)
    here = moment.replace(tzinfo=None)
    zone = moment.isoformat()[len(here.isoformat()) :]
    forms = [form + z for z in (zone, zone.replace(":", "")) for form in _by_the_clock(here)]
    with suppress(
        OverflowError
    ):  # at the ends of time, where a Timestamp goes on into years that nothing reads
        there = moment.astimezone(UTC)
        if MINYEAR <= there.year <= MAXYEAR:
            clock = _by_the_clock(there.replace(tzinfo=None))
            forms += [form + z for z in ("+00:00", "+0000", " UTC", "Z") for form in clock]
    # By the zone, not by its offset on that day: London would be found in winter alone.
    return forms + _by_the_clock(here) if moment.tzname() == "UTC" else forms


def _by_the_clock(moment: datetime) -> list[str]:
    """Without a zone: a day by its date, too, and fractions of a second with as many digits as libraries write."""
    second = [moment.isoformat(sep=sep, timespec="seconds") for sep in " T"]
    nano = getattr(moment, "nanosecond", 0)  # which a Timestamp of pandas may have
    digits = f"{moment.microsecond:06}{nano:03}"
    fractions = [f".{digits[:n]}" for n in (3, 6, 9) if not digits[n:].strip("0")]
    if not digits.strip("0"):
        fractions.insert(0, "")
    day = [moment.date().isoformat()] if digits == "0" * 9 and moment.time() == time() else []
    return day + [form + fraction for form in second for fraction in fractions]


_Widths = tuple[type[np.floating], ...]
_WIDTHS: tuple[_Widths, ...] = ((np.float16, np.float32), (np.float32,))


def _short(number: float, widths: _Widths) -> str:
    """As it was written before one of these widths took it, if it may have; for ledgers, where two may be one.

    >>> _short(0.10000000149011612, (np.float32,)), _short(0.1, (np.float32,)), _short(0.5, (np.float16,))
    ('0.1', '0.1', '0.5')
    """
    with np.errstate(over="ignore"):
        # What 32 bits hold of it, too: of what 16 hold they write more digits, which are not all.
        known = (number, float(np.float32(number))) if np.float16 in widths else (number,)
        exact = [str(kind(one)) for kind in widths for one in known if float(kind(one)) == one]
    return exact[0] if exact else str(number)


def as_now(text: str) -> str:
    """What earlier versions called whole floats and days of plain counts and of groups, as they are called now.

    >>> as_now("7.0"), as_now("2025-01-02 00:00:00")
    ('7', '2025-01-02')
    """
    return _EARLIER.sub("", text)


def spoken(found: np.ndarray) -> np.ndarray:
    """Times, durations and short floats as such: numpy would make other numbers of them."""
    if found.dtype.kind == "m" or (found.dtype.kind == "f" and found.dtype.itemsize < 8):
        return object_array(found)  # floats of 32 bits are written otherwise than those of 64
    if found.dtype.kind != "M":
        return found
    return object_array(found) if np.any(_is_finer(found)) else found.astype("datetime64[us]")


def _is_finer(times: Any) -> Any:
    """Than microseconds, which are all that Python's times have: two of them must not become one."""
    return ~np.isnat(times) & (times.astype("datetime64[us]") != times)


def object_array(things: Iterable[Any]) -> np.ndarray:
    """Labels of any type as one array, as ``LabelIndex.places`` takes them."""
    listed = list(things)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def coarse_key(label: Any) -> str:
    """What spellings of one label have in common: case, accents, spaces, unseen characters, forms of a number.

    >>> [coarse_key(text) for text in ("007", "7.0", " Müller", "MULLER", "2025-01-01 00:00:00")]
    ['7', '7', 'muller', 'muller', '2025-01-01']
    >>> [coarse_key(text) for text in ("('ann', 7)", "('Ann', '7.0')", "1 days 00:00:00", "1 days", "12:00:05.500")]
    ['ann, 7', 'ann, 7', '1 days', '1 days', '12:00:05.5']
    """
    text = str(label)
    if text.startswith("(") and text.endswith(")") and "," in text:  # a label of several parts
        return ", ".join(coarse_key(part.strip().strip("'\"")) for part in text[1:-1].split(","))
    if not text.isascii():
        apart = _normalized("NFKD", text.translate(_QUOTES))
        text = "".join(one for one in apart if not _is_mark(one))
        text = _normalized("NFKC", text.casefold())
    text = " ".join(_CONTROL.sub("", text).split()).casefold()
    text = _MIDNIGHT.sub("", _NO_TIME.sub("", _ZEROS.sub(r"\1", _TIME.sub(r"\1 \2", text))))
    if _NUMBER.match(text):
        number = Decimal(text).normalize(_DECIMAL)
        return format(number if number else Decimal(0), "f")
    return text


def _normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """By Unicode, in linear time: marks on one letter are sorted, and a stranger may put a million on it.

    After 30 of them a joiner begins a new run, as "stream-safe text" has it (UAX 15).
    """
    if len(text) > _FEW_LETTERS:
        pieces, run = [], 0
        for character in text:
            run = run + 1 if unicodedata.combining(character) else 0
            if run > _MOST_MARKS:
                pieces.append("\u034f")
                run = 1
            pieces.append(character)
        text = "".join(pieces)
    return unicodedata.normalize(form, text)


def _is_mark(character: str) -> bool:
    """Whether it only changes how others look, or is not seen at all."""
    if character.isspace():
        return False
    return unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc") or character in _UNSEEN


def coarse_keys(labels: Iterable[Any]) -> set[str]:
    """By which rows that may be one are found: each by what its spellings have in common, and by what it means.

    Several keys and not one, because ledgers that were begun with the first alone go on, and because what 16 bits
    hold 32 hold too, and write otherwise.

    >>> sorted(coarse_keys(["True"])), sorted(coarse_keys(["2025-01-01 12:00:00+01:00"]))
    (['1', 'true'], ['2025-01-01 11:00:00', '2025-01-01 12:00:00+01:00'])
    """
    keys, pieces = set(), set()
    for label in map(str, labels):
        keys.add(coarse_key(label))
        if "," in label:
            pieces.add(tuple(map(coarse_key, _pieces(label))))
    found = set(keys)
    for widths in _WIDTHS:
        found |= {_meaning(key, widths) for key in keys}
        found |= {", ".join(_meaning(one, widths) for one in several) for several in pieces}
    return found


def _pieces(label: str) -> list[str]:
    r"""What stands between the commas of a label, whatever brackets and quotes it stands in, as it was before them.

    >>> _pieces("('north', '(17.5, 30]')"), _pieces(r"('Ann\xa0Smith', np.int64(7))")
    (['north', '17.5', '30'], ['Ann\xa0Smith', '7'])
    """
    if label.startswith("("):
        for _ in range(_DEEPEST):  # parts of parts are quoted again
            plain = _ESCAPED.sub(_unescaped, label)
            if plain == label:
                break
            label = plain
    found = (_WRAPPED.sub("", piece).strip(_AROUND) for piece in label.split(","))
    return [piece for piece in found if not piece.startswith("closed=")]


def _unescaped(found: re.Match[str]) -> str:
    code, letter = found[1] or found[2] or found[3], found[4]
    if code is None:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(letter, letter)
    return chr(min(int(code, 16), 0x10FFFF))


def _meaning(key: str, widths: _Widths) -> str:
    """One key for a truth and its number, a float of these widths, a time in any zone."""
    if ", " in key:
        inner = (
            key[1:-1] if key[0] in "([" and key[-1] in ")]" else key
        )  # an interval, whose ends are numbers
        return ", ".join(_meaning(coarse_key(part), widths) for part in inner.split(", "))
    clock = _CLOCK.match(key)
    if clock is not None:
        with suppress(ValueError):
            return coarse_key(_in_utc(*clock.groups(default="")))
    if "." in key and _NUMBER.match(key):
        return coarse_key(_short(float(key), widths))
    return _TRUTH.get(key, key.translate(_PLAIN))


def _in_utc(day: str, time: str, fraction: str, zone: str, sign: str, *offset: str) -> str:
    """A time in UTC; one without a zone is taken for it.

    >>> _in_utc("2025-01-01", "00:30", ".5", "+01", "+", "01", "", "")
    '2024-12-31 23:30:00.5'
    """
    hours, minutes, seconds = (int(part or 0) for part in offset)
    away = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    there = datetime.fromisoformat(f"{day} {time or '00:00'}")
    try:
        return (there + away if sign == "-" else there - away).isoformat(sep=" ") + fraction
    except OverflowError:  # at the ends of time
        return f"{there.isoformat(sep=' ')}{fraction.rstrip('.0')}{sign}{away}"
