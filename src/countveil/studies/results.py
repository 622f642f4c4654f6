"""The folder of a study: a line for every fit that is done, the table of means with intervals, the page, the
picture.

``fits.csv`` grows by a line when a fit ends, so that a study that was stopped goes on where it was. The other files
are written anew from it: ``summary.csv`` (means over releases with 95 % intervals), ``table.md``, ``figure.png``.
"""

from __future__ import annotations

import csv
import io
import json
import math
import multiprocessing
import os
import re
import stat
import time
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from countveil.counts.bounded.numpy_files import check_archive
from countveil.counts.bounded.within import open_regular
from countveil.counts.files.atomic import new_file, write_file
from countveil.studies.plan import Found, Job, Measure, Settings, Study
from countveil.version import __version__

FITS, SUMMARY, TABLE, PICTURE, ABOUT = "fits.csv", "summary.csv", "table.md", "figure.png", "settings.json"
ARRAYS = "arrays"
#: That the arrays of a fit take at most when they are read: those of a picture take less than a hundredth of it.
MOST_BYTES = 2**28
#: What a study calls methods, priors and data. Others are somebody's: they stand in tables and in names of files.
_WORDS = re.compile(r"([a-z0-9][a-z0-9 _.,:()%-]*)?", re.ASCII | re.IGNORECASE)
#: By which lines of the summary differ; a line is a mean over releases.
GROUPS = tuple(field for field in Job._fields if field != "release")
#: What exact fits are compared with, release by release.
REFERENCES = ("naive", "non-private")


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
        return {_job(line): _scores(line, self.study.measures) for line in self._lines()}

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
        lines = []
        kinds: dict[tuple[Any, ...], list[dict[str, float]]] = {}
        names = [measure.name for measure in self.study.measures]
        names += [difference(m.name, other) for m in self.study.measures if m.better for other in REFERENCES]
        for job, scores in with_differences(self.done(), self.study.measures).items():
            kinds.setdefault(tuple(getattr(job, name) for name in GROUPS), []).append(scores)
        for kind in sorted(kinds, key=_order):
            for name in names:
                values = [scores[name] for scores in kinds[kind] if name in scores]
                if values:
                    lines.append((*kind, name, len(values), *mean_and_interval(values)))
        return pd.DataFrame(lines, columns=[*GROUPS, "measure", "n", "mean", "low", "high"])

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
        about = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(about, dict) or not isinstance(about.get("runs"), list):
            raise ValueError(f"{ABOUT}: expected that of a study, got another")
        return about

    def _write(self, name: str, text: str) -> None:
        write_file(self.path / name, text.encode(), overwrite=True)

    def _lines(self) -> Iterable[dict[str, str]]:
        if not (self.path / FITS).exists():
            return []
        with (self.path / FITS).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames != self.fields:
                raise ValueError(f"{FITS}: expected the columns {self.fields}, got {reader.fieldnames}")
            return list(reader)

    def _drop_torn_line(self) -> None:
        """A writer that was killed may have left half a line, whose fit is then run again."""
        file = self.path / FITS
        if file.exists():
            content = file.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                file.write_bytes(whole)
            if not whole:
                file.unlink()

    def _arrays(self, job: Job) -> Path:
        named = "-".join("" if value is None else f"{value}" for value in job)
        return self.path / ARRAYS / f"{named.replace(' ', '_')}.npz"


def with_differences(
    done: Mapping[Job, Mapping[str, float]], measures: Iterable[Measure]
) -> dict[Job, dict[str, float]]:
    """The same, and for exact fits each score minus that of naive and non-private fits of the same data.

    Both see the same counts, and naive the same release, so that differences vary less from release to release
    than the scores do. A reference of another length will do where there is none of the same.
    """
    compared = [measure.name for measure in measures if measure.better]
    references: dict[Job, list[Job]] = {}
    for job in done:
        if job.method in REFERENCES:
            references.setdefault(job._replace(sweeps=0), []).append(job)
    found = {job: dict(scores) for job, scores in done.items()}
    for job, scores in found.items():
        for method in REFERENCES if job.method == "exact" else ():
            level = None if method == "non-private" else job.level
            others = references.get(job._replace(method=method, level=level, sweeps=0), [])
            if not others:
                continue
            other = done[min(others, key=lambda one: (one.sweeps != job.sweeps, -one.sweeps))]
            for name in compared:
                if name in scores and name in other:
                    scores[difference(name, method)] = scores[name] - other[name]
    return found


def difference(measure: str, method: str) -> str:
    """What the summary calls exact's score minus that of another method."""
    return f"{measure} - {method}"


