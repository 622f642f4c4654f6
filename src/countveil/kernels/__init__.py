"""Scalar numerics as pure functions with an explicit random state.

One source for CPU and CUDA: no Python objects, no global state, no generator of numpy's. A sampler takes a
``Stream`` and returns ``(draw, stream)``. One file, one law; ``philox`` is where randomness comes from.
"""
