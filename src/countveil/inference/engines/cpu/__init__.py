"""The CPU engines: each draws the true counts of a sweep, allocated to the components.

================== ================================================================================
``tokens``         topic model at the cost of its tokens: the default for releases
``integrated``     the same with cells x <= 0 integrated out: the default where noise is strong
``repeated``       topic model on counts released several times: one true count, several looks at it
``cells``          topic model, every cell visited: the readable reference, exact and bessel
``plain``          topic model on plain counts: every non-zero cell visited (also the naive method)
``fibers``         tensors in the CP form at the cost of their tokens: a look settles a whole fiber
``unfolded``       any factorization whose first axis has a factor of its own, by the engines above
``shared``         several views of shared factors: each view's tokens by its own engine
``own_model``      a user's own model: blocks of rates in, an array of counts out
================== ================================================================================

Their compiled parts:

================== ================================================================================
``rows``           what all of them do with a row: open it, draw its counts, add up its tokens
``codes``          the release as one byte per cell: what was released where a token falls?
``plan``           which columns to visit and which to reach by proposed tokens
``word_tables``    tables from which tokens draw their column, small where the weight is
``alias_tables``   the same in their plain form, where columns are few
``visited_cells``  cells to visit, in an order that keeps their factors in the cache
``visits``         the true counts of visited cells, a few hundred at a time
``crowded_rows``   rows that expect more tokens than they have cells: cell by cell
``fiber_tokens``   tokens of a row of fibers: where they fall, and whether they stand
``fiber_cells``    the cells of fibers that expect many tokens
``cell_products``  the K products of one cell and their sums, eight at a time, the same bits everywhere
``counters``       what tokens are counted in: 32 bits where that is safe
``noise_rates``    the state of the bessel method: two noise rates per cell
================== ================================================================================
"""
