"""One session on a machine with a GPU: laws, times of variants side by side, and what only a device can do in minutes.

    python benchmarks/gpu_session.py laws twins variants networks --documents documents.npz --network network.npz \\
        -o session
    python benchmarks/gpu_session.py markdown -o session       # the tables of GPU.md, from what is there

Every stage is a process of its own, prints as it goes and writes STAGE.json to the folder; one that fails is reported
with its traceback, and the next goes on. Stages and about what they take on one H200 with 16 cores:

============ ======= ===============================================================================================
``laws``     3 min   every check of tests/cuda_laws.py, in several processes; compilation included
``twins``    1 min   every kernel of the CPU inside a CUDA kernel, beside the CPU (tests/cuda_cases.py)
``variants`` 4 min   milliseconds per sweep of documents, of every variant of VARIANTS; and kernel by kernel
``networks`` 3 min   the same of 64 chains of a network, with the fixed and with the inferred prior
``whole``    1 min   7,500 sweeps with monitoring, start to end, at three levels
``million``  2 min   one million synthetic documents: memory, and time of a sweep
``ratio``    2 min   sweeps of the CPU engine on the same machine, with 2 and with 16 threads
``shards``   1 min   true counts from the device and factors from the processor, as shards have them
``sizes``    5 min   K = 25, 100 and 200: time of a sweep, and scores after 7,500 sweeps
``shapes``   3 min   other shapes of the inferred prior, scored the same way
``chains``   8 min   16 chains of the network at each C and level, with both priors: do they agree?
============ ======= ===============================================================================================

Needs numpy, scipy, numba, numba-cuda and CuPy alone. ``--tiny`` makes everything small, for numba's simulator
(NUMBA_ENABLE_CUDASIM=1).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from gpu_stages import chains, laws, million, ratio, topics, variants
from gpu_stages.markdown import markdown
from gpu_stages.session import Session, arguments, environment, say

STAGES = {
    "laws": laws.laws,
    "twins": laws.twins,
    "variants": variants.variants,
    "networks": variants.networks,
    "whole": topics.whole,
    "million": million.million,
    "ratio": ratio.ratio,
    "shards": ratio.shards,
    "sizes": topics.sizes,
    "shapes": topics.shapes,
    "chains": chains.chains,
}
#: Stages of which every variant has a process of its own, and what that does.
INNER = {"variants": variants.time_documents, "networks": variants.time_network}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"markdown, or any of {', '.join(STAGES)}")
    parser.add_argument(
        "--documents", help="counts of documents (.npz of scipy.sparse); synthetic ones without"
    )
    parser.add_argument("--network", help="counts of a network (.npz); synthetic ones without")
    parser.add_argument("--counts", default="counts", help="which array of the network's file")
    parser.add_argument("-o", "--output", default="gpu-session")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="+", help="these checks of laws, or these variants, alone")
    parser.add_argument("--inner", choices=["stage", *INNER], help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    session = Session(options)
    if options.inner and options.tiny and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        from cuda_simulator import take_turns

        take_turns()
    unknown = set(options.stages) - {*STAGES, "markdown"}
    if unknown:
        parser.error(f"expected stages among {', '.join(STAGES)}, got {', '.join(unknown)}")
    if options.inner == "stage":
        STAGES[options.stages[0]](session)
        return
    if options.inner:
        print(json.dumps(INNER[options.inner](session, options.variant), default=float))
        return
    failed = []
    for stage in options.stages:
        if stage == "markdown":
            markdown(session, STAGES)
            continue
        began = time.perf_counter()
        say(f"=== {stage}")
        words = [stage, "--inner", "stage"]
        done = subprocess.run(
            [*arguments(session, *words), *(["--only", *options.only] if options.only else [])],
            env=environment(), check=False,
        )  # fmt: skip
        say(
            f"=== {stage}: {'done' if done.returncode == 0 else 'FAILED'} in {time.perf_counter() - began:.0f} s"
        )
        failed += [stage] if done.returncode else []
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
