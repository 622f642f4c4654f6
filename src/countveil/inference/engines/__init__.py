"""Engines: how a sweep's true counts are drawn and allocated. ``cpu`` is the first; the seam is ``Engine``."""
