"""Where the nodes of a network go: those that have much to do with each other, near each other.

First by the two smoothest eigenvectors of the normalised Laplacian (spectral layout), then by forces (Fruchterman
and Reingold, 1991): every pair pushes, every link pulls. No random numbers: equal networks look alike.
"""

from __future__ import annotations

import numpy as np

_STEPS = 300


def force_layout(weights: np.ndarray) -> np.ndarray:
    """Places (n, 2) in the square from -1 to 1, for symmetric weights (n, n) of at least 0.

    >>> two_pairs = np.kron(np.eye(2), [[0, 1], [1, 0]]) + 0.01
    >>> a, b, c, d = force_layout(two_pairs)
    >>> bool(np.hypot(*(a - b)) < 0.5 * np.hypot(*(a - c)))
    True
    """
    n = len(weights)
    if n == 1:
        return np.zeros((1, 2))
    pull = np.array(weights, dtype=np.float64)
    np.fill_diagonal(pull, 0.0)
    # Relative to what both have: a pair of quiet actors is as close as one of busy ones.
    degree = np.maximum(pull.sum(axis=1), np.finfo(np.float64).tiny)
    pull /= np.sqrt(degree[:, None] * degree)
    # Every place differs, also where nodes have the same links.
    turn = 2 * np.pi * np.arange(n) / n
    places = _spectral(pull) + 0.05 * np.column_stack([np.cos(turn), np.sin(turn)])
    pull *= n / 4
    apart = 1 / np.sqrt(n)  # as far as nodes want to be
    for step in range(_STEPS):
        across = places[:, None] - places
        distance = np.maximum(np.hypot(across[..., 0], across[..., 1]), 1e-3)
        force = apart**2 / distance**2 - pull * distance / apart
        # A weak pull to the middle: parts without links do not drift away.
        move = (force[..., None] * across).sum(axis=1) - 0.3 * places
        length = np.maximum(np.hypot(move[:, 0], move[:, 1]), 1e-12)
        furthest = 0.15 * (1 - step / _STEPS)  # the temperature
        places = places + move * (np.minimum(length, furthest) / length)[:, None]
    places -= (places.max(axis=0) + places.min(axis=0)) / 2
    return places / max(np.abs(places).max(), 1e-12)


def _spectral(normalised: np.ndarray) -> np.ndarray:
    """The eigenvectors of the second and third largest eigenvalues; signs as their largest entries are positive."""
    vectors = np.linalg.eigh(normalised)[1][:, ::-1]
    found = np.zeros((len(normalised), 2))
    for column in range(min(2, len(normalised) - 1)):
        one = vectors[:, column + 1]
        found[:, column] = one * np.sign(one[np.argmax(np.abs(one))]) / np.abs(one).max()
    return found
