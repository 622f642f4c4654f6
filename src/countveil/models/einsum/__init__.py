"""The one machinery of all factorizations: mu = einsum(spec, factors), gamma priors, exact Gibbs updates.

================ ============================================================================
``spec``         the einsum taken apart, and which indices of several specs are one
``model``        what every factorization can do: start, rates, matrix form, updates
``contraction``  products of factors summed over indices, the same bits everywhere
``exposure``     how much of every cell's rate was observed: what enters the gamma rates
``share``        tokens shared out over summed indices
``update``       the factors drawn given their tokens
``tied``         a factor on two axes, row after row
``scales``       moves that trade scale between factors and change no rate
================ ============================================================================
"""
