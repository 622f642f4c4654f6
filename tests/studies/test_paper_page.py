"""docs/paper.md: its tables and numbers are those of the committed studies, and these are what their fits say."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from countveil.cli.commands.study import find_study
from countveil.studies.page import filled, read_summary
from countveil.studies.results import ResultFolder
from countveil.studies.summary import summary_text, table_text

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, STUDIES = DOCS / "paper.md", DOCS / "studies"
FOLDERS = sorted(path.parent for path in STUDIES.glob("*/summary.csv"))
_TABLES = re.compile(r"<!-- table .*?<!-- end -->", re.DOTALL)
_CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
_DECIMAL = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w]|\.\d)")


def sections(text):
    """Parts of the page with the studies that each of them names."""
    for part in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        yield part, sorted(set(re.findall(r"\(studies/([\w-]+)/", part)))


def strangers(part, studies):
    """Decimal numbers of the prose of a section that no summary of its studies has."""
    prose = _CODE.sub("", _TABLES.sub("", part))
    known = np.concatenate(
        [
            np.zeros(0),
            *(read_summary(STUDIES / s)[["mean", "low", "high"]].to_numpy().ravel() for s in studies),
        ]
    )
    known = known[np.isfinite(known)]
    return [
        number
        for number in _DECIMAL.findall(prose)
        if not any(f"{value:.{len(number.split('.')[1])}f}" == number for value in known)
    ]


def test_every_table_is_what_its_study_found():
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text, STUDIES) == text, "make paper"
    assert len(_TABLES.findall(text)) >= 5


def test_every_number_of_the_prose_is_in_a_study():
    text = PAGE.read_text(encoding="utf-8")
    found = {part.splitlines()[0]: strangers(part, studies) for part, studies in sections(text)}
    assert {title: numbers for title, numbers in found.items() if numbers} == {}


def test_a_number_that_no_study_has_would_be_found():
    text = PAGE.read_text(encoding="utf-8")
    part, studies = next((part, studies) for part, studies in sections(text) if studies)
    assert strangers(f"{part}\nIt was 123.4567 and `0.123456` of it.\n", studies) == ["123.4567"]
    (table, *_) = _TABLES.findall(text)
    changed = re.sub(r"(\d)( ±|\s\|)", lambda m: f"{(int(m[1]) + 1) % 10}{m[2]}", table, count=1)
    assert changed != table
    assert filled(text.replace(table, changed), STUDIES) == text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_summaries_are_what_the_fits_say(folder, tmp_path):
    about = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    study = find_study(about["study"])
    for name in ("fits.csv", "settings.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    found = ResultFolder(tmp_path, study, about["data"]).summary()
    assert (folder / "summary.csv").read_text(encoding="utf-8") == summary_text(found)
    assert (folder / "table.md").read_text(encoding="utf-8") == table_text(found, study)


def test_every_study_of_the_page_is_there():
    named = {study for _, studies in sections(PAGE.read_text(encoding="utf-8")) for study in studies}
    assert named == {folder.name for folder in FOLDERS}
