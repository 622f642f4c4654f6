"""The compiled cache: an edit in a called file is noticed, and a read-only package still works."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

from countveil.runtime import compiled
from countveil.runtime.compiled import PACKAGE


def run_in(folder: Path, code: str, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout.strip()


def copy_package(folder: Path) -> Path:
    package = folder / "countveil"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


# `log_marginal` calls `log_poisson`, which lives in another file and which numba alone would not watch.
CALL = "from countveil.kernels.given_release.geometric import log_marginal; print(log_marginal(3, 2.0, 1.0))"


def test_an_edit_of_a_called_kernel_is_noticed(tmp_path):
    package = copy_package(tmp_path)
    before = run_in(tmp_path, CALL)
    file = package / "kernels" / "poisson.py"
    assert "        return -mean\n" in file.read_text()
    with edited(file, "_HALF_LOG_2PI = 0.5", "_HALF_LOG_2PI = 0.25"):
        assert run_in(tmp_path, CALL) != before
    assert run_in(tmp_path, CALL) == before


@contextlib.contextmanager
def edited(file: Path, old: str, new: str):
    source = file.read_text()
    assert old in source
    file.write_text(source.replace(old, new))
    yield
    file.write_text(source)


# What is compiled outside of the kernels counts, too. ``value_of`` calls ``find_cell``, which lives two folders up.
FIND = """
import numpy as np
from countveil.inference.engines.cpu.rows import LARGE, value_of
columns, values = np.array([2, 5, 8], dtype=np.int32), np.array([300, 400, 500])
print(value_of(LARGE, 0, 5, np.array([0, 3]), columns, values))
"""
# ``_draw_repeated_cells`` of posterior/ calls ``gather`` of inference/.
GATHER = """
import numpy as np
from countveil.posterior.count_draws.true_counts import _draw_repeated_cells
n = 200
out, looks, rho = np.zeros(n, dtype=np.int64), np.tile([3, 40], (n, 1)), np.tile([5.0, 0.1], (n, 1))
_draw_repeated_cells(np.uint64(1), 0, 0, np.arange(n), looks, np.full(n, 9.0), rho, out)
print(out.tolist())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "old", "new"),
    [
        (FIND, "return low if low < end and listed[low] == wanted else -1", "return low - 1"),
        (GATHER, "noise[n] = rho[r]", "noise[n] = rho[len(values) - 1 - r]"),
    ],
    ids=["find_cell", "gather"],
)
def test_an_edit_of_a_compiled_function_outside_the_kernels_is_noticed(tmp_path, call, old, new):
    package = copy_package(tmp_path)
    before = run_in(tmp_path, call)
    with edited(package / "inference" / "observed.py", old, new):
        assert run_in(tmp_path, call) != before
    assert run_in(tmp_path, call) == before


def test_the_key_covers_what_is_compiled_and_nothing_else(tmp_path, monkeypatch):
    package, key = copy_package(tmp_path), compiled.source_hash.__wrapped__
    monkeypatch.setattr(compiled, "PACKAGE", package)
    before = key()
    assert before == compiled.source_hash()
    expected = {
        "posterior/count_draws/true_counts.py": True, "kernels/steps.py": True, "models/einsum/update.py": True,
        "inference/observed.py": True, "posterior/axes.py": False, "cli/commands/fit.py": False,
    }  # fmt: skip
    for name, counts in expected.items():
        source = (package / name).read_text()
        with edited(package / name, source, f"{source}# edited\n"):
            assert (key() != before) == counts, name


def test_whoever_compiles_does_it_by_the_decorators_and_counts():
    watched = compiled._COMPILED_FOLDERS
    for file in PACKAGE.rglob("*.py"):
        text, name = file.read_text(encoding="utf-8"), file.relative_to(PACKAGE)
        if name.as_posix() != "runtime/compiled.py":
            assert "njit" not in text, name
            assert "numba.jit" not in text, name
        if re.search(r"^@(compiled|inlined)$", text, flags=re.MULTILINE):
            assert name.parts[0] in watched or compiled._DECORATORS.decode() in text, name


