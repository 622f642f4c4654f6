"""``countveil doctor``: what this installation is, and whether it is well."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from countveil.cli.options import add_command

_DESCRIPTION = """\
Look at this installation: versions, processor and threads, the cache of
compiled code, graphics cards, the random source that noise is made of, the
noise itself, and what the environment sets. It takes some seconds; paste its
output into a report of a fault. Nothing is sent anywhere.

The audit of the noise is a quick one: it finds gross faults. `countveil audit`
looks harder, and no audit can prove the noise right.

The exit code is 0 if all is well and 1 if something is wrong: a library that
is missing or too old, a dead random source, noise that fails the audit. What
only costs time (a cold cache, no graphics card) is said and is no fault."""

_EXAMPLE = """\
example: countveil doctor --json"""

#: Used where they are installed.
_OPTIONAL = ("arviz", "networkx", "scikit-learn", "polars")
#: Noisy counts per check of the quick audit.
_SAMPLES = 200_000


@dataclass
class Finding:
    """One part of the report: facts by name, what is wrong (a fault), and what one should know (a note)."""

    facts: dict[str, Any]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "doctor", "whether this installation is well", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; the exit code says whether all is well."""
    from countveil.counts.shown_text import visible

    found = {name: _looked_at(look) for name, look in PARTS.items()}
    well = not any(part.faults for part in found.values())
    if arguments.json:
        parts = {
            name: {**part.facts, "faults": part.faults, "notes": part.notes} for name, part in found.items()
        }
        print(json.dumps({"well": well, **parts}, indent=2))
        return 0 if well else 1
    for name, part in found.items():
        print(name)
        for fact, value in part.facts.items():
            lines = value if isinstance(value, list) and value else [value]
            for line, one in enumerate(lines):
                print(f"  {fact if line == 0 else '':14} {visible(_in_words(one))}")
        for note in part.notes:
            print(f"  note: {visible(note)}")
        for fault in part.faults:
            print(f"  FAULT: {visible(fault)}")
    n_faults = sum(len(part.faults) for part in found.values())
    print("All is well." if well else f"{n_faults} fault{'s' * (n_faults > 1)}, see FAULT above.")
    return 0 if well else 1


def _looked_at(look: Callable[[], Finding]) -> Finding:
    """What was found; a doctor does not fall ill of what he finds."""
    try:
        return look()
    except Exception as error:
        return Finding({}, [f"could not be looked at ({type(error).__name__}: {error})"])


def _in_words(value: Any) -> str:
    return "none" if value is None or value == [] else str(value)


def _versions() -> Finding:
    import countveil

    found = Finding({"countveil": countveil.__version__, "Python": platform.python_version()})
    try:
        needed = metadata.requires("countveil") or []
    except metadata.PackageNotFoundError:
        needed = []
        found.notes.append("countveil is not installed as a package, so its needs are not known")
    from packaging.requirements import Requirement  # xarray and matplotlib need it

    for one in map(Requirement, needed):
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        version = _version(one.name)
        found.facts[one.name] = version
        if version is None:
            found.faults.append(f"{one.name} is missing: pip install '{one.name}{one.specifier}'")
        elif not one.specifier.contains(version, prereleases=True):
            found.faults.append(f"{one.name}: expected {one.specifier}, got {version}")
    found.facts |= {name: _version(name) or "not installed (optional)" for name in _OPTIONAL}
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _machine() -> Finding:
    from countveil.inference.settings import available_cores
    from countveil.runtime.machine import this_machine

    cores = os.cpu_count() or 1
    return Finding(
        {
            "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
            "processor": this_machine()["processor"],
            "threads": f"{available_cores()} of {cores} core{'s' * (cores > 1)}, by default",
        }
    )


def _compiled_code() -> Finding:
    with warnings.catch_warnings(record=True) as caught:  # it is looked for once, by the first that needs it
        warnings.simplefilter("always")
        # By its name: the cache's key covers every file that imports it.
        compiled: Any = importlib.import_module("countveil.runtime.compiled")
        folder = compiled.cache_folder()
        from countveil.inference.engines import cpu
    files = [path for path in folder.rglob("*") if path.is_file()]
    # numba makes a folder for every folder of sources: its name, and a hash of its path.
    cold = not any(folder.glob(f"{Path(cpu.__file__).parent.name}_*/*.nbi"))
    kept = folder.name.startswith("compiled-")
    mode = stat.S_IMODE(folder.stat().st_mode)
    found = Finding(
        {
            "cache": str(folder) if kept else None,
            "mode": f"{mode:o} ({'only its owner' if not mode & 0o077 else 'OTHERS CAN ENTER'})",
            "size": f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB in {len(files)} files",
            "state": "cold: the first fit compiles, for a minute or more" if cold else "warm",
        }
    )
    found.notes += sorted({str(one.message) for one in caught if "COUNTVEIL_CACHE_DIR" in str(one.message)})
    if not kept:
        found.notes.append(
            "no folder for compiled code that only you can write to: every process compiles anew; "
            "set COUNTVEIL_CACHE_DIR to one"
        )
    return found


def _gpu() -> Finding:
    """By the driver's own tool, which needs no library of ours and starts none."""
    from countveil.inference.settings import ENGINES

    tool, cards = shutil.which("nvidia-smi"), []
    if tool is not None:
        query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        try:
            told = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
            cards = [line.strip() for line in told.splitlines() if line.strip()]
        except (OSError, subprocess.SubprocessError) as error:
            return Finding(
                {"cards": None}, notes=[f"nvidia-smi is there and failed ({type(error).__name__})"]
            )
    found = Finding({"cards": cards or None, "engines known": [name for name in ENGINES if name != "auto"]})
    if cards:
        # Asked only where there is a card: its libraries take seconds to open.
        seen = importlib.import_module("countveil.inference.engines.cuda.device").find_device()
        if isinstance(seen, str):
            found.notes.append(f"fits run on the processor: {seen}")
        else:
            found.facts["cuda"] = f"{seen.name}, {seen.free} of {seen.total} bytes free"
    return found


def _random_source() -> Finding:
    from countveil.privacy.random_source import check_source, system_bits

    try:
        check_source(system_bits, check_source(system_bits))
    except (ValueError, OSError) as error:
        return Finding({"source": "os.urandom"}, [str(error)])
    return Finding(
        {
            "source": "os.urandom",
            "health test": "passed: neither stuck nor repeating",
            "cannot find": "bits that somebody knows",
        }
    )


def _noise() -> Finding:
    from countveil.auditing import audit

    report = audit(samples=_SAMPLES)
    finds = {check.finds: check.name.split(": ")[-1] for check in report.checks if check.finds}
    return Finding(
        {
            "quick audit": f"{'passed' if report.passed else 'FAILED'}, {len(report.checks)} checks",
            "finds": [f"{name}: {least}" for least, name in finds.items()],
            "cannot find": "a seed drawn once for each process, known bits, anything else on this machine",
        },
        [str(check) for check in report.checks if not check.passed],
        ["countveil audit looks harder; no audit proves the noise right"],
    )


def _environment() -> Finding:
    own = {name: value for name, value in sorted(os.environ.items()) if name.startswith("COUNTVEIL_")}
    return Finding(
        {"command": sys.argv[0], "variables": None} if not own else {"command": sys.argv[0], **own}
    )


#: The parts of the report, in its order.
PARTS: dict[str, Callable[[], Finding]] = {
    "versions": _versions,
    "compiled code": _compiled_code,
    "machine": _machine,
    "graphics cards": _gpu,
    "random source": _random_source,
    "noise": _noise,
    "environment": _environment,
}
