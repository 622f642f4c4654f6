"""The how-to runs as it stands, and optional libraries are loaded only with what comes from them."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import countveil

DOCS = Path(__file__).parents[2] / "docs"


def test_the_how_to_runs():
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, tried = doctest.testfile(str(DOCS / "privatize.md"), module_relative=False, optionflags=flags)
    assert tried > 25
    assert not failed


def test_optional_libraries_are_not_loaded_for_arrays():
    program = """
import sys
import numpy as np
from countveil.counts import privatize
privatize(np.eye(3, dtype=int), 1)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pandas", "polars", "networkx", "sklearn", "pyarrow", "duckdb"} & set(done.stdout.split())


def test_texts_without_scikit_learn_say_what_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        countveil.privatize(["a text"], 1, vocabulary=["text"])
