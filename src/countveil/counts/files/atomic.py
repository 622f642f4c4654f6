"""Files and folders that are complete or not there, with nothing left lying around.

What is being written lies in a hidden folder beside its target that only its owner can enter (mode 700), in files
that only their owner can read (600). Once it is complete and on disk it gets its final mode and, in one step, its
name. A writer that fails removes its folder. One that is killed cannot: the next one to write beside it does. It
knows the folder of a living writer by the lock (flock) that the writer holds; where there are no locks (Windows,
some network folders) a folder in which nothing has changed for a day is taken for a dead one's.

Where others may rename what lies beside the target, a name may lead elsewhere from one step to the next. So modes
and names are given through descriptors of what was written, and what is removed lies in a folder that is held by a
descriptor and has a lock of ours.
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
_TRIES = 100  # to make a folder that nobody takes away


@contextmanager
def new_file(target: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that takes the name ``target`` when the block ends well, and vanishes otherwise.

    A name that is taken is left as it is, with ``overwrite`` if it was free when the block began: FileExistsError.
    """
    mode, replaces = None, overwrite and target.exists()
    if replaces:
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise FileExistsError(f"path: expected a file, got {target}, which is something else")
        if _is_ours(found):
            mode = found.st_mode & 0o666
    with unfinished(target.parent) as folder, held(folder) as inside:
        path = folder / target.name
        with private_file(path, inside) as file:
            yield file
            _set_mode(file.fileno(), path, final_modes(folder, inside)[0] if mode is None else mode)
        name = path if inside is None else path.name
        if replaces:
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
        os.mkdir(path if inside is None else path.name, 0o700, dir_fd=inside)
        yield path
        with held(path, inside) as itself:  # not before: whoever fills it may have made it anew
            open_up(itself, *final_modes(folder, inside))
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
    descriptor = _descriptor(folder, inside)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _descriptor(folder: Path, inside: int | None = None) -> int | None:
    if os.name == "nt":
        return None
    name = folder if inside is None else folder.name
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)


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
    folder, itself, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        _remove(folder, itself, lock)


def _locked_folder(parent: Path) -> tuple[Path, int | None, int]:
    """A new folder, its descriptor, and its lock, which we hold."""
    for _ in range(_TRIES):
        folder = parent / f"{UNFINISHED}{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        itself, lock = None, None
        try:
            itself = _descriptor(folder)
            if itself is not None:
                if os.listdir(itself):  # noqa: PTH208 (what has the name by now)
                    raise FileExistsError
                # The umask may have taken bits away; a group that is inherited from the parent is kept.
                os.fchmod(itself, 0o700 | (os.fstat(itself).st_mode & stat.S_ISGID))
            lock = _open_lock(folder, itself, os.O_CREAT | os.O_EXCL)
            # Not our number: some file systems show all that they hold as one user's, whoever wrote it.
            if itself is not None and os.fstat(itself).st_uid != os.fstat(lock).st_uid:
                os.unlink(LOCK, dir_fd=itself)
                raise FileExistsError
            lock_file(lock, wait=True)
            found = (folder / LOCK).stat() if itself is None else os.stat(LOCK, dir_fd=itself)
            if os.path.samestat(os.fstat(lock), found):
                return folder, itself, lock
            _let_go(folder, itself, lock)
        except (FileNotFoundError, FileExistsError):
            # Someone removed the folder as a dead one's before it was locked, or put another in its place.
            _let_go(folder, itself, lock)
        except BaseException:
            _let_go(folder, itself, lock)
            raise
    raise PermissionError(
        f"path: expected a folder in which nobody takes away what is being written, got {parent}"
    )


def _let_go(folder: Path, *descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)
    with suppress(OSError):
        folder.rmdir()  # an empty one


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
        itself = _descriptor(folder)
    except OSError:
        return
    try:
        if itself is not None and not os.path.samestat(found, os.fstat(itself)):
            raise FileNotFoundError
        lock = _open_lock(folder, itself)
    except OSError:
        if itself is not None:
            os.close(itself)
        return
    dead = lock_file(lock, wait=False)
    if dead is None:
        dead = time.time() - newest > _A_DAY
    if dead:
        _remove(folder, itself, lock)
        return
    os.close(lock)
    if itself is not None:
        os.close(itself)


def _remove(folder: Path, itself: int | None, lock: int) -> None:
    """Remove a folder, its lock last, then let go of it: what is in it by its descriptor, whatever has its name."""
    if fcntl is None:  # Windows removes no open file
        os.close(lock)
    with suppress(OSError):
        if itself is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with os.scandir(itself) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            for name, is_folder in found:
                if is_folder:
                    shutil.rmtree(name, ignore_errors=True, dir_fd=itself)
                elif name != LOCK:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=itself)
            os.unlink(LOCK, dir_fd=itself)
            if os.path.samestat(folder.lstat(), os.fstat(itself)):
                folder.rmdir()
    if fcntl is not None:
        os.close(lock)
    if itself is not None:
        os.close(itself)


def _open_lock(folder: Path, itself: int | None, create: int = 0) -> int:
    name = folder / LOCK if itself is None else LOCK
    return os.open(name, os.O_RDWR | create | getattr(os, "O_NOFOLLOW", 0), 0o600, dir_fd=itself)


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


def unlock_file(descriptor: int) -> None:
    """Let go of a lock. To close is not enough where another thread has forked: its child has the file, too."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def final_modes(folder: Path, inside: int | None) -> tuple[int, int]:
    """The modes of a new file and a new folder, by trying: to ask for the umask is to change it for a moment.

    In ``folder``, which is ``held`` as ``inside``.
    """
    name = ".countveil-mode"
    probe = folder / name if inside is None else name
    file = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=inside)
    modes = [stat.S_IMODE(os.fstat(file).st_mode)]
    os.close(file)
    os.unlink(probe, dir_fd=inside)
    os.mkdir(probe, dir_fd=inside)
    modes.append(stat.S_IMODE(os.stat(probe, dir_fd=inside, follow_symlinks=False).st_mode))
    os.rmdir(probe, dir_fd=inside)
    return modes[0], modes[1]


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
