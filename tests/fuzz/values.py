"""What may happen to bytes, to text and to JSON: damage, extreme numbers, other types, depth and length."""

import json
import re
from random import Random
from typing import Any

# Where counting goes wrong: signs, the ends of every width, what floats cannot hold, and what is no number.
NUMBERS = [
    0,
    -1,
    1,
    2,
    127,
    255,
    2**16,
    2**20,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
]
FLOATS = [0.5, -0.0, 1e308, -1e308, 5e-324]
# Written into the text as they are: JSON's own dump would refuse some and take long over others.
RAW = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "9" * 4000,
    "9" * 100_000,
    "[" * 100_000,
    "[" * 500 + "]" * 500,
    '{"a":' * 2000,
    "1e",
    "00",
    '"\\ud800"',
    "{}",
    "[]",
]
TEXTS = [
    "",
    "x",
    "\0",
    "..",
    "../x",
    "..\\x",
    "C:x",
    "C:\\x",
    "\\\\host\\x",
    "/",
    "/etc/passwd",
    "\u202e",
    "\ud800",
    "a\nb",
    "__class__",
    "None",
    "1e999999999",
    "1/0",
    "1/3",
    "-1",
    "0x1p+9999",
    "nan",
    "x" * 300,
]
_MARK = "@@raw@@"
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def some_number(rng: Random) -> int | float:
    return rng.choice(NUMBERS if rng.random() < 0.8 else FLOATS)


def some_text(rng: Random) -> str:
    """One in five is long."""
    return rng.choice(("x" * 1_000_000, "9" * 5000)) if rng.random() < 0.2 else rng.choice(TEXTS)


# Bytes.


def flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(changed))
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _section(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice((1, 4, 16, 100, len(data))))


def delete(data: bytes, rng: Random) -> bytes:
    start, stop = _section(data, rng)
    return data[:start] + data[stop:]


def repeat(data: bytes, rng: Random) -> bytes:
    start, stop = _section(data, rng)
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 2, 50)) + data[stop:]


def overwrite(data: bytes, rng: Random) -> bytes:
    """A number of 1 to 8 bytes, or noise, over what is there."""
    place, width = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8))
    number = some_number(rng)
    piece = rng.randbytes(width)
    if isinstance(number, int) and rng.random() < 0.8:
        piece = (number & (1 << 8 * width) - 1).to_bytes(width, rng.choice(("little", "big")))
    return data[:place] + piece + data[place + width :]


def splice(data: bytes, rng: Random, donor: bytes) -> bytes:
    """The beginning of one and the end of another."""
    return data[: rng.randrange(len(data) + 1)] + donor[rng.randrange(len(donor) + 1) :]


def renumber(data: bytes, rng: Random) -> bytes:
    """A number that is written in digits becomes another."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return overwrite(data, rng)
    at = rng.choice(found)
    raw = rng.choice(RAW[:6]) if rng.random() < 0.2 else str(some_number(rng))
    return data[: at.start()] + raw.encode() + data[at.end() :]


def damaged(data: bytes, rng: Random, donor: bytes = b"") -> bytes:
    """The bytes after some accident."""
    if not data:
        return donor or b"\0"
    if rng.random() < 0.1:
        return splice(data, rng, donor)
    return rng.choice((flip, flip, cut, delete, repeat, overwrite, overwrite, renumber))(data, rng)


# Text: lines of fields.


def text_changed(data: bytes, rng: Random) -> bytes:
    """Lines and fields that are lost, doubled, very long, or of another kind."""
    kind = rng.randrange(8)
    if kind < 3:
        return renumber(data, rng)
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    if kind == 3:
        lines[at:at] = lines[rng.randrange(len(lines)) :][: rng.choice((1, 5))] * rng.choice((1, 2, 1000))
    elif kind == 4:
        del lines[at]
    else:
        fields = re.split(rb"([,\t ])", lines[at])
        text = some_text(rng).encode("utf-8", "surrogatepass")
        strange = [
            text,
            b'"',
            b'"' + text,
            b"\xff\xfe",
            b"\x00" * 9,
            b"," * rng.choice((1, 1000, 10**5)),
            b"\r",
            b"1e400",
            b"nan",
        ]
        fields[rng.randrange(len(fields))] = rng.choice(strange)
        lines[at] = b"".join(fields)
    return b"\n".join(lines)


# JSON.


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every entry of every container, as the container and the entry's key."""
    found: list[tuple[Any, Any]] = []
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        found.append((value, key))
        found += _places(inner)
    return found


def _packed(text: Any) -> Any:
    """What a text that is JSON itself holds, or None."""
    if isinstance(text, str) and text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return None
    return None


def json_changed(data: bytes, rng: Random) -> bytes:
    """One entry of a JSON text, however deep, also in JSON that a string holds, is another or gone."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return text_changed(data, rng)
    places = _places(value)
    if not places or rng.random() < 0.02:
        return rng.choice(RAW).encode()
    container, key = rng.choice(places)
    inner, raw = _packed(container[key]), None
    kind = rng.randrange(10)
    if inner is not None and rng.random() < 0.8:
        container[key] = json_changed(container[key].encode(), rng).decode("utf-8", "replace")
    elif kind < 4 and isinstance(container[key], int | float):
        container[key] = some_number(rng)
    elif kind < 5:
        container[key], raw = _MARK, rng.choice(RAW)
    elif kind < 6:
        del container[key]
    elif kind < 7:
        container[key] = some_text(rng)
    elif kind < 8:
        container[key] = rng.choice(
            ([], {}, None, True, False, "7", [container[key]], {"a": container[key]}, [container[key]] * 40)
        )
    elif kind < 9:
        other, other_key = rng.choice(places)
        container[key] = (
            json.loads(json.dumps(other[other_key]))
            if other_key in range(len(other)) or (isinstance(other, dict) and other_key in other)
            else None
        )
    elif isinstance(container, dict):
        container[some_text(rng)] = container.pop(key)
    else:
        container.append(container[key])
    made = json.dumps(value, separators=(",", ":"))
    return (made if raw is None else made.replace(json.dumps(_MARK), raw, 1)).encode("utf-8", "surrogatepass")


def json_lines_changed(data: bytes, rng: Random) -> bytes:
    lines = data.split(b"\n")
    if rng.random() < 0.2:
        return text_changed(data, rng)
    at = rng.randrange(len(lines))
    lines[at] = json_changed(lines[at], rng)
    return b"\n".join(lines)
