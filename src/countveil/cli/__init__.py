"""The command line: ``countveil COMMAND``."""

from countveil.cli.main import main

__all__ = ["main"]
