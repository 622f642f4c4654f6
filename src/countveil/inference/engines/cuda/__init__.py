"""The GPU engine: true counts by an upper bound of every rate, factors where they are.

=================== ================================================================================
``serves``          what it serves, the memory that takes, and whether it pays: said before any work
``sampler``         chains: sweep, monitor, keep, carry
``matrix_chain``    a matrix of two factors, whose state stays on the device
``network_chains``  chains of a network, which stay there too and are swept together
``counts``          the data on the device, and the tokens of one sweep of any factorization that unfolds
``device_tokens``   the same as an algorithm of the CPU engine: for factors that are drawn there, and for shards
``halves``          upper bounds of all rates, by one product in half precision
``look``            one uniform per cell, which settles nearly all of them
``cells``           the others, drawn one by one
``plain_cells``     cells whose counts are known
``tokens``          tokens of such cells, given to components
``factors``         both factors, their scales, and what is inferred of them
``network_cells``   true counts of a network and their tokens, of many chains at once
``network_factors`` its memberships, row after row, its blocks, and their scales
``network_priors``  what is inferred of a network's prior, and what actors receive
``sums``            sums over rows, as sums of integers
``watch``           the scalars by which a chain is watched
``device``          the device itself; numpy in its place where numba's simulator runs
=================== ================================================================================
"""

from countveil.inference.engines.cuda.sampler import open_problem

__all__ = ["open_problem"]
