"""Whatever comes in: a right result or a named error, never a crash, a hang or a wrong release."""

import hashlib
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import io as scipy_io
from scipy import sparse

from countveil.counts import PrivateCounts, ReleaseFileError, load_release, privatize
from countveil.counts.cells.layout import same_arrays
from countveil.counts.inputs import read_input
from countveil.counts.inputs.count_files import read_count_file
from countveil.counts.inputs.options import InputOptions
from countveil.privacy import Guarantee, add_noise

NAMED = (ValueError, TypeError)
QUICK = settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
LONG = settings(QUICK, derandomize=False, max_examples=1000)


def at_both_lengths(test):
    """The same property, a few examples in the quick stage and many in the long one."""
    return pytest.mark.parametrize("size", ["quick", pytest.param("long", marks=pytest.mark.long)])(test)


def fuzz(size, *strategies):
    return lambda check: (QUICK if size == "quick" else LONG)(given(*strategies)(check))()


def right_or_named(call, named=NAMED):
    """The result, or None after an error of a kind that is meant for people."""
    try:
        return call()
    except named as error:
        told = str(error)
    assert told
    return None


# What may happen to bytes: some are changed, a piece is cut out, another is put in.
changes = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "put"]), st.floats(0, 1), st.binary(min_size=1, max_size=20)),
    min_size=1,
    max_size=5,
)


def changed(data, how):
    data = bytearray(data)
    for kind, where, piece in how:
        at = int(where * len(data))
        if kind == "set":
            data[at : at + len(piece)] = piece
        elif kind == "cut":
            del data[at : at + len(piece)]
        else:
            data[at:at] = piece
    return bytes(data)


RELEASE = PrivateCounts(
    [[3, -2, 0, 7], [0, -1, -5, 0], [1, 300, -4, 2]], guarantee=Guarantee("1/3"), labels=(list("abc"), None)
)


@at_both_lengths
def test_release_files(size):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        RELEASE.save(path)
        whole = path.read_bytes()

        @fuzz(size, changes)
        def _(how):
            path.write_bytes(changed(whole, how))
            loaded = right_or_named(lambda: load_release(path), ReleaseFileError)
            assert loaded is None or same_arrays(loaded._contents, RELEASE._contents)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@at_both_lengths
