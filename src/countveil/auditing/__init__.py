"""Black-box checks of the installed mechanism, as someone who distrusts it would make them.

Nothing here looks inside: every check calls the public ``add_noise`` or ``privatize`` and judges what comes out.

    check.py         one question: the mechanism from outside, the false-alarm rate, the power, the verdict
    trials.py        what is put in: counts of every size, in arrays of one to three axes
    law.py           does the noise have the exact law, whatever the count and the array?
    epsilon.py       how much do neighbouring inputs show, at least?
    independence.py  is noise shared between cells or calls; does it repeat after seeding, or in a forked process?
    strong_noise.py  is a cell left without noise, or its noise used twice?
    calls.py         does a call, or a row, repeat another: how many states has the generator?
    paths.py         the same through privatize: levels by row, sparse matrices, graphs, files
    audit.py         all of them, and the report
"""

from countveil.auditing.audit import AuditReport, audit
from countveil.auditing.check import Check

__all__ = ["AuditReport", "Check", "audit"]
