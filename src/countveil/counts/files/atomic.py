"""Files and folders that are complete or not there, with nothing left lying around.

What is being written lies in a hidden folder beside its target that only its owner can enter (mode 700), in files
that only their owner can read (600). Once it is complete and on disk it gets its final mode and, in one step, its
name. A writer that fails removes its folder. One that is killed cannot: the next one to write beside it does. It
knows the folder of a living writer by the lock (flock) that the writer holds; where there are no locks (Windows,
some network folders) a folder in which nothing has changed for a day is taken for a dead one's.

Where others may rename what lies beside the target, a name may lead elsewhere from one step to the next. So modes
and names are given through descriptors of what was written, and only a folder that holds a lock of ours is removed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".countveil-unfinished-"
LOCK = ".countveil-lock"
_A_DAY = 86_400.0


@contextmanager
def new_file(target: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that takes the name ``target`` when the block ends well, and vanishes otherwise.

    Without ``overwrite`` a name that is taken, also since the block began, is left as it is: FileExistsError.
    """
    mode = None
    if overwrite and target.exists():
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise FileExistsError(f"path: expected a file, got {target}, which is something else")
        if _is_ours(found):
            mode = found.st_mode & 0o666
    with unfinished(target.parent) as folder, held(folder) as inside:
        path = folder / target.name
        with private_file(path, inside) as file:
            yield file
            _set_mode(file.fileno(), path, final_modes(folder)[0] if mode is None else mode)
        name = path if inside is None else path.name
        if overwrite:
            os.replace(name, target, src_dir_fd=inside)
        else:
            _name_file(name, target, inside)
        sync_folder(target.parent)


def write_file(target: Path, content: bytes, *, overwrite: bool) -> None:
    """All of it under that name, or nothing."""
    with new_file(target, overwrite=overwrite) as file:
        file.write(content)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """The same for a folder, whose files are written with ``private_file``; a name that is taken stays as it is."""
    with unfinished(target.parent) as folder, held(folder) as inside:
        path = folder / target.name
        path.mkdir(mode=0o700)
        yield path
        with held(path, inside) as itself:  # not before: whoever fills it may have made it anew
            open_up(itself, *final_modes(folder))
        try:
            if os.path.lexists(target):  # POSIX would put the folder in place of an empty one
                raise FileExistsError
            name = path if inside is None else path.name
            os.rename(name, target, src_dir_fd=inside)
        except OSError as error:
            if os.path.lexists(target):
                raise FileExistsError(f"path: expected a new name, got {target}, which exists") from error
            raise
        sync_folder(target.parent)


@contextmanager
def private_file(path: Path, inside: int | None = None) -> Iterator[BinaryIO]:
    """A new file that only its owner can read, and that is on disk when the block ends.

    ``inside`` is the descriptor of the folder it is in, where there is one.
    """

    def private(name: str, flags: int) -> int:
        return os.open(name if inside is None else path.name, flags, 0o600, dir_fd=inside)

    with open(path, "xb", opener=private) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def held(folder: Path, inside: int | None = None) -> Iterator[int | None]:
    """The descriptor of a folder, which stays with it whatever becomes of its name; None on Windows.

    ``inside`` is that of the folder it lies in, if that is held.
    """
    if os.name == "nt":
        yield None
        return
    name = folder if inside is None else folder.name
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _set_mode(descriptor: int, path: Path, mode: int) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
    else:
        path.chmod(mode)


