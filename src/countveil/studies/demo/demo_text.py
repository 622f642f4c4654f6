"""What the demo found, as text for a terminal."""

from __future__ import annotations

import textwrap

from countveil.counts.shown_text import visible
from countveil.report.plot_comparison import shown
from countveil.studies.demo.demo import PICTURE, RELEASE, RUN, DemoResult

WIDTH = 96
# Field, title, and whether a higher value is better.
SCORES = [
    ("mae", "MAE", False),
    ("log_score", "log score", True),
    ("npmi", "NPMI", True),
    ("coherence", "coherence", True),
]


def demo_text(result: DemoResult) -> str:
    """The guarantee, the topics, the scores, where things are, and what to do next."""
    parts = [_data(result), _topics(result), _scores(result), _files(result), _next(result)]
    return "\n\n".join(parts)


def _data(result: DemoResult) -> str:
    counts, release = result.corpus.counts, result.release
    n_documents, n_words = counts.shape
    return "\n".join(
        [
            _title("The guarantee"),
            _filled(str(release.guarantee)),
            "",
            _filled(
                f"{n_documents:,} documents, {n_words:,} words. Of the {n_documents * n_words:,} cells "
                f"{counts.nnz:,} are above zero in the true counts and {len(release.positive.values):,} in "
                "the release."
            ),
            _filled(
                "The list of words comes from the standard library's docstrings, which are public. The list of "
                "documents is not so clean: short ones were left out by looking at them. With truly private "
                "documents that, too, must be decided without looking."
            ),
        ]
    )


def _topics(result: DemoResult) -> str:
    lines = [
        _title(f"{len(result.shown)} of the {len(result.affinity['exact'])} topics, side by side"),
        _filled(
            "Spread evenly from the largest topic of the true counts to the smallest. The number says how "
            "alike a topic is to the non-private one it was matched with: "
            "1 is identical, 0 has no word in common."
        ),
    ]
    for row, topic in enumerate(result.shown):
        lines.append("")
        for method in result.methods:
            affinity = result.affinity.get(method.name)
            number = "    " if affinity is None else f"{affinity[topic]:.2f}"
            start = f"{row + 1 if affinity is None else '':>2}  {method.name:<12} {number}  "
            words = " ".join(map(visible, method.topics[row]))
            lines.append(start + textwrap.shorten(words, WIDTH - len(start), placeholder=" …"))
    exact, naive = (result.affinity[name] for name in ("exact", "naive"))
    lines += ["", f"Mean over all {len(exact)} topics: exact {exact.mean():.2f}, naive {naive.mean():.2f}."]
    return "\n".join(lines)


def _scores(result: DemoResult) -> str:
    lines = [_title("Scores against the true counts")]
    lines.append(f"{'':<14}" + "".join(f"{title:>12}" for _, title, _ in SCORES))
    lines.append(f"{'better is':<14}" + "".join(f"{'higher' if up else 'lower':>12}" for *_, up in SCORES))
    for method in result.methods:
        values = "".join(f"{shown(getattr(method, field)):>12}" for field, _, _ in SCORES)
        lines.append(f"{method.name:<14}" + values)
    counts = result.corpus.counts
    silent = counts.sum() / (counts.shape[0] * counts.shape[1])
    lines += [
        "",
        _filled(_verdict(result) + _above_the_yardstick(result)),
        _filled(
            f"The MAE flatters silence: predicting 0 for every cell has an MAE of {shown(silent)}. "
            "The log score does not. These are scores of one short chain each, on the counts that were "
            "fitted; they differ a little from run to run, because the noise does."
        ),
    ]
    return "\n".join(lines)


def _verdict(result: DemoResult) -> str:
    by_name = {method.name: method for method in result.methods}
    better = []
    for field, title, up in SCORES:
        exact, naive = (getattr(by_name[name], field) for name in ("exact", "naive"))
        if exact > naive if up else exact < naive:
            better.append(title)
    if not better:
        return "In this run exact is better than naive in none of the four."
    which = "all four" if len(better) == len(SCORES) else f"{len(better)} of the four: {', '.join(better)}"
    return f"In this run exact is better than naive in {which}."


def _above_the_yardstick(result: DemoResult) -> str:
    """A private fit cannot know more than a non-private one; where it scores higher, say what that means."""
    plain, exact = result.methods[0], result.methods[1]
    above = [title for field, title, _ in SCORES[2:] if getattr(exact, field) > getattr(plain, field)]
    if not above:
        return ""
    return (
        f" That exact is above non-private in {' and '.join(above)} does not mean that it knows more: "
        f"these scores judge the {len(exact.topics[0])} heaviest words of a topic and nothing else."
    )


def _files(result: DemoResult) -> str:
    folder = result.folder
    return "\n".join(
        [
            _title("What is where"),
            f"{folder / PICTURE}   all of this in one picture",
            f"{folder / RELEASE}  the private counts: what an analyst would get",
            f"{folder / RUN}       the exact fit: countveil topics {folder / RUN}",
        ]
    )


def _next(result: DemoResult) -> str:
    return "\n".join(
        [
            _title("With your own counts"),
            "Where the counts are (counts.csv: a line per document, a column per word, names in `document`):",
            "  countveil privatize counts.csv --index document --public-labels \\",
            "      --epsilon 2 --precision 1 -o release.parquet",
            "  (--public-labels: anyone may know which documents and words occur; else --rows, --columns)",
            "Anywhere, with the release alone:",
            "  countveil fit topics release.parquet --topics 20 -o run.zarr",
            "  countveil topics run.zarr",
            "",
            f"The demo took {result.seconds:.0f} seconds.",
        ]
    )


def _title(text: str) -> str:
    return f"{text}\n{'-' * len(text)}"


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH)
