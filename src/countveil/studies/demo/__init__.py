"""The demo: the whole way on a corpus that every installation has, the docstrings of numpy and scipy."""
