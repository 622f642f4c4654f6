"""Releases at addresses: read as those on disk are, by the bytes that are needed, and refused like them."""

from pathlib import Path

import numpy as np
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import countveil as cv
from countveil.counts import ReleaseFileError, places
from countveil.counts.files import cells, folder, opened, release
from countveil.counts.files.header import read_header, sign_header
from countveil.counts.files.rows import read_rows
from countveil.counts.places import check_address, place_of, scheme_of
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.counts.remote import NotReachedError
from fake_remote import BUCKET, remote_of
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
NOISY = RNG.integers(-2, 5, (40, 6))
LABELS = ([f"r{i}" for i in range(40)], [f"w{i}" for i in range(6)])
KINDS = {
    "plain release": {"rho": 1.0},
    "missing": {"rho": np.linspace(0.5, 2.0, 40), "mask": RNG.random(NOISY.shape) < 0.2},
    "mostly missing": {"rho": 1.0, "mask": RNG.random(NOISY.shape) < 0.8},
}
CUTS = [(0, 1), (13, 29), (39, 40)]


@pytest.fixture
def remote(tmp_path, monkeypatch):
    return remote_of(tmp_path, monkeypatch)


def in_parts(monkeypatch, many):
    """Several row groups, and as a folder several parts."""
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 40)
    monkeypatch.setattr(release, "LABELS_IN_ONE_FILE", 10 if many else 1000)


def saved(tmp_path, **more):
    cv.PrivateCounts(NOISY, labels=LABELS, **(more or {"rho": 1.0})).save(tmp_path / "release")
    return f"{BUCKET}/release"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True], ids=["one file", "a folder"])
def test_what_is_read_there_is_what_is_read_here(kind, many, remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, many)
    address = saved(tmp_path, **KINDS[kind])
    here = cv.load_release(tmp_path / "release")
    assert (tmp_path / "release").is_dir() == many
    for found in (cv.load_release(address), cv.load_release(f"{address}/"), ReleaseOnDisk(address).read()):
        assert found == here
        assert [one.tolist() for one in found.labels] == list(LABELS)
        assert found.nonpositive.total.tolist() == here.nonpositive.total.tolist()
    assert cv.load_release(address, scratch=tmp_path) == here
    for cut in CUTS:
        parts = [
            PrivateCounts._from_contents(read_rows(where, *cut)) for where in (address, tmp_path / "release")
        ]
        assert parts[0] == parts[1]
    assert remote.requests


@pytest.mark.parametrize("many", [False, True], ids=["one file", "a folder"])
def test_each_rows_own_guarantee(many, remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, many)
    given = cv.privatize(
        np.abs(NOISY), epsilon=np.linspace(1, 3, 40).round(2), rows=LABELS[0], public_labels=True
    )
    given.save(tmp_path / "release")
    found = cv.load_release(f"{BUCKET}/release")
    assert found == given
    assert found.row_guarantees == given.row_guarantees
    assert found.records == given.records


def test_releases_from_before_there_were_pieces_or_that_were_replaced(remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address, path = saved(tmp_path), tmp_path / "release"
    cv.PrivateCounts(NOISY[::-1], rho=1.0, labels=LABELS).save(path, overwrite=True)
    assert (path / "generation-2").is_dir()
    assert cv.load_release(address) == cv.load_release(path)
    header = read_header((path / "release.json").read_bytes())
    header.pop("pieces")
    (path / "release.json").write_bytes(sign_header(header))
    rows = PrivateCounts._from_contents(read_rows(address, 13, 29))
    assert rows == PrivateCounts._from_contents(read_rows(path, 13, 29))


@pytest.fixture
def large(remote, tmp_path, monkeypatch):
    """About 20 pieces of 20,000 cells, which do not pack well."""
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20_000)
    path = tmp_path / "large.parquet"
    whole = cv.PrivateCounts(np.random.default_rng(SEED).integers(-400, 600, (700, 1000)), rho=1.0)
    whole.save(path)
    return f"{BUCKET}/large.parquet", path


