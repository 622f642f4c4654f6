"""docs/proof.md names functions and tests: each of them exists, and every lemma has both."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
LEMMAS = {part.split("\n")[0]: part for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]}


@cache
def defined(path):
    """Functions, classes and methods (as Class.method) of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def missing(text):
    """What a text names and the files do not have."""
    absent = []
    for file, name in NAMED.findall(text):
        path = (ROOT if file.startswith("tests/") else ROOT / "src" / "countveil") / file
        if not path.is_file() or name not in defined(path):
            absent.append(f"{file}::{name}")
    return absent


def test_everything_named_exists():
    assert len(NAMED.findall(PAGE)) > 60
    assert missing(PAGE) == []


def test_this_test_would_see_what_is_missing():
    assert missing(
        "`privacy/law.py::no_such`, `tests/privacy/no_such.py::test_x`, `privacy/law.py::digit`"
    ) == [
        "privacy/law.py::no_such",
        "tests/privacy/no_such.py::test_x",
    ]


@pytest.mark.parametrize("lemma", LEMMAS)
def test_every_lemma_names_its_tests(lemma):
    assert [name for file, name in NAMED.findall(LEMMAS[lemma]) if file.startswith("tests/")]


def test_the_lemmas_are_all_there():
    numbers = [int(found[1]) for title in LEMMAS if (found := re.match(r"Lemma (\d+)\.", title))]
    assert numbers == list(range(1, 11))
    proved = [title for title in LEMMAS if title.startswith("Lemma")]
    assert all(
        any(not file.startswith("tests/") for file, _ in NAMED.findall(LEMMAS[title])) for title in proved
    )


def test_the_page_shows_no_name_without_its_file():
    """A test that is named without its file would not be looked for above."""
    rest = NAMED.sub("", PAGE)
    assert re.findall(r"\btest_\w+", rest) == []
