"""One source serves both: the kernels give the same draws compiled for the CPU and in a CUDA kernel."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cuda_cases
from countveil.runtime.compiled import PACKAGE

KERNELS = sorted((PACKAGE / "kernels").rglob("*.py"))


def in_the_simulator() -> dict[str, list[float]]:
    # With compilation off the simulator executes the Python source of the kernels.
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", cuda_cases.__file__],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return json.loads(finished.stdout)


@pytest.mark.long
def test_the_cuda_simulator_draws_what_the_compiled_kernels_draw():
    simulated = in_the_simulator()
    compiled = cuda_cases.on_cpu()
    assert simulated.keys() == compiled.keys()
    for name, values in simulated.items():
        # Whole numbers must agree exactly; reals up to the last digits of the two mathematics libraries.
        assert np.isfinite(values).all(), name
        assert np.allclose(values, compiled[name], rtol=1e-13, atol=0), name
    varied = [name for name, values in simulated.items() if len(set(values)) > 1]
    assert len(varied) > 15, "samplers must not return constants"


def test_every_public_kernel_is_among_the_cases():
    assert {file.name for file in KERNELS} > {"gamma.py", "geometric.py"}
    sources = {file: file.read_text() for file in KERNELS}
    cases = Path(cuda_cases.__file__).read_text()
    for file, source in sources.items():
        for name in re.findall(r"@(?:compiled|inlined)\ndef ([a-z]\w*)\(", source):
            # Either a case of its own, or called by a kernel that is.
            callers = [text for other, text in sources.items() if other != file or text.count(f"{name}(") > 1]
            assert re.search(rf"\b{name}\b", cases) or any(f"{name}(" in text for text in callers), name


def test_floors_are_made_integers():
    # On a device math.floor gives a float, which cannot index an array; the simulator does not know that.
    for file in KERNELS:
        text = file.read_text()
        assert text.count("math.floor(") == text.count("np.int64(math.floor("), file.name
