"""From counts to draws: chains, sweeps, and the inversion of the noise.

The straight line of a fit: a ``problem`` (model and ``observed`` cells) -> an engine (``engines``) opens it as a
sampler -> the loop (``chains``) sweeps, monitors (``monitor``) and keeps draws in a ``store``. A ``carry`` is all
that a chain needs to go on.
"""
