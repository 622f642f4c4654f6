"""The parts of ``make bench`` that need nothing else run, on small data: their figures mean nothing here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
import factorizations, countveil as cv
from growth import growth
from memory import measured_fit
from mixing import samples_per_sweep
from phases import phases
from sweeps import LEVELS, bessel_nanoseconds, sweep_times
from threads import threads_against_processes

if __name__ == "__main__":
    counts = cv.simulate_release(np.zeros((80, 60), int), alpha=0.5, seed=1).to_dense().clip(0)
    times = sweep_times(counts, 3, 2, 3, 1)
    assert set(times["seconds"]) == set(LEVELS)
    release, state = times["releases"][2.0], times["states"][2.0]
    assert bessel_nanoseconds(release, state, 3) > 0
    assert samples_per_sweep(release, state, 3, (70, 40), 30)["bessel"]["50 rates"] > 0
    assert phases(release, state, 3, 2)["scales of rows and words"] > 0
    release.save("release.parquet")
    assert measured_fit("release.parquet", 3, 20, 1, 1)["draws"] == 10
    assert threads_against_processes("release.parquet", state, 3, 2, 1) > 0
    assert growth(counts, 3, 1, 1, 1)["as it is"] == 1
    factorizations.ACTORS, factorizations.MONTHS, factorizations.MESSAGES = 8, 4, 500
    assert len(factorizations.table(None, 4, 1)) > 5
"""


@pytest.mark.long
def test_its_parts_run(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    folder = Path(__file__).resolve().parents[1] / "benchmarks"
    words = [sys.executable, "-W", "ignore", "script.py"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