def _is_ours(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for files that only this process needs."""
    with unfinished(Path(tempfile.gettempdir())) as folder:
        inner = folder / "scratch"
        inner.mkdir(mode=0o700)
        yield inner


@contextmanager
def unfinished(parent: Path) -> Iterator[Path]:
    """A folder in ``parent`` for what is not complete. It is removed when the block ends, or by the next writer."""
    remove_unfinished(parent)
    folder, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        _remove(folder, lock)


def _locked_folder(parent: Path) -> tuple[Path, int]:
    while True:
        folder = parent / f"{UNFINISHED}{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        lock = None
        try:
            # The umask may have taken bits away; a group that is inherited from the parent is kept.
            folder.chmod(0o700 | (folder.stat().st_mode & stat.S_ISGID))
            lock = _open_lock(folder, os.O_CREAT)
            lock_file(lock, wait=True)
            if os.path.samestat(os.fstat(lock), (folder / LOCK).stat()):
                return folder, lock
        except FileNotFoundError:
            pass  # someone found the folder before it was locked, and removed it as a dead one's: another
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if lock is not None:
                os.close(lock)
            raise
        if lock is not None:
            os.close(lock)


def remove_unfinished(parent: Path) -> None:
    """Remove what killed writers left in a folder."""
    for folder in _unfinished_in(parent):
        _remove_if_dead(folder)


def has_writers(parent: Path) -> bool:
    """Whether someone is writing in a folder; what killed writers left there is removed."""
    remove_unfinished(parent)
    return bool(_unfinished_in(parent))


def _unfinished_in(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return [Path(entry.path) for entry in entries if entry.name.startswith(UNFINISHED)]
    except OSError:  # no folder, or one that may be written to but not looked at
        return []


def _remove_if_dead(folder: Path) -> None:
    """Remove a folder of ours that no living writer holds, or that is empty.

    All else is left alone, whatever its name: links, what belongs to another user, what others may enter, and what
    has no lock. Someone may have given the name to a folder that holds no unfinished files.
    """
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or not _is_ours(found):
            return
        with suppress(OSError):
            folder.rmdir()  # only an empty one; its writer, if it lives, makes another
            return
        if os.name != "nt" and stat.S_IMODE(found.st_mode) & ~stat.S_ISGID != 0o700:
            return
        newest = max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
        lock = _open_lock(folder)
    except OSError:
        return
    dead = lock_file(lock, wait=False)
    if dead is None:
        dead = time.time() - newest > _A_DAY
    if dead:
        _remove(folder, lock)
    else:
        os.close(lock)


def _remove(folder: Path, lock: int) -> None:
    """Remove a folder, its lock last, then let go of it; Windows removes no open file."""
    if fcntl is None:
        os.close(lock)
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                with suppress(OSError):
                    path.unlink()
        (folder / LOCK).unlink()
        folder.rmdir()
    if fcntl is not None:
        os.close(lock)


def _open_lock(folder: Path, create: int = 0) -> int:
    return os.open(folder / LOCK, os.O_RDWR | create | getattr(os, "O_NOFOLLOW", 0), 0o600)


def lock_file(descriptor: int, *, wait: bool) -> bool | None:
    """Whether the lock is ours now; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system that has none
        return None
    return True


def final_modes(folder: Path) -> tuple[int, int]:
    """The modes of a new file and a new folder, by trying: to ask for the umask is to change it for a moment."""
    probe = folder / ".countveil-mode"
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    file = stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    probe.mkdir()
    inner = stat.S_IMODE(probe.stat().st_mode)
    probe.rmdir()
    return file, inner


def open_up(itself: int | None, file_mode: int, folder_mode: int, *, but_itself: bool = False) -> None:
    """Give a complete folder, ``held`` as ``itself``, and all in it their final modes; bring its names to disk."""
    if itself is None:  # Windows, where modes say little
        return
    for place, _, files, at in os.fwalk(".", topdown=False, dir_fd=itself):
        for name in files:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
            try:
                os.fchmod(file, file_mode)
            finally:
                os.close(file)
        with suppress(OSError):
            os.fsync(at)
        if not (but_itself and place == "."):
            os.fchmod(at, folder_mode)


def sync_folder(folder: Path) -> None:
    """Make new names survive a power cut, where folders can be opened at all (not on Windows)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _name_file(name: Path | str, target: Path, inside: int | None) -> None:
    """Give a complete file its name, unless the name is taken."""
    try:
        if os.name == "nt":
            os.rename(name, target)  # noqa: PTH104 (refuses a name that is taken; elsewhere it would replace the file)
        else:
            os.link(name, target, src_dir_fd=inside)
    except FileExistsError as error:
        raise FileExistsError(f"path: expected a new name, got {target}, which exists") from error
    except OSError:
        if os.name == "nt":
            raise
        # A file system without links: an empty file takes the name first, which only one can do.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            os.replace(name, target, src_dir_fd=inside)
        except BaseException:
            target.unlink()
            raise
