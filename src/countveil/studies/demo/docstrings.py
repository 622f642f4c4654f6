"""Docstrings out of source files, read as text: nothing is imported, so nothing runs."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

# Tests say little in docstrings; the last three are no part of the package that holds them.
SKIPPED_FOLDERS = {"tests", "test", "idle_test", "site-packages", "dist-packages", "__pycache__"}


def docstrings_below(folder: str | Path, package: str = "") -> Iterator[tuple[str, str]]:
    """(qualified name, docstring) of every module, class and function below a folder, in a fixed order.

    Names may come twice (a property and its setter, two branches of an ``if``). Files that do not parse are
    passed over. ``package`` is the name of the folder itself, empty if it is none.

    >>> import json
    >>> from pathlib import Path
    >>> found = dict(docstrings_below(Path(json.__file__).parent, "json"))
    >>> "JSON" in found["json.decoder.JSONDecoder"]
    True
    """
    root = Path(folder)
    for place, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = Path(place) / name
            tree = _parsed(path)
            if tree is not None:
                yield from _docstrings_in(tree, _module_name(path.relative_to(root), package))


def _parsed(path: Path) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old escapes in other people's strings
        try:
            return ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError, RecursionError):
            return None


def _module_name(relative: Path, package: str) -> str:
    parts = [*relative.parts[:-1], relative.stem]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join([package, *parts] if package else parts)


def _docstrings_in(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield name, text
    # Definitions stand in bodies; expressions, the bulk of a tree, hold none.
    for part in ("body", "orelse", "handlers", "finalbody"):
        for child in getattr(node, part, ()):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _docstrings_in(child, f"{name}.{child.name}")
            else:
                yield from _docstrings_in(child, name)
