"""From counts to draws: chains, sweeps, and the inversion of the noise.

``run_chains`` returns plain arrays (``Draws``); ``countveil.fit`` wraps them in a Posterior. The straight line of
a fit: ``settings`` -> ``observations`` -> ``chains`` -> an engine per model and method (``engines``) -> ``draws``.
"""
