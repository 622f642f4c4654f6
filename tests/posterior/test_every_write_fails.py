"""A fit whose disk is full at any one of its writes goes on from there, to the draws of a fit that nothing stopped."""

import errno
import shutil

import pytest

import countveil as cv
from countveil.posterior.describe import describe_run
from countveil.posterior.runs import zarr_store
from countveil.posterior.runs.run_files import RunFiles

RELEASE = cv.simulate_release([[9, 0, 2], [0, 8, 1]], epsilon=2, seed=1)
OPTIONS = {"sweeps": 16, "burn_in": 4, "thin": 2, "chains": 2, "seed": 1, "progress": False}


def fitted(place, **options):
    return cv.fit(cv.TopicModel(2), RELEASE, store=place, **OPTIONS, **options)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0, 60], ids=["checkpoints", "one checkpoint"])
@pytest.mark.parametrize("keep", ["all", "summaries"])
def test_a_fit_goes_on_whichever_write_failed(keep, seconds, tmp_path, monkeypatch):
    """Also of the first checkpoint, before which the root says of draws that nothing goes on from yet."""
    run, write, done = tmp_path / "run.zarr", RunFiles.write, []
    whole = fitted(tmp_path / "whole.zarr", keep=keep).tree

    def failing(self, target, parts):
        done.append(target.name)
        if len(done) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, target, parts)

    monkeypatch.setattr(RunFiles, "write", failing)
    at, resumed, begun = 0, 0, set()
    while True:
        at += 1
        done.clear()
        try:
            fitted(run, keep=keep, checkpoint_seconds=seconds)
            break  # more than there are
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        if run.exists():
            told = describe_run(run)
            begun.add((told.begun, told.draws > 0))
            assert "lost" not in str(told)
            again = cv.resume(run, progress=False).tree
            for group in ("posterior", "sample_stats", *(["running"] if keep != "all" else [])):
                assert again[group].to_dataset().equals(whole[group].to_dataset()), (at, group)
            resumed += 1
            shutil.rmtree(run)
    assert resumed > 10
    # Between the first draws and the first checkpoint, if that does not come in burn-in.
    assert ((False, True) in begun) == (seconds > 0)
    assert "coming" not in (run / "zarr.json").read_text()


def test_a_fit_goes_on_from_before_its_first_checkpoint(tmp_path, monkeypatch):
    run, whole = tmp_path / "run.zarr", fitted(tmp_path / "whole.zarr").tree["posterior"].to_dataset()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(zarr_store, "write_checkpoint", full)
        with pytest.raises(OSError, match="No space left on device"):
            fitted(run)
    told = describe_run(run)
    assert (told.begun, told.draws, told.sweep) == (False, 6, None)
    assert "no checkpoint yet; countveil resume goes on with it" in str(told)
    assert cv.resume(run, progress=False).tree["posterior"].to_dataset().equals(whole)
    assert describe_run(run).begun
