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
CALL = "from countveil.kernels.noise.geometric import log_marginal; print(log_marginal(3, 2.0, 1.0))"


def test_an_edit_of_a_called_kernel_is_noticed(tmp_path):
    package = copy_package(tmp_path)
    before = run_in(tmp_path, CALL)
    assert run_in(tmp_path, CALL) == before
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
from countveil.posterior.true_counts import _draw_repeated_cells
n = 200
out, looks, rho = np.zeros(n, dtype=np.int64), np.tile([3, 40], (n, 1)), np.tile([5.0, 0.1], (n, 1))
_draw_repeated_cells(np.uint64(1), 0, 0, np.arange(n), looks, np.full(n, 9.0), rho, out)
print(out.tolist())
"""


@pytest.mark.parametrize(
    ("call", "old", "new"),
    [
        (FIND, "return low if low < end and listed[low] == wanted else -1", "return low - 1"),
        pytest.param(
            GATHER, "noise[n] = rho[r]", "noise[n] = rho[len(values) - 1 - r]", marks=pytest.mark.long
        ),
    ],
    ids=["find_cell", "gather"],
)
def test_an_edit_of_a_compiled_function_outside_the_kernels_is_noticed(tmp_path, call, old, new):
    package = copy_package(tmp_path)
    before = run_in(tmp_path, call)
    with edited(package / "inference" / "observed.py", old, new):
        assert run_in(tmp_path, call) != before
    assert run_in(tmp_path, call) == before


HASH = "from countveil.runtime.compiled import source_hash; print(source_hash())"


def test_the_key_covers_what_is_compiled_and_nothing_else(tmp_path):
    package = copy_package(tmp_path)
    before = run_in(tmp_path, HASH)
    expected = {
        "posterior/true_counts.py": True, "kernels/steps.py": True, "models/einsum/update.py": True,
        "posterior/axes.py": False, "cli/fit.py": False,
    }  # fmt: skip
    for name, counts in expected.items():
        source = (package / name).read_text()
        with edited(package / name, source, f"{source}# edited\n"):
            assert (run_in(tmp_path, HASH) != before) == counts, name


def test_whoever_compiles_does_it_by_the_decorators_and_counts():
    watched = compiled._COMPILED_FOLDERS
    for file in PACKAGE.rglob("*.py"):
        text, name = file.read_text(encoding="utf-8"), file.relative_to(PACKAGE)
        if name.as_posix() != "runtime/compiled.py":
            assert "njit" not in text, name
            assert "numba.jit" not in text, name
        if re.search(r"^@(compiled|inlined)$", text, flags=re.MULTILINE):
            assert name.parts[0] in watched or compiled._DECORATORS.decode() in text, name


def test_the_second_process_loads_what_the_first_compiled(tmp_path):
    copy_package(tmp_path)
    count = CALL + "; print(sum(log_marginal.stats.cache_hits.values()))"
    cache = {"COUNTVEIL_CACHE_DIR": str(tmp_path / "cache")}
    assert run_in(tmp_path, count, **cache).split()[-1] == "0"
    assert run_in(tmp_path, count, **cache).split()[-1] == "1"


def test_a_package_that_cannot_be_written_uses_the_users_cache(tmp_path):
    package = copy_package(tmp_path)
    # A file where the folder should be: nobody, not even root, can create the cache there.
    (package / "__pycache__").write_text("")
    home = tmp_path / "home"
    run_in(tmp_path, CALL, XDG_CACHE_HOME=str(home))
    assert list((home / "countveil").glob("compiled-*/**/*.nbi"))


def test_a_machine_with_no_writable_folder_still_computes(tmp_path):
    package = copy_package(tmp_path)
    (package / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    assert run_in(tmp_path, CALL, XDG_CACHE_HOME=str(tmp_path / "home"))


def test_folders_that_nobody_uses_any_more_are_removed(tmp_path):
    package, cache = copy_package(tmp_path), tmp_path / "cache"
    old, recent, others = (cache / name for name in ("compiled-old", "compiled-recent", "something-else"))
    for folder, days in ((old, 31), (recent, 29), (others, 400)):
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
        os.utime(folder, (time.time() - days * 86_400,) * 2)
    run_in(tmp_path, CALL, COUNTVEIL_CACHE_DIR=str(cache))
    assert not old.exists()
    assert recent.exists()
    assert others.exists()
    # A use counts, not only a compilation: what was used today outlives the next upgrade.
    used = next(folder for folder in cache.glob("compiled-*") if folder != recent)
    os.utime(used, (time.time() - 31 * 86_400,) * 2)
    run_in(tmp_path, CALL, COUNTVEIL_CACHE_DIR=str(cache))
    file = package / "kernels" / "poisson.py"
    file.write_text(file.read_text() + "# edited\n")
    run_in(tmp_path, CALL, COUNTVEIL_CACHE_DIR=str(cache))
    assert used.exists()


def test_decorating_leaves_numbas_own_cache_folder_alone():
    before = numba.config.CACHE_DIR
    compiled.compiled(lambda x: x)
    assert before == numba.config.CACHE_DIR
