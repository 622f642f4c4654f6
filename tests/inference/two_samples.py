"""Two samples of many sums: do they have one law?"""

from __future__ import annotations

import numpy as np
from scipy import stats


def two_sample_pvalue(first, second, pairs):
    """Smallest chi-square p-value, times the number of tests, over margins, differences and products, the total.

    ``first`` and ``second`` are (draws, sums); ``pairs`` says which two sums are looked at together.
    """
    views = [first[:, j] for j in range(first.shape[1])], [second[:, j] for j in range(second.shape[1])]
    for found, sums in zip(views, (first, second), strict=True):
        found += [sums[:, i] - sums[:, j] for i, j in pairs]
        found += [sums[:, i] * sums[:, j] for i, j in pairs]
        found.append(sums.sum(axis=1))
    pvalues = [_pvalue(a, b) for a, b in zip(*views, strict=True)]
    pvalues = [p for p in pvalues if p is not None]
    return min(1.0, len(pvalues) * min(pvalues))


def _pvalue(a, b):
    """Of a chi-square test on about 15 classes; None where both are constant."""
    both = np.concatenate([a, b])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 16)[1:-1], method="nearest"))
    table = np.array(
        [np.bincount(np.searchsorted(edges, s, side="left"), minlength=len(edges) + 1) for s in (a, b)]
    )
    table = table[:, table.sum(axis=0) > 0]
    return stats.chi2_contingency(table, correction=False).pvalue if table.shape[1] > 1 else None
