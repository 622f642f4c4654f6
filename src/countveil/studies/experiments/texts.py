"""Documents for the studies of topics: from a file, or planted with words as uneven as text has them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.bounded.numpy_files import check_archive
from countveil.counts.inputs.arrays import sparse_rows

#: Of arrays in a file of documents.
_MOST_BYTES = 2**33


def load_documents(options: Mapping[str, Any]) -> dict[str, sparse.csr_array]:
    """``documents`` of a file written by ``scipy.sparse.save_npz``, or planted ones where no path is given.

    ``part`` is a number of documents and one of words: the first ones, and the most frequent in them.
    """
    path = options.get("documents")
    if path is None:
        return {"documents": planted_documents()}
    with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:  # which may be anybody's
        check_archive(archive, _MOST_BYTES)
    counts = sparse_rows(sparse.load_npz(Path(path)), "documents", negative_allowed=False)
    part = options.get("part")
    return {"documents": counts if part is None else part_of(counts, *part)}


def part_of(counts: sparse.csr_array, rows: int, columns: int) -> sparse.csr_array:
    """The first documents, with the words that are most frequent in them, most frequent first.

    >>> part_of(sparse.csr_array([[0, 2, 1], [1, 3, 0], [9, 0, 0]]), 2, 2).toarray()
    array([[2, 0],
           [3, 1]])
    """
    first = counts[:rows]
    often = np.argsort(-np.asarray(first.sum(axis=0)).reshape(-1), kind="stable")
    return sparse.csr_array(first[:, often[:columns]])


def describe_documents(data: Mapping[str, sparse.csr_array]) -> str:
    """One line that tells two corpora apart."""
    counts = data["documents"]
    return f"{counts.shape[0]} documents, {counts.shape[1]} words, {counts.sum()} tokens"


def planted_documents(
    rows: int = 200, columns: int = 240, topics: int = 6, seed: int = 0
) -> sparse.csr_array:
    """Few topics a document, Zipf's law within topics.

    >>> planted_documents().shape
    (200, 240)
    """
    rng = np.random.default_rng(seed)
    popularity = 1 / (np.arange(columns) + 5.0)
    words = rng.dirichlet(0.15 * columns * popularity / popularity.sum(), topics)
    shares = rng.dirichlet(np.full(topics, 0.15), rows)
    lengths = rng.gamma(2.0, 40.0, rows)
    return sparse.csr_array(rng.poisson(lengths[:, None] * (shares @ words)))
