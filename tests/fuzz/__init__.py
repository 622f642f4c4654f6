"""Crafted files against every reader, each in a process with limits and canaries. See ``__main__`` and README.md."""
