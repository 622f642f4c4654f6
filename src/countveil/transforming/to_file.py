"""New rows on disk: their memberships straight into a table, some rows at a time."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from countveil.counts import load_release
from countveil.counts.files.release import check_not_input
from countveil.counts.places import local_path
from countveil.models.count_model import whole_number
from countveil.posterior.posterior import Posterior
from countveil.transforming.memberships import QUANTITIES, task_of
from countveil.transforming.share_table import ShareTable, check_share_file, new_share_file


def transform_to_file(
    posterior: Posterior,
    data: Any,
    path: str | os.PathLike[str],
    received: Any = None,
    *,
    overwrite: bool = False,
    part: tuple[int, int] | None = None,
    rows_at_once: int | None = None,
    sweeps: int = 20,
    burn_in: int = 100,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
    labels: Any = None,
    interval: float = 0.9,
    groups: Any = None,
) -> None:
    """``transform`` straight into a Parquet file, some rows at a time, for more rows than memory holds.

    The table has a line for every new row and topic, with the columns of ``transform(...).to_dataframe()``, and
    the same numbers, however many rows are taken at once. It is complete or not there.

    Parameters
    ----------
    data, received
        As in ``transform``; or the path of a release. That is unpacked once, to files without a name in the folder
        of ``path``, where there must be room, and is read from there.
    path
        The file to write, a new name that ends in .parquet.
    overwrite
        Replace a table that an earlier call wrote.
    part
        ``(i, n)``: the i-th of n parts of the rows alone, as jobs on several machines do, all with one ``seed``.
        The tables of all parts, in one folder, are the table of all rows.
    rows_at_once
        By default as many as take about 256 MB. Labels of rows, and some numbers for every row, are in memory in
        any case.

    All other arguments are those of ``transform``.

    Examples
    --------
    >>> import countveil as cv, pandas, pathlib, tempfile
    >>> posterior = cv.fit(cv.TopicModel(2), [[90, 60, 0], [0, 2, 90]], sweeps=200, seed=1, progress=False)
    >>> new = cv.PrivateCounts([[-1, 2, 60], [50, 41, 1]], alpha=0.4, labels=(["c", "d"], None))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file, table = (pathlib.Path(folder) / name for name in ("new.parquet", "shares.parquet"))
    ...     new.save(file)
    ...     cv.transform_to_file(posterior, file, table, seed=1, progress=False)
    ...     pandas.read_parquet(table).round(1)["mean"].tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    target = local_path(path)
    check_share_file(target, overwrite)
    which = (1, 1) if part is None else _check_part(part, seed)
    check_not_input(target, data, received)
    data, received = (
        load_release(each, scratch=target.parent) if isinstance(each, str | os.PathLike) else each
        for each in (data, received)
    )
    task = task_of(
        posterior, data, received, sweeps=sweeps, burn_in=burn_in, seed=seed, threads=threads, labels=labels,
        interval=interval, groups=groups, rows_at_once=rows_at_once,
    )  # fmt: skip
    labelled, dimension = task.names is not None, task.known.dimension
    with (
        new_share_file(target, overwrite) as file,
        ShareTable(file, task.row, dimension, labelled, QUANTITIES, task.interval) as table,
    ):
        for rows, found in task.blocks(progress, which):
            table.add(np.arange(rows.start, rows.stop) if task.names is None else task.names[rows], found)
        table.close()


def _check_part(part: Any, seed: int | None) -> tuple[int, int]:
    try:
        i, n = part
    except (TypeError, ValueError):
        raise TypeError(f"part: expected two whole numbers, such as (3, 8), got {part!r}") from None
    n = whole_number("part", n, 1)
    i = whole_number("part", i, 1, n)
    if seed is None:
        raise ValueError("seed: expected a number beside part, the same for all parts of a table, got None")
    return i, n
