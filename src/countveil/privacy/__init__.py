"""Exact local privacy for counts: a stated guarantee and the noise that gives it.

Read in this order, each file stands on the ones before it:

    guarantee.py   what is promised
    source.py      where the bits come from: the operating system, nothing else
    exp_bounds.py  integers around 2**bits * exp(-x), to any precision
    law.py         from these, integers around the cumulative probabilities of the noise
    table.py       exact draws from a finite law: 16 bits mostly, as many as it takes where that is not enough
    geometric.py   the noise itself, from such tables
    mechanism.py   add_noise: the noise on an array of counts, with the proof
"""

from countveil.privacy.guarantee import Guarantee
from countveil.privacy.mechanism import add_noise

__all__ = ["Guarantee", "add_noise"]
