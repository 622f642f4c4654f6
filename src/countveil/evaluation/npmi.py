"""Normalized pointwise mutual information of a topic's words."""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.evaluation.co_occurrence import co_occurrence


def npmi(top_words: Any, counts: Any) -> np.ndarray:
    """The mean over pairs of a topic's words of ``log(p_ij / (p_i * p_j)) / -log(p_ij)``.

    ``p_i`` is the share of documents in which word i occurs, ``p_ij`` that in which both do (Bouma, 2009; for
    topics Lau, Newman and Baldwin, 2014). A pair that never occurs together has -1, so a word that occurs in
    no document has -1 with every other; independent words have 0; words that only occur together have 1, also
    when they occur in every document (``p_ij = 1``). No constant is added to the frequencies, as some
    libraries do and disagree about.

    Parameters
    ----------
    top_words
        Column indices, shape (topics, n), n at least 2, as ``top_words`` gives them.
    counts
        The reference corpus: documents x words, an array or a scipy.sparse matrix. A word occurs where > 0.

    Returns
    -------
    One value from -1 to 1 for every topic.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.evaluation import npmi
    >>> counts = np.array([[2, 1, 0], [1, 3, 0], [0, 0, 1], [0, 0, 5]])
    >>> npmi([[0, 1], [0, 2]], counts)
    array([ 1., -1.])
    """
    found = co_occurrence(top_words, counts)
    n = found.alone.shape[-1]
    first, second = np.triu_indices(n, k=1)
    both = found.together[..., first, second]
    log_total = np.log(found.n_documents)
    # Pairs without a value of their own get a harmless frequency here and their value below.
    usual = (both > 0) & (both < found.n_documents)
    log_both = np.log(np.where(usual, both, 1))
    log_apart = np.log(np.where(usual, found.alone[..., first], 1)) + np.log(
        np.where(usual, found.alone[..., second], 1)
    )
    below = np.where(usual, log_total - log_both, 1.0)
    value = np.where(usual, (log_both + log_total - log_apart) / below, np.where(both > 0, 1.0, -1.0))
    return value.mean(axis=-1)
