"""Cells in memory: how they lie in arrays; signed values clamped to cells; cells made missing after the fact."""
