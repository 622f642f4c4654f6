"""Where the bits come from."""

from __future__ import annotations

import os
from collections.abc import Callable

Source = Callable[[int], bytes]  # so many fresh, independent, fair bytes


def system_bits(count: int) -> bytes:
    """``count`` bytes from the operating system's cryptographic generator.

    Nothing is buffered here or by any caller: every byte is asked for by the draw that uses it, so a forked
    or copied process has no leftover bytes to use a second time.
    """
    return os.urandom(count)
