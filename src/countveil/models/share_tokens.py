"""Tokens shared out over summed indices, and rates of single cells, for any einsum.

Given its count, a cell's tokens fall on the terms of its sum independently, in proportion to the terms (Poisson
splitting). Every cell and group has a stream of its own.
"""

from __future__ import annotations

import numpy as np

from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.multinomial import multinomial
from countveil.kernels.philox import open_stream


@compiled
def share_tokens(  # type: ignore[no-untyped-def]
    seed, chain, sweep, start, stop, counts, flat, cell, group, latent, out
):
    """Share counts[i, g] out over the columns of ``latent`` for cells start..stop; add to ``out``.

    The weight of r is the product over terms p of flat[cell[p, i] + group[p, g] + latent[p, r]].
    """
    n_terms, n_latent = latent.shape
    weights = np.empty(n_latent)
    shares = np.empty(n_latent, dtype=np.int64)
    at = np.empty(n_terms, dtype=np.int64)
    n_groups = counts.shape[1]
    for i in range(start, stop):
        for g in range(n_groups):
            n = counts[i, g]
            if n == 0:
                continue
            for p in range(n_terms):
                at[p] = cell[p, i] + group[p, g]
            if n_latent == 1:
                for p in range(n_terms):
                    out[at[p] + latent[p, 0]] += n
                continue
            for r in range(n_latent):
                weight = 1.0
                for p in range(n_terms):
                    weight *= flat[at[p] + latent[p, r]]
                weights[r] = weight
                shares[r] = 0
            stream = open_stream(seed, chain, sweep, steps.SHARES, i * np.int64(n_groups) + g)
            stream = multinomial(stream, n, weights, shares)
            for r in range(n_latent):
                if shares[r] > 0:
                    for p in range(n_terms):
                        out[at[p] + latent[p, r]] += shares[r]


@compiled
def cell_rates(chosen, flat, cell, latent, out):  # type: ignore[no-untyped-def]
    """out[i]: the rate of cell chosen[i], summed in one fixed order."""
    n_terms, n_latent = latent.shape
    for i in range(len(chosen)):
        total = 0.0
        for r in range(n_latent):
            weight = 1.0
            for p in range(n_terms):
                weight *= flat[cell[p, chosen[i]] + latent[p, r]]
            total += weight
        out[i] = total
