"""The models of ``countveil fit``: one entry each, which holds all that the command line knows of a model.

A model's own option is one line of its entry: the flag, the parameter of the model that it sets, and what argparse
is to know. The entries name the classes and do not import them: those load numba, and help should come at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countveil.posterior import Posterior


@dataclass(frozen=True)
class Option:
    """A flag, and the parameter that it sets: to what argparse makes of it, or then to ``read(flag, text)``."""

    flag: str
    parameter: str
    settings: Mapping[str, Any]  # for argparse
    read: Callable[[str, str], Any] | None = None


def _number(flag: str, parameter: str, metavar: str, default: int, what: str) -> Option:
    settings = {"type": int, "default": default, "metavar": metavar, "help": f"{what} (default {default})"}
    return Option(flag, parameter, settings)


@dataclass(frozen=True)
class FitCommand:
    """``countveil fit NAME``: the model, its options, and how to show what was found."""

    model: str  # the name of its class
    summary: str
    description: str
    example: str
    options: tuple[Option, ...]
    #: Lines that show what was found; none where ``countveil topics`` does.
    in_python: str | None = None
    #: What to print after a fit, and the option ``shown`` that says how much of it.
    findings: Callable[[Posterior, int], str] | None = None
    shown: Option | None = None

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The model's own options, and how much to print last."""
        for option in (*self.options, *filter(None, [self.shown])):
            parser.add_argument(option.flag, dest=option.parameter, **option.settings)

    def model_of(self, arguments: argparse.Namespace) -> Any:
        """The model that the parsed options describe."""
        from countveil import models

        parameters: dict[str, Any] = {"shape": arguments.shape}
        if hasattr(arguments, "rate"):
            parameters["rate"] = arguments.rate
        for option in self.options:
            value = getattr(arguments, option.parameter)
            if option.read is not None and value is not None:
                value = option.read(option.flag, value)
            parameters[option.parameter] = value
        sizes = parameters.pop("sizes", {})  # of summed indices, each a parameter of its own: k=50
        return getattr(models, self.model)(**parameters, **sizes)


