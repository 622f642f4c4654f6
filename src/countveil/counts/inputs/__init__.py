"""The forms in which people have true counts: recognized, read, checked and named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from countveil.counts.foreign import comes_from
from countveil.counts.inputs.arrays import (
    LabelledCounts,
    SparseCounts,
    TrueCounts,
    check_shape,
    read_true_counts,
)
from countveil.counts.inputs.count_files import SymmetricMatrix, may_be_counts, read_count_file
from countveil.counts.inputs.forms import FORMS, SYMMETRIC
from countveil.counts.inputs.frames import as_table
from countveil.counts.inputs.graphs import GraphCounts, read_graph
from countveil.counts.inputs.labels import origin, read_labels
from countveil.counts.inputs.options import InputOptions
from countveil.counts.inputs.tables import read_table
from countveil.counts.inputs.texts import read_texts


def read_input(counts: Any, options: InputOptions) -> LabelledCounts:
    """Recognize the form of ``counts`` and read it."""
    for name in ("public_labels", "self_loops"):
        if not isinstance(getattr(options, name), bool):
            raise TypeError(f"{name}: expected True or False, got {type(getattr(options, name)).__name__}")
    if options.vocabulary is not None or _is_texts(counts):
        return read_texts(counts, options)
    path = counts
    if isinstance(counts, str | os.PathLike):
        counts = read_count_file(counts, options)
    if comes_from(counts, "networkx", "Graph"):
        return read_graph(counts, options)
    if isinstance(counts, SymmetricMatrix):  # a network without directions: each pair once
        options.expect("a symmetric matrix")
        check_shape(counts.shape, "counts")
        n, values = counts.shape[0], counts.values
        pairs = GraphCounts(n, counts.ends, lambda inside: values[inside], directed=False, loops=True)
        return _with_labels(pairs, SYMMETRIC, options)
    table = as_table(counts)
    if table is not None:
        read = read_table(table, options)
        if _is_text_file(path) and read.form == "wide table" and read.declared[1] == "from the data":
            _check_first_line(read.labels[1])
        return read
    options.expect("an array")
    true = read_true_counts(counts)
    return _with_labels(true, "sparse matrix" if isinstance(true, SparseCounts) else "array", options)


def _with_labels(true: TrueCounts, form: str, options: InputOptions) -> LabelledCounts:
    """Counts whose cells have places but no names of their own."""
    axes, entries = options.declared(len(true.shape))
    names, labels = read_labels(entries, true.shape, axes)
    return LabelledCounts(true, names, labels, form, tuple(map(origin, entries)), str(FORMS[form].stability))


def _is_texts(counts: Any) -> bool:
    if comes_from(counts, "pandas", "Series") or comes_from(counts, "polars", "Series"):
        return _is_texts(counts.to_list())
    return isinstance(counts, list | tuple) and len(counts) > 0 and all(isinstance(c, str) for c in counts)


def _is_text_file(counts: Any) -> bool:
    return isinstance(counts, str | os.PathLike) and Path(counts).suffix.lower() in (".csv", ".tsv")


def _check_first_line(labels: Any) -> None:
    """Refuse one that may be counts, of a file without names of columns: labels are released as they are."""
    if labels is not None and may_be_counts(labels):
        raise ValueError(
            "counts: expected names of columns in the first line, got numbers, which may be counts and would be "
            "released as they are; columns= declares labels that are numbers"
        )
