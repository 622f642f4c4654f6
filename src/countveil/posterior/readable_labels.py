"""Labels that xarray, pandas and Zarr can hold."""

from __future__ import annotations

import numpy as np


def readable(label: str) -> str:
    r"""The label, with half a character (text that UTF-8 cannot hold) written out.

    A release may have such labels; a fit must not fail over them once the work is done.

    >>> readable("Öl"), readable("\ud800")
    ('Öl', '\\ud800')
    """
    return label.encode("utf-8", "backslashreplace").decode()


def readable_labels(labels: tuple[np.ndarray | None, ...]) -> tuple[np.ndarray | None, ...]:
    """The labels of every axis, readable."""
    return tuple(None if each is None else np.array([readable(t) for t in each], object) for each in labels)
