"""countveil: learn from counts you must not see.

Counts are privatized where they are born; the analyst gets only noisy counts, and countveil draws from the
posterior of a Poisson factorization model of the true ones. The public face is gathered here and loaded on
first use (PEP 562), so that ``import countveil`` itself loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from countveil.privacy import Guarantee as Guarantee
    from countveil.privacy import add_noise as add_noise

# Public name -> the module that holds it. A module named after itself is offered as a submodule.
_HOME = {
    "Guarantee": "countveil.privacy",
    "add_noise": "countveil.privacy",
    "distributions": "countveil.distributions",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'countveil' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    found = module if _HOME[name] == f"countveil.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
