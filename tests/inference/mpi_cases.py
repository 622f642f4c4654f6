"""Run by every rank of an MPI job: draws of all ranks together against those of one process, case by case."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from countveil.inference.engines import mpi
from countveil.inference.engines.cpu import open_problem
from inference.test_sharded import QUICK, drawn, problem_of, same, settings_of


def main() -> None:
    mpi.follow()
    for case in QUICK:
        problem, settings = problem_of(*case), settings_of(case[2])
        assert problem is not None
        ours = drawn(mpi.open_problem(problem, settings))
        print("same" if same(drawn(open_problem(problem, settings)), ours) else "DIFFERENT", case, flush=True)


if __name__ == "__main__":
    main()
