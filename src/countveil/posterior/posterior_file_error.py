"""The error about a run that cannot be read."""

from __future__ import annotations


class PosteriorFileError(ValueError):
    """A folder that is not a complete run of countveil, or of a version this one cannot read.

    >>> import countveil as cv, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cv.load_posterior(folder)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    PosteriorFileError: path: expected the folder of a run, got an empty folder, which is none
    """
