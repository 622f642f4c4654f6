"""The documents to benchmark on: real ones from a path, or synthetic ones of the same shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

ROWS, COLUMNS, TOKENS, TOPICS = 10_000, 10_000, 1_508_197, 50


def documents(path: str | None) -> tuple[sparse.csr_array, str]:
    """Counts (documents, words) and what they are."""
    if path is not None:
        counts = sparse.csr_array(sparse.load_npz(path)).astype(np.int64)
        return counts, f"{Path(path).name}: {describe(counts)}"
    counts = synthetic()
    return counts, f"synthetic documents: {describe(counts)}"


def describe(counts: sparse.csr_array) -> str:
    rows, columns = counts.shape
    return f"{rows:,} x {columns:,}, {counts.sum():,} tokens, {counts.nnz:,} non-zero cells, largest {counts.max():,}"


def synthetic(seed: int = 0) -> sparse.csr_array:
    """Topics with heavy-tailed words and documents of uneven length, as text has them."""
    rng = np.random.default_rng(seed)
    popularity = 1 / (np.arange(COLUMNS) + 20.0)
    topics = rng.dirichlet(2000 * popularity / popularity.sum(), TOPICS)
    lengths = rng.multinomial(TOKENS, rng.dirichlet(np.full(ROWS, 1.0)))
    rows, columns = [], []
    for d, length in enumerate(lengths):
        shares = rng.dirichlet(np.full(TOPICS, 0.1))
        for k, n in enumerate(rng.multinomial(length, shares)):
            if n:
                rows.append(np.full(n, d))
                columns.append(rng.choice(COLUMNS, n, p=topics[k]))
    ones = np.ones(TOKENS, dtype=np.int64)
    counts = sparse.coo_array(
        (ones, (np.concatenate(rows), np.concatenate(columns))), (ROWS, COLUMNS)
    ).tocsr()
    counts.sum_duplicates()
    return counts
