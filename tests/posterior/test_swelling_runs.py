"""Run folders of some kilobytes that zarr would make gigabytes of: refused before zarr sees them."""

import json
import os
import shutil
import struct
import subprocess
import sys

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr

import countveil as cv
from countveil.posterior.runs import schema
from countveil.posterior.runs.checks.chunk import decoded_size
from countveil.posterior.runs.checks.folder import check_folder

ZSTD = numcodecs.Zstd(level=3)
GROUP = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run with one chain: its number 0 is a chunk of zeros, which zarr does not write."""
    path = tmp_path_factory.mktemp("runs") / "run.zarr"
    release = cv.simulate_release(
        [[9, 0, 0], [0, 8, 7]], epsilon=2, seed=1, labels={"letter": ["a", "b"], "word": ["x", "y", "z"]}
    )
    cv.fit(cv.TopicModel(2), release, sweeps=40, chains=1, progress=False, seed=1).save(path)
    assert not list((path / "posterior" / "chain").rglob("c/*"))
    return path


@pytest.fixture
def run(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run.zarr")


@pytest.fixture
def refused(run, monkeypatch):
    """It is refused by these words, and neither xarray nor zarr has opened anything."""
    cv.load_posterior(run)

    def opened(*arguments, **options):
        raise AssertionError("it was opened")

    def check(message):
        with monkeypatch.context() as context:
            for module, name in ((xr, "open_datatree"), (zarr, "open_group"), (zarr, "open_array")):
                context.setattr(module, name, opened)
            with pytest.raises(cv.PosteriorFileError, match=message + ".* which is not opened"):
                cv.load_posterior(run)

    return check


def bomb(run, shape, texts=False, **new):
    """One more array, of one chunk, without its file."""
    place = run / "posterior" / "bomb"
    place.mkdir()
    node = json.loads((run / "posterior" / ("word" if texts else "draw") / "zarr.json").read_text())
    grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
    names = [f"bomb{i}" for i in range(len(shape))]
    node |= {"shape": shape, "chunk_grid": grid, "dimension_names": names}
    (place / "zarr.json").write_text(json.dumps(node | new))
    return place


def chunk(place, content, name="c/0"):
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_bytes(content)


def texts(n, *found):
    return ZSTD.encode(struct.pack("<I", n) + b"".join(struct.pack("<I", len(t)) + t for t in found))


def zeros(n_blocks):
    """A frame of that many runs of 2^17 zeros, 4 bytes each."""
    head = b"\x28\xb5\x2f\xfd\xe0" + (n_blocks << 17).to_bytes(8, "little")
    blocks = [(2**17 << 3 | 2 | (i == n_blocks - 1)).to_bytes(3, "little") + b"\0" for i in range(n_blocks)]
    return head + b"".join(blocks)


def test_an_array_without_dimensions(run, refused):
    """Its only chunk is the file c."""
    place = bomb(run, [])
    chunk(place, ZSTD.encode(bytes(8)), "c")
    check_folder(run)
    chunk(place, ZSTD.encode(bytes(2**20)), "c")
    refused("a chunk of 1048576 bytes where 8 are declared, 'posterior.+bomb'")


def test_chunks_of_another_name(run, refused):
    keys = {"name": "default", "configuration": {"separator": "."}}
    chunk(bomb(run, [1], chunk_key_encoding=keys), ZSTD.encode(bytes(2**20)), "c.0")
    refused(r"'c\.0' beside the chunks of an array, 'posterior.+bomb'")
    (run / "posterior" / "bomb" / "c.0").unlink()
    refused("chunks kept in another way, 'posterior.+bomb'")


@pytest.mark.parametrize("name", ["c", "c/00", "c/-1", "c/x", "c/0/0", "c/\u0661", "d/0"])
def test_files_that_are_no_chunk(run, refused, name):
    place = bomb(run, [1])
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(ZSTD.encode(bytes(8)))
    refused("a file that is no chunk, 'posterior.+bomb|'d' beside the chunks of an array")


@pytest.mark.parametrize(
    "second",
    [ZSTD.encode(bytes(2**20)), b"\x50\x2a\x4d\x18\x01\0\0\0!", b"!", None],
    ids=["frame", "skipped", "byte", "cut"],
)
def test_more_than_one_frame(run, refused, second):
    """Another frame, one that decoders skip, or one byte too many or too few."""
    first = ZSTD.encode(bytes(8))
    chunk(bomb(run, [1]), first[:-1] if second is None else first + second)
    refused("a chunk that is not one whole zstd frame, 'posterior.+bomb'")


def test_blocks_of_nothing(run, refused):
    """Only the last says so: a file of them is walked no further than its size can need."""
    first = ZSTD.encode(bytes(8))
    assert first[4] == 0x20
    chunk(bomb(run, [1]), first[:6] + bytes(3 * 100_000) + first[6:])
    refused("a chunk that is not one whole zstd frame, 'posterior.+bomb'")


@pytest.mark.parametrize(
    ("n", "found"), [(300_000_000, [b""] * 75), (2, [b"a"]), (1, [b"a", b"b"]), (0, []), (2, [])]
)
def test_texts_that_are_not_there(run, refused, n, found):
    place = bomb(run, [2], texts=True)
    chunk(place, texts(2, b"a", b"b"))
    check_folder(run)
    chunk(place, texts(n, *found))
    refused(f"a chunk of {n} texts where 2 are declared, 'posterior.+bomb'")


@pytest.mark.parametrize("fill", ["x", "x" * 100_000, None, ["x"]])
def test_absent_texts(run, refused, fill):
    """What is absent is empty."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [10]}}
    bomb(run, [10_000], texts=True, chunk_grid=grid, fill_value=fill)
    refused("absent cells that stand for something, 'posterior.+bomb'")


