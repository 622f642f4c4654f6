"""Does noise repeat after every seedable generator is seeded alike, or in a forked process?"""

from __future__ import annotations

import hashlib
import os
import random
import select
import warnings
from collections.abc import Callable

import numpy as np

from countveil.auditing.mechanism import Mechanism, noise_on
from countveil.auditing.report import Check
from countveil.privacy import Guarantee

Draw = Callable[[], np.ndarray]

PATIENCE = 60  # seconds for a child that must draw a little noise


def check_freshness(mechanism: Mechanism, guarantee: Guarantee) -> list[Check]:
    """Two draws that may agree only with chance 1e-12 or less."""
    size = _telling_size(guarantee.rho)
    if size is None:
        return [Check("fresh noise", True, "not tested: at this guarantee noise is too rare")]

    def draw() -> np.ndarray:
        return noise_on(mechanism, guarantee, 0, size)

    plain = not np.array_equal(draw(), draw())
    seeded = not np.array_equal(_seeded(draw), _seeded(draw))
    found = [
        Check("two calls", plain, "different noise" if plain else "the same noise twice"),
        Check(
            "two calls after seeding", seeded, "different noise" if seeded else "the seed decides the noise"
        ),
    ]
    if hasattr(os, "fork"):
        forked = _forked(draw)
        found.append(
            Check("a forked process", forked, "different noise" if forked else "repeats its parent's noise")
        )
    return found


def _telling_size(rho: float) -> int | None:
    """So many cells that two independent draws agree on all of them with chance 1e-12."""
    a = np.exp(-rho)
    agree = ((1 - a) / (1 + a)) ** 2 * (1 + a * a) / (1 - a * a)  # sum of the squared chances
    size = 28 / max(1 - agree, 1e-300)
    return int(size) + 10 if size < 10_000_000 else None


def _seeded(draw: Draw) -> np.ndarray:
    """What ``draw`` gives after seeding Python's and numpy's generators, which then get their state back."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    fresh = np.random.default_rng
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    np.random.default_rng = lambda *_: fresh(1)
    try:
        return draw()
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        np.random.default_rng = fresh


def _forked(draw: Draw) -> bool:
    """Whether a child that starts from the same state draws other noise than its parent."""
    draw()  # whatever the mechanism might buffer is filled now
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads; the child only draws
        child = os.fork()
    if child == 0:
        try:
            os.close(out)
            os.write(into, _digest(draw()))
        finally:
            os._exit(0)
    os.close(into)
    ours = _digest(draw())
    ready = select.select([out], [], [], PATIENCE)[0]
    theirs = os.read(out, 64) if ready else b""
    os.close(out)
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
    return bool(theirs) and ours != theirs


def _digest(noise: np.ndarray) -> bytes:
    return hashlib.sha256(noise.tobytes()).digest()
