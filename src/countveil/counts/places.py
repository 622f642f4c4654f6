"""Where a release lies: at a path of this machine, or at an address, which one of pyarrow's filesystems opens.

An address, "s3://bucket/release.parquet", is for reading alone. Credentials come from the environment, as each
filesystem wants it: in an address they would get into errors, runs and the history of a shell, so that one with
credentials is refused, and not shown.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from countveil.counts.bounded.room import ReleaseFileError
from countveil.counts.bounded.within import check_folder, data_size, open_regular, read_regular, size_on_disk
from countveil.counts.remote import NotReachedError, RemoteFile, RemotePlace, first_line

# Two letters or more: one is the drive of a Windows path. Chained ones (simplecache::s3://) are not served.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+(?:::[A-Za-z][A-Za-z0-9+.-]+)*)://")
_BUCKET, _MACHINE = re.compile(r"[A-Za-z0-9._-]*"), re.compile(r"[^:\[\]]*(:\d*)?|\[[0-9A-Fa-f:.]+\](:\d*)?")
# What an address may say of a filesystem. No list of what is secret would be complete.
_OPTIONS = (
    "region", "scheme", "endpoint_override", "project_id", "retry_limit_seconds", "enable_tls", "user",
)  # fmt: skip
# An address that has lost a slash, as in a Path: it would be looked for here, and named with all that is in it.
_LOST_SLASH = re.compile(
    r"[\s\"'\ufeff]*(\w+::)*(s3[an]?|gcs|gs|abfss?|wasbs?|adls?|hdfs|viewfs|https?|ftp|file):[/\\]",
    re.IGNORECASE,
)
# Seconds for which Google is asked for a bucket, unless the address says how many: else it takes 15 minutes.
_RETRY_SECONDS = 60
# Whose addresses name a bucket, wherever the environment says that the machines are.
_BUCKETS = ("s3", "gs", "gcs")

Place = Path | RemotePlace


def scheme_of(path: Any) -> str | None:
    r"""Of an address; None of a path, also of one that has a drive or colons in its names.

    >>> [scheme_of(path) for path in ("s3://bucket/a", "gs://b", r"C:\a", "C://a", "a:b/c", Path("s3://bucket/a"))]
    ['s3', 'gs', None, None, None, None]
    """
    found = _ADDRESS.match(path) if isinstance(path, str) else None
    return None if found is None else found[1]


def has_lost_slash(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an address, it seems, and nothing here.

    >>> has_lost_slash(Path("s3://bucket/a")), has_lost_slash("a:b/c")
    (True, False)
    """
    return bool(_LOST_SLASH.match(os.fspath(path))) and not os.path.lexists(path)


def check_address(address: str) -> None:
    """Refuse an address with credentials, or what may be some, without a word of it.

    >>> check_address("s3://key:secret@bucket/release.parquet")
    Traceback (most recent call last):
    ...
    ValueError: path: expected an address without credentials, which belong into the environment, and with ...
    """
    scheme, _, rest = address.partition("://")
    rest, _, options = rest.partition("?")
    authority, _, path = rest.partition("/")
    user, at, machine = authority.rpartition("@")
    if scheme.lower() in _BUCKETS:
        safe = (
            _BUCKET.fullmatch(machine)
            and not (not machine and "@" in path)
            and (not at or (scheme.lower() != "s3" and user == "anonymous"))
        )
    else:
        safe = _MACHINE.fullmatch(machine) and ":" not in unquote(user)
        safe = safe and not (":" in authority and "@" in path)  # a secret with a slash in it
    known = all(option.partition("=")[0] in _OPTIONS for option in re.split("[&;]", options) if option)
    if not safe or not known or "@" in unquote(options):
        raise ValueError(
            "path: expected an address without credentials, which belong into the environment, and with no options "
            f"but {', '.join(_OPTIONS)}, got one of {scheme}:// that has others"
        )


