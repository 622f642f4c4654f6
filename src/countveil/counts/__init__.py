"""Counts, before and after privatization.

``privatize`` turns true counts into a ``PrivateCounts`` release, ``simulate_release`` imitates one for
experiments, ``load_release`` reads one from a file. Anyone may see a release; nobody else may see the counts.
"""

from countveil.counts.files import ReleaseFileError, load_release
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.privatize import privatize
from countveil.counts.simulate import simulate_release

__all__ = ["PrivateCounts", "ReleaseFileError", "load_release", "privatize", "simulate_release"]
