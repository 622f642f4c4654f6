"""True counts never touch the disk, a log, a message or a traceback: recognisable values through every entry."""

import decimal
import logging
import math
import os
import traceback
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from countveil.auditing import audit
from countveil.cli import main
from countveil.counts import load_release, privatize, privatize_to_file
from countveil.privacy import Guarantee, add_noise
from countveil.sklearn import PrivateTopicModel

SECRET = 987_654_321
DIGITS = str(SECRET)
QUIET = "1e-9"  # noise of about a billion: the secret itself comes out once in two billion cells
BOTH = {"rows": ["a", "b"], "columns": ["x", "y"]}
LONG = {"long": ("r", "c", "n"), **BOTH}


def traces(text):
    """Whether something of the secret shows: its digits, with or without separators."""
    return DIGITS in text.replace(",", "").replace("_", "").replace("'", "")


def told_by(error):
    """All that an error can say, with all errors behind it."""
    told = "".join(traceback.format_exception(error))
    while error is not None:
        told += str(error) + repr(error) + repr(error.args) + str(getattr(error, "__notes__", ""))
        error = error.__cause__ or error.__context__
    return told


def lines(last, **more):
    return {"r": ["a", "b"], "c": ["x", "y"], "n": [SECRET, last], **more}


def quoting(text):
    raise ValueError(f"cannot analyse {text!r}")


FAULTY = {
    "negative": (np.array([[SECRET, -SECRET]]), {}),
    "ragged": ([[SECRET, 1], [2]], {}),
    "text": ([[DIGITS, "x"]], {}),
    "object": (np.array([[SECRET, None]], dtype=object), {}),
    "too large": ([[SECRET * 10**30]], {}),
    "masked": (np.ma.MaskedArray([SECRET], [False]), {}),
    "fraction": (sparse.csr_array([[SECRET + 0.5, 0]]), {}),
    "NaN": (np.array([SECRET, math.nan]), {}),
    "dictionary": ({"a": SECRET}, {}),
    "number": (SECRET, {}),
    "bytes": (DIGITS.encode(), {}),
    "generator": ((n for n in [SECRET]), {}),
    "pandas negative": (pd.DataFrame(lines(-1)), LONG),
    "pandas objects": (pd.DataFrame(lines(None, n=[SECRET, "x"])), LONG),
    "pandas decimals": (pd.DataFrame(lines(0, n=[decimal.Decimal(SECRET), 1])), LONG),
    "pandas missing": (pd.DataFrame(lines(0, n=pd.array([SECRET, None], dtype="Int64"))), LONG),
    "pandas huge": (pd.DataFrame(lines(0, n=[SECRET * 2**24, 1])), LONG),
    "pandas wide": (pd.DataFrame({"x": [SECRET, 1], "y": ["1", "2"]}), {"columns": ["x", "y"]}),
    "pandas undeclared": (pd.DataFrame([[1]], [SECRET], [SECRET]), {}),
    "pandas declared twice": (pd.DataFrame([[SECRET]], ["a"], ["x"]), {**BOTH, "labels": ([], [])}),
    "pandas dates": (pd.DataFrame({"x": pd.to_datetime([SECRET])}), {"columns": ["x"]}),
    "polars fraction": (pl.DataFrame(lines(0, n=[SECRET + 0.5, 1.0])), LONG),
    "polars lists": (pl.DataFrame(lines(0, n=[[SECRET], [1]])), LONG),
    "polars null": (pl.DataFrame(lines(None)), LONG),
    "polars lazy": (pl.LazyFrame(lines(1)), LONG),
    "arrow text": (pa.table(lines(0, n=[DIGITS, "1"])), LONG),
    "arrow structs": (pa.table(lines(0, n=[{"k": SECRET}, {"k": 1}])), LONG),
    "no such column": (pd.DataFrame(lines(1)), {**BOTH, "long": ("r", "c", "m")}),
    "graph text": (nx.Graph([("a", "b", {"weight": DIGITS})]), {"rows": ["a", "b"]}),
    "graph negative": (nx.Graph([("a", "b", {"weight": -SECRET})]), {"rows": ["a", "b"]}),
    "graph huge": (nx.Graph([("a", "b", {"weight": SECRET**9})]), {"rows": ["a", "b"]}),
    "graph nan": (nx.DiGraph([("a", "b", {"weight": math.nan}), ("b", "a", {"weight": SECRET})]), {"rows": "ab"}),
    "graph attribute": (nx.Graph([("a", "b", {DIGITS: SECRET})]), {"rows": ["a", "b"]}),
    "graph part": (nx.Graph([("a", SECRET, {"n": SECRET})]), {"rows": ["a", "b"], "columns": ["b"], "weight": "n"}),
    "graph undeclared": (nx.Graph([(SECRET, "b")]), {}),
    "texts": ([DIGITS, 3], {"vocabulary": ["x"]}),
    "texts undeclared": ([DIGITS], {}),
    "texts analysed": ([DIGITS], {"vocabulary": CountVectorizer(vocabulary=["x"], analyzer=quoting)}),
    "promise": (np.array([[SECRET]]), {"epsilon": -1}),
    "rows": (np.array([[SECRET]]), {"epsilon": [1, 2]}),
    "labels": (np.array([[SECRET]]), {"rows": ["a", "b"]}),
}  # fmt: skip

