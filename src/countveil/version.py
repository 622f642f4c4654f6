"""The version, where every folder can read it without the public face of the package."""

__version__ = "0.1.0"
