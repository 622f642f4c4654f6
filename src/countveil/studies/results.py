"""The folder of a study: a line for every fit that is done, the table of means with intervals, the picture.

``fits.csv`` grows by a line when a fit ends, so that a study that was stopped goes on where it was. The other files
are written anew from it: ``summary.csv`` (means over releases with 95 % intervals), ``table.md``, ``figure.png``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from countveil.counts.bounded.numpy_files import check_archive
from countveil.counts.bounded.within import open_regular, read_regular
from countveil.counts.files.atomic import new_file, write_file
from countveil.studies.plan import Found, Job, Measure, Study
from countveil.studies.summary import summarize, summary_text, table_text
from countveil.version import __version__

FITS, SUMMARY, TABLE, PICTURE, ABOUT = "fits.csv", "summary.csv", "table.md", "figure.png", "settings.json"
ARRAYS = "arrays"
#: That the arrays of a fit take at most when they are read: those of a picture take less than a hundredth of it.
MOST_BYTES = 2**28
# Bytes of fits or settings, and levels or sizes of a picture: what comes from others may take no more than that.
MOST_TEXT, MOST_KINDS = 2**24, 40
#: What a study calls methods, priors and data. Others are somebody's: they stand in tables and in names of files.
_WORDS = re.compile(r"([a-z0-9][a-z0-9 _.,:()%-]*)?", re.ASCII | re.IGNORECASE)


class ResultFolder:
    """What a study has found so far, on disk.

    >>> import tempfile
    >>> from countveil.studies.experiments.blocks import STUDY
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = ResultFolder(place, STUDY, "20 actors")
    ...     folder.add(Job("exact", "paper", 1.0, 0, 10), Found({"error": 0.25}), 1.5)
    ...     folder = ResultFolder(place, STUDY, "20 actors")  # later
    ...     list(folder.done())[0].method, folder.summary()["mean"].tolist()
    ('exact', [0.25, 1.5])
    """

    def __init__(self, path: str | os.PathLike[str], study: Study, data: str) -> None:
        self.path, self.study = Path(path), study
        self.fields = [*Job._fields, *(measure.name for measure in study.measures)]
        self.path.mkdir(parents=True, exist_ok=True)
        self._check_plain()
        about = {"study": study.name, "data": data}
        known = self._about()
        if known is not None and {name: known.get(name) for name in about} != about:
            raise ValueError(
                f"output: expected a new folder, or one of {study.name} on {data}, got one of "
                f"{known.get('study')} on {known.get('data')}"
            )
        if known is None:
            self._check_new()
            self._write(ABOUT, json.dumps({**about, "countveil": __version__, "runs": []}, indent=1) + "\n")
        self._drop_torn_line()

    def _check_plain(self) -> None:
        """Refuse links, pipes and the like: lines are added to what they lead to, and cut off there."""
        for name in (FITS, SUMMARY, TABLE, PICTURE, ABOUT, ARRAYS):
            path = self.path / name
            right = stat.S_ISDIR if name == ARRAYS else stat.S_ISREG
            if os.path.lexists(path) and not right(path.lstat().st_mode):
                raise ValueError(f"output: expected a folder of plain files, got {name} as something else")

    def _check_new(self) -> None:
        """Refuse a folder that holds other files of these names: they would be lost."""
        for name in (FITS, SUMMARY, TABLE, PICTURE):
            if os.path.lexists(self.path / name):
                raise FileExistsError(
                    f"output: expected a new folder, or one that a study has begun, got {self.path}, which has "
                    f"another {name}"
                )

    def note(self, settings: Mapping[str, Any]) -> None:
        """Remember the settings of a run, for whoever finds the folder."""
        about = self._about() or {}
        given = json.loads(json.dumps(dict(settings)))  # as they will be read again
        if given not in about["runs"]:
            about["runs"].append(given)
            self._write(ABOUT, json.dumps(about, indent=1) + "\n")

    def done(self) -> dict[Job, dict[str, float]]:
        """Measures of every job that is done."""
        found = {_job(line): _scores(line, self.study.measures) for line in self._lines()}
        for name in (
            "level",
            "size",
            "sweeps",
        ):  # a picture has panels of the first, and lengths are compared
            if len({getattr(job, name) for job in found}) > MOST_KINDS:
                raise ValueError(
                    f"{FITS}: expected at most {MOST_KINDS} different values of {name}, got more"
                )
        return found

    def add(self, job: Job, found: Found, seconds: float) -> None:
        """Keep what a fit gave. Arrays come first: a job that has its line has everything."""
        if found.arrays:
            (self.path / ARRAYS).mkdir(exist_ok=True)
            with new_file(self._arrays(job), overwrite=True) as file:
                np.savez_compressed(file, allow_pickle=False, **found.arrays)
        unknown = set(found.scores) - set(self.fields)
        if unknown:
            raise ValueError(f"scores: expected measures of {self.study.name}, got {sorted(unknown)}")
        values = {
            **job._asdict(),
            **{n: f"{v:.6g}" for n, v in found.scores.items()},
            "seconds": f"{seconds:.2f}",
        }
        text = io.StringIO()
        writer = csv.DictWriter(text, self.fields, restval="", lineterminator="\n")
        fresh = not (self.path / FITS).exists()
        if fresh:
            writer.writeheader()
        writer.writerow({name: "" if value is None else value for name, value in values.items()})
        with (self.path / FITS).open("a", encoding="utf-8") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())

    def arrays(self, job: Job) -> dict[str, np.ndarray] | None:
        """What a fit kept for the picture, or None."""
        if not self._arrays(job).is_file():
            return None
        with open_regular(self._arrays(job)) as file:
            with zipfile.ZipFile(file) as archive:
                check_archive(archive, MOST_BYTES)
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}

    def summary(self) -> pd.DataFrame:
        """Means over releases with 95 % t-intervals, a line for every kind of fit and measure."""
        return summarize(self.done(), self.study.measures)

    def write_results(self) -> None:
        """The summary, the table in words, and the picture, from the fits that are there."""
        found = self.summary()
        self._write(SUMMARY, summary_text(found))
        self._write(TABLE, table_text(found, self.study))
        self.study.picture(self, self.path / PICTURE)

    def _about(self) -> dict[str, Any] | None:
        file = self.path / ABOUT
        if not file.is_file():
            return None
        about = json.loads(read_regular(file, MOST_TEXT))
        if not isinstance(about, dict) or not isinstance(about.get("runs"), list):
            raise ValueError(f"{ABOUT}: expected that of a study, got another")
        return about

    def _write(self, name: str, text: str) -> None:
        write_file(self.path / name, text.encode(), overwrite=True)

    def _lines(self) -> Iterable[dict[str, str]]:
        if not (self.path / FITS).exists():
            return []
        content = read_regular(self.path / FITS, MOST_TEXT).decode("utf-8")
        reader = csv.DictReader(io.StringIO(content, newline=""))
        if reader.fieldnames != self.fields:
            raise ValueError(f"{FITS}: expected the columns {self.fields}, got {reader.fieldnames}")
        return list(reader)

    def _drop_torn_line(self) -> None:
        """A writer that was killed may have left half a line, whose fit is then run again."""
        file = self.path / FITS
        if file.exists():
            content = read_regular(file, MOST_TEXT)
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                os.truncate(file, len(whole))
            if not whole:
                file.unlink()

    def _arrays(self, job: Job) -> Path:
        named = "-".join("" if value is None else f"{value}" for value in job)
        return self.path / ARRAYS / f"{named.replace(' ', '_')}.npz"


def _job(line: Mapping[str, str]) -> Job:
    whole = {name: int(line[name]) for name in ("release", "sweeps", "size")}
    level = float(line["level"]) if line["level"] else None
    words = {name: line[name] for name in ("method", "prior", "data", "hidden", "start")}
    if not all(_WORDS.fullmatch(word or "") for word in words.values()):
        raise ValueError(f"{FITS}: expected names of methods, priors and data, got something else")
    return Job(**{**words, **whole, "level": level})  # type: ignore[arg-type]


def _scores(line: Mapping[str, str], measures: Iterable[Measure]) -> dict[str, float]:
    return {measure.name: float(line[measure.name]) for measure in measures if line[measure.name]}