def _whole_number(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{flag}: expected whole numbers, got {text!r}") from None


def _whole_numbers(flag: str, text: str) -> tuple[int, ...]:
    return tuple(_whole_number(flag, part) for part in text.split(","))


def _sizes(flag: str, text: str) -> dict[str, int]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    return {letter.strip(): _whole_number(flag, size) for letter, _, size in pairs}


def groups_of_rows(flag: str, text: str) -> Any:
    """Groups of rows from FILE:COLUMN; the first of several columns has the labels of the rows."""
    import pandas as pd

    from countveil.counts.places import local_path

    path, _, column = text.rpartition(":")
    if not path or not column:
        raise ValueError(f"{flag}: expected FILE.csv:COLUMN, got {text!r}")
    local_path(path, flag)
    # As text, all of it: years are names here, and a group may be called NA. What is empty is missing.
    table = pd.read_csv(
        path,
        sep="\t" if path.endswith(".tsv") else ",",
        dtype=str,
        keep_default_na=False,
        skip_blank_lines=False,  # one is a row without a group, where rows go by order
    ).fillna("")
    if not isinstance(
        table.index, pd.RangeIndex
    ):  # R gives labels no name: its header is shorter than the lines
        if isinstance(table.index, pd.MultiIndex):
            raise ValueError(
                f"{flag}: expected as many names in the first line of {path} as columns, got fewer"
            )
        if len(table) and (table.iloc[:, -1] == "").all():
            raise ValueError(
                f"{flag}: expected as many names in the first line of {path} as there are fields, got lines that "
                "end with a comma: a name for it, or no comma"
            )
        table = table.reset_index(names="" if "" not in table.columns else "label")
    if column not in table.columns:
        listed = ", ".join(map(repr, table.columns))
        raise ValueError(f"{flag}: expected one of the columns {listed} of {path}, got {column!r}")
    rows = table.columns[0]
    if len(table.columns) == 1:
        return [
            value or None for value in table[column]
        ]  # there is nothing to tell which row is which but their order
    if rows == column:
        raise ValueError(
            f"{flag}: expected the labels of the rows in the first column of {path}, got {column!r} there; put it "
            "after the labels, or into a file of its own, whose lines are in the order of the rows"
        )
    table = table[(table != "").any(axis=1)]
    twice = table[rows][table[rows].duplicated()]
    if len(twice):
        raise ValueError(
            f"{flag}: expected every row once in the column {rows!r}, got {twice.iloc[0]!r} again"
        )
    return dict(zip(table[rows], (value or None for value in table[column]), strict=True))


def _topics(posterior: Posterior, n_words: int) -> str:
    found = str(posterior.topics(n_words))
    if posterior.model.groups is None:
        return found
    return f"{found}\n\nShares of the topics in the groups\n{posterior.prevalence()}"


def _communities(posterior: Posterior, n_members: int) -> str:
    import numpy as np

    from countveil.counts.shown_text import short_label

    shares, blocks = posterior.memberships()["mean"], posterior.blocks()
    members, counts = shares.to_numpy(), blocks["mean"].to_numpy()
    names = shares[shares.dims[0]].to_numpy()
    lines = ["community  within  to others  from others  agreement  actors with the largest share"]
    for c, agreement in enumerate(blocks["agreement"].to_numpy()):
        top = np.argsort(-members[:, c], kind="stable")[:n_members]
        out, back = counts[c].sum() - counts[c, c], counts[:, c].sum() - counts[c, c]
        listed = " ".join(short_label(names[i]) for i in top)
        lines.append(f"{c:>9}  {counts[c, c]:6.0f}  {out:9.0f}  {back:11.0f}  {agreement:9.2f}  {listed}")
    return "\n".join(lines)


TOPICS = FitCommand(
    model="TopicModel",
    summary="topics of documents, by Poisson factorization",
    description="""\
Find topics in a release, or in plain counts.

A release is what `countveil privatize` writes. Its noise is part of the model,
so topics are those of the true counts, as far as the release tells, with
intervals that say how far that is.

The result is a folder, RUN. `countveil topics RUN` shows it again and writes
tables; in Python `countveil.load_posterior("RUN")` opens it.

How long? Start with the default. The diagnostics printed at the end say whether
the chains agree (R-hat near 1) and what their draws are worth (ESS). Ctrl-C
stops early and keeps what was drawn.""",
    example="""\
examples:
  countveil fit topics release.parquet -o run.zarr --topics 50
  countveil fit topics release.parquet -o long.zarr --topics 50 --sweeps 4000 \\
      --burn-in 2000 --thin 20 --chains 4 --seed 1
  countveil fit topics release.parquet -o run.zarr --topics 50 --groups people.csv:team
  countveil fit topics counts.csv --plain --index document -o plain.zarr --topics 50""",
    options=(
        _number("--topics", "n_topics", "K", 20, "number of topics"),
        Option(
            "--groups",
            "groups",
            {
                "metavar": "FILE.csv:COLUMN",
                "help": "public groups of the rows, whose topics are compared. The first column of the file holds "
                "the labels of the rows; a file of COLUMN alone has them in their order. Empty is no group",
            },
            groups_of_rows,
        ),
    ),
    findings=_topics,
    shown=_number("--words", "shown", "N", 10, "words of a topic to print"),
)

COMMUNITIES = FitCommand(
    model="CommunityModel",
    summary="communities of a network",
    description="""\
Find communities in a network of counts: who deals with whom, and how much.

The release is a square array, senders by receivers. Its diagonal is left out
unless --self-loops says otherwise. --undirected uses each pair once, from the
part above the diagonal.""",
    example="""\
examples:
  countveil fit communities network.parquet -o run.zarr --communities 10
  countveil fit communities network.parquet -o run.zarr --communities 10 --undirected""",
    options=(
        _number("--communities", "n_communities", "C", 10, "number of communities"),
        Option("--undirected", "directed", {"action": "store_false", "help": "each pair has one count"}),
        Option(
            "--self-loops",
            "self_loops",
            {"action": "store_true", "help": "the diagonal is part of the model"},
        ),
    ),
    in_python="print(posterior.to_dataframe('memberships')); print(posterior.blocks())",
    findings=_communities,
    shown=_number("--members", "shown", "N", 8, "actors of a community to print"),
)

TENSOR = FitCommand(
    model="TensorModel",
    summary="components of a tensor",
    description="""\
Find components in counts with three axes or more, such as senders by receivers
by months.

--rank gives the CP form, in which a component has its part of every axis; --core
the Tucker form, in which every axis has components of its own.""",
    example="""\
examples:
  countveil fit tensor messages.parquet -o run.zarr --rank 20
  countveil fit tensor messages.parquet -o run.zarr --core 5,5,3""",
    options=(
        Option(
            "--rank", "rank", {"type": int, "metavar": "K", "help": "number of components of the CP form"}
        ),
        Option(
            "--core",
            "core",
            {"metavar": "A,B,C", "help": "shape of the core of the Tucker form"},
            _whole_numbers,
        ),
        _number("--axes", "n_axes", "N", 3, "axes of the counts, with --rank"),
    ),
    in_python="print(posterior.components())",
    findings=lambda posterior, n: str(posterior.components(n)),
    shown=_number("--labels", "shown", "N", 5, "labels of a component to print"),
)

FACTORIZATION = FitCommand(
    model="Factorization",
    summary="any einsum of factors",
    description="""\
Fit any Poisson factorization, given as an einsum of its factors. Indices after
the arrow are the axes of the counts; the others are summed and need a size.""",
    example="""\
examples:
  countveil fit factorization release.parquet -o run.zarr --spec 'dk,kv->dv' --sizes k=50
  countveil fit factorization network.parquet -o run.zarr --spec 'ic,cd,jd->ij' \\
      --sizes c=5,d=5 --names theta,pi,theta""",
    options=(
        Option("--spec", "spec", {"required": True, "metavar": "EINSUM", "help": "such as 'dk,kv->dv'"}),
        Option(
            "--sizes",
            "sizes",
            {"default": "", "metavar": "K=N,...", "help": "sizes of the summed indices, such as k=50"},
            _sizes,
        ),
        Option(
            "--names",
            "names",
            {"metavar": "NAME,...", "help": "names of the factors; the same name twice ties them"},
            lambda _, text: text.split(","),
        ),
    ),
    in_python="print(posterior.rates()); print(posterior.tree)",
)

MODELS = {"topics": TOPICS, "communities": COMMUNITIES, "tensor": TENSOR, "factorization": FACTORIZATION}