def test_headers_with_anything_in_them(size, tmp_path):
    """Signed anew, as a hostile hand would: the reader must not rely on the checksum."""
    path = tmp_path / "r"
    RELEASE.save(path)
    with pq.ParquetFile(path) as file:
        cells, header = file.read(), json.loads(file.metadata.metadata[b"countveil"])
    header.pop("sha256")

    @fuzz(
        size, st.dictionaries(st.sampled_from(sorted(header)), values, min_size=1, max_size=2), st.booleans()
    )
    def _(entries, dropped):
        made = {**header, **entries}
        if dropped:
            made.pop(sorted(entries)[0])
        text = json.dumps(made, sort_keys=True, separators=(",", ":"))
        made["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        pq.write_table(cells.replace_schema_metadata({"countveil": json.dumps(made)}), path)
        right_or_named(lambda: load_release(path), ReleaseFileError)


@at_both_lengths
def test_headers_of_folders_with_anything_in_them(size, tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 0)
    release = privatize([[1, 2], [3, 4], [0, 0]], [1, 2, 1], rows=["a", "b", "c"])
    release.save(tmp_path / "r")
    file = tmp_path / "r" / "release.json"
    header = json.loads(file.read_bytes())
    header.pop("sha256")

    @fuzz(
        size, st.dictionaries(st.sampled_from(sorted(header)), values, min_size=1, max_size=2), st.booleans()
    )
    def _(entries, dropped):
        made = {**header, **entries}
        if dropped:
            made.pop(sorted(entries)[0])
        text = json.dumps(made, sort_keys=True, separators=(",", ":"))
        file.write_text(json.dumps({**made, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
        right_or_named(lambda: load_release(tmp_path / "r"), ReleaseFileError)


def matrix_market():
    buffer = io.BytesIO()
    scipy_io.mmwrite(buffer, sparse.coo_array(np.arange(6).reshape(2, 3)))
    return buffer.getvalue()


def parquet():
    buffer = io.BytesIO()
    pq.write_table(pa.table({"r": ["a", "b"], "c": ["x", "y"], "n": [3, 4]}), buffer)
    return buffer.getvalue()


def npz(save, array):
    buffer = io.BytesIO()
    save(buffer, array)
    return buffer.getvalue()


COUNT_FILES = {
    "t.csv": b"r,c,n\na,x,3\nb,y,4\n",
    "t.parquet": parquet(),
    "m.mtx": matrix_market(),
    "s.npz": npz(sparse.save_npz, sparse.csr_array(np.eye(3, dtype=int))),
    "d.npy": npz(np.save, np.eye(3, dtype=int)),
}


@at_both_lengths
@pytest.mark.parametrize("name", COUNT_FILES)
def test_count_files(size, name):
    table = name.startswith("t.")
    labels = {"long": ("r", "c", "n"), "rows": ["a", "b"], "columns": ["x", "y"]}
    options = InputOptions(**labels) if table else InputOptions()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name

        @fuzz(size, changes)
        def _(how):
            data = changed(COUNT_FILES[name], how)
            path.write_bytes(data)
            if name == "m.mtx" and any(len(n) > 6 for n in data.split() if n.isdigit()):
                return  # a shape of billions is no fault, only large
            read = right_or_named(lambda: read_count_file(path, options))
            if read is not None and (table or np.prod(read.shape, dtype=float) < 1e6):
                found = right_or_named(lambda: read_input(read, options))
                assert found is None or min(found.counts.shape) > 0


anything = st.one_of(
    values,
    st.lists(st.lists(st.integers(-2, 2**70), max_size=3), max_size=3),
    st.lists(st.floats(), max_size=4).map(np.array),
    st.lists(st.integers(0, 9), min_size=1, max_size=6).map(np.array),
    st.binary(max_size=4),
    st.fractions(),
    st.decimals(),
    st.complex_numbers(),
)


@at_both_lengths
def test_privatize_on_anything(size):
    @fuzz(size, anything, anything, anything, anything)
    def _(counts, epsilon, precision, labels):
        for options in ({"labels": labels}, {"rows": labels}, {"vocabulary": labels}, {"long": labels}):
            release = right_or_named(
                lambda options=options: privatize(counts, epsilon, precision, **options),
                (*NAMED, FileNotFoundError),
            )
            if release is not None:
                assert np.asarray(counts, dtype=object).size
                assert release.guarantee.epsilon > 0
                assert (release.to_dense() >= 0).all()


@at_both_lengths
def test_other_functions_on_anything(size):
    @fuzz(size, anything, anything, anything)
    def _(one, other, third):
        for call in (
            lambda: Guarantee(one, other, third),
            lambda: Guarantee.for_local_privacy(one, other),
            lambda: Guarantee(1).loss(one),
            lambda: Guarantee(1).compose(one),
            lambda: PrivateCounts(one, alpha=other, labels=third),
            lambda: PrivateCounts(one, rho=other, mask=third),
            lambda: PrivateCounts([[1, 2], [3, 4]], alpha=0.5).hide(one),
            lambda: privatize([[1, 2], [3, 4]], 1).guarantee_for(one),
        ):
            right_or_named(call)


@at_both_lengths
def test_counts_come_back_where_there_is_no_noise(size):
    """At epsilon/precision = 1000 the chance of any noise is exp(-1000): the release is the counts."""
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3)
    kinds = st.sampled_from(["u1", "i4", "u8", "f4", "f8", "?"])

    @fuzz(size, shapes, kinds, st.randoms(use_true_random=False))
    def _(shape, kind, random):
        counts = (
            np.array([random.randrange(200) for _ in range(int(np.prod(shape)))]).reshape(shape).astype(kind)
        )
        assert np.array_equal(privatize(counts, 1000).to_dense(), counts.astype(int))
        if counts.dtype.kind != "f":
            assert np.array_equal(add_noise(counts, Guarantee(1000)), counts.astype(int))
        if len(shape) == 2:
            assert np.array_equal(privatize(sparse.csc_array(counts), 1000).to_dense(), counts.astype(int))
