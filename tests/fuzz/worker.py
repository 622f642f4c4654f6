"""The process that reads: one line of JSON for a case comes in, one with its verdict goes out.

It is limited anew for every case, above what the process has taken by then: address space by the rule of
``countveil.counts.bounded.room`` and processor time. If it dies or hangs, whoever sent the case knows which one it was.
"""

import contextlib
import importlib
import io
import json
import math
import os
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from countveil.counts.bounded.room import Room
from fuzz.canaries import Canaries, around

#: Beside the rule: imports and threads that a rare path needs, and what numpy and Arrow round up to.
SLACK = 1 << 28
#: Seconds of the processor for a case and for each MB of it; and how often a reader may warn.
CPU_SECONDS, CPU_PER_MB, MOST_WARNINGS = 10, 2, 3
LONGEST_MESSAGE = 1500
_PARAMETERS = (
    "counts",
    "labels",
    "rows",
    "columns",
    "long",
    "index",
    "path",
    "ledger",
    "data",
    "dataset",
    "runs",
    "model",
    "store",
    "FILE",
    "RUN",
    "epsilon",
    "precision",
    "budget",
    "settings",
)
_OURS = re.compile(rf"(--)?({'|'.join(_PARAMETERS)})(, [\w-]+)*: ")
_PLAIN = (
    ValueError,
    TypeError,
    OSError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    BlockingIOError,
)


#: The name of the file or folder that is read.
SUBJECT = "subject"


class Reader(NamedTuple):
    """One way in which a file gets into the package. A module with a table of them has READERS."""

    kind: str  # of samples
    call: Callable[[Path], Any]  # gives the exit code if it is a command
    suffix: str = ""
    command: bool = False
    writes: tuple[str, ...] = ()  # names beside the subject that it may make
    follows: bool = False  # a link in place of the file itself, because the user names it
    named: tuple[str, ...] = ()  # files within, which the user names as well


def memory(what: str) -> int:
    """VmSize, VmRSS or VmHWM of this process, in bytes."""
    return int(re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]


def fault_of(error: BaseException, path: Path) -> str | None:
    """What is wrong with this error as an answer to people; None if it is as documented."""
    chain, cause = [], error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    if any(isinstance(one, MemoryError) for one in chain):
        return "memory: beyond the limit"
    kind, message = type(error), str(error)
    if kind.__module__.partition(".")[0] != "countveil":
        if kind not in _PLAIN:
            return f"raised {kind.__name__}"
        if isinstance(error, OSError) and error.errno is not None:
            return None  # the system's own words
        if not (_OURS.match(message) or SUBJECT in message):
            return f"raised {kind.__name__} without a word of the file"
    if not message.strip():
        return f"raised {kind.__name__} without a message"
    if len(message) - len(str(path)) > LONGEST_MESSAGE:
        return f"raised {kind.__name__} with a message of {len(message)} letters"
    return None


def command_fault(code: Any, out: str, told: str) -> str | None:
    """What is wrong with how a command ended."""
    if code not in (0, 1, 2):
        return f"exit code {code!r}"
    if "Traceback" in told or "internal error" in told:
        return "command: " + told.strip()[-200:]
    if len(told) > LONGEST_MESSAGE + 1000 or (code and told.count("\n") != 1):
        return f"command: {told.count(chr(10))} lines of errors, {len(told)} letters"
    if any(not c.isprintable() and c not in "\n\t" for c in out + told):
        return "command: control characters"
    return None


def read_case(
    by: Reader, path: Path, n_bytes: int, signed: bool, free: bool, canaries: Canaries, signing: Any
) -> dict[str, Any]:
    """Read one case within limits; the verdict: how it ended, what is wrong with that, memory and time."""
    beside, fault, outcome = around(path.parent, path.name), None, "accepted"
    out, told = io.StringIO(), io.StringIO()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    held, room = memory("VmRSS"), Room(n_bytes).left + SLACK
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = used.ru_utime + used.ru_stime
    seconds = CPU_SECONDS + CPU_PER_MB * n_bytes / 1e6
    if free:  # the first of its kind: modules are imported, and functions loaded
        room, seconds = 1 << 40, 3600
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(began + seconds), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + room, resource.RLIM_INFINITY))
    linked = tuple(Path(os.path.realpath(one)) for one in (path, *(path / n for n in by.named)) if by.follows)
    canaries.arm(path, path.parent / "tmp", *(path.parent / name for name in by.writes), *linked)
    where = ""
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            signing(signed),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(told),
        ):
            warnings.simplefilter("always")
            code = by.call(path)
        if by.command:
            fault = command_fault(code, out.getvalue(), told.getvalue())
            outcome = "refused" if code else outcome
    except BaseException as error:
        outcome, fault = "refused", fault_of(error, path)
        if fault is not None:
            where = "".join(traceback.format_exception(error))[-3000:]
        del error
    seen = canaries.disarm()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    used, peak = resource.getrusage(resource.RUSAGE_SELF), memory("VmHWM") - held
    beside_now = {k: v for k, v in around(path.parent, path.name).items() if k != "tmp"}
    beside.pop("tmp", None)
    if seen:
        fault = "canary: " + seen[0]
    elif beside != beside_now and not set(beside_now) - set(beside) <= set(by.writes):
        fault = "canary: files beside the case changed"
    elif peak > room:
        fault = f"memory: {peak >> 20} MiB for {n_bytes} bytes"
    elif fault is None and warned:
        strange = [
            w
            for w in warned
            if not issubclass(w.category, UserWarning) or issubclass(w.category, RuntimeWarning)
        ]
        if strange or len(warned) > MOST_WARNINGS:
            fault = f"{len(warned)} warnings, such as {warned[-1].category.__name__}: {warned[-1].message}"[
                :300
            ]
    cpu = used.ru_utime + used.ru_stime - began
    return {
        "outcome": outcome,
        "fault": fault,
        "peak": max(0, peak),
        "cpu": cpu,
        "where": where + told.getvalue()[-1000:] * bool(fault),
    }


def main(table: str) -> None:
    """Serve cases for the readers of a module until the other side closes."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print
    module = importlib.import_module(table)
    # By a hostile hand checksums are right, if the readers of the table have any.
    signing = getattr(module, "checksums", contextlib.nullcontext)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    canaries = Canaries()
    replies.write("ready\n")
    replies.flush()
    for line in sys.stdin:
        case = json.loads(line)
        path = Path(case["path"])
        (path.parent / "tmp").mkdir(exist_ok=True)
        os.chdir(path.parent / "tmp")
        verdict = read_case(
            module.READERS[case["reader"]],
            path,
            case["bytes"],
            case["signed"],
            case["free"],
            canaries,
            signing,
        )
        replies.write(json.dumps(verdict) + "\n")
        replies.flush()


if __name__ == "__main__":
    main(sys.argv[1])
