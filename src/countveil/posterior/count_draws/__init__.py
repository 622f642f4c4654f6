"""Counts drawn from the posterior: the true ones given their release, and new ones of the same cells."""
