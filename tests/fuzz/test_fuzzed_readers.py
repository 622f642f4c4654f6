"""Crafted files of every kind against every reader: read, or refused in words, within limits, and nothing else."""

import sys

import pytest

from fuzz.campaign import Campaign
from fuzz.readers import READERS
from goodness_of_fit import SEED

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are limited and watched as on Linux"
)
#: Those whose samples take no fit: the quick stage.
QUICK = [name for name, reader in READERS.items() if "run" not in reader.kind]


@pytest.fixture
def campaign(tmp_path):
    made = Campaign(tmp_path.resolve())
    yield made
    print(made.table())
    made.close()


def test_every_reader_on_some_crafted_files(campaign):
    assert campaign.run(SEED, QUICK, cases=12) == []


@pytest.mark.long
def test_readers_on_many_crafted_files(campaign):
    assert campaign.run(SEED + 1, list(READERS), cases=75) == []
