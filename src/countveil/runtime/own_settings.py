"""Libraries, imported without the settings files that they look for in the working folder.

numba reads ``.numba_config.yaml`` there when it is imported, matplotlib ``matplotlibrc`` and arviz ``arvizrc``.
What stands in them decides which files are written and which libraries are loaded, is run as code by some
versions, and whatever it is, a pipe or a file of a terabyte, is read: whoever can put a file into the folder that
one works in could do as much as we. So the first import does not find them there. Settings in the environment and
in the user's own folders hold as ever, and where something else has imported a library before, it has read what it
found.
"""

from __future__ import annotations

import importlib
import os
from threading import RLock
from typing import Any

_FILES = (".numba_config.yaml", "matplotlibrc", "arvizrc")
_ONE_AT_A_TIME = RLock()


def import_library(name: str) -> Any:
    """A library, or a part of it that has settings of its own, as that of numba for CUDA may.

    >>> import_library("numba.core.config") is import_library("numba").core.config
    True
    """
    with _ONE_AT_A_TIME:
        exists = os.path.exists
        os.path.exists = lambda path: not _is_hidden(path) and exists(path)  # by which all of them ask
        try:
            return importlib.import_module(name)
        finally:
            os.path.exists = exists


def _is_hidden(path: Any) -> bool:
    """Whether it is one of these files in the working folder."""
    if not isinstance(path, str) or os.path.basename(path) not in _FILES:  # noqa: PTH119 (as they say it)
        return False
    return os.path.dirname(path) in ("", os.getcwd())  # noqa: PTH109, PTH120
