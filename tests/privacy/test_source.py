"""All bits come from the operating system: no state survives a call, no starting value reaches the noise."""

import ast
import os
import re
import subprocess
import sys
import tokenize
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import countveil.privacy
from countveil.privacy import Guarantee, add_noise, mechanism

FILES = sorted(Path(countveil.privacy.__file__).parent.glob("*.py"))


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("epsilon", ["0.001", "0.1"])
def test_a_forked_child_does_not_repeat_noise(epsilon):
    lines = run(f"""
import os
import numpy as np
from countveil.privacy import Guarantee, add_noise
def draw():
    noise = add_noise(np.zeros(200, dtype=int), Guarantee("{epsilon}"))
    os.write(1, (str(noise.tolist()) + "\\n").encode())  # one write, so that lines stay whole
draw()
child = os.fork()
draw()
if child:
    assert os.waitpid(child, 0)[1] == 0
""")
    noise = [line for line in lines if line]
    assert len(noise) == 3
    assert len(set(noise)) == 3


def test_no_starting_value_reaches_the_noise():
    script = """
import random
import numpy as np
random.seed(1)
np.random.seed(1)
rng = np.random.default_rng(1)
from countveil.privacy import Guarantee, add_noise
noise = add_noise(np.zeros(200, dtype=int), Guarantee("0.1"))
print(noise.tolist(), random.random(), np.random.rand(), rng.random())
"""
    one, other = (run(script, PYTHONHASHSEED="0")[0].rsplit("]") for _ in range(2))
    assert one[1] == other[1]  # everything else is as it was
    assert one[0] != other[0]


def test_drawing_noise_leaves_other_generators_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    add_noise([0, 0], Guarantee(1))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_every_call_asks_for_fresh_bits():
    """Nothing is left over: each call asks for 16 bits per cell after its health test, whatever was asked before."""
    asked = []

    def source(count):
        asked.append(count)
        return os.urandom(count)

    for size in (1, 3, 2, 7):
        asked.clear()
        mechanism._release(np.zeros(size, dtype=int), Fraction(1), source)
        assert asked[:2] == [16, 2 * size]
        assert asked[-1] == 16


def test_the_source_is_the_operating_system(monkeypatch):
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or urandom(count))
    add_noise(np.zeros(1000, dtype=int), Guarantee(1))
    assert sum(asked) >= 2000


def test_a_failing_source_is_not_hidden(monkeypatch):
    def fails(count):
        raise NotImplementedError("no bits")

    monkeypatch.setattr(os, "urandom", fails)
    with pytest.raises(NotImplementedError):
        add_noise(np.zeros(1000, dtype=int), Guarantee(1))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_imports_numpy_and_the_standard_library_only(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module]
        for name in names:
            top = name.split(".")[0]
            assert top == "numpy" or top in sys.stdlib_module_names or name.startswith("countveil.privacy")
            assert top not in ("random", "secrets", "uuid", "tempfile")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_other_generators_are_not_even_named(path):
    with path.open("rb") as file:
        names = {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    assert not names & {
        "random",
        "seed",
        "default_rng",
        "RandomState",
        "Generator",
        "SystemRandom",
        "getrandbits",
    }
    assert not re.search(r"\b(random|seed)\b", path.read_text(encoding="utf-8"))


def test_there_are_files_to_look_at():
    assert len(FILES) >= 5
