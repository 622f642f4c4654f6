"""The coherence of a topic's words after Mimno et al. (2011)."""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.evaluation.co_occurrence import co_occurrence


def coherence(top_words: Any, counts: Any) -> np.ndarray:
    """The sum over pairs of a topic's words, m after l, of ``log((D(v_m, v_l) + 1) / D(v_l))``.

    ``D(v)`` is the number of documents in which word v occurs, ``D(v, w)`` that in which both do, and words
    come in order of weight (Mimno, Wallach, Talley, Leenders and McCallum, "Optimizing semantic coherence in
    topic models", EMNLP 2011, equation 1). It is a sum, so it depends on how many words are taken: compare
    only values of the same n. Higher is better.

    The formula has no value where ``D(v_l) = 0``: a topic found in noisy counts can be headed by a word that
    the true corpus does not contain. Leaving such a pair out, or taking D as 1, would give it 0, nearly the
    best value there is, and a topic of words that nobody wrote would win. Such a pair therefore counts as the
    lowest value a pair can take among N documents, ``log(1 / N)``. (``npmi`` likewise gives its lowest, -1.)

    Parameters
    ----------
    top_words
        Column indices, shape (topics, n), n at least 2, heaviest first, as ``top_words`` gives them.
    counts
        The reference corpus: documents x words, an array or a scipy.sparse matrix. A word occurs where > 0.

    Returns
    -------
    One value for every topic.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.evaluation import coherence
    >>> counts = np.array([[2, 1, 0], [1, 3, 0], [0, 1, 1], [0, 0, 5]])
    >>> coherence([[0, 1], [2, 0]], counts).round(4)  # log(3/2), log(1/2)
    array([ 0.4055, -0.6931])
    """
    found = co_occurrence(top_words, counts)
    earlier, later = np.triu_indices(found.alone.shape[-1], k=1)
    together = found.together[..., earlier, later]
    alone = found.alone[..., earlier]
    value = np.log(np.where(alone > 0, together + 1, 1)) - np.log(
        np.where(alone > 0, alone, found.n_documents)
    )
    return value.sum(axis=-1)
