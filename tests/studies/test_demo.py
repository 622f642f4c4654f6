"""The demo: small here and on this package's own docstrings, whole in the long stage."""

import re
from unittest.mock import patch

import numpy as np
import pytest

import countveil as cv
from countveil.cli import main
from countveil.runtime.compiled import PACKAGE
from countveil.studies.demo.demo import match_topics, run_demo
from countveil.studies.demo.demo_text import demo_text
from countveil.studies.demo.docstring_corpus import choose_documents, count_words, public_vocabulary
from countveil.studies.demo.docstrings import docstrings_below

SMALL = {"max_documents": 80, "max_words": 120}


def small_corpus(max_documents, max_words):
    """In place of the demo's corpus, which takes a while to read, and is read by its own example."""
    documents = dict(docstrings_below(PACKAGE, "countveil"))
    return choose_documents(count_words(documents, public_vocabulary(PACKAGE, max_words)), 5, max_documents)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    said = []
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with patch("countveil.studies.demo.demo.docstring_corpus", small_corpus):
        found = run_demo(folder, **SMALL, n_topics=4, sweeps=20, say=said.append)
    assert len(said) == 6
    assert found.corpus.counts.shape == (80, 120)
    return found


def test_it_writes_the_release_the_run_and_the_picture(result):
    assert sorted(path.name for path in result.folder.iterdir()) == [
        "comparison.png", "demo.txt", "exact.zarr", "release.parquet",
    ]  # fmt: skip
    release = cv.load_release(result.folder / "release.parquet")
    assert release == result.release
    assert not release.simulated
    assert release.guarantee == cv.Guarantee(2, 1)
    assert cv.load_posterior(result.folder / "exact.zarr").release == release


def test_it_compares_three_methods(result):
    assert [method.name for method in result.methods] == ["non-private", "exact", "naive"]
    assert all(len(method.topics) == 4 and len(method.topics[0]) == 10 for method in result.methods)
    assert all(0 <= a <= 1 for affinity in result.affinity.values() for a in affinity)


def test_the_text_says_what_was_found_and_fits_the_screen(result):
    text = demo_text(result)
    assert max(map(len, text.splitlines())) <= 100 or str(result.folder) in text
    assert "shifts nobody's odds by more than a factor of 7.39" in " ".join(text.split())
    for method in result.methods:
        assert re.search(rf"^{method.name} +\d", text, re.MULTILINE)
    for line in ("--epsilon 2", "countveil fit topics release.parquet", "better is"):
        assert line in text


def test_the_verdict_follows_the_scores(result):
    exact, naive = result.methods[1], result.methods[2]
    swapped = result._replace(
        methods=[
            result.methods[0],
            type(exact)("exact", 0.5, -0.9, -0.5, -90.0, exact.topics),
            type(naive)("naive", 0.1, -0.1, 0.5, -9.0, naive.topics),
        ]
    )
    assert "In this run exact is better than naive in none of the four." in demo_text(swapped)
    mixed = swapped._replace(
        methods=[*swapped.methods[:2], type(naive)("naive", 0.9, -0.1, 0.5, -9.0, naive.topics)]
    )
    assert "in 1 of the four: MAE." in demo_text(mixed)


def test_a_private_fit_above_the_yardstick_is_explained(result):
    plain, exact, naive = result.methods
    better = type(exact)("exact", 0.1, -0.1, 0.99, plain.coherence - 1, exact.topics)
    higher = result._replace(methods=[plain, better, naive])
    text = " ".join(demo_text(higher).split())
    assert "above non-private in NPMI does not mean that it knows more" in text
    lower = type(exact)("exact", 0.1, -0.1, plain.npmi - 0.1, plain.coherence - 1, exact.topics)
    assert "does not mean" not in demo_text(result._replace(methods=[plain, lower, naive]))


@pytest.mark.long
def test_a_second_demo_replaces_the_first_and_has_other_noise(result, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("countveil.studies.demo.demo.docstring_corpus", small_corpus)
    words = ["--documents", "80", "--words", "120", "--topics", "4", "--sweeps", "20", "--epsilon", "1/2"]
    for _ in range(2):
        assert main(["demo", "-o", str(tmp_path / "out"), *words]) == 0
    shown, err = capsys.readouterr()
    assert "The guarantee" in shown
    assert err == ""
    release = cv.load_release(tmp_path / "out" / "release.parquet")
    assert release.shape == result.release.shape
    assert release != result.release


@pytest.mark.parametrize("name", ["release.parquet", "exact.zarr", "comparison.png", "demo.txt"])
def test_files_of_the_user_are_not_replaced(name, tmp_path, capsys):
    (tmp_path / name).write_bytes(b"mine")
    assert main(["demo", "-o", str(tmp_path)]) == 2
    assert "--output: expected a new folder, or one of an earlier demo" in capsys.readouterr().err
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"mine")]


def test_a_folder_that_cannot_be_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_topics_are_matched_one_to_one():
    rng = np.random.default_rng(0)
    topics = rng.gamma(0.1, size=(8, 50))
    order = rng.permutation(8)
    matched = match_topics(topics, 7 * topics[order])
    assert np.array_equal(order[matched.order], np.arange(8))
    assert np.allclose(matched.affinity, 1)
    with pytest.raises(ValueError, match=r"other: expected the shape of reference, \(8, 50\), got \(7, 50\)"):
        match_topics(topics, topics[1:])
    with pytest.raises(ValueError, match=r"topics: expected shape \(topics, words\), got \(50,\)"):
        match_topics(topics[0], topics[0])


@pytest.mark.long
def test_the_whole_demo_shows_what_it_is_for(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path / "out")]) == 0
    assert "In this run exact is better than naive in all four." in capsys.readouterr().out
