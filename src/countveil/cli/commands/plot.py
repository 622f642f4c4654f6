"""``countveil plot``: a picture of a run, as a file."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from countveil.cli.options import add_command, chosen_view, spoken_as_options
from countveil.report.pictures import PICTURES

_KINDS = "\n".join(f"  {kind:12} {picture.summary}" for kind, picture in PICTURES.items())

_DESCRIPTION = f"""\
Draw a picture of a run and write it as .png, .svg or .pdf, by the name.

{_KINDS}

Dots and lines are means and 90 % intervals. docs/pictures.md says how to read
each picture, and how to choose what it shows in Python. A file of that name is
replaced once the picture is complete."""

_EXAMPLE = """\
example: countveil plot run.zarr topics -o topics.png"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "plot", "draw a picture of a run", _DESCRIPTION, _EXAMPLE)
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="the folder of the run")
    add("kind", metavar="KIND", help=f"one of {', '.join(PICTURES)}")
    add("-o", "--output", metavar="FILE", required=True, help="the file to write: .png, .svg or .pdf")
    add("--view", metavar="NAME", help="of a run of several arrays: the one to draw")
    add("--dpi", type=int, default=150, metavar="N", help="dots per inch of a .png (default 150)")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Draw it and write it."""
    if arguments.kind not in PICTURES:
        raise ValueError(f"KIND: expected one of {', '.join(PICTURES)}, got {arguments.kind!r}")
    if not 10 <= arguments.dpi <= 1200:
        raise ValueError(f"--dpi: expected a number from 10 to 1200, got {arguments.dpi}")
    from countveil.counts.shown_text import visible
    from countveil.posterior import load_posterior
    from countveil.posterior.diagnostics.modes import posterior_modes
    from countveil.posterior.diagnostics.select import selection_of
    from countveil.report import picture_path, save_picture
    from countveil.report.pictures import function_of, kinds_of

    with spoken_as_options():
        picture_path(arguments.output)  # before the work
    posterior = chosen_view(load_posterior(arguments.run_folder), arguments.view)
    known = kinds_of(posterior)
    if arguments.kind not in known:
        what = type(posterior.model).__name__ if posterior.model is not None else "a model of your own"
        hint = "; --view NAME draws one of its arrays" if hasattr(posterior, "values") else ""
        raise ValueError(
            f"KIND: expected a picture that fits a run of {what} ({', '.join(known)}), got {arguments.kind!r}{hint}"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ax = function_of(arguments.kind)(posterior)
        with spoken_as_options():
            save_picture(ax, arguments.output, dpi=arguments.dpi)
    if any("missing from" in str(one.message) for one in caught):
        print("Some characters are not in the font and are drawn as boxes.", file=sys.stderr)
    for line in (selection_of(posterior.tree), str(posterior_modes(posterior))):
        if line:  # what whoever looks at the picture must know
            print(line, file=sys.stderr)
    print(f"Wrote {visible(arguments.output)}.")
    return 0
