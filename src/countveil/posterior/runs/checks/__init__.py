"""A run of a stranger, checked before it is used: one chunk, the whole folder."""
