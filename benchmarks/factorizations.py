"""Communities and tensors: milliseconds per sweep on one core, tokens beside the cell-by-cell path."""

from __future__ import annotations

import csv
import gzip
import sys
from typing import Any

import numpy as np

import countveil as cv
from countveil.runtime.workers import Workers
from engines import Run, side_by_side

ACTORS, MONTHS, MESSAGES = 161, 44, 107_566


class AnySpec:
    """A factorization seen as a model of the user's own: rates in blocks, counts to its ``update``."""

    def __init__(self, model: Any) -> None:
        self.model, self.dims = model, model.dims
        self.init, self.rates, self.update = model.init, model.rates, model.update


def messages(path: str | None) -> tuple[np.ndarray, str]:
    """Counts (sender, recipient, month) and what they are."""
    if path is None:
        return synthetic(), "synthetic messages"
    with gzip.open(path, "rt") as file:
        rows = [(r["sender"], r["recipient"], r["time"][:7]) for r in csv.DictReader(file)]
    first, second, month = zip(*rows, strict=True)
    actors = {name: i for i, name in enumerate(sorted({*first, *second}))}
    years = sorted(set(month))
    begin, end = (int(m[:4]) * 12 + int(m[5:]) for m in (years[0], years[-1]))
    counts = np.zeros((len(actors), len(actors), end - begin + 1), dtype=np.int64)
    for i, j, m in rows:
        counts[actors[i], actors[j], int(m[:4]) * 12 + int(m[5:]) - begin] += 1
    return counts, "messages between people, by month"


def synthetic(seed: int = 0) -> np.ndarray:
    """Few pairs write often, most never, in bursts: as people do."""
    rng = np.random.default_rng(seed)
    activity = rng.gamma(0.3, size=(ACTORS, 20)) @ rng.gamma(0.05, size=(20, ACTORS))
    weights = (activity[:, :, None] * rng.gamma(0.3, size=(1, 1, MONTHS))).ravel()
    return rng.multinomial(MESSAGES, weights / weights.sum()).reshape(ACTORS, ACTORS, MONTHS)


def table(path: str | None, sweeps: int = 100, rounds: int = 5) -> list[str]:
    """Lines of the report."""
    counts, what = messages(path)
    release = cv.simulate_release(counts, alpha=np.exp(-1.0), seed=1)
    network = cv.simulate_release(counts.sum(axis=2), alpha=np.exp(-1.0), seed=1)
    tensor, communities = cv.TensorModel(20), cv.CommunityModel(20, rate=1.0)
    runs = {
        "tensor, tokens": (Run(tensor, release, "exact"), sweeps),
        "tensor, cells": (Run(tensor, release, "exact", algorithm="cells"), sweeps // 4),
        "tensor, any spec": (Run(AnySpec(tensor), release, "exact"), sweeps // 4),
        "communities": (Run(communities, network, "exact"), sweeps),
    }
    with Workers(1) as workers:
        for chain, n in runs.values():
            chain.advance(2 * n, workers)
    seconds = side_by_side(runs, 1, rounds)
    shape = " x ".join(map(str, counts.shape))
    by_tokens, by_cells, any_spec = (
        1e3 * seconds[f"tensor, {kind}"] for kind in ("tokens", "cells", "any spec")
    )
    return [
        f"On {what}: {shape}, {counts.sum():,} in all, released at eps/N = 1; one thread.",
        "",
        "| model | ms per sweep |",
        "|---|---|",
        f"| communities, C = 20, {shape.rpartition(' x ')[0]} (bar: 8) | {1e3 * seconds['communities']:.1f} |",
        f"| tensor, rank 20, by tokens | {by_tokens:.1f} |",
        f"| tensor, rank 20, cell by cell as any other spec | {any_spec:.1f} |",
        f'| tensor, rank 20, cell by cell, unfolded (`algorithm="cells"`) | {by_cells:.1f} |',
        f"| **cells as any other spec / tokens** (bar: 10) | **{any_spec / by_tokens:.1f}** |",
        f"| **cells, unfolded / tokens** (bar: 10) | **{by_cells / by_tokens:.1f}** |",
    ]


if __name__ == "__main__":
    print("\n".join(table(sys.argv[1] if len(sys.argv) > 1 else None)))
