"""Text that keeps to its place in a picture: as many words as fit into so many lines of a width."""

from __future__ import annotations

from collections.abc import Callable, Sequence

ELLIPSIS = "…"


def fitted_lines(
    words: Sequence[str], width_of: Callable[[str], float], width: float, n_lines: int, separator: str = "  "
) -> list[str]:
    """Words set into at most ``n_lines`` lines no wider than ``width``.

    Words that find no room are left out whole, and an ellipsis says so; only a word wider than a line is cut.

    >>> fitted_lines(["alpha", "beta", "gamma", "delta"], len, width=12, n_lines=2)
    ['alpha  beta', 'gamma  delta']
    >>> fitted_lines(["alpha", "beta", "gamma", "delta"], len, width=12, n_lines=1)
    ['alpha  beta…']
    >>> fitted_lines(["alpha", "beta", "gamma", "delta"], len, width=11, n_lines=1)
    ['alpha…']
    >>> fitted_lines(["incomprehensibilities", "beta"], len, width=12, n_lines=2)
    ['incomprehen…', 'beta']
    """
    lines: list[list[str]] = []
    for word in words:
        piece = word if width_of(word) <= width else _cut(word, width_of, width)
        if lines and width_of(separator.join([*lines[-1], piece])) <= width:
            lines[-1].append(piece)
        elif len(lines) < n_lines:
            lines.append([piece])
        else:
            while len(lines[-1]) > 1 and width_of(separator.join(lines[-1]) + ELLIPSIS) > width:
                lines[-1].pop()
            lines[-1] = [_cut(separator.join(lines[-1]), width_of, width)]
            break
    return [separator.join(line) for line in lines]


def _cut(text: str, width_of: Callable[[str], float], width: float) -> str:
    """The text, shortened as far as needed, and an ellipsis."""
    text = text.removesuffix(ELLIPSIS)
    while text and width_of(text + ELLIPSIS) > width:
        text = text[:-1].rstrip()
    return text + ELLIPSIS