def test_only_the_pieces_that_hold_the_rows_are_fetched(large, remote):
    address, path = large
    size = path.stat().st_size
    assert size > 600_000
    for start, stop in ((0, 30), (340, 370), (670, 700)):
        remote.requests.clear()
        read_rows(address, start, stop, named=False)
        # The end of the file twice (what it says; where its groups are), and of the rest three pieces at most.
        assert remote.fetched() < 2 * 2**16 + size * 3 / 20 + 2000
        assert len(remote.requests) <= 2 + 3


def test_all_of_it_is_fetched_once(large, remote):
    address, path = large
    assert cv.load_release(address) == cv.load_release(path)
    assert remote.fetched() < path.stat().st_size + 3 * 2**16
    assert len(remote.requests) < 30  # a request for each group, not one for each page


def test_parts_of_other_rows_are_not_opened(remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address = saved(tmp_path)
    *_, last = sorted((tmp_path / "release" / "generation-1" / "cells").iterdir())
    read_rows(address, 0, 5, named=False)
    names = [name.rpartition("/")[2] for name, _, _ in remote.requests]
    assert names == [
        "release.json",
        "part-00000.parquet",
        last.name,
    ]  # which must be empty; all by one request


def damaged(path, at, byte=None):
    content = bytearray(path.read_bytes())
    if byte is None:
        path.write_bytes(content[:at])
    else:
        content[at] ^= byte
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "at", "byte"),
    [
        ("release.json", 60, 1),
        ("release.json", 100, None),
        ("generation-1/rows.parquet", 50, 1),
        ("generation-1/rows.parquet", -20, None),
        ("generation-1/cells/part-00001.parquet", 60, 255),
        ("generation-1/cells/part-00001.parquet", -1, None),
        ("generation-1/cells/part-00001.parquet", 0, None),
    ],
)
def test_damage_is_noticed_and_the_address_named(name, at, byte, remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address = saved(tmp_path)
    damaged(tmp_path / "release" / name, at, byte)
    for read in (cv.load_release, read_rows):
        with pytest.raises(ReleaseFileError, match=f"^{address}: "):
            read(address)


def test_a_single_file_that_is_damaged(remote, tmp_path):
    address, path = saved(tmp_path), tmp_path / "release"
    whole = path.read_bytes()
    for at in range(4, len(whole) - 1, 97):
        path.write_bytes(whole[:at])
        with pytest.raises(ReleaseFileError, match=f"^{address}: "):
            cv.load_release(address)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            found = cv.load_release(address)
        except ReleaseFileError:
            continue
        assert found.to_dense().tolist() == np.maximum(NOISY, 0).tolist()  # nothing that says anything
    path.write_bytes(b"row,column\n")
    with pytest.raises(
        ReleaseFileError, match=f"^{address}: expected a release file, got something not Parq"
    ):
        cv.load_release(address)


def test_a_part_that_is_not_there_or_one_too_many(remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address, place = saved(tmp_path), tmp_path / "release" / "generation-1" / "cells"
    (place / "more").write_bytes(b"")
    with pytest.raises(ReleaseFileError, match=f"^{address}: .*parts in cells, got others beside them"):
        cv.load_release(address)
    (place / "more").rename(tmp_path / "more")
    (place / "part-00001.parquet").unlink()
    with pytest.raises(ReleaseFileError, match=r"parts in cells, got no part-00001\.parquet"):
        cv.load_release(address)


def test_groups_that_are_all_the_same_bytes_are_not_fetched_again_and_again(large, remote, monkeypatch):
    address, path = large
    monkeypatch.setattr(
        "countveil.counts.bounded.pages.Pages.place", lambda *_: (4, path.stat().st_size // 2)
    )
    with pytest.raises(ReleaseFileError, match="pages that lie apart"):
        cv.load_release(address)


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"LARGEST_GROUP": 10_000}, "groups of rows of at most 10,000 bytes"),
        ({"AT_LEAST": 200_000, "PER_BYTE": 0}, "fewer bytes of cells in a file of"),
    ],
)
def test_pages_are_looked_at_before_they_are_unpacked(limits, what, large, remote, monkeypatch):
    for name, value in limits.items():
        monkeypatch.setattr(opened, name, value)
    for read in (cv.load_release, read_rows):
        remote.requests.clear()
        with pytest.raises(ReleaseFileError, match=f"^{large[0]}: .*{what}"):
            read(large[0])
        assert remote.fetched() < large[1].stat().st_size / 2 + 3 * 2**16  # the rest is not even fetched


