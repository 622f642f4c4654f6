"""The order of tests: those that compile nothing come first.

Two workers begin at the beginning and in the middle. A function that both need is compiled by one of them while the
other waits: with this order one compiles the algorithms, and the other has no need of them yet.
"""

from pathlib import Path

TESTS = Path(__file__).parent
UNCOMPILED = ("auditing", "counts", "distributions", "fuzz", "privacy")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not any(item.path.is_relative_to(TESTS / folder) for folder in UNCOMPILED))
