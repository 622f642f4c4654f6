"""The compiled cache: an edit in a called file is noticed, and a read-only package still works."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba

import countveil
from countveil.kernels import compiled

PACKAGE = Path(countveil.__file__).parent


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
    shutil.copytree(PACKAGE / "kernels", package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE / "__init__.py", package / "__init__.py")
    return package


# `log_marginal` calls `log_poisson`, which lives in another file and which numba alone would not watch.
CALL = "from countveil.kernels.log_marginal import log_marginal; print(log_marginal(3, 2.0, 1.0))"


def test_an_edit_of_a_called_kernel_is_noticed(tmp_path):
    package = copy_package(tmp_path)
    before = run_in(tmp_path, CALL)
    assert run_in(tmp_path, CALL) == before
    file = package / "kernels" / "log_poisson.py"
    source = file.read_text()
    assert "        return -mean\n" in source
    file.write_text(source.replace("_HALF_LOG_2PI = 0.5", "_HALF_LOG_2PI = 0.25"))
    assert run_in(tmp_path, CALL) != before
    file.write_text(source)
    assert run_in(tmp_path, CALL) == before


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
    file = package / "kernels" / "log_poisson.py"
    file.write_text(file.read_text() + "# edited\n")
    run_in(tmp_path, CALL, COUNTVEIL_CACHE_DIR=str(cache))
    assert used.exists()


def test_decorating_leaves_numbas_own_cache_folder_alone():
    before = numba.config.CACHE_DIR
    compiled.compiled(lambda x: x)
    assert before == numba.config.CACHE_DIR