def names_bucket_alone(address: str) -> bool:
    """Whether it says no machine to ask: that is for the user's environment to say, not for a stranger's run.

    >>> [names_bucket_alone(a) for a in ("s3://bucket/a", "hdfs://host/a", "s3://bucket/a?endpoint_override=host")]
    [True, False, False]
    """
    return scheme_of(address) in _BUCKETS and "?" not in address


def open_filesystem(address: str) -> tuple[Any, str]:
    """The filesystem that an address names, and the path there."""
    from pyarrow.fs import FileSystem

    limited = address
    if address.lower().startswith(("gs://", "gcs://")) and "retry_limit_seconds=" not in address:
        limited += f"{'&' if '?' in address else '?'}retry_limit_seconds={_RETRY_SECONDS}"
    try:
        return FileSystem.from_uri(limited)
    except (ValueError, ImportError, NotImplementedError) as error:
        raise ValueError(
            "path: expected a path, or an address that pyarrow opens (s3://, gs://, abfs://, hdfs://), "
            f"got {address!r}: {first_line(error)}"
        ) from error


def place_of(path: str | os.PathLike[str] | RemotePlace) -> Place:
    """Where that is. "file://" is a path by another name, and read as one."""
    if isinstance(path, RemotePlace):
        return path
    if scheme_of(path) is None:
        return _path(path, "path")
    address = str(path)
    check_address(address)
    try:
        filesystem, inside = open_filesystem(address)
    except OSError as error:
        raise NotReachedError(f"{address}: cannot be read: {first_line(error)}") from error
    if filesystem.type_name == "local":
        return Path(inside)
    return RemotePlace(address, inside.rstrip("/"), filesystem)


def local_path(path: str | os.PathLike[str], name: str = "path") -> Path:
    """A path to be written, or of what is read nowhere else; an address is refused, and not shown.

    >>> local_path("s3://bucket/release.parquet")
    Traceback (most recent call last):
    ...
    ValueError: path: expected a path of this machine, got an address: only releases are read there, and nothing ...
    """
    if scheme_of(path) is not None:
        raise ValueError(
            f"{name}: expected a path of this machine, got an address: only releases are read there, and nothing "
            "is written; save it here, and copy it there"
        )
    return _path(path, name)


def _path(path: str | os.PathLike[str], name: str) -> Path:
    if has_lost_slash(path):
        raise ValueError(
            f"{name}: expected a path, or an address as text, with both of its slashes, got an address as a path"
        )
    return Path(path)


def resolved(place: Place) -> Place:
    """Where a path really leads: a link that the user names is followed once, and none in a release."""
    return place if isinstance(place, RemotePlace) else Path(os.path.realpath(place))


def is_there(place: Place) -> bool:
    """Whether something has the name, a link too."""
    return place.exists() if isinstance(place, RemotePlace) else os.path.lexists(place)


def open_place(place: Place) -> BinaryIO:
    """The bytes of a file; ``within.open_regular`` says what is refused here."""
    return place.open() if isinstance(place, RemotePlace) else open_regular(place)  # type: ignore[return-value]


def bytes_in(file: BinaryIO) -> int:
    """Bytes of an opened file that are there."""
    return file.n_bytes if isinstance(file, RemoteFile) else data_size(file.fileno())


def size_at(place: Place) -> int:
    """Of a file, without its holes; of what is no file 0."""
    return place.size() if isinstance(place, RemotePlace) else size_on_disk(place)


def read_place(place: Place, most: int) -> bytes:
    """All of a file, which has at most so many bytes."""
    if not isinstance(place, RemotePlace):
        return read_regular(place, most)
    with place.open() as file:
        if file.n_bytes > most:
            raise ReleaseFileError(f"expected at most {most:,} bytes in {place.name}, got more")
        return file.read()


def check_is_folder(place: Place) -> None:
    """Refuse something else in place of a folder."""
    if not isinstance(place, RemotePlace):
        check_folder(place)
    elif not place.is_dir():
        raise ReleaseFileError(f"expected a folder {place.name}, got none or something else")
