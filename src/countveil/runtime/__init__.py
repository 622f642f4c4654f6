"""What runs compiled code: compilation with a cache, and threads. Nothing statistical.

================ ===========================================================================
``compiled``     the decorators of every compiled function, and where machine code is kept
``workers``      work on rows, split over threads
================ ===========================================================================
"""
