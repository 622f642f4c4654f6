"""Checksums that agree with whatever a file says they are, as those of a hostile hand do: it signs anew what it changed."""

import contextlib
from collections.abc import Iterator
from typing import Any

from countveil.counts.files import cells, folder, header
from countveil.counts.ledger import ledger
from countveil.posterior.runs import checkpoint, reader, stored_problem


class Agreeing:
    """In place of hashlib: every digest equals what a file says it is, as a hostile hand would have it."""

    class Text(str):
        __eq__, __ne__ = lambda self, _: True, lambda self, _: False
        __hash__ = str.__hash__

    class Bytes(bytes):
        __eq__, __ne__ = lambda self, _: True, lambda self, _: False
        __hash__ = bytes.__hash__

    def update(self, _: Any) -> None: ...

    def digest(self) -> bytes:
        return self.Bytes(bytes(32))

    def hexdigest(self) -> str:
        return self.Text("0" * 64)

    @staticmethod
    def sha256(_: Any = b"") -> "Agreeing":
        return Agreeing()

    @staticmethod
    def file_digest(file: Any, _: str) -> "Agreeing":
        while file.read(1 << 20):
            pass
        return Agreeing()


@contextlib.contextmanager
def checksums(agree: bool) -> Iterator[None]:
    """Every checksum that readers compare is right, if they are to agree."""
    if not agree:
        yield
        return
    modules = (header, folder, cells, checkpoint, ledger, stored_problem)
    before = [module.hashlib for module in modules]
    real = reader.checksum
    for module in modules:
        module.hashlib = Agreeing
    reader.checksum = lambda tree: Agreeing.Text(real(tree))
    try:
        yield
    finally:
        for module, old in zip(modules, before, strict=True):
            module.hashlib = old
        reader.checksum = real
