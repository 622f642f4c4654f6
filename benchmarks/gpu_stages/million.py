"""One million synthetic documents."""

from __future__ import annotations

import importlib
import time

import numpy as np

from gpu_stages.session import say


def arrays():
    """CuPy, or numpy in the simulator."""
    from countveil.inference.engines.cuda import device

    return np if device.SIMULATED else importlib.import_module("cupy")


def on_device(xp, array):
    """An array of the engine as one of CuPy's."""
    return array if xp is np else xp.asarray(array)


def million(session):
    """Synthetic documents, made on the device: tokens of 50 topics with Zipf's words, and noise of eps/N = 1."""
    from countveil.inference.engines.cuda import device
    from countveil.inference.engines.cuda.counts import DeviceCounts
    from countveil.inference.engines.cuda.matrix_chain import MatrixChain, Workspace
    from countveil.inference.observed import Observed
    from countveil.models import TopicModel

    xp = arrays()
    n, width, k, per_document = session.small((1_000_000, 10_000, 50, 150), (20, 30, 2, 10))
    none, nothing = np.zeros(0, np.int32), np.zeros((0, 0))
    starts = np.zeros(n + 1, np.int64)
    data = Observed(
        n, width, starts, none, none.astype(np.uint16), starts, none, np.ones(n), nothing,
        np.zeros((0, 0), np.int64), nothing, starts, none, np.zeros((0, 0), bool), np.zeros(0),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    words = rng.gamma(0.1, 1.0, (k, width)) / np.arange(1, width + 1)
    words /= words.sum(axis=1, keepdims=True)
    ends = xp.asarray((np.arange(k)[:, None] + np.cumsum(words, axis=1)).ravel())
    draw = xp.random.RandomState(0)
    positive = 0

    class Synthetic(DeviceCounts):
        def _write_codes(self):
            nonlocal positive
            codes, alpha = on_device(xp, self._codes), np.exp(-1.0)
            at_once = max(1, session.small(5_000, 7))
            for first in range(0, n, at_once):
                rows = min(at_once, n - first)
                of_row = xp.repeat(xp.arange(rows), per_document)
                # Two topics a document.
                topic = ((of_row + first) * 7 + (draw.uniform(size=len(of_row)) < 0.4) * 13) % k
                word = xp.searchsorted(ends, topic + draw.uniform(size=len(of_row))) - topic * width
                cell = of_row * width + xp.clip(word, 0, width - 1)
                y = xp.bincount(cell, minlength=rows * width).astype(xp.int32)
                u, sign = draw.uniform(size=rows * width), draw.uniform(size=rows * width)
                size = xp.floor(xp.log(u) / np.log(alpha)).astype(xp.int32)  # geometric from 0
                # Two-sided: size from 0 on one side, from 1 on the other.
                x = y + xp.where(sign < 1 / (1 + alpha), size, -1 - size)
                x = xp.clip(x, 0, 253).astype(xp.uint8).reshape(rows, width)
                positive += int((x > 0).sum())
                codes[first : first + rows, :width] = x
                codes[first : first + rows, width:] = 255
            if xp is not np:
                xp.cuda.Device().synchronize()
                xp.get_default_memory_pool().free_all_blocks()

    before = device.find_device()
    began = time.perf_counter()
    counts = Synthetic(data, k)
    made = time.perf_counter() - began
    model = TopicModel(k, rate=1.0)
    chain = MatrixChain(Workspace(model, counts), 1, 0)
    scale = np.sqrt(per_document / (k * 0.1 * width * 0.1))
    theta, phi = rng.gamma(0.1, scale, (n, k)), rng.gamma(0.1, scale, (k, width))
    chain.load(model.state_type(theta, phi), 0)
    found = {"made, s": round(made, 1), "positive cells": positive, "tokens": n * per_document, "ms": []}
    for _ in range(session.small(6, 2)):
        device.synchronize()
        began = time.perf_counter()
        for _ in range(session.small(20, 1)):
            chain.sweep()
        device.synchronize()
        found["ms"].append(round(1e3 * (time.perf_counter() - began) / session.small(20, 1), 2))
        say(f"million documents: {found['ms'][-1]} ms per sweep")
    after = device.find_device()
    found["GB"] = round((before.free - after.free) / 1e9, 2)
    say(found)
    session.write("million", found)
