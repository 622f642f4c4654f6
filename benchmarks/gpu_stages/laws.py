"""Whether the device draws from the right laws."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpu_stages.session import ROOT, environment, say, script

#: Processes of ``laws``: checks that go together.
LAWS = (
    ("true_counts", "words"), ("noise_of_rows_and_cells", "allocation", "bounds"), ("joint_laws",),
    ("reproducible", "other_factorizations"), ("network_factors", "network_chains", "network_relocation"),
    ("network_sweep",), ("network_joint",), ("inferred_network_factors", "inferred_network_joint"),
    ("inferred_network_sweep",), ("shards",),
)  # fmt: skip


def laws(session):
    """tests/cuda_laws.py, in full."""

    def one(names):
        cache = session.scratch / "caches" / names[0]
        done = subprocess.run(
            script(ROOT / "tests/cuda_laws.py", *names),
            env=environment(cache=cache), capture_output=True, text=True, check=False,
        )  # fmt: skip
        say(done.stderr[-6000:])
        try:
            return json.loads(done.stdout)
        except ValueError:
            return [[names[0], "the process itself", False, done.stderr[-2000:], 0.0]]

    chosen = LAWS if not session.options.only else [tuple(session.options.only)]
    with ThreadPoolExecutor(len(chosen)) as pool:
        found = [line for lines in pool.map(one, chosen) for line in lines]
    right = sum(line[2] for line in found)
    say(f"laws: {right} of {len(found)} checks right")
    for line in found:
        if not line[2]:
            say("WRONG", line)
    session.write("laws", {"right": right, "checks": len(found), "lines": found})


def twins(session):
    """Every kernel once on the device, beside the CPU."""
    used = environment(cache=session.scratch / "caches/twins")
    if session.tiny:  # the simulator runs kernels as Python
        used["NUMBA_DISABLE_JIT"] = "1"
    done = subprocess.run(
        script(ROOT / "tests/cuda_cases.py"), env=used, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    on_device = json.loads(done.stdout)
    import cuda_cases

    on_cpu = cuda_cases.on_cpu()
    wrong = {}
    for name, values in on_cpu.items():
        ours, theirs = (
            np.ravel(np.array(values, dtype=float)),
            np.ravel(np.array(on_device[name], dtype=float)),
        )
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-9, equal_nan=True):
            wrong[name] = [ours[:8].tolist(), theirs[:8].tolist()]
    say(f"twins: {len(on_cpu) - len(wrong)} of {len(on_cpu)} kernels agree; {wrong}")
    session.write("twins", {"kernels": len(on_cpu), "wrong": wrong})