def test_sizes_are_those_that_the_filesystem_tells(remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address, path = saved(tmp_path), tmp_path / "release"
    assert ReleaseOnDisk(address).n_bytes == ReleaseOnDisk(path).n_bytes
    monkeypatch.setattr(folder, "LARGEST_HEADER", 100)
    with pytest.raises(ReleaseFileError, match=r"expected at most 100 bytes in release\.json, got more"):
        read_rows(address)
    assert not remote.fetched("part")


def test_what_the_filesystem_refuses_is_said_with_the_address(remote, tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address = saved(tmp_path)
    for read in (cv.load_release, ReleaseOnDisk):
        with pytest.raises(FileNotFoundError, match="s3://bucket/nothing"):
            read(f"{BUCKET}/nothing")
    broken = OSError("AWS Error NETWORK_CONNECTION\nand a hundred lines more")
    for failing in ("release", "rows.parquet", "part-00001"):
        for error in (broken, PermissionError("no access")):
            remote.failing = failing, error
            for read in (cv.load_release, read_rows):
                with pytest.raises(
                    NotReachedError, match=rf"^{address}.*: cannot be read: [^\n]*$"
                ) as raised:
                    read(address)
                assert "damaged" not in str(raised.value)


SECRET = [
    "s3://key:hush@bucket/a",
    "s3://hush@bucket/a",
    "s3://key:hu/hush@bucket/a",
    "s3://key:1/hush@bucket/a",
    "s3://bucket/a?secret_key=hush",
    "s3://bucket/a?region=eu&access_key=k&secret_key=hush",
    "s3://bucket/a?endpoint_override=http://user:hush@host",
    "hdfs://user:hush@host:9000/a",
    "hdfs://user%3Ahush@host/a",
    "abfs://container:hush@account.dfs.core.windows.net/a",
    "abfs://host/a?client_secret=hush",
    "https://host/a?X-Amz-Signature=hush",
    "gs://hush@bucket/a",
    "simplecache::s3://key:hush@bucket/a",
    "s3:///key:hush@bucket/a",
    "s3://bucket/a?region=a;secret_key=hush",
]


@pytest.mark.parametrize("address", SECRET)
def test_credentials_are_refused_and_not_shown(address, tmp_path, monkeypatch):
    monkeypatch.setattr(places, "open_filesystem", lambda _: pytest.fail("it was looked for"))
    model = cv.TopicModel(2)
    for use in (
        cv.load_release,
        ReleaseOnDisk,
        read_rows,
        lambda a: cv.load_release(a, scratch=tmp_path),
        lambda a: cv.fit(model, a, scratch=tmp_path, progress=False),
        lambda a: cv.fit(model, a, progress=False),
        lambda a: cv.fit(model, NOISY * 0 + 1, store=a, progress=False),
        cv.load_posterior,
        cv.resume,
        lambda a: cv.privatize(f"{a}.csv", 1),
        cv.PrivateCounts(NOISY, rho=1.0).save,
        lambda a: cv.counts.privatize_to_file(np.abs(NOISY), a, 1),
    ):
        with pytest.raises((ValueError, TypeError), match=r"expected .*, got (an address|one of)") as raised:
            use(address)
        shown = raised.value
        while shown is not None:
            assert "hush" not in str(shown)
            shown = shown.__cause__ or shown.__context__


@pytest.mark.parametrize(
    "address", ["s3://key:hush@bucket/a", "GS://hush@bucket/a", "hdfs://u:hush@host/a", "s3:/hush@b"]
)
def test_an_address_that_has_lost_a_slash_is_not_shown(address, tmp_path):
    for use in (
        cv.load_release,
        ReleaseOnDisk,
        lambda a: cv.fit(cv.TopicModel(2), a, scratch=tmp_path, progress=False),
        lambda a: cv.fit(cv.TopicModel(2), a, progress=False),
        lambda a: cv.privatize(a.with_suffix(".csv"), 1),
        cv.PrivateCounts(NOISY, rho=1.0).save,
    ):
        with pytest.raises((ValueError, TypeError), match=r"expected .*, got an address") as raised:
            use(Path(address))
        shown = raised.value
        while shown is not None:
            assert "hush" not in str(shown)
            shown = shown.__cause__ or shown.__context__


def test_a_bucket_that_does_not_answer_is_not_asked_for_long():
    pytest.importorskip("pyarrow._gcsfs")
    for address, seconds in (
        ("gs://anonymous@bucket/a", 60),
        ("gs://anonymous@bucket/a?scheme=https", 60),
        ("gs://anonymous@bucket/a?retry_limit_seconds=5", 5),
    ):
        filesystem, inside = places.open_filesystem(address)
        assert filesystem.__reduce__()[1][0]["retry_time_limit"].total_seconds() == seconds
        assert inside == "bucket/a"


def test_addresses_without_credentials_and_paths():
    for address in (
        "s3://bucket/a@b:c?region=eu&endpoint_override=host:9000&scheme=http",
        "gs://anonymous@bucket/a",
        "hdfs://host:9000/a?user=ann",
        "hdfs://[::1]:9000/a",
        "abfs://container@account.dfs.core.windows.net/a",
        "file:///tmp/a",
    ):
        check_address(address)
        assert scheme_of(address)
    for path in (
        r"C:\a\b",
        "C:/a",
        "C://a",
        "a:b",
        "10:30/a.parquet",
        "x:/y",
        "/s3://bucket",
        "./s3://bucket",
        "",
    ):
        assert place_of(path) == Path(path)


def test_an_address_of_this_machine_is_a_path(tmp_path):
    path = tmp_path / "a release"
    whole = cv.PrivateCounts(NOISY, rho=1.0)
    whole.save(path)
    address = path.as_uri()
    assert "%20" in address
    assert place_of(address) == path
    assert cv.load_release(address) == whole
    assert ReleaseOnDisk(address).path == str(path)
    # With all that is refused there.
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "release.json").symlink_to(path)
    with pytest.raises(ReleaseFileError, match="expected a regular file"):
        cv.load_release((tmp_path / "folder").as_uri())


def test_filesystems_of_arrow_itself(tmp_path, monkeypatch):
    in_parts(monkeypatch, True)
    address, inside = saved(tmp_path), SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    with pytest.raises(FileNotFoundError, match="mock:///release"):
        cv.load_release("mock:///release")  # an empty one, in memory
    monkeypatch.setattr(places, "open_filesystem", lambda given: (inside, given.removeprefix(f"{BUCKET}/")))
    assert cv.load_release(address) == cv.load_release(tmp_path / "release")
    assert PrivateCounts._from_contents(read_rows(address, 13, 29)).shape == (16, 6)
    with pytest.raises(FileNotFoundError, match="s3://bucket/nothing"):
        cv.load_release(f"{BUCKET}/nothing")


def test_other_schemes_say_what_is_expected():
    for address in ("ftp://host/a", "s3://bucket/a b"):
        with pytest.raises(
            ValueError, match=r"path: expected a path, or an address that pyarrow opens .*, got '"
        ):
            cv.load_release(address)


def test_nothing_is_written_there(remote, tmp_path):
    whole, address = cv.PrivateCounts(NOISY, rho=1.0, labels=LABELS), f"{BUCKET}/new.parquet"
    whole.save(tmp_path / "one")
    for write in (
        whole.save,
        lambda a: cv.counts.privatize_to_file(np.abs(NOISY), a, 1),
        lambda a: cv.append_release(a, whole),
        lambda a: cv.counts.stack_files([tmp_path / "one"], a),
    ):
        with pytest.raises(
            ValueError, match=r"expected a path of this machine, got an address.*copy it there"
        ):
            write(address)
    assert not remote.requests
