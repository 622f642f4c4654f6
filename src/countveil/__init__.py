"""countveil: learn from counts you must not see.

Counts are privatized where they are born; the analyst gets only noisy counts, and countveil draws from the
posterior of a Poisson factorization model of the true ones. The public face is gathered here and loaded on
first use (PEP 562), so that ``import countveil`` itself loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from countveil.version import __version__

if TYPE_CHECKING:
    from countveil.auditing import AuditReport as AuditReport
    from countveil.auditing import Check as Check
    from countveil.auditing import audit as audit
    from countveil.counts import CombinedReleases as CombinedReleases
    from countveil.counts import Ledger as Ledger
    from countveil.counts import LedgerError as LedgerError
    from countveil.counts import PrivateCounts as PrivateCounts
    from countveil.counts import ReleaseFileError as ReleaseFileError
    from countveil.counts import append_release as append_release
    from countveil.counts import combine_releases as combine_releases
    from countveil.counts import load_release as load_release
    from countveil.counts import privatize as privatize
    from countveil.counts import privatize_to_file as privatize_to_file
    from countveil.counts import simulate_release as simulate_release
    from countveil.counts import stack_rows as stack_rows
    from countveil.fitting import fit as fit
    from countveil.inference.settings import Ray as Ray
    from countveil.models import CommunityModel as CommunityModel
    from countveil.models import CountModel as CountModel
    from countveil.models import Factorization as Factorization
    from countveil.models import SharedFactors as SharedFactors
    from countveil.models import TensorModel as TensorModel
    from countveil.models import TopicModel as TopicModel
    from countveil.models import UnknownNoise as UnknownNoise
    from countveil.posterior import Posterior as Posterior
    from countveil.posterior import PosteriorFileError as PosteriorFileError
    from countveil.posterior import SharedPosterior as SharedPosterior
    from countveil.posterior import load_posterior as load_posterior
    from countveil.privacy import Guarantee as Guarantee
    from countveil.privacy import add_noise as add_noise
    from countveil.resuming import extend as extend
    from countveil.resuming import merge_runs as merge_runs
    from countveil.resuming import resume as resume
    from countveil.transforming import transform as transform
    from countveil.transforming import transform_to_file as transform_to_file

# Public name -> the module that holds it. A module named after itself is offered as a submodule.
_HOME = {
    "AuditReport": "countveil.auditing",
    "Check": "countveil.auditing",
    "CombinedReleases": "countveil.counts",
    "CommunityModel": "countveil.models",
    "CountModel": "countveil.models",
    "Factorization": "countveil.models",
    "Guarantee": "countveil.privacy",
    "Ledger": "countveil.counts",
    "LedgerError": "countveil.counts",
    "Posterior": "countveil.posterior",
    "PosteriorFileError": "countveil.posterior",
    "PrivateCounts": "countveil.counts",
    "ReleaseFileError": "countveil.counts",
    "SharedFactors": "countveil.models",
    "SharedPosterior": "countveil.posterior",
    "TensorModel": "countveil.models",
    "TopicModel": "countveil.models",
    "UnknownNoise": "countveil.models",
    "add_noise": "countveil.privacy",
    "audit": "countveil.auditing",
    "append_release": "countveil.counts",
    "combine_releases": "countveil.counts",
    "distributions": "countveil.distributions",
    "evaluation": "countveil.evaluation",
    "extend": "countveil.resuming",
    "fit": "countveil.fitting",
    "Ray": "countveil.inference.settings",
    "load_posterior": "countveil.posterior",
    "load_release": "countveil.counts",
    "merge_runs": "countveil.resuming",
    "privatize": "countveil.counts",
    "privatize_to_file": "countveil.counts",
    "report": "countveil.report",
    "resume": "countveil.resuming",
    "simulate_release": "countveil.counts",
    "stack_rows": "countveil.counts",
    "transform": "countveil.transforming",
    "transform_to_file": "countveil.transforming",
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
