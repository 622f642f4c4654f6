"""The distributions of countveil with the methods of ``scipy.stats``, for people and for tests.

======================== ==================================================================
``two_sided_geometric``  the noise
``release_given_rate``   a released count given the Poisson rate of the true one
``count_given_release``  the true count given its release and its rate
``bessel``               the smaller of two Poisson counts given their difference
======================== ==================================================================

``rho`` is epsilon/N = -log(alpha) throughout, because alpha = exp(-rho) underflows and rounds. (The Skellam
distribution, which the paper also uses, is ``scipy.stats.skellam``.)

>>> from countveil.distributions import count_given_release
>>> law = count_given_release(3, 0.7, 1.0)
>>> round(float(law.mean()), 4)
1.5631
"""

from countveil.distributions.bessel import bessel
from countveil.distributions.count_given_release import count_given_release
from countveil.distributions.release_given_rate import release_given_rate
from countveil.distributions.two_sided_geometric import two_sided_geometric

__all__ = ["bessel", "count_given_release", "release_given_rate", "two_sided_geometric"]
