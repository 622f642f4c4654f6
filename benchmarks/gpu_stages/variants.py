"""Milliseconds per sweep, of the engine as it is and with other constants, side by side."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np

from gpu_stages.session import (
    LEVELS,
    SOURCES,
    alone,
    arguments,
    environment,
    kernel_table,
    milliseconds,
    opened,
    say,
)

#: What is told kernel by kernel.
PROFILED = (("exact", 1.0), ("exact", 3.0), ("naive", 1.0), ("plain", 0.0))
#: Constants of the engine's files that a variant has instead: {name: {file: {constant: value}}}. Those of exact and of
#: plain cells do not touch each other, and are tried two at a time.
VARIANTS = {
    "as it is": {},
    "all cells by one kernel": {"counts": {"SPLIT": "False"}, "cells": {"HARD_THREADS": "256"}},
    "easy 256 threads; plain 64 registers": {
        "cells": {"EASY_THREADS": "256"}, "plain_cells": {"REGISTERS": "64"},
    },
    "plain tiles of 32 rows": {"counts": {"TILE_ROWS": "32"}},
    "plain tiles of 64 columns": {"counts": {"TILE_COLUMNS": "64"}},
    "plain tiles of 32 x 64, 40 registers": {
        "counts": {"TILE_ROWS": "32", "TILE_COLUMNS": "64"}, "plain_cells": {"REGISTERS": "40"},
    },
    "plain 56 registers": {"plain_cells": {"REGISTERS": "56"}},
    "hard 64 threads; plain 64 threads": {
        "cells": {"HARD_THREADS": "64"}, "plain_cells": {"THREADS": "64"},
    },
}  # fmt: skip
NETWORK_VARIANTS = {
    "as it is": {},
    "2 groups": {"network_chains": {"GROUPS": "2"}},
    "8 groups": {"network_chains": {"GROUPS": "8"}},
    "4 cells each": {"network_cells": {"EACH": "4"}, "network_tokens": {"EACH": "2"}},
    "more registers": {
        "network_cells": {"REGISTERS": "128"},
        "network_tokens": {"SENDER_REGISTERS": "80", "RECEIVER_REGISTERS": "80"},
    },
}  # fmt: skip


def variant_sources(session, name, edits):
    """A copy of the package with other constants."""
    number = re.sub(r"\W+", "-", name)
    folder = session.scratch / "variants" / number
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCES / "countveil", folder / "countveil", ignore=shutil.ignore_patterns("__pycache__"))
    for file, constants in edits.items():
        if session.tiny:  # the simulator has few threads, whatever happens
            constants = {name: value for name, value in constants.items() if "THREADS" not in name}
        path = folder / "countveil/inference/engines/cuda" / f"{file}.py"
        text = path.read_text()
        for constant, value in constants.items():
            # Set anew right after the line that sets it: what follows uses the new one.
            pattern = re.compile(rf"^((?:[A-Z_]+, )*{constant}(?:, [A-Z_]+)* = .*\n)", re.M)
            text, n = pattern.subn(rf"\g<1>{constant} = {value}\n", text)
            if n != 1:
                raise ValueError(f"{name}: expected one line that sets {constant} in {file}.py, got {n}")
        path.write_text(text)
    return folder


def run_variants(session, stage, variants, at_once):
    """Every variant (of ``--only``) in a process of its own: compiled side by side, timed one after the other."""
    variants = {name: edits for name, edits in variants.items() if name in (session.options.only or variants)}

    def one(name):
        sources = variant_sources(session, name, variants[name])
        done = subprocess.run(
            arguments(session, "--inner", stage, "--variant", name),
            env=environment(sources, sources / "cache"), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return {"failed": (done.stdout + done.stderr)[-3000:]}
        return json.loads(done.stdout.splitlines()[-1])

    found = {}
    if session.tiny:  # all of them can be made; two are run
        for name in variants:
            variant_sources(session, name, variants[name])
        variants = dict(list(variants.items())[:2])
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(one, name): name for name in variants}
        for done in as_completed(waiting):
            name = waiting[done]
            try:
                found[name] = done.result()
            except Exception:
                found[name] = {"failed": traceback.format_exc()[-3000:]}
            say(f"{name}: {json.dumps(found[name], default=float)[:3500]}")
            session.write(stage, {name: found[name] for name in variants if name in found})
    return found


def time_documents(session, name):
    """One variant."""
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, model = session.documents(), TopicModel(session.small(50, 3))
    found, profile = {}, {}
    cases = [("exact", level) for level in LEVELS] + [("naive", level) for level in LEVELS] + [("plain", 0.0)]
    for method, level in cases:
        data = counts if method == "plain" else session.release(counts, level)
        problem = make_problem(model, data, "exact" if method == "plain" else method)
        sampler = opened(problem)
        sampler.sweep(0)  # compiles
        with alone(session):
            burn_in = session.small(600 if method == "exact" else 60, 2)
            for _ in range(burn_in):
                sampler.sweep(0)
            ms = milliseconds(sampler, session.small(100 if method == "exact" else 20, 1))
            found[f"{method} {level:g}"] = ms
            if (method, level) in PROFILED:
                profile[f"{method} {level:g}"] = kernel_table(
                    sampler, sampler._chains[0]._sweep, session.small(20, 1)
                )
        if method == "exact":
            scalars = sampler.monitor(0)
            found[f"total rate {level:g}"] = round(scalars["total_rate"], 3)
        sampler.__exit__(None, None, None)
        del sampler, problem
    return {"ms": found, "kernels": profile}


def time_network(session, name):
    """One variant."""
    from countveil.inference.problem import make_problem
    from countveil.models import CommunityModel

    counts, chains, size = session.network(), session.small(64, 2), session.small(20, 2)
    found, profile = {}, {}
    cases = {f"{level:g}": (CommunityModel(size, rate=1.0), level) for level in LEVELS}
    # The inferred prior, the default, in full only where the engine is as it is.
    levels = LEVELS if name == "as it is" else LEVELS[:1]
    cases |= {f"inferred {level:g}": (CommunityModel(size), level) for level in levels}
    if len(levels) > 1:
        cases["inferred, undirected 1"] = CommunityModel(size, directed=False), LEVELS[0]
    for case, (model, level) in cases.items():
        problem = make_problem(model, session.release(counts, level), "exact")
        sampler = opened(problem, chains=chains)
        for chain in range(chains):
            sampler.sweep(chain)
        with alone(session):
            for _ in range(session.small(1000, 1)):
                for chain in range(chains):
                    sampler.sweep(chain)
            found[case] = milliseconds(sampler, session.small(200, 1), chains=chains)
            if level == LEVELS[0]:
                work = sampler._work
                profile[case] = kernel_table(
                    sampler, lambda work=work: work._sweep(work._all), session.small(20, 1)
                )
        tokens = np.mean([held.statistics()[""].tokens[1].sum() for held in sampler._chains.values()])
        found[f"tokens {case}"] = int(tokens)
        sampler.__exit__(None, None, None)
    return {"ms": found, "kernels": profile}


def variants(session):
    """Documents."""
    run_variants(session, "variants", VARIANTS, at_once=session.small(len(VARIANTS), 2))


def networks(session):
    """A network."""
    run_variants(session, "networks", NETWORK_VARIANTS, at_once=session.small(len(NETWORK_VARIANTS), 2))
