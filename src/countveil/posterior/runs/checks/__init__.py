"""A run of a stranger, checked before it is used: one chunk, the folder, the run against its model and data."""
