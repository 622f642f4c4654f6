"""Black-box checks of the installed mechanism, as someone who distrusts it would make them.

Nothing here looks inside: every check calls the public ``add_noise`` or ``privatize`` and judges what comes out.

    check.py         one question: the mechanism from outside, the false-alarm rate, the verdict
    law.py           does the noise have the exact law, on zeros as on large counts, on every cell of a release?
    epsilon.py       how much do neighbouring inputs show, at least?
    independence.py  is noise shared between cells or calls; does it repeat after seeding, or in a forked process?
    audit.py         all of them, and the report
"""

from countveil.auditing.audit import AuditReport, audit
from countveil.auditing.check import Check

__all__ = ["AuditReport", "Check", "audit"]
