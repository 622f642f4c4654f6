"""Thrift's compact protocol, to craft footers and pages that no writer of Parquet writes.

A struct is a list of fields [number, kind, value], written as they are, whatever the protocol says of their numbers.
"""

INT32, INT64, LIST, STRUCT = 5, 6, 9, 12


def parsed(data, at=0):
    """The struct at a place, and where it ends."""
    fields, number = [], 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        value = head & 15 == 1
        if head & 15 > 2:
            value, at = _value(data, at, head & 15)
        fields.append([number, head & 15, value])
    return fields, at + 1


def _value(data, at, kind):
    if kind <= 3:
        return data[at], at + 1
    if kind in (4, INT32, INT64):
        return _signed(data, at)
    if kind == 8:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == LIST:
        head, at = data[at], at + 1
        n = head >> 4
        if n == 15:
            n, at = _varint(data, at)
        found = []
        for _ in range(n):
            one, at = _value(data, at, head & 15)
            found.append(one)
        return (head & 15, found), at
    assert kind == STRUCT
    return parsed(data, at)


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def _signed(data, at):
    number, at = _varint(data, at)
    return number >> 1 ^ -(number & 1), at


def encoded(fields):
    """The bytes of a struct; every field has its number in full."""
    return b"".join(bytes([kind]) + _zigzag(n) + _encoded(kind, value) for n, kind, value in fields) + b"\0"


def _encoded(kind, value):
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value])
    if kind in (4, INT32, INT64):
        return _zigzag(value)
    if kind == 8:
        return _unsigned(len(value)) + value
    if kind == LIST:
        each, values = value
        return bytes([0xF0 | each]) + _unsigned(len(values)) + b"".join(_encoded(each, one) for one in values)
    return encoded(value)


def _unsigned(number):
    digits = []
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _zigzag(number):
    return _unsigned(2 * number if number >= 0 else -2 * number - 1)


def field(fields, number):
    """The field of this number, which can be changed."""
    return next(one for one in fields if one[0] == number)
