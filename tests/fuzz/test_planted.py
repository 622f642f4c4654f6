"""The fuzzer has power: each planted defect is found, as what it is; a reader without one passes."""

import sys

import pytest

from fuzz import planted
from fuzz.campaign import Campaign, Case
from fuzz.samples import samples

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are limited and watched as on Linux"
)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    made = Campaign(tmp_path_factory.mktemp("cases").resolve(), "fuzz.planted", planted.SAMPLES, wall=20)
    yield made
    made.close()


def first_finding(campaign, name, most):
    for number in range(most):
        campaign.run(1 + number, [name], cases=40)
        # A careless reader may fail in other ways, too, and which comes first is a matter of the files.
        found = [one for one in campaign.tallies[name].findings if one.fault.startswith(planted.FAULTS[name])]
        if found:
            return found[0]
    return None


#: Those that end by a limit of time take that long.
SLOW = ("loops", "waits")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n in SLOW else []) for n in planted.FAULTS]
)
def test_a_planted_defect_is_found(campaign, name, tmp_path):
    found = first_finding(campaign, name, 15)
    assert found is not None
    again = campaign.read(found.case)  # by its numbers alone
    assert again["fault"].split(":")[0] == found.fault.split(":")[0]
    place = campaign.save(found, tmp_path / "findings")
    assert found.fault in (place / "finding.txt").read_text()


def test_a_sound_reader_passes(campaign):
    campaign.run(1, ["sound"], cases=300)
    tally = campaign.tallies["sound"]
    assert tally.findings == []
    assert min(tally.accepted, tally.refused) > 20


def test_a_case_is_known_by_its_numbers(campaign):
    for number in range(50):
        case = Case("sound", 3, number)
        assert campaign.made(case) == campaign.made(case)
    assert len({str(campaign.made(Case("sound", 3, n))) for n in range(50)}) > 30


@pytest.mark.parametrize("kind", ["release file", "ledger", "sparse.npz", "matrix.mtx.gz"])
def test_samples_are_always_the_same(kind):
    assert samples(kind) == samples(kind)


def test_fewer_changes_are_kept(campaign):
    """Of a case of several changes that is found by one of them, that one is left."""
    cases = (Case("raises KeyError", 9, number) for number in range(400))
    for case in cases:
        alone = [campaign.made(case._replace(steps=(step,)))[0] for step in range(3)]
        if all(tree == planted.SAMPLES["sizes"][0] for tree in alone[1:]):
            continue  # only one change
        verdict = campaign.read(case)
        if verdict["fault"] == "raised KeyError":
            found = campaign.smallest(case, verdict)
            assert found.case.steps is not None
            assert len(found.case.steps) < 3
            assert found.fault == "raised KeyError"
            return
    pytest.fail("no such case")
