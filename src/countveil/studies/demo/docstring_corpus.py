"""A real corpus that every installation already has: the docstrings of numpy and scipy.

The demo plays them as private documents. Their vocabulary comes from the standard library's docstrings, which
are public: a vocabulary chosen by looking at the private documents would itself tell something about them.
"""

from __future__ import annotations

import importlib.util
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from countveil.studies.demo.docstrings import docstrings_below

WORD = re.compile(r"[^\W\d_]{3,}")  # runs of three letters or more
LARGEST_SHARE = 0.1  # words in more of the public documents than this say nothing
PRIVATE_PACKAGES = ("numpy", "scipy")

# English words of three letters or more that carry grammar and little else.
_ENGLISH = """
    about above after again against all also although and another any are because been before being
    below between both but can cannot could did does doesn doing don done down during each either else
    etc even every few for from further get gets had has have having her here hers him his how however
    into isn its itself just let may might more most much must neither nor not now off once one only
    onto other others otherwise our ours out over own per rather same shall she should since some such
    than that the their theirs them then there thereby therefore these they this those though through
    thus too two under unless until upon use used uses using very via was wasn well were what whatever
    when where whereas whether which while who whom whose why will with within without won would yet you
    your yours
"""

# What the form of a docstring brings along: headings, types, markup, the first line of every example.
_DOCSTRING = """
    attributes bool default doi example examples false float func http https import int math meth none
    note notes optional org parameter parameters raises ref references return returned returns see str
    true tuple www yields
"""

#: Words that say nothing about what a document is about: a fixed and public list.
LEFT_OUT_WORDS = frozenset((_ENGLISH + _DOCSTRING).split())


class DocstringCorpus(NamedTuple):
    """Documents x words: counts (scipy.sparse csr, int64), and the labels of both axes."""

    counts: sparse.csr_array
    documents: list[str]
    vocabulary: list[str]


def docstring_corpus(
    *, max_documents: int = 3000, max_words: int = 2500, min_tokens: int = 20
) -> DocstringCorpus:
    """Read the corpus from the installed source files; takes a few seconds, and imports nothing.

    A document is the docstring of one module, class or function of numpy or scipy, labelled by its qualified
    name, with at least ``min_tokens`` words of the vocabulary; of more than ``max_documents``, evenly spaced
    ones in the order of their names. The vocabulary is the ``max_words`` most frequent words of the standard
    library's docstrings, in alphabetical order, without English function words, the words that the form of a
    docstring brings along, and words in more than a tenth of those docstrings. The same
    installation always gives the same corpus.

    That a document is long enough to take part is decided on its true text, before any noise: in a release of
    truly private documents this has to be public knowledge already, or every document has to take part.

    Examples
    --------
    >>> from countveil.studies.demo.docstring_corpus import docstring_corpus
    >>> corpus = docstring_corpus(max_documents=50, max_words=200)  # doctest: +SKIP
    >>> corpus.counts.shape  # doctest: +SKIP
    (50, 200)
    """
    for name, value in (
        ("max_documents", max_documents),
        ("max_words", max_words),
        ("min_tokens", min_tokens),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: expected a whole number of at least 1, got {value!r}")
    vocabulary = public_vocabulary(Path(sysconfig.get_path("stdlib")), max_words)
    documents: dict[str, str] = {}
    for package in PRIVATE_PACKAGES:
        for name, text in docstrings_below(_folder_of(package), package):
            documents.setdefault(name, text)
    corpus = count_words(documents, vocabulary)
    return choose_documents(corpus, min_tokens, max_documents)


def public_vocabulary(folder: Path, max_words: int) -> list[str]:
    """The most frequent telling words of the docstrings below a folder, ties by alphabet, alphabetically."""
    tokens: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    n_documents = 0
    for _, text in docstrings_below(folder):
        words = _words(text)
        tokens.update(words)
        documents.update(set(words))
        n_documents += 1
    telling = [
        word
        for word in tokens
        if word not in LEFT_OUT_WORDS and documents[word] <= LARGEST_SHARE * n_documents
    ]
    if not telling:
        raise FileNotFoundError(
            f"standard library: expected source files with docstrings below {folder}, got none; "
            "some distributions ship Python without its source, use one that has it"
        )
    return sorted(sorted(telling, key=lambda word: (-tokens[word], word))[:max_words])


def count_words(documents: dict[str, str], vocabulary: list[str]) -> DocstringCorpus:
    """How often each word of the vocabulary occurs in each document, documents sorted by name."""
    column = {word: index for index, word in enumerate(vocabulary)}
    names = sorted(documents)
    indices: list[int] = []
    starts = [0]
    for name in names:
        indices.extend(column[word] for word in _words(documents[name]) if word in column)
        starts.append(len(indices))
    counts = sparse.csr_array(
        (np.ones(len(indices), dtype=np.int64), np.array(indices, dtype=np.int64), np.array(starts)),
        shape=(len(names), len(vocabulary)),
    )
    counts.sum_duplicates()
    return DocstringCorpus(counts, names, vocabulary)


def choose_documents(corpus: DocstringCorpus, min_tokens: int, max_documents: int) -> DocstringCorpus:
    """Documents of at least ``min_tokens``; if there are more than ``max_documents``, evenly spaced ones."""
    (long_enough,) = np.nonzero(corpus.counts.sum(axis=1) >= min_tokens)
    n = min(len(long_enough), max_documents)
    if n == 0:
        raise ValueError(f"min_tokens: expected some document to be this long, got none of {min_tokens}")
    chosen = long_enough[np.arange(n) * len(long_enough) // n]
    return DocstringCorpus(
        corpus.counts[chosen], [corpus.documents[index] for index in chosen], corpus.vocabulary
    )


def _words(text: str) -> Iterable[str]:
    return WORD.findall(text.lower())


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)  # of a top-level name: finds, and does not import
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package}: expected it to be installed, got no such package")
    return spec.submodule_search_locations[0]
