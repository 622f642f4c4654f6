"""Black-box checks of the installed mechanism, as someone who distrusts it would make them.

Nothing here looks inside: every check calls the public ``add_noise`` or ``privatize`` and judges what comes out.

    law.py           does the noise have the exact law, on zeros as on large counts?
    epsilon.py       how much do neighbouring inputs show, at least?
    independence.py  is noise shared between cells or calls?
    freshness.py     does noise repeat after seeding, or in a forked process?
    release.py       does privatize pass all cells through the mechanism?
"""

from countveil.auditing.audit import audit
from countveil.auditing.report import AuditReport, Check

__all__ = ["AuditReport", "Check", "audit"]