def run_study(
    study: Study,
    output: str | os.PathLike[str],
    settings: Settings,
    options: Mapping[str, Any],
    say: Callable[[str], None] = lambda line: None,
    *,
    methods: Collection[str] = (),
    priors: Collection[str] = (),
    processes: int = 1,
) -> ResultFolder:
    """Run what is not there yet, then write table and picture. Stopped at any moment, it can go on.

    With ``methods`` or ``priors`` only fits by these. With several ``processes`` as many fits run at a time; which,
    does not change what they find.
    """
    jobs = list(dict.fromkeys(study.plan(settings)))
    only = {"methods": list(methods), "priors": list(priors)}
    for name, wanted in only.items():
        known = {getattr(job, name[:-1]) for job in jobs}
        if not known >= set(wanted):
            raise ValueError(f"{name}: expected some of {sorted(known)}, got {wanted}")
        jobs = [job for job in jobs if not wanted or getattr(job, name[:-1]) in wanted]
    data = study.load(options)
    folder = ResultFolder(output, study, study.describe(data))
    noted = {name: value for name, value in vars(settings).items() if name not in ("engine", "threads")}
    folder.note({**noted, **{name: wanted for name, wanted in only.items() if wanted}})
    done = folder.done()
    left = [job for job in jobs if job not in done]
    say(f"{study.title}: {len(jobs)} lines, {len(jobs) - len(left)} of them done before.")
    if processes > 1:
        performed = _performed_apart(study, settings, options, left, processes)
    else:
        performed = (_performed(study, job, settings, data) for job in left)
    for number, (job, found, seconds) in enumerate(performed, 1):
        folder.add(job, found, seconds)
        say(f"{number}/{len(left)} {job.said()}: {_told(found.scores)}")
    folder.write_results()
    return folder


def _performed(study: Study, job: Job, settings: Settings, data: Any) -> tuple[Job, Found, float]:
    began = time.process_time()
    found = study.perform(job, settings, data)
    return job, found, time.process_time() - began


def _performed_apart(
    study: Study, settings: Settings, options: Mapping[str, Any], jobs: list[Job], processes: int
) -> Iterator[tuple[Job, Found, float]]:
    """Jobs in processes of their own, as they are done. Each process loads the data once."""
    if settings.threads is None:
        settings = settings.changed(threads=max(1, (os.cpu_count() or 1) // processes))
    given = study, settings, dict(options)
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _load_apart, given)
    try:
        for future in as_completed([pool.submit(_perform_apart, job) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


#: What the jobs of this process share, where it was started for some of a study's.
_apart: list[Any] = []


def _load_apart(study: Study, settings: Settings, options: Mapping[str, Any]) -> None:
    _apart[:] = study, settings, study.load(options)


def _perform_apart(job: Job) -> tuple[Job, Found, float]:
    study, settings, data = _apart
    return _performed(study, job, settings, data)


def mean_and_interval(values: Iterable[float]) -> tuple[float, float, float]:
    """The mean with the ends of its 95 % t-interval, which one value does not have (NaN).

    >>> [round(x, 2) for x in mean_and_interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    array = np.asarray(list(values), dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2 or not np.isfinite(array).all():
        return mean, math.nan, math.nan
    half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array)))
    return mean, mean - half, mean + half


def summary_text(summary: pd.DataFrame) -> str:
    """The summary as CSV, six digits."""
    return summary.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def table_text(summary: pd.DataFrame, study: Study) -> str:
    """The summary in Markdown: a line for every kind of fit, a column for every measure, mean ± half interval.

    A second table has the differences of exact fits from the others.
    """
    titles = {measure.name: measure.title for measure in study.measures}
    parts = [_table(summary, titles, list(study.shown) or list(titles))]
    titles = {
        difference(m.name, other): f"{m.title}, minus {other}"
        for m in study.measures
        if m.better
        for other in REFERENCES
    }
    differences = summary[summary["measure"].isin(list(titles))]
    if not differences.empty:
        parts.append(_table(differences, titles, list(titles)))
    return "\n".join(parts)


def _table(summary: pd.DataFrame, titles: Mapping[str, str], wanted: list[str]) -> str:
    present = [name for name in wanted if (summary["measure"] == name).any()]
    differing = [
        n for n in GROUPS if n in ("method", "prior", "level") or summary[n].astype(str).nunique() > 1
    ]
    head = [*(_HEADS.get(name, name) for name in differing), "n", *(titles[name] for name in present)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for kind, part in summary.groupby(list(GROUPS), dropna=False, sort=False):
        values = dict(zip(GROUPS, kind, strict=True))
        rows = part.set_index("measure")
        cells = [_shown_field(values[name]) for name in differing] + [str(int(rows["n"].max()))]
        for name in present:
            cells.append(_shown_mean(rows.loc[name]) if name in rows.index else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


_HEADS = {"level": "eps/N", "hidden": "held out"}


def _shown_field(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:g}"
    return str(value)


def _shown_mean(row: Any) -> str:
    half = (row["high"] - row["low"]) / 2
    mean = f"{row['mean']:.3g}" if abs(row["mean"]) < 1000 else f"{row['mean']:.0f}"
    return mean if not math.isfinite(half) else f"{mean} ± {half:.2g}"


def _order(kind: tuple[Any, ...]) -> tuple[Any, ...]:
    known = dict(zip(GROUPS, kind, strict=True))
    level = -1e9 if known["level"] is None else -float(known["level"])  # non-private first, then by noise
    front = (known["data"], known["hidden"], known["size"], known["start"], level)
    return (*front, known["method"], known["prior"], known["sweeps"])


def _job(line: Mapping[str, str]) -> Job:
    whole = {name: int(line[name]) for name in ("release", "sweeps", "size")}
    level = float(line["level"]) if line["level"] else None
    words = {name: line[name] for name in ("method", "prior", "data", "hidden", "start")}
    if not all(_WORDS.fullmatch(word or "") for word in words.values()):
        raise ValueError(f"{FITS}: expected names of methods, priors and data, got something else")
    return Job(**{**words, **whole, "level": level})  # type: ignore[arg-type]


def _scores(line: Mapping[str, str], measures: Iterable[Measure]) -> dict[str, float]:
    return {measure.name: float(line[measure.name]) for measure in measures if line[measure.name]}


def _told(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in list(scores.items())[:4])
