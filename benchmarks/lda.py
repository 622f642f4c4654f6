"""tomotopy's LDA on the same plain documents: seconds per iteration."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


def lda_model(counts: Any, n_topics: int) -> Any:
    """A model that holds the documents, ready to train."""
    import tomotopy

    model = tomotopy.LDAModel(k=n_topics, seed=1)
    words = [str(v) for v in range(counts.shape[1])]
    for d in range(counts.shape[0]):
        here = slice(counts.indptr[d], counts.indptr[d + 1])
        tokens = np.repeat(counts.indices[here], counts.data[here])
        if len(tokens):
            model.add_doc([words[v] for v in tokens])
    return model


def seconds_per_iteration(model: Any, workers: int, iterations: int) -> float:
    began = time.perf_counter()
    model.train(iterations, workers=workers)
    return (time.perf_counter() - began) / iterations
