"""Exact local privacy for counts: a stated guarantee and the noise that gives it.

Read in this order, each file stands on the ones before it:

    guarantee.py      what is promised, as exact numbers; sentences.py puts it into words
    random_source.py  the operating system's bits, and a health test that refuses a dead source
    law.py            integers around the cumulative probabilities of the noise, to any precision
    thresholds.py     exact draws from a finite law: 16 bits mostly, as many as it takes where that is not enough
    geometric.py      the noise itself, from such tables
    mechanism.py      add_noise: the noise on an array of counts, with the proof
"""

from countveil.privacy.guarantee import Guarantee
from countveil.privacy.mechanism import add_noise

__all__ = ["Guarantee", "add_noise"]
