"""The CPU engine: threads over rows, and an algorithm that suits the data.

Algorithms, each exact; ``choose`` has the table by which one is chosen:

================== ================================================================================
``tokens``         the matrix form of any factorization at the cost of its tokens: the default;
                   ``integrated`` is the same with what need not be drawn integrated out
``fibers``         tensors in the CP form at the cost of their tokens: a look settles a whole fiber
``cells``          every cell visited: the readable reference, the paper's sampler, any other model
================== ================================================================================

Their parts:

================== ================================================================================
``sampler``        chains: sweep, monitor, keep, carry
``choose``         one table of costs, and what is chosen by it
``token_rows``     the rows of a sweep by ``tokens``, from proposals and looks
``proposals``      tokens proposed on a row: where they fall, and whether they stand
``visits``         cells visited one by one, a few hundred at a time
``fiber_visits``   the same for the cells of fibers that expect many tokens
``rows``           what algorithms do with a row: rates, releases, tokens shared out and counted
``alias_tables``   tables to draw the column of a token from
``collapsed``      passes over the tokens of topics in burn-in, both factors integrated out
``products``       the K products of one cell and their sums, eight at a time, the same bits everywhere
================== ================================================================================
"""

from countveil.inference.engines.cpu.sampler import open_problem

__all__ = ["open_problem"]
