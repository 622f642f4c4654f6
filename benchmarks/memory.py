"""Peak memory of a fit, and seconds until a warm fit draws: each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

FIT = """
import json, sys, time
began = time.perf_counter()
import countveil as cv
release = cv.load_release(sys.argv[1])
loaded = time.perf_counter()
posterior = cv.fit(cv.TopicModel(int(sys.argv[2])), release, sweeps=int(sys.argv[3]), thin=int(sys.argv[4]),
                   chains=1, seed=1, progress=False, threads=int(sys.argv[5]))
# VmHWM and not getrusage, whose peak includes what the parent held when it started this process.
peak = next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak_mb": peak, "draws": posterior.n_draws, "load": loaded - began,
                  "fit": time.perf_counter() - loaded, "sweeping": posterior.settings["seconds"]}))
"""


def measured_fit(release_path: str, n_topics: int, sweeps: int, thin: int, threads: int) -> dict[str, Any]:
    """Peak megabytes, and seconds of loading, of the whole fit and of its sweeps."""
    arguments = [release_path, str(n_topics), str(sweeps), str(thin), str(threads)]
    finished = subprocess.run(
        [sys.executable, "-c", FIT, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(finished.stdout)
