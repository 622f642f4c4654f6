"""The CPU engines.

============= =====================================================================================
``tokens``    topic model at the cost of its tokens: the default for releases
``integrated`` the same with cells x <= 0 integrated out: the default where noise is strong
``cells``     topic model, every cell visited: the readable reference, exact and bessel
``plain``     topic model on plain counts: every non-zero cell visited (also the naive method)
``own_model`` a user's own model: blocks of rates in, an array of counts out
============= =====================================================================================

``rows`` holds the compiled parts they share.
"""
