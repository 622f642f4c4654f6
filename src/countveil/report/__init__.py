"""Pictures and reports for people: ``plot_*(posterior, ax=None) -> Axes``, loaded when they are asked for.

``pictures.py`` has the table of pictures, which the command line reads without matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from countveil.runtime.own_settings import import_library

if TYPE_CHECKING:
    from countveil.report.canvas import picture_path as picture_path
    from countveil.report.canvas import save_picture as save_picture
    from countveil.report.chains import plot_ranks as plot_ranks
    from countveil.report.chains import plot_traces as plot_traces
    from countveil.report.checks import plot_pit as plot_pit
    from countveil.report.checks import plot_rootogram as plot_rootogram
    from countveil.report.communities import plot_blocks as plot_blocks
    from countveil.report.communities import plot_network as plot_network
    from countveil.report.components import plot_components as plot_components
    from countveil.report.matrices import plot_matrices as plot_matrices
    from countveil.report.method_result import MethodResult as MethodResult
    from countveil.report.plot_comparison import comparison_picture as comparison_picture
    from countveil.report.prevalence import plot_prevalence as plot_prevalence
    from countveil.report.topics import plot_memberships as plot_memberships
    from countveil.report.topics import plot_topics as plot_topics

# Public name -> the module of this folder that holds it. None has the name of a function, which it would replace.
_HOME = {
    "MethodResult": "method_result",
    "comparison_picture": "plot_comparison",
    "picture_path": "canvas",
    "plot_blocks": "communities",
    "plot_components": "components",
    "plot_matrices": "matrices",
    "plot_memberships": "topics",
    "plot_network": "communities",
    "plot_pit": "checks",
    "plot_prevalence": "prevalence",
    "plot_ranks": "chains",
    "plot_rootogram": "checks",
    "plot_topics": "topics",
    "plot_traces": "chains",
    "save_picture": "canvas",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'countveil.report' has no attribute {name!r}")
    found = getattr(picture_module(_HOME[name]), name)
    globals()[name] = found
    return found


def picture_module(name: str) -> Any:
    """One of the modules here, and matplotlib before it, which each of them imports."""
    import_library("matplotlib")
    return importlib.import_module(f"countveil.report.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
