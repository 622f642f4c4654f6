"""README and docs keep their word: every Python block runs, every command, make target and link exists."""

import re
import shlex
import warnings
from pathlib import Path

import pytest
import yaml

import countveil
from countveil.cli import main
from countveil.cli.main import _parser
from countveil.posterior import ModesWarning

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests" / "README.md"])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, *languages):
    """(line number, text) of the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = [m for m in FENCE.finditer(text) if m[1] in languages]
    return [(text.count("\n", 0, m.start()) + 1, m[2]) for m in found]


def run_python(page, start, source, names):
    # Empty lines before it, so that a traceback shows the line of the page.
    exec(compile("\n" * start + source, str(page), "exec"), names)


def shell_lines(page):
    for _, text in blocks(page, "sh", "bash", "shell", "console"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words:
                yield words


def names_of(pages):
    return [str(page.relative_to(ROOT)) for page in pages]


#: Run by every `make test`; the fits of the other pages take their time.
QUICK = ("README.md", "privatize.md", "ledger.md")


@pytest.mark.parametrize(
    "page",
    [page if page.name in QUICK else pytest.param(page, marks=pytest.mark.long) for page in PAGES],
    ids=names_of(PAGES),
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    with warnings.catch_warnings():
        # Noise cannot be seeded: with some of it the chains of a page end apart, and say so (sklearn.md: one in 50).
        warnings.simplefilter("ignore", ModesWarning)
        for start, source in blocks(page, "python"):
            run_python(page, start, source, names)


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_shell_lines_name_what_exists(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for program, *words in shell_lines(page):
        if program == "countveil":
            _parser().parse_args(words)
        if program == "make":
            assert set(words) <= set(targets)


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link.split("#")[0]).exists()] == []


def test_the_commands_of_the_readme_work_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    readme, names = ROOT / "README.md", {"__name__": "__main__"}
    first, *_, table = (b for b in blocks(readme, "python") if "pd." in b[1] or "to_csv" in b[1])
    run_python(readme, *first, names)
    run_python(readme, *table, names)
    for program, *words in shell_lines(readme):
        if program == "countveil":
            assert main(words) == 0, capsys.readouterr().err
    assert "goal" in capsys.readouterr().out
    assert {"topics.csv", "shares.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_the_makefile_names_tests_that_exist():
    named = re.findall(r"\btests/[\w/]*(?:\.py)?", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_folder_table_is_complete():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    here = ROOT / "src" / "countveil"
    folders = {path.parent.name for path in here.glob("*/__init__.py")}
    assert {f for f in folders if f"| `{f}/` |" not in text} == set()


def test_the_table_of_engines_is_complete():
    here = ROOT / "src" / "countveil" / "inference" / "engines" / "cpu"
    text = (here / "__init__.py").read_text(encoding="utf-8")
    listed = re.findall(r"^``(\w+)`` ", text, re.MULTILINE)
    assert sorted(listed) == sorted(p.stem for p in here.glob("*.py") if p.stem != "__init__")


def test_the_readme_of_the_tests_names_every_file_beside_it():
    here = ROOT / "tests"
    text = (here / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in here.glob("*.py") if f"`{p.name}`" not in text] == []
    folders_with_fixtures = [p.parent.name for p in here.glob("*/conftest.py")]
    assert [f for f in folders_with_fixtures if f"`{f}/` has" not in text and f", `{f}/` " not in text] == []


def test_make_help_names_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^\.PHONY: help (.*)$", makefile, re.MULTILINE)
    assert set(re.findall(r'^\t@echo "make ([\w-]+) ', makefile, re.MULTILINE)) == set(targets.split())


def test_the_citation_is_valid():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert str(citation["version"]) == countveil.__version__
    (paper,) = citation["references"]
    assert {"type", "title", "authors", "year"} <= set(paper)
    assert [author["family-names"] for author in paper["authors"]] == [
        "Schein",
        "Wu",
        "Schofield",
        "Zhou",
        "Wallach",
    ]


def test_a_wrong_block_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n```python\nx = 1\n1 / 0\n```\n\n```sh\ncountveil fit topic x\n```\n", encoding="utf-8"
    )
    ((start, source),) = blocks(page, "python")
    with pytest.raises(ZeroDivisionError) as found:
        run_python(page, start, source, {})
    assert found.traceback[-1].lineno + 1 == 5
    ((_, *words),) = shell_lines(page)
    with pytest.raises(SystemExit):
        _parser().parse_args(words)