FAULTY_FILES = {
    "ragged.csv": f"r,c,n\na,x,{SECRET}\nb,y,1,{SECRET}\n",
    "text.csv": f"r,c,n\na,x,{SECRET}\nb,y,{SECRET}x\n",
    "negative.csv": f"r,c,n\na,x,-{SECRET}\n",
    "bytes.csv": b"r,c,n\na,x,987654321\n\xff\xfe,y,987654321\n",
    "empty.csv": "",
    "headless.csv": f"{SECRET},x,1\n{SECRET},y,2\n",
    "ragged.tsv": f"r\tc\tn\na\tx\t{SECRET}\nb\t{SECRET}\n",
    "text.mtx": f"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 x{SECRET}\n",
    "place.mtx": f"%%MatrixMarket matrix coordinate integer general\n2 2 1\n{SECRET} 1 {SECRET}\n",
    "short.mtx": f"%%MatrixMarket matrix coordinate integer general\n2 2 3\n1 1 {SECRET}\n",
    "complex.mtx": f"%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 {SECRET} {SECRET}\n",
    "negative.mtx": f"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 -{SECRET}\n",
    "header.mtx": f"{SECRET}\n",
    "damaged.parquet": f"PAR1{SECRET}PAR1",
    "damaged.npz": f"PK{SECRET}",
    "damaged.npy": f"\x93NUMPY{SECRET}",
    "unknown.xls": f"{SECRET}",
}


@pytest.fixture
def nothing_is_said(caplog, capfd):
    """No log line, no warning, no output mentions the secret."""
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
    said = capfd.readouterr()
    assert not traces(caplog.text + said.out + said.err + "".join(str(w.message) for w in warned))


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_input(name, tmp_path, nothing_is_said):
    counts, options = FAULTY[name]
    options = {"epsilon": QUIET, **options}
    for call in (
        lambda: privatize(counts, **options),
        lambda: privatize_to_file(counts, tmp_path / "r", **options),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert not traces(told_by(caught.value))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", FAULTY_FILES)
def test_faulty_files(name, tmp_path, nothing_is_said, capfd):
    data = FAULTY_FILES[name]
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode("latin1"))
    table = name.endswith(("csv", "tsv", "parquet"))
    with pytest.raises((ValueError, TypeError)) as caught:
        privatize(tmp_path / name, QUIET, **(LONG if table else {}))
    assert not traces(told_by(caught.value))
    (tmp_path / "labels").write_text(
        "a\nb\nx\ny\n"
    )  # all of them: faults outside what is declared stay unsaid
    labels = ["--rows", str(tmp_path / "labels"), "--columns", str(tmp_path / "labels")]
    command = ["privatize", str(tmp_path / name), "-o", str(tmp_path / "r"), "--epsilon", "1", *labels]
    assert main([*command, "--long", "r,c,n"] if table else command) == 2
    said = capfd.readouterr()
    assert said.err.count("\n") == 1
    assert not traces(said.out + said.err)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "labels"])


