"""Does ``privatize`` pass every cell through the mechanism, zeros included?"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from countveil.auditing.law import fit_pvalue, groups
from countveil.auditing.mechanism import FALSE_ALARM
from countveil.auditing.report import Check
from countveil.counts import privatize
from countveil.privacy import Guarantee


def check_release(guarantee: Guarantee, size: int) -> Check:
    """A sparse matrix with a few counts: the noise of its zeros must have the law as well."""
    width = 1000
    n_rows = max(size // width, 10)
    counts = sparse.csr_array(([10**6] * n_rows, (range(n_rows), [0] * n_rows)), shape=(n_rows, width))
    released = privatize(counts, guarantee=guarantee, keep_negative=True).to_dense()
    zeros, others = released[:, 1:].ravel(), released[:, 0] - 10**6
    noise = np.concatenate([zeros, others])
    pvalue = min(fit_pvalue(part, guarantee.rho, groups(guarantee.rho, len(part))) for part in (zeros, noise))
    fits = pvalue * 2 > FALSE_ALARM
    told = "get the same noise as all cells" if fits else "do not get the noise they should"
    return Check("zeros of a sparse matrix", fits, told, {"p-value": min(1.0, 2 * pvalue)})
