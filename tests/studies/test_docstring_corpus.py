"""The demo's corpus: as promised on this installation, and in detail on small made-up sources."""

import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from scipy import sparse

from countveil.studies.demo import docstring_corpus as corpus_module
from countveil.studies.demo.docstring_corpus import (
    LEFT_OUT_WORDS,
    choose_documents,
    count_words,
    docstring_corpus,
    public_vocabulary,
)
from countveil.studies.demo.docstrings import docstrings_below

# All that a corpus holds, as one text.
DIGESTED = (
    "repr((c.documents, c.vocabulary, c.counts.data.tolist(), c.counts.indices.tolist(), "
    "c.counts.indptr.tolist()))"
)


@pytest.fixture(scope="module")
def corpus():
    return docstring_corpus()


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


@pytest.mark.long
def test_what_the_demo_gets(corpus):
    counts, documents, vocabulary = corpus
    assert isinstance(counts, sparse.csr_array)
    assert counts.dtype == np.int64
    assert counts.has_canonical_format
    assert counts.shape == (len(documents), len(vocabulary))
    assert 1500 <= len(documents) <= 3000
    assert 1500 <= len(vocabulary) <= 2500
    assert counts.data.min() >= 1
    assert counts.sum(axis=1).min() >= 20
    assert documents == sorted(set(documents))
    assert vocabulary == sorted(set(vocabulary))
    assert {name.split(".")[0] for name in documents} == {"numpy", "scipy"}
    assert not any(".tests." in name for name in documents)
    assert {"array", "distribution", "matrix"} <= set(vocabulary)
    assert not {"the", "with", "parameters"} & set(vocabulary)
    assert all(len(word) >= 3 and word.isalpha() and word == word.lower() for word in vocabulary)


@pytest.mark.long
def test_a_fresh_process_finds_the_same_and_imports_none_of_what_it_reads(corpus):
    program = (
        "import sys\n"
        "from countveil.studies.demo.docstring_corpus import docstring_corpus\n"
        "from hashlib import sha256\n"
        "before = set(sys.modules)\n"
        "c = docstring_corpus()\n"
        "new = set(sys.modules) - before\n"
        "assert not {n for n in new if n.split('.')[0] in ('numpy', 'scipy', 'tkinter', 'idlelib')}, new\n"
        f"print(sha256(({DIGESTED}).encode()).hexdigest())"
    )
    # Another hash seed, so that no order comes from a set of strings by accident.
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == sha256(eval(DIGESTED, {"c": corpus}).encode()).hexdigest()


def test_docstrings_of_modules_classes_functions_and_branches(tmp_path):
    source = '''"""Module."""
class A:
    """Class."""
    def f(self):
        """Method."""
        def inner():
            """Inner."""
    async def g(self): "Async."
try:
    import nothing
except ImportError:
    def h():
        """Fallback \\d."""
else:
    def h():
        """First choice."""
def silent(): pass
x = lambda: "no docstring"
'''
    write(tmp_path, {"__init__.py": '"""Package."""', "sub/mod.py": source})
    assert list(docstrings_below(tmp_path, "pkg")) == [
        ("pkg", "Package."),
        ("pkg.sub.mod", "Module."),
        ("pkg.sub.mod.A", "Class."),
        ("pkg.sub.mod.A.f", "Method."),
        ("pkg.sub.mod.A.f.inner", "Inner."),
        ("pkg.sub.mod.A.g", "Async."),
        ("pkg.sub.mod.h", "First choice."),
        ("pkg.sub.mod.h", "Fallback \\d."),
    ]
    assert next(docstrings_below(tmp_path / "sub"))[0] == "mod"


def test_what_does_not_parse_or_is_a_test_is_passed_over(tmp_path):
    files = {
        "good.py": '"""Good."""',
        "python2.py": 'print "old"',
        "null.py": b"\0",
        "foreign.py": b'"""\xff\xfe"""',
        "latin.py": '# -*- coding: latin-1 -*-\n"""Gut \xe4."""'.encode("latin-1"),
        "data.txt": '"""Text."""',
        "tests/a.py": '"""Test."""',
        "test/a.py": '"""Test."""',
        "site-packages/a.py": '"""Others."""',
        "__pycache__/a.py": '"""Cache."""',
    }
    write(tmp_path, files)
    assert dict(docstrings_below(tmp_path)) == {"good": "Good.", "latin": "Gut ä."}


def test_vocabulary_by_frequency_then_alphabet(tmp_path):
    # Fifty documents: "everywhere" is in all, "often" in five (a tenth: still in), "twice" in one.
    modules = {f"m{i:02}.py": '"""everywhere the"""' for i in range(40)}
    modules |= {f"n{i}.py": '"""everywhere often the"""' for i in range(5)}
    modules |= {f"o{i}.py": '"""everywhere"""' for i in range(2)}
    modules |= {
        "p.py": '"""everywhere Twice twice ab a1 x_yes"""',
        "q.py": '"""everywhere beta alpha"""',
        "r.py": '"""everywhere delta"""',
    }
    write(tmp_path, modules)
    assert public_vocabulary(tmp_path, 10) == ["alpha", "beta", "delta", "often", "twice", "yes"]
    assert public_vocabulary(tmp_path, 3) == ["alpha", "often", "twice"]


def test_counts_by_hand():
    documents = {"b": "Gamma alpha, ALPHA! alphabet", "a": "beta", "c": "nothing known"}
    counts, names, vocabulary = count_words(documents, ["alpha", "beta", "gamma"])
    assert names == ["a", "b", "c"]
    assert counts.toarray().tolist() == [[0, 1, 0], [2, 0, 1], [0, 0, 0]]
    assert vocabulary == ["alpha", "beta", "gamma"]


def test_documents_are_long_enough_and_evenly_spaced():
    documents = {f"d{i:02}": "alpha " * (1 if i % 2 else 3) for i in range(20)}
    everything = count_words(documents, ["alpha"])
    assert choose_documents(everything, 3, 100).documents == [f"d{i:02}" for i in range(0, 20, 2)]
    chosen = choose_documents(everything, 3, 5)
    assert chosen.documents == ["d00", "d04", "d08", "d12", "d16"]
    assert chosen.counts.toarray().tolist() == [[3]] * 5
    with pytest.raises(ValueError, match="min_tokens: expected some document to be this long, got none of 4"):
        choose_documents(everything, 4, 5)


def test_the_left_out_words_could_all_occur():
    assert all(len(word) >= 3 and word.isalpha() and word.islower() for word in LEFT_OUT_WORDS)


@pytest.mark.parametrize("name", ["max_documents", "max_words", "min_tokens"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, None])
def test_faults_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected a whole number of at least 1, got {value}"):
        docstring_corpus(**{name: value})


@pytest.mark.parametrize("files", [{}, {"compiled.pyc": b"\0"}, {"bare.py": "x = 1"}])
def test_a_standard_library_without_source_is_named(tmp_path, monkeypatch, files):
    write(tmp_path, files)
    monkeypatch.setattr(corpus_module.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"standard library: expected source .* got none; some"):
        docstring_corpus()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(corpus_module.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(corpus_module, "public_vocabulary", lambda folder, n: ["alpha"])
    with pytest.raises(ModuleNotFoundError, match="numpy: expected it to be installed"):
        docstring_corpus()