def test_absent_numbers(run, refused):
    bomb(run, [4], fill_value=7)
    refused("absent cells that stand for something, 'posterior.+bomb'")


def test_many_groups(run, refused):
    for number in range(1000):
        (run / f"g{number}").mkdir()
        (run / f"g{number}" / "zarr.json").write_text(GROUP)
    refused("more than 300 groups and arrays")


def test_deep_groups(run, refused):
    place = run
    for _ in range(5):
        place = place / "a"
        place.mkdir()
        (place / "zarr.json").write_text(GROUP)
    refused("groups deeper than 4, 'a.+a'")


def test_folders_that_are_nothing(run, refused):
    (run / "posterior" / "a" / "b").mkdir(parents=True)
    refused("a folder that is neither group nor array, 'posterior.+a'")


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes with names in folders")
@pytest.mark.parametrize("place", ["zarr.json", "posterior/zarr.json", "posterior/draw/c/0"])
def test_pipes(run, place, refused):
    """Nobody waits for a pipe, also where it takes the place of a file after it was looked at."""
    (run / place).unlink()
    os.mkfifo(run / place)
    if place == "zarr.json":
        with pytest.raises(cv.PosteriorFileError, match="which is none"):
            cv.load_posterior(run)
    else:
        refused(f"no plain file, '{place}'")
    with pytest.raises(ValueError, match="no plain file, here"):
        decoded_size(run / place, "here")
    (run / place).unlink()
    (run / place).symlink_to("/dev/null")
    with pytest.raises(OSError, match="symbolic links"):
        decoded_size(run / place, "here")


@pytest.mark.parametrize(("level", "checksum"), [(-5, True), (0, True), (0, False), (3, False), (19, True)])
def test_sizes_of_real_frames(tmp_path, level, checksum):
    """Of any number of bytes, however well they compress."""
    rng = np.random.default_rng(1)
    contents = [bytes(n) for n in (1, 255, 256, 257, 65_791, 65_792, 2**20)]
    contents += [rng.bytes(n) for n in (1, 300, 2**17, 2**17 + 1, 2**20)]
    contents += [rng.integers(0, 4, n, dtype="<i8").tobytes() for n in (5, 10_000, 200_000)]
    contents += [rng.gamma(0.1, size=200_000).astype("<f4").tobytes(), bytes(2**18) + rng.bytes(2**18)]
    (tmp_path / "0").write_bytes(zeros(3))
    assert decoded_size(tmp_path / "0", "") == 3 << 17 == len(ZSTD.decode(zeros(3)))
    for content in contents:
        (tmp_path / "0").write_bytes(numcodecs.Zstd(level=level, checksum=checksum).encode(content))
        assert decoded_size(tmp_path / "0", "") == len(content)


@pytest.mark.parametrize("name", ["scale_factor", "add_offset", "missing_value", "_Unsigned", "_FillValue"])
def test_numbers_that_stand_for_others(run, refused, name):
    """xarray would make 8 bytes of each byte."""
    chunk(bomb(run, [4], data_type="int8", attributes={name: 1}), ZSTD.encode(bytes(4)))
    refused("numbers that stand for others, 'posterior.+bomb'")


def test_no_times(run):
    """xarray would make 8 bytes or more of each byte, and of a reference like this one nothing at all."""
    place = bomb(run, [4], data_type="int8", attributes={"units": "days since nobody knows when"})
    chunk(place, ZSTD.encode(bytes(4)))
    with pytest.raises(cv.PosteriorFileError, match="its checksum differs"):
        cv.load_posterior(run)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
@pytest.mark.long  # test_strangers_runs.py has a quick one of the kind
@pytest.mark.parametrize("kind", ["frames", "texts"])
def test_a_small_folder_takes_little_memory(run, kind):
    """1 GB in some kilobytes: refused within 200 MB beyond what imports need."""
    if kind == "frames":
        chunk(bomb(run, [1]), ZSTD.encode(bytes(8)) + zeros(2**13))
    else:
        chunk(bomb(run, [1], texts=True), texts(2**27, b""))
    assert sum(f.stat().st_size for f in run.rglob("*") if f.is_file()) < 100_000
    program = (
        "import countveil as cv, resource, xarray, zarr\n"
        f"def load(path):\n    try:\n        cv.load_posterior(path)\n"
        "    except cv.PosteriorFileError as error:\n        return str(error)\n"
        "load('/dev/null')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"message = load({str(run)!r})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, message)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    taken, message = found.stdout.split(maxsplit=1)
    assert "which is not opened" in message
    assert int(taken) * 1024 < 2e8


def test_arrays_of_no_size_with_long_axes(run, refused):
    bomb(run, [10**15, 0, 1])
    refused("more than 4096 chains")


def test_the_checksum_of_an_empty_array_takes_no_time():
    parts = schema._parts(xr.Variable(("chain", "draw", "row"), np.zeros((1, 10**12, 0))))
    assert list(parts) == [b"<f8"]
