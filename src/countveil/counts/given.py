"""True counts in any form people have them, checked and named."""

from __future__ import annotations

import os
from typing import Any

from countveil.counts.count_files import read_count_file
from countveil.counts.form import Form, Given
from countveil.counts.graphs import read_graph
from countveil.counts.labels import read_labels
from countveil.counts.origin import comes_from
from countveil.counts.tables import as_table, read_table
from countveil.counts.texts import read_texts
from countveil.counts.true_counts import read_true_counts


def read_given(counts: Any, form: Form) -> Given:
    """Recognize the form of ``counts`` and read it."""
    for name in ("public_labels", "self_loops"):
        if not isinstance(getattr(form, name), bool):
            raise TypeError(f"{name}: expected True or False, got {type(getattr(form, name)).__name__}")
    if form.vocabulary is not None or _is_texts(counts):
        return read_texts(counts, form)
    if isinstance(counts, str | os.PathLike):
        counts = read_count_file(counts, form)
    if comes_from(counts, "networkx", "Graph"):
        return read_graph(counts, form)
    table = as_table(counts)
    if table is not None:
        return read_table(table, form)
    form.expect("an array")
    true = read_true_counts(counts)
    axes, entries = form.declared(len(true.shape))
    labels = entries if axes is None else dict(zip(axes, entries, strict=True))
    return Given(true, *read_labels(labels, true.shape))


def _is_texts(counts: Any) -> bool:
    if comes_from(counts, "pandas", "Series") or comes_from(counts, "polars", "Series"):
        return _is_texts(counts.to_list())
    return isinstance(counts, list | tuple) and len(counts) > 0 and all(isinstance(c, str) for c in counts)
