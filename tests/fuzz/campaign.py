"""A campaign: case after case for every reader, until the time is over; a table, and every finding, small, on disk.

A case is known by reader, seed and number: its sample and its changes are drawn from these alone. It is changed here,
where nothing is limited, and read in the worker. A finding is made small by leaving out changes, as long as the
reader still fails in the same way.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fuzz.samples import samples
from fuzz.trees import OUTSIDE, Tree, size_of, tree_changed, write_tree
from fuzz.worker import SUBJECT

#: A case that takes so long by the clock hangs, whatever the processor does. Time is given by turns of so many seconds.
WALL_SECONDS, SECONDS_PER_BYTE, TURN = 300, 1e-5, 2.0
#: A worker serves so many cases: what libraries keep must not be charged to the case that comes last.
CASES_PER_WORKER = 2000


class Case(NamedTuple):
    """Enough to make it again: ``steps`` are those of its changes that are made (None: all)."""

    reader: str
    seed: int
    number: int
    steps: tuple[int, ...] | None = None

    def __str__(self) -> str:
        kept = "" if self.steps is None else f", changes {list(self.steps)} alone"
        return f"{self.reader}, seed {self.seed}, number {self.number}{kept}"


class Finding(NamedTuple):
    """A case that did what no file may do."""

    case: Case
    fault: str
    where: str


@dataclass
class Tally:
    """One line of the table."""

    cases: int = 0
    accepted: int = 0
    refused: int = 0
    peak: int = 0
    cpu: float = 0.0
    findings: list[Finding] = field(default_factory=list)


class Worker:
    """The process that reads, started when it is needed and again after it died."""

    def __init__(self, table: str, work: Path, wall: float) -> None:
        self._table, self._work, self._wall, self._process, self._served = table, work, wall, None, 0
        self._warm: set[str] = set()

    def is_warm(self, reader: str) -> bool:
        """Whether it has read a whole file with this reader; if not, it is about to."""
        if self._process is None or self._served >= CASES_PER_WORKER:
            self.close()
            self._start()
        known = reader in self._warm
        self._warm.add(reader)
        return known

    def read(self, reader: str, path: Path, n_bytes: int, signed: bool, free: bool = False) -> dict[str, Any]:
        """The verdict, also of a worker that died or hangs."""
        process: Any = self._process
        self._served += 1
        case = {"reader": reader, "path": str(path), "bytes": n_bytes, "signed": signed, "free": free}
        try:
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            ready = select.select(
                [process.stdout], [], [], 3600 if free else self._wall + n_bytes * SECONDS_PER_BYTE
            )[0]
            line = process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        if line is None:
            fault = f"time: no answer within {self._wall:g} seconds"
        else:
            code = process.wait()
            name = signal.Signals(-code).name if code < 0 else f"exit {code}"
            fault = "time: beyond the limit of the processor" if name == "SIGXCPU" else f"crash: {name}"
        self.close()
        return {"outcome": "died", "fault": fault, "peak": 0, "cpu": 0.0, "where": ""}

    def _start(self) -> None:
        here = Path(__file__).parents[1]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(here)]), "TMPDIR": str(self._work / "tmp"), "PYTHONFAULTHANDLER": "",
            # Pools reserve addresses by the gigabyte, which the limit would count.
            "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1",
        }  # fmt: skip
        (self._work / "tmp").mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", self._table], text=True, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._work,
        )  # fmt: skip
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("the worker did not start")
        self._warm, self._served = set(), 0

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                pipe.close()  # type: ignore[union-attr]
            self._process = None


class Campaign:
    """Readers of a table (a module with READERS), in a folder for their cases."""

    def __init__(
        self,
        work: Path,
        table: str = "fuzz.readers",
        made: dict[str, list[Tree]] | None = None,
        wall: float = WALL_SECONDS,
    ) -> None:
        self._work, self._readers = work, __import__(table, fromlist=["READERS"]).READERS
        self._samples: dict[str, list[Tree]] = {} if made is None else made
        self._worker = Worker(table, work, wall)
        self._donors = (
            self._of_kind("release file")[:1] if made is None else [t for ts in made.values() for t in ts]
        )
        outside = work / OUTSIDE
        outside.write_bytes(next(e for e in self._donors[0].values() if isinstance(e, bytes)))
        self.tallies = {name: Tally() for name in self._readers}
        self.tell: Callable[[Finding], object] = lambda finding: None

    def _of_kind(self, kind: str) -> list[Tree]:
        if kind not in self._samples:
            self._samples[kind] = samples(kind)
        return self._samples[kind]

    def made(self, case: Case) -> tuple[Tree, bool]:
        """The tree of a case, and whether its checksums are to agree."""
        rng = Random(str(case[:3]))
        reader = self._readers[case.reader]
        own = self._of_kind(reader.kind)
        tree, signed, n = rng.choice(own), rng.random() < 0.6, rng.choice((1, 1, 1, 2, 3))
        for step in range(n):
            if case.steps is None or step in case.steps:
                tree = tree_changed(tree, Random(f"{case[:3]} {step}"), [*own, *self._donors], reader.follows)
        return tree, signed

    def _read(self, name: str, tree: Tree, signed: bool, free: bool = False) -> dict[str, Any]:
        path = self._work / (SUBJECT + self._readers[name].suffix)
        _remove(path)
        write_tree(tree, path)
        verdict = self._worker.read(name, path, size_of(tree), signed, free)
        for written in (path, *(self._work / one for one in self._readers[name].writes)):
            _remove(written)
        return verdict

    def read(self, case: Case) -> dict[str, Any]:
        """The verdict over one case; before the first of a reader come its samples, which must be read well."""
        if not self._worker.is_warm(case.reader):
            for tree in self._of_kind(self._readers[case.reader].kind):
                verdict = self._read(case.reader, tree, False, free=True)
                if verdict["fault"] is not None:
                    raise AssertionError(f"{case.reader}: an unchanged sample, {verdict}")
        return self._read(case.reader, *self.made(case))

    def run(
        self, seed: int, names: Iterable[str], *, seconds: float = float("inf"), cases: int | None = None
    ) -> list[Finding]:
        """Case by case, the readers by turns; all that was found."""
        end, number, names = time.monotonic() + seconds, dict.fromkeys(names, 0), list(names)
        while names and time.monotonic() < end:
            for name in list(names):
                stop = min(end, time.monotonic() + TURN)
                while time.monotonic() < stop or cases is not None:
                    if cases is not None and number[name] >= cases:
                        names.remove(name)
                        break
                    self._count(Case(name, seed, number[name]))
                    number[name] += 1
        return [finding for tally in self.tallies.values() for finding in tally.findings]

    def _count(self, case: Case) -> None:
        verdict, tally = self.read(case), self.tallies[case.reader]
        tally.cases += 1
        tally.accepted += verdict["outcome"] == "accepted"
        tally.refused += verdict["outcome"] == "refused"
        tally.peak, tally.cpu = max(tally.peak, verdict["peak"]), max(tally.cpu, verdict["cpu"])
        if verdict["fault"] is not None:
            tally.findings.append(self.smallest(case, verdict))
            self.tell(tally.findings[-1])

    def smallest(self, case: Case, verdict: dict[str, Any]) -> Finding:
        """With as few of its changes as fail in the same way: a kind of fault is what stands before the colon."""
        for few in (1, 2):
            for steps in combinations(range(3), few):
                smaller = case._replace(steps=steps)
                again = self.read(smaller)
                if (
                    again["fault"] is not None
                    and again["fault"].split(":")[0] == verdict["fault"].split(":")[0]
                ):
                    return Finding(smaller, again["fault"], again["where"])
        return Finding(case, verdict["fault"], verdict["where"])

    def save(self, finding: Finding, folder: Path) -> Path:
        """The files of a finding, and what it is."""
        case = finding.case
        place = (
            folder / f"{''.join(c if c.isalnum() else '-' for c in case.reader)}-{case.seed}-{case.number}"
        )
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        write_tree(self.made(case)[0], place / (SUBJECT + self._readers[case.reader].suffix))
        signed = "agree, as if signed anew" if self.made(case)[1] else "are as they stand"
        (place / "finding.txt").write_text(
            f"{case}; checksums {signed}\n{finding.fault}\n{finding.where}",
            encoding="utf-8",
            errors="replace",
        )
        return place

    def table(self) -> str:
        """What was tried, and the worst of it."""
        heads = ("reader", "cases", "accepted", "refused", "findings", "worst memory", "worst time")
        rows = [
            (
                name,
                f"{t.cases:,}",
                f"{t.accepted:,}",
                f"{t.refused:,}",
                f"{len(t.findings)}",
                f"{t.peak / 2**20:.0f} MiB",
                f"{t.cpu:.2f} s",
            )
            for name, t in self.tallies.items()
            if t.cases
        ]
        total = sum(t.cases for t in self.tallies.values())
        found = sum(len(t.findings) for t in self.tallies.values())
        rows.append(("all", f"{total:,}", "", "", str(found), "", ""))
        return _lines([heads, *rows])

    def close(self) -> None:
        self._worker.close()


def _lines(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
