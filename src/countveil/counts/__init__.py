"""Counts, before and after privatization.

``privatize`` turns true counts into a ``PrivateCounts`` release, ``privatize_to_file`` straight into a file;
``simulate_release`` imitates one for experiments, ``load_release`` reads one. Anyone may see a release; nobody
else may see the counts.
"""

from countveil.counts.files.header import ReleaseFileError
from countveil.counts.ledger.ledger import Ledger, LedgerError
from countveil.counts.private_counts import PrivateCounts, load_release
from countveil.counts.privatize import NoiseAloneWarning, privatize, privatize_to_file
from countveil.counts.simulate import simulate_release
from countveil.counts.sources.append import append_release, stack_files
from countveil.counts.sources.combine import CombinedReleases, combine_releases
from countveil.counts.sources.stack import stack_rows

__all__ = [
    "CombinedReleases",
    "Ledger",
    "LedgerError",
    "NoiseAloneWarning",
    "PrivateCounts",
    "ReleaseFileError",
    "append_release",
    "combine_releases",
    "load_release",
    "privatize",
    "privatize_to_file",
    "simulate_release",
    "stack_files",
    "stack_rows",
]
