"""simulate_release: the same law from a seeded generator, for experiments. It protects nobody.

Nothing here touches the noise that protects people, and nothing there touches this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from countveil.counts.cells.clamp import clamp
from countveil.counts.cells.layout import Block, Contents, row_ranges, rows_of
from countveil.counts.inputs.arrays import TrueCounts, read_true_counts
from countveil.counts.inputs.labels import read_labels
from countveil.counts.noise_parameter import read_rho
from countveil.counts.private_counts import PrivateCounts
from countveil.privacy import Guarantee

# Below this the geometric draws near the end of int64, and no experiment has a use for such noise.
SMALLEST_RHO = 1e-12


def simulate_release(
    counts: Any,
    epsilon: Any = None,
    precision: int = 1,
    *,
    alpha: Any = None,
    seed: int | np.random.Generator,
    labels: Any = None,
    keep_negative: bool = False,
) -> PrivateCounts:
    """Imitate a release with reproducible noise. **NOT private**: who knows the seed can take the noise away.

    For experiments on data that may be seen. The noise is a difference ``tau`` of two geometric variables,
    ``P(g) = (1-alpha) * alpha**g``, so that ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``. The result
    has no guarantee, ``simulated`` is True, and files keep saying so.

    Parameters
    ----------
    counts
        Whole numbers >= 0: a numpy array with any number of axes, nested lists, or a scipy.sparse matrix.
    epsilon, precision
        ``alpha = exp(-epsilon/precision)``.
    alpha
        In place of epsilon: in (0, 1), for all cells, one per row, or one per cell.
    seed
        A whole number or a numpy Generator. The same seed gives the same release.
    labels, keep_negative
        As in ``privatize``.

    Examples
    --------
    >>> from countveil.counts import simulate_release
    >>> simulate_release([[4, 0], [0, 7]], alpha=0.1, seed=0).simulated
    True
    """
    if (epsilon is None) == (alpha is None):
        got = "none" if epsilon is None else "both"
        raise ValueError(f"epsilon, alpha: expected exactly one of them, got {got}")
    rng = _generator(seed)
    rate = None if epsilon is None else Guarantee(epsilon, precision).rho
    source = read_true_counts(counts)
    axes, names = read_labels(labels, source.shape)
    rho = read_rho(alpha, rate, None, source.shape)
    if rho.min() < SMALLEST_RHO:
        name = "epsilon" if alpha is None else "alpha"
        raise ValueError(f"{name}: expected -log(alpha) of at least {SMALLEST_RHO:g}, got {rho.min():g}")
    found = clamp(_noisy(source, rho, rng), source.shape, rho, clamped=False, keep_negative=keep_negative)
    return PrivateCounts._from_contents(
        Contents(source.shape, axes, names, rho, *found, guarantee=None, simulated=True)
    )


def _generator(seed: Any) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed: expected a whole number of at least 0 or a numpy Generator, got {seed!r}")
    return np.random.default_rng(seed)


def _noisy(counts: TrueCounts, rho: np.ndarray, rng: np.random.Generator) -> Iterator[Block]:
    for start, stop in row_ranges(counts.shape):
        rows = counts.rows(start, stop)
        stay = -np.expm1(-rows_of(rho, start, stop))  # 1 - alpha, accurate for small rho
        noise = rng.geometric(stay, rows.shape) - rng.geometric(stay, rows.shape)
        yield Block(start, rows + noise, None)
