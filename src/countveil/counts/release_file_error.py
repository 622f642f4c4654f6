"""The error for files that are not, or no longer, a release."""


class ReleaseFileError(ValueError):
    """The file is damaged, is not a countveil release, or was written by a newer version.

    >>> issubclass(ReleaseFileError, ValueError)
    True
    """