def test_pickles_in_files_are_refused(tmp_path, nothing_is_said):
    np.save(tmp_path / "o.npy", np.array([SECRET, {}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "o.npz", np.array([SECRET, {}], dtype=object), allow_pickle=True)
    for name in ("o.npy", "o.npz"):
        with pytest.raises(ValueError, match="cannot be read as") as caught:
            privatize(tmp_path / name, QUIET)
        assert not traces(told_by(caught.value))


GOOD = {
    "array": (np.full((2, 2), SECRET), {}),
    "sparse": (sparse.csr_array([[SECRET, 0], [0, SECRET]]), {}),
    "long": (pd.DataFrame(lines(SECRET)), LONG),
    "outside": (pl.DataFrame({"r": ["a", DIGITS], "c": [DIGITS, "y"], "n": [SECRET, SECRET]}), LONG),
    "wide": (pd.DataFrame([[SECRET, SECRET]], pd.Index([SECRET], name="id"), [SECRET, "x"]), BOTH),
    "graph": (nx.Graph([("a", "b", {"weight": SECRET}), ("a", SECRET, {})]), {"rows": ["a", "b"]}),
    "texts": ([f"{DIGITS} xx", "yy"], {"vocabulary": ["xx", "yy"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_input_leaves_no_trace_in_files(name, tmp_path, nothing_is_said, monkeypatch):
    """Not in what is left, and not in what was there on the way."""
    counts, options = GOOD[name]
    seen = b""
    fsync = os.fsync

    def look(descriptor):
        nonlocal seen
        for path in tmp_path.rglob("*"):
            seen += path.read_bytes() if path.is_file() else b""
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    release = privatize(counts, QUIET, **options, keep_negative=True)
    privatize(counts, QUIET, **options).save(tmp_path / "saved")
    privatize_to_file(counts, tmp_path / "streamed", QUIET, **options)
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 0)
    privatize_to_file(counts, tmp_path / "folder", QUIET, **options)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            seen += path.read_bytes() + path.name.encode()
    assert len(seen) > 1000
    for form in (
        DIGITS.encode(),
        *(np.array(SECRET, dtype=t).tobytes() for t in ("<i8", ">i8", "<i4", "<f8")),
    ):
        assert form not in seen
    for made in (release, *(load_release(tmp_path / n) for n in ("saved", "streamed", "folder"))):
        assert not (made.to_dense(missing=0) == SECRET).any()
        assert not traces(repr(made) + str(made.guarantee) + made.guarantee.explain() + str(made.labels))


def test_a_failure_on_the_way_leaves_nothing(tmp_path, monkeypatch, nothing_is_said):
    counts = sparse.csr_array((np.full(3000, SECRET), (range(3000), [0] * 3000)), shape=(3000, 1000))
    calls = 0

    def fail(rows, guarantee):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise MemoryError
        return add_noise(rows, guarantee)

    monkeypatch.setattr("countveil.counts.guarantees.add_noise", fail)
    with pytest.raises(MemoryError) as caught:
        privatize_to_file(counts, tmp_path / "r", QUIET)
    assert not traces(told_by(caught.value))
    assert not list(tmp_path.iterdir())
    calls = 0
    (tmp_path / "c.npz").write_bytes(b"")
    sparse.save_npz(tmp_path / "c.npz", counts)
    assert main(["privatize", str(tmp_path / "c.npz"), "-o", str(tmp_path / "r"), "--epsilon", "1"]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]


def swapped(folder):
    """Calls in which counts stand where something else should."""
    array = np.array([[SECRET, 1], [2, SECRET]])
    nested, frame = array.tolist(), pd.DataFrame(array, index=["a", "b"], columns=["x", "y"])
    model = PrivateTopicModel
    yield from (lambda counts=counts: privatize(1, counts) for counts in (array, nested, array[0], frame))
    yield from (
        lambda counts=counts: privatize(array, counts) for counts in (array, nested, array[0], nested[1])
    )
    yield from (lambda counts=counts: privatize(array, 1, counts) for counts in (array, nested))
    yield lambda: privatize(array, 1, unit=nested)
    yield lambda: privatize(array, 1, ledger=folder / "ledger", dataset=nested)
    yield lambda: privatize(frame, 1, index=nested)
    yield lambda: privatize(frame, 1, index=SECRET, public_labels=True)
    yield lambda: privatize(frame, 1, long=nested[0])
    yield lambda: privatize_to_file(folder / "new.parquet", array, epsilon=1)
    yield lambda: model(array, epsilon=1).fit(array)
    yield lambda: model(2, shape=nested, epsilon=1).fit(array)
    yield lambda: model(2, epsilon=array).fit(array)
    yield lambda: Guarantee(nested)
    yield lambda: Guarantee(1, nested[0])


def test_counts_in_place_of_other_arguments(tmp_path, nothing_is_said):
    for call in swapped(tmp_path):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert not traces(told_by(caught.value))


def test_add_noise_itself(nothing_is_said):
    for bad in ([SECRET, "x"], np.array([SECRET + 0.5]), np.array([DIGITS]), [[SECRET], [1, 2]]):
        with pytest.raises((ValueError, TypeError, OverflowError)) as caught:
            add_noise(bad, Guarantee(1))
        assert not traces(told_by(caught.value))
    with pytest.raises(OverflowError) as caught:
        add_noise([SECRET * 10**30], Guarantee(1))
    assert not traces(told_by(caught.value))


def test_parquet_with_other_types(tmp_path, nothing_is_said):
    pq.write_table(
        pa.table(lines(0, n=[decimal.Decimal(SECRET), decimal.Decimal(1)])), tmp_path / "d.parquet"
    )
    with pytest.raises(TypeError, match="columns of whole numbers") as caught:
        privatize(tmp_path / "d.parquet", QUIET, **LONG)
    assert not traces(told_by(caught.value))


def test_the_audit_never_sees_data():
    assert not traces(str(audit(samples=10_000)))
