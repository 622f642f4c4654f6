"""The forms in which people have true counts: recognized, read, checked and named."""

from __future__ import annotations

import os
from typing import Any

from countveil.counts.inputs.arrays import LabelledCounts, read_true_counts
from countveil.counts.inputs.count_files import read_count_file
from countveil.counts.inputs.graphs import read_graph
from countveil.counts.inputs.labels import read_labels
from countveil.counts.inputs.options import InputOptions, comes_from
from countveil.counts.inputs.tables import as_table, read_table
from countveil.counts.inputs.texts import read_texts


def read_input(counts: Any, options: InputOptions) -> LabelledCounts:
    """Recognize the form of ``counts`` and read it."""
    for name in ("public_labels", "self_loops"):
        if not isinstance(getattr(options, name), bool):
            raise TypeError(f"{name}: expected True or False, got {type(getattr(options, name)).__name__}")
    if options.vocabulary is not None or _is_texts(counts):
        return read_texts(counts, options)
    if isinstance(counts, str | os.PathLike):
        counts = read_count_file(counts, options)
    if comes_from(counts, "networkx", "Graph"):
        return read_graph(counts, options)
    table = as_table(counts)
    if table is not None:
        return read_table(table, options)
    options.expect("an array")
    true = read_true_counts(counts)
    axes, entries = options.declared(len(true.shape))
    return LabelledCounts(true, *read_labels(entries, true.shape, axes))


def _is_texts(counts: Any) -> bool:
    if comes_from(counts, "pandas", "Series") or comes_from(counts, "polars", "Series"):
        return _is_texts(counts.to_list())
    return isinstance(counts, list | tuple) and len(counts) > 0 and all(isinstance(c, str) for c in counts)
