"""Files of labels: one per line, as a text editor or R writes them."""

from __future__ import annotations

from pathlib import Path


def read_label_file(file: str | None) -> list[str] | None:
    """One label per line; an empty line is no label. None stays None."""
    if file is None:
        return None
    try:
        text = Path(file).read_text(encoding="utf-8-sig")  # universal newlines: \r\n and \r become \n
    except UnicodeDecodeError:
        raise ValueError(f"{file}: expected labels as UTF-8 text, got something else") from None
    return [line for line in text.split("\n") if line]
