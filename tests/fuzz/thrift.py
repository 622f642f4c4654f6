"""The numbers, lengths and texts in a Parquet footer or page header (Thrift's compact protocol), to be changed."""

from random import Random
from typing import NamedTuple

from fuzz.values import some_number


class Token(NamedTuple):
    """Something that stands in these bytes."""

    start: int
    stop: int
    kind: str  # "number" (zigzag), "text" (its length before it) or "byte" (types, small numbers and lengths)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    return varint((number << 1 ^ number >> 63) & (1 << 64) - 1)


class _Walker:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at, self.tokens = data, at, list[Token]()

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at, value, shift = self.at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    def token(self, start: int, kind: str) -> None:
        self.tokens.append(Token(start, self.at, kind))

    def value(self, kind: int) -> None:
        start = self.at
        if kind in (1, 2, 3):
            self.at += 1
            self.token(start, "byte")
        elif kind in (4, 5, 6):
            self.number()
            self.token(start, "number")
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            self.at += self.number()
            self.token(start, "text")
        elif kind in (9, 10):
            head = self.data[self.at]
            self.at += 1
            self.token(start, "byte")
            n = head >> 4 if head >> 4 < 15 else self.number()
            for _ in range(n):
                self.value(head & 15)
        elif kind == 12:
            self.struct()
        else:
            raise ValueError("not of this protocol")

    def struct(self) -> None:
        while head := self.data[self.at]:
            self.at += 1
            self.token(self.at - 1, "byte")
            if not head >> 4:
                self.number()
            if head & 15 not in (1, 2):
                self.value(head & 15)
        self.at += 1


def tokens(data: bytes, at: int = 0) -> tuple[list[Token], int]:
    """All of the struct that begins there, and where it ends."""
    walker = _Walker(data, at)
    walker.struct()
    return walker.tokens, walker.at


def changed(data: bytes, token: Token, rng: Random, text: bytes | None = None) -> bytes:
    """The bytes with another thing in place of one token."""
    if token.kind == "number":
        number = some_number(rng)
        piece = zigzag(number) if isinstance(number, int) else b"\xff" * 12
    elif token.kind == "byte":
        piece = bytes([rng.randrange(256)])
    else:
        length = rng.choice((0, 2**31, 2**63)) if text is None else len(text)
        piece = varint(length) + (text_of(data, token) if text is None else text)
    return data[: token.start] + piece + data[token.stop :]


def text_of(data: bytes, token: Token) -> bytes:
    walker = _Walker(data, token.start)
    length = walker.number()
    return data[walker.at : walker.at + length]