# Both are ready before either begins.
AT_ONCE = """
import sys
from countveil.kernels.given_release.geometric import log_marginal
print("ready", flush=True)
sys.stdin.readline()
print(log_marginal(3, 2.0, 1.0), sum(log_marginal.stats.cache_misses.values()))
"""


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_of_two_processes_one_compiles_and_the_other_loads(tmp_path):
    environment = {**os.environ, "COUNTVEIL_CACHE_DIR": str(tmp_path / "cache")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", AT_ONCE], env=environment, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["ready\n", "ready\n"]
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    (first, one), (second, other) = (process.communicate()[0].split() for process in both)
    assert first == second
    assert sorted([one, other]) == ["0", "1"]


def test_who_waits_too_long_compiles_itself(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compiled, "_PATIENCE", 0.1)
    with (tmp_path / "f.lock").open("wb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with compiled._alone("f"):
            pass
    with compiled._alone("f"), (tmp_path / "f.lock").open("wb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.long
def test_a_package_that_cannot_be_written_uses_the_users_cache(tmp_path):
    package = copy_package(tmp_path)
    # A file where the folder should be: nobody, not even root, can create the cache there.
    (package / "__pycache__").write_text("")
    home = tmp_path / "home"
    run_in(tmp_path, CALL, XDG_CACHE_HOME=str(home))
    assert list((home / "countveil").glob("compiled-*/**/*.nbi"))


@pytest.mark.long
def test_a_machine_with_no_writable_folder_still_computes(tmp_path):
    package = copy_package(tmp_path)
    (package / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    where = "; from countveil.runtime.compiled import cache_folder; print(cache_folder())"
    _, folder = run_in(tmp_path, CALL + where, XDG_CACHE_HOME=str(tmp_path / "home")).split("\n")
    assert not Path(folder).exists()  # nobody else can use it


def test_decorating_leaves_numbas_own_cache_folder_alone():
    before = numba.config.CACHE_DIR
    compiled.compiled(lambda x: x)
    assert before == numba.config.CACHE_DIR


# Numba unpickles what lies in the cache: whoever can write there can run code as us.

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes and owners")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's cache folder; the package cannot be written, and nothing is chosen."""
    (tmp_path / "__pycache__").write_text("")
    monkeypatch.setattr(compiled, "_BESIDE_SOURCES", tmp_path / "__pycache__")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COUNTVEIL_CACHE_DIR", raising=False)
    return tmp_path / "home" / "countveil"


chosen_folder = compiled.cache_folder.__wrapped__  # asked anew, as by another process


def test_folders_that_nobody_uses_any_more_are_removed(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    names = ("compiled-0123456789abcdef", "compiled-fedcba9876543210", "something-else", "compiled-thesis")
    old, recent, others, named_alike = (cache / name for name in names)
    cache.mkdir(mode=0o700)
    for folder, days in ((old, 31), (recent, 29), (others, 400), (named_alike, 400)):
        folder.mkdir()
        (folder / "file").write_text("")
        os.utime(folder, (time.time() - days * 86_400,) * 2)
    monkeypatch.setenv("COUNTVEIL_CACHE_DIR", str(cache))
    used = chosen_folder()
    assert used.parent == cache
    assert not old.exists()
    assert recent.exists()
    assert others.exists()
    assert named_alike.exists()  # whoever chooses a folder may keep other things in it
    # A use counts, not only a compilation: what was used today outlives the next upgrade.
    os.utime(used, (time.time() - 31 * 86_400,) * 2)
    assert chosen_folder() == used
    monkeypatch.setattr(compiled, "source_hash", lambda: 16 * "1")
    assert chosen_folder() != used
    assert used.exists()
    # Had it not been used, it would be gone.
    os.utime(used, (time.time() - 31 * 86_400,) * 2)
    monkeypatch.setattr(compiled, "source_hash", lambda: 16 * "2")
    assert chosen_folder() != used
    assert not used.exists()


@posix
def test_the_cache_is_for_its_owner_alone_whatever_the_umask(home):
    before = os.umask(0)
    try:
        folder = chosen_folder()
    finally:
        os.umask(before)
    assert folder.parent == home
    for place in (folder, home, home.parent):
        assert place.stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
def test_a_chosen_folder_that_others_can_write_to_is_not_used(mode, home, tmp_path, monkeypatch):
    chosen = tmp_path / "shared"
    chosen.mkdir()
    chosen.chmod(mode)
    monkeypatch.setenv("COUNTVEIL_CACHE_DIR", str(chosen))
    told = f"COUNTVEIL_CACHE_DIR: expected a folder that only you can write to, got .*shared' of mode {mode:o}; it is not"
    with pytest.warns(UserWarning, match=told):
        assert chosen_folder().parent == home
    assert not list(chosen.iterdir())


@posix
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_in_one_that_others_can_write_to_is_not_used(mode, home, tmp_path, monkeypatch):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    monkeypatch.setenv("COUNTVEIL_CACHE_DIR", str(tmp_path / "shared" / "mine"))
    with pytest.warns(UserWarning, match=f"in a folder of mode {mode:o}; it is not used"):
        assert chosen_folder().parent == home
    (tmp_path / "shared").chmod(0o1777)  # as /tmp: nobody else can replace what is mine
    assert chosen_folder().parent == tmp_path / "shared" / "mine"


@posix
def test_folders_further_up_that_others_can_write_to(home, tmp_path, monkeypatch):
    """Whoever can rename a folder on the way can put another in its place."""
    (tmp_path / "shared" / "me").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("COUNTVEIL_CACHE_DIR", str(tmp_path / "shared" / "me" / "cache"))
    with pytest.warns(UserWarning, match="in a folder of mode 777; it is not used"):
        assert chosen_folder().parent == home


@posix
def test_a_link_is_followed_once(home, tmp_path, monkeypatch):
    """It could be turned elsewhere after it was looked at."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("COUNTVEIL_CACHE_DIR", str(tmp_path / "link"))
    assert chosen_folder().parent == (tmp_path / "real").resolve()


@posix
def test_a_folder_that_others_could_write_to_is_not_used_again(home, monkeypatch):
    chosen_folder().chmod(0o770)  # someone may have left a pickle in it
    registered = []
    monkeypatch.setattr("atexit.register", lambda *call: registered.append(call))
    private = chosen_folder()
    assert private.name.startswith("countveil-")
    assert private.stat().st_mode & 0o777 == 0o700
    ((remove, *args),) = registered
    remove(*args)
    assert not private.exists()


@posix
def test_only_the_owner_of_the_sources_is_trusted_beside_us(tmp_path, monkeypatch):
    base, folder = tmp_path / "base", tmp_path / "base" / "compiled-x"
    assert compiled._fault(base, folder) is None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert "belongs to someone else" in compiled._fault(base, folder)
    # Beside the sources: whoever owns them can run code as us in any case.
    monkeypatch.setattr(compiled, "_BESIDE_SOURCES", base)
    monkeypatch.setattr(compiled, "PACKAGE", tmp_path)
    assert compiled._fault(base, folder) is None
    base.chmod(0o775)
    assert "of mode 775" in compiled._fault(base, folder)
    base.chmod(0o755)
    folder.chmod(0o750)
    assert "of mode 750" in compiled._fault(base, folder)


def test_pythons_own_folder_beside_the_sources_stays_readable_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_BESIDE_SOURCES", tmp_path / "__pycache__")
    assert compiled._fault(tmp_path / "__pycache__", tmp_path / "__pycache__" / "compiled-x") is None
    if os.name == "posix":
        assert (tmp_path / "__pycache__").stat().st_mode & 0o755 == 0o755
        assert (tmp_path / "__pycache__" / "compiled-x").stat().st_mode & 0o777 == 0o700
