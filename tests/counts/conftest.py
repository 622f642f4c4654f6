"""What tests of the ledger share: a ledger, and releases that are entered into it."""

import pytest

import countveil as cv


@pytest.fixture
def ledger_path(tmp_path):
    return tmp_path / "study.ledger"


@pytest.fixture
def enter(ledger_path):
    """Privatize some counts into the ledger."""

    def make(epsilon=1, counts=((3, 0), (1, 2)), dataset="letters", **options):
        counts = [list(row) for row in counts] if isinstance(counts, tuple) else counts
        return cv.privatize(counts, epsilon=epsilon, ledger=ledger_path, dataset=dataset, **options)

    return make


def spent(path, dataset="letters"):
    """What was spent of a dataset; None if nobody has heard of it."""
    return next((a.spent for a in cv.Ledger(path).accounts() if a.dataset == dataset), None)
