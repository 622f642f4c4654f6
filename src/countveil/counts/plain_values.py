"""Plain counts, seen by whoever fits a model: the layout of a release without its noise."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.collect import collect
from countveil.counts.contents import Contents
from countveil.counts.labels import read_labels
from countveil.counts.origin import comes_from
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.released_values import ReleasedValues
from countveil.counts.tables import as_table


def read_plain_values(counts: Any, labels: Any, name: str) -> PrivateCounts:
    """Counts from a numpy array (masked: missing), lists, scipy.sparse or a DataFrame, held like a release.

    Its noise is a placeholder and means nothing. Negative values are refused with a hint: they look like a
    release. ``name`` is the parameter that errors speak of.
    """
    if labels is None and hasattr(counts, "columns") and hasattr(counts, "index"):
        labels = ([str(i) for i in counts.index], [str(c) for c in counts.columns])
    if hasattr(counts, "columns") and hasattr(counts, "to_numpy"):
        counts = _numbers(counts, name)
    if not isinstance(counts, np.ndarray | list | tuple) and not sparse.issparse(counts):
        raise TypeError(
            f"{name}: expected a release, a numpy array, a scipy.sparse matrix or a DataFrame, {_got(counts)}"
        )
    source, rho = ReleasedValues(counts, None, name), np.asarray(1.0)
    axes, names = read_labels(labels, source.shape)
    found = collect(source.blocks(), source.shape, rho, clamped=None, keep_negative=True)
    if found.negative is not None and len(found.negative.columns):
        raise ValueError(
            f"{name}: expected counts >= 0, got negative values; if these are released (noisy) counts, "
            "say so: cv.PrivateCounts(values, alpha=...)"
        )
    return PrivateCounts._from_contents(
        Contents(source.shape, axes, names, rho, *found, guarantee=None, simulated=False)
    )


def _numbers(frame: Any, name: str) -> np.ndarray:
    """The values of a DataFrame. Plain counts are no secret here, so a wrong column is named."""
    values = frame.to_numpy()
    table = as_table(frame)
    if values.dtype.kind in "biuf" or table is None or not table.names:
        return values
    columns = [table.column(place) for place in range(len(table.names))]
    for label, column in zip(table.names, columns, strict=True):
        if column.dtype.kind not in "biuf":
            raise TypeError(
                f"{name}: expected columns of whole numbers, got {label!r} with something else or missing values; "
                "labels of rows belong into the index of a DataFrame, or into labels"
            )
    return np.column_stack(columns)


def _got(thing: Any) -> str:
    if isinstance(thing, str | os.PathLike):
        return f"got a path; load_release({os.fspath(thing)!r}) first"
    got = f"got {type(thing).__name__}"
    if comes_from(thing, "networkx", "Graph"):
        return f"{got}; networkx.to_numpy_array(graph, weight='weight', dtype=int) makes an array of it"
    return got
