"""append_release: a release on disk that grows as respondents arrive; stack_files: many small ones become one.

Each part has been released where its counts are, with noise of its own: putting parts together tells nothing new.
But a row that comes twice was released twice, and that tells more than either promise says. So every row must have
a label, and one that is there already is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from countveil.counts.cells.layout import same_arrays
from countveil.counts.files.atomic import lock_file, unlock_file
from countveil.counts.files.release import check_free
from countveil.counts.inputs.spellings import coarse_keys
from countveil.counts.places import local_path
from countveil.counts.private_counts import PrivateCounts, load_release
from countveil.counts.sources.stack import stack_rows


def append_release(
    path: str | os.PathLike[str], *parts: PrivateCounts | str | os.PathLike[str]
) -> PrivateCounts:
    """Append the rows of further releases to the one at ``path``; give all of it.

    The file is replaced in one step: whatever happens, it is the old release or the new one, whole. Of several
    processes that append at once each waits for the one before. The time goes with the size of all of it: append
    many parts in one call. Where one of the parts does not know the sum of its values below 0, all of it does not.

    Parameters
    ----------
    path
        A release with labels of rows.
    parts
        Releases, or paths of such: with labels of rows that are not there yet, the same columns, and a guarantee
        for the same unit.

    Examples
    --------
    >>> import countveil as cv, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("ann", "bo"):
    ...         one = cv.privatize([[3, 0]], epsilon=1, rows=[name], columns=["oil", "gas"])
    ...         one.save(f"{folder}/{name}.parquet")
    ...     both = cv.append_release(f"{folder}/ann.parquet", f"{folder}/bo.parquet")
    ...     both == cv.load_release(f"{folder}/ann.parquet"), both.labels[0].tolist()
    (True, ['ann', 'bo'])
    """
    if not parts:
        raise ValueError("parts: expected releases to append, got none")
    target = Path(os.path.realpath(local_path(path)))
    with _alone(target):
        releases = map(_release, (target, *parts))
        grown = stack_alike(releases, [str(path), *map(_name, parts)])
        grown.save(target, overwrite=True)
    return grown


def stack_files(
    paths: Iterable[str | os.PathLike[str]], output: str | os.PathLike[str], *, overwrite: bool = False
) -> PrivateCounts:
    """Many releases on disk as one, under a new name.

    Examples
    --------
    >>> import countveil as cv, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("ann", "bo", "cy"):
    ...         one = cv.privatize([[3, 0]], epsilon=1, rows=[name], columns=["oil", "gas"])
    ...         one.save(f"{folder}/{name}.parquet")
    ...     everyone = [f"{folder}/{name}.parquet" for name in ("ann", "bo", "cy")]
    ...     cv.counts.stack_files(everyone, f"{folder}/all.parquet").shape
    (3, 2)
    """
    given = [os.fspath(path) for path in paths]
    if not given:
        raise ValueError("paths: expected releases, got none")
    check_free(local_path(output, "output"), overwrite)
    stacked = stack_alike(map(load_release, given), given)
    stacked.save(output, overwrite=overwrite)
    return stacked


def stack_alike(releases: Iterable[PrivateCounts], names: list[str]) -> PrivateCounts:
    """``stack_rows`` of releases of one study, every one of them checked against the first as it comes.

    Of strangers' each may take a gigabyte: none is held together with one that is refused.
    """
    seen: dict[str, str] = {}
    held: list[PrivateCounts] = []
    for release, name in zip(releases, names, strict=True):
        held.append(release)
        labels = _labels(release, name)
        _check_alike(release, held[0], name, names[0])
        for label in coarse_keys(labels):
            if label in seen:
                raise ValueError(
                    f"parts: expected every respondent once, got {label!r} in {seen[label]} and in {name}: what "
                    "was released twice tells more than either promise says (cv.combine_releases adds the losses)"
                )
            seen[label] = name
    return held[0] if len(held) == 1 else stack_rows(*held)


def _check_alike(release: PrivateCounts, first: PrivateCounts, name: str, first_name: str) -> None:
    if release.axes != first.axes or release.shape[1:] != first.shape[1:]:
        raise ValueError(
            f"parts: expected the axes {first.axes} and {first.shape[1:]} cells per row of {first_name}, got "
            f"{release.axes} and {release.shape[1:]} in {name}"
        )
    if not same_arrays(release.labels[1:], first.labels[1:]):
        raise ValueError(f"parts: expected the columns of {first_name}, got others in {name}")
    if release.simulated != first.simulated:
        raise ValueError(f"parts: expected releases, or simulated ones, got both: {first_name} and {name}")
    if not release.simulated and (release.guarantee is None) and release.row_guarantees is None:
        raise ValueError(f"parts: expected a release with a guarantee, got none in {name}")
    if first.negative is not None and release.negative is None:
        raise ValueError(
            f"parts: expected negative values, which {first_name} has and cannot get again, got none in {name}: "
            "release it with keep_negative=True, or stack_rows both under a new name, which drops them"
        )
    units = {g.unit for one in (release, first) for g in _promises(one)}
    if len(units) > 1:
        raise ValueError(
            f"parts: expected guarantees for one unit, got {' and '.join(sorted(units))} in {name}"
        )


def _labels(release: PrivateCounts, name: str) -> np.ndarray:
    labels = release.labels[0]
    if labels is None:
        raise ValueError(f"parts: expected labels of rows, which tell respondents apart, got none in {name}")
    return labels


def _promises(release: PrivateCounts) -> list[Any]:
    if release.guarantee is not None:
        return [release.guarantee]
    return [promise for promise in release.row_guarantees or () if promise is not None]


def _release(part: Any) -> PrivateCounts:
    if isinstance(part, PrivateCounts):
        return part
    if not isinstance(part, str | os.PathLike):
        raise TypeError(f"parts: expected releases or their paths, got {type(part).__name__}")
    return load_release(part)


def _name(part: Any) -> str:
    return os.fspath(part) if isinstance(part, str | os.PathLike) else repr(part)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One process after the other: of two that read one release the second would drop what the first appends."""
    descriptor = os.open(
        target.with_name(f".{target.name}.lock"), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600
    )
    try:
        lock_file(descriptor, wait=True)
        yield
    finally:
        unlock_file(descriptor)
        os.close(descriptor)
