"""countveil doctor: says what is there, and finds what is wrong."""

import json
import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

from countveil import privacy
from countveil.auditing import AuditReport, Check
from countveil.cli import main
from countveil.cli.commands import doctor

PASSED = AuditReport((Check("law of the noise", True, "fits", finds="a rate off by 5 %"),))


@pytest.fixture
def quick(monkeypatch):
    """The audit has tests of its own."""
    monkeypatch.setattr("countveil.auditing.audit", lambda samples: PASSED)


def told(capsys, *options):
    code = main(["doctor", *options])
    return code, capsys.readouterr().out


def test_a_healthy_installation(quick, capsys):
    code, text = told(capsys)
    assert code == 0
    assert text.endswith("All is well.\n")
    assert f"  numpy          {np.__version__}\n" in text
    assert "law of the noise: a rate off by 5 %" in text
    code, text = told(capsys, "--json")
    found = json.loads(text)
    assert (code, found["well"]) == (0, True)
    assert set(doctor.PARTS) == set(found) - {"well"}
    assert found["versions"]["zarr"] == metadata.version("zarr")
    assert found["compiled code"]["mode"] == "700 (only its owner)"


def test_the_quick_audit_is_an_audit(monkeypatch):
    monkeypatch.setattr(doctor, "_SAMPLES", 20_000)
    found = doctor._noise()
    assert found.faults == []
    assert found.facts["quick audit"].startswith("passed, ")
    assert len(found.facts["finds"]) > 3


def test_bad_noise_is_a_fault(monkeypatch):
    monkeypatch.setattr("countveil.counts.guarantees.add_noise", lambda counts, guarantee: counts)
    monkeypatch.setattr(doctor, "_SAMPLES", 20_000)
    found = doctor._noise()
    assert found.facts["quick audit"].startswith("FAILED")
    assert any("through a sparse matrix" in fault for fault in found.faults)


@pytest.mark.parametrize("source", [bytes, lambda n: bytes(range(n))], ids=["dead", "the same again"])
def test_a_bad_source_is_a_fault(quick, source, monkeypatch, capsys):
    monkeypatch.setattr(privacy.random_source, "system_bits", source)
    code, text = told(capsys)
    assert code == 1
    assert "  FAULT: bits: expected fresh ones from the system, got a dead source" in text
    assert text.endswith("1 fault, see FAULT above.\n")


def test_old_and_missing_libraries_are_faults(quick, monkeypatch, capsys):
    needs = ["numpy>=99", "absent-library>=1", "also-absent; extra == 'bench'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needs)
    code, text = told(capsys, "--json")
    assert code == 1
    assert json.loads(text)["versions"]["faults"] == [
        f"numpy: expected >=99, got {np.__version__}",
        "absent-library is missing: pip install 'absent-library>=1'",
    ]


def test_what_cannot_be_looked_at_is_a_fault_and_no_crash(quick, monkeypatch, capsys):
    def ill():
        raise RuntimeError("cannot\x1b[2J")

    monkeypatch.setitem(doctor.PARTS, "machine", ill)
    code, text = told(capsys)
    assert code == 1
    assert r"could not be looked at (RuntimeError: cannot\x1b[2J)" in text


def test_graphics_cards_are_asked_of_the_driver(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor._gpu().facts["cards"] is None
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    answer = subprocess.CompletedProcess([], 0, "A Card, 24576 MiB, 550.1\n")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: answer)
    assert doctor._gpu().facts["cards"] == ["A Card, 24576 MiB, 550.1"]

    def fails(*_, **__):
        raise subprocess.TimeoutExpired("nvidia-smi", 10)

    monkeypatch.setattr(doctor.subprocess, "run", fails)
    assert doctor._gpu().notes == ["nvidia-smi is there and failed (TimeoutExpired)"]


@pytest.mark.long
def test_a_cache_that_others_can_write_to_is_told(tmp_path):
    tmp_path.chmod(0o777)
    program = "from countveil.cli.commands.doctor import _compiled_code; print(_compiled_code().notes)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "COUNTVEIL_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "COUNTVEIL_CACHE_DIR: expected a folder that only you can write to" in done.stdout


def test_the_environment_is_told(monkeypatch):
    monkeypatch.setenv("COUNTVEIL_CACHE_DIR", "/somewhere")
    assert doctor._environment().facts["COUNTVEIL_CACHE_DIR"] == "/somewhere"
