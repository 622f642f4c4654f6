"""Runs on disk: Zarr folders in ArviZ's schema. What stands in them, how they are written, and read again."""
