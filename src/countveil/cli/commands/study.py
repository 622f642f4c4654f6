"""``countveil study``: an experiment of the paper, from its data to table and picture."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any

from countveil.cli.options import add_command, spoken_as_options

if TYPE_CHECKING:
    from countveil.studies.plan import Study

#: Name of a study -> its module in ``studies/experiments/``, and what it shows.
STUDIES = {
    "blocks": ("blocks", "a small network: true, released, estimated (figure 1)"),
    "topics": ("topics", "topics of documents, by level of noise (figure 3)"),
    "synthetic-topics": ("synthetic_topics", "planted topics, found again (appendix)"),
    "communities": ("communities", "a network reconstructed (figure 4, left)"),
    "links": ("links", "hidden links predicted (figure 4, right)"),
    "months": ("months", "who, whom, when: components of a tensor"),
    "samplers": ("samplers", "exact, bessel, and the paper's formulas as printed"),
}

_KINDS = "\n".join(f"  {name:17} {summary}" for name, (_, summary) in STUDIES.items())

_DESCRIPTION = f"""\
Repeat an experiment of the paper, with more beside it.

{_KINDS}

DIR gets fits.csv (a line for every fit), summary.csv (means over releases with
95 % intervals), table.md and figure.png. Call it again after a stop and it goes
on; with more --releases it adds them. --quick shows that all works, in a minute;
without it the settings are the paper's, which can take hours. Noise is seeded:
nothing here is private."""

_EXAMPLE = """\
example: countveil study communities --network network.npz --releases 3 -o communities"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "study", "repeat an experiment of the paper", _DESCRIPTION, _EXAMPLE)
    add = parser.add_argument
    add("name", metavar="NAME", choices=list(STUDIES), help=f"one of {', '.join(STUDIES)}")
    add("-o", "--output", metavar="DIR", required=True, help="folder of the results, new or begun before")
    add("--quick", action="store_true", help="small and short, on synthetic counts unless a path is given")
    add("--documents", metavar="FILE", help="documents x words, as scipy.sparse.save_npz writes it")
    add("--part", metavar="N,N", help="of the documents the first N, and their N most frequent words")
    add("--network", metavar="FILE", help=".npz with counts and counts_unique, actors x actors")
    add("--edges", metavar="FILE", help=".csv or .csv.gz: time, sender, recipient, a line for every message")
    add("--sweeps", type=int, metavar="N", help="length of the chains, a third of it burn-in")
    add("--naive-sweeps", type=int, metavar="N", help="the same for naive fits of documents, which take long")
    add("--releases", type=int, metavar="N", help="number of releases, or of repetitions")
    add("--sizes", metavar="N,N", help="numbers of topics or communities, such as 5,20")
    add("--methods", metavar="NAME,NAME", help="only fits by these, such as exact,non-private")
    add("--priors", metavar="NAME,NAME", help="only fits with these, such as paper")
    add("--processes", type=int, metavar="N", default=1, help="fits at a time (default 1)")
    add("--engine", default=None, help="the hardware: auto (default), or one that fit knows")
    add("--threads", type=int, metavar="N", help="threads of a fit")
    return [parser]


def find_study(name: str) -> Study:
    """The study of that name."""
    return importlib.import_module(f"countveil.studies.experiments.{STUDIES[name][0]}").STUDY


def run(arguments: argparse.Namespace) -> int:
    """Run it, saying which fit is done."""
    from countveil.counts.shown_text import visible
    from countveil.studies.run import run_study

    for name in ("sweeps", "naive_sweeps", "releases", "threads", "processes"):
        value = getattr(arguments, name)
        least = 6 if "sweeps" in name else 1
        if value is not None and value < least:
            raise ValueError(f"--{name.replace('_', '-')}: expected at least {least}, got {value}")
    study = find_study(arguments.name)
    given = {name: getattr(arguments, name) for name in ("documents", "network", "edges")}
    for name, path in given.items():
        if path is not None and name not in study.data_options:
            raise ValueError(f"--{name}: expected none for the study {study.name}, got {path!r}")
    part = _numbers("--part", arguments.part)
    if part is not None and (arguments.documents is None or len(part) != 2):
        raise ValueError(f"--part: expected two numbers, with --documents, got {arguments.part!r}")
    settings = (study.quick if arguments.quick else study.paper).changed(
        sweeps=arguments.sweeps, naive_sweeps=arguments.naive_sweeps, releases=arguments.releases,
        sizes=_numbers("--sizes", arguments.sizes), engine=arguments.engine, threads=arguments.threads,
    )  # fmt: skip
    spoken = {name: f"--{name}" for name in ("output", "network", "edges", "methods", "priors")}
    with spoken_as_options(spoken):
        folder = run_study(
            study,
            arguments.output,
            settings,
            {**given, "part": part},
            say=lambda line: print(line, flush=True),
            methods=arguments.methods.split(",") if arguments.methods else (),
            priors=arguments.priors.split(",") if arguments.priors else (),
            processes=arguments.processes,
        )
    print()
    for line in (folder.path / "table.md").read_text(encoding="utf-8").split("\n"):
        print(visible(line))  # of fits that were there before, whoever made them
    print(visible(f"Wrote {folder.path}."))
    return 0


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise ValueError(f"{option}: expected whole numbers from 1, such as 5,20, got {text!r}")
    return numbers
