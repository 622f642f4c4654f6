"""``countveil fit topics`` and ``countveil topics``, as a user types them."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import io, sparse

import countveil as cv
from countveil.cli import main
from countveil.cli.tables import check_free, write_table

WORDS = ["goal", "match", "vote", "law"]
NAMES = [f"letter {i}" for i in range(12)]
COUNTS = np.array([[9, 7, 0, 0]] * 6 + [[0, 1, 8, 6]] * 6)
QUICK = ["--topics", "2", "--sweeps", "60", "--thin", "2", "--seed", "1"]


@pytest.fixture
def release(tmp_path):
    path = tmp_path / "release.parquet"
    cv.privatize(COUNTS, epsilon=3, rows=NAMES, columns=WORDS).save(path)
    return path


def test_from_a_release_to_tables(release, tmp_path, capsys):
    run = tmp_path / "run.zarr"
    assert main(["fit", "topics", str(release), "-o", str(run), *QUICK]) == 0
    out, err = capsys.readouterr()
    assert "TopicModel(n_topics=2, shape=0.1, rate=None), 12 x 4, 2 chains x 15 draws" in out
    assert str(cv.load_release(release).guarantee) in out
    assert "sampled_log_likelihood" in out
    assert "Worst R-hat" in out
    assert "goal" in out
    assert "sweep 60 of 60" in err

    topics, shares = tmp_path / "topics.csv", tmp_path / "shares.csv"
    words = ["topics", str(run), "--words", "3", "--csv", str(topics), "--memberships", str(shares)]
    assert main(words) == 0
    assert "agreement" in capsys.readouterr().out
    table = pd.read_csv(topics)
    assert list(table.columns) == ["topic", "rank", "word", "weight", "low", "high"]
    assert len(table) == 2 * 3
    found = pd.read_csv(shares)
    assert len(found) == 12 * 2
    assert set(found["row"]) == set(NAMES)
    assert np.allclose(found.groupby("row")["mean"].sum(), 1)
    assert main(["topics", str(run), "--csv", str(topics), "--memberships", str(topics)]) == 2
    assert "--memberships: expected another file than --csv, got" in capsys.readouterr().err
    assert main(words) == 0  # tables of its own are replaced
    capsys.readouterr()
    for content in (b"letter,goal\nann,3\n", b"", b"\xff\xfe\x00"):
        shares.write_bytes(content)
        topics.unlink(missing_ok=True)
        assert main(words) == 2
        assert f"got {shares}, which is something else; --overwrite replaces it" in capsys.readouterr().err
        assert (shares.read_bytes(), topics.exists()) == (content, False)
    assert main([*words, "--overwrite"]) == 0
    assert pd.read_csv(shares).equals(found)
    assert pd.read_csv(topics).equals(table)


TABLE = pd.DataFrame({"word": ["oil", "gas"], "weight": [0.5, 0.25]})


def test_tables_are_compressed_by_their_name_and_follow_links(tmp_path):
    write_table(TABLE, str(tmp_path / "a.csv.gz"))
    assert (tmp_path / "a.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert pd.read_csv(tmp_path / "a.csv.gz").equals(TABLE)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "b.csv").symlink_to("elsewhere/b.csv")
    write_table(TABLE, str(tmp_path / "b.csv"))
    assert (tmp_path / "b.csv").is_symlink()
    assert pd.read_csv(tmp_path / "elsewhere" / "b.csv").equals(TABLE)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["b.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that have names")
def test_a_table_does_not_replace_what_came_while_it_was_written(tmp_path):
    target = tmp_path / "out.csv"

    def more():
        target.write_text("my only copy")
        yield TABLE

    older = check_free(TABLE, str(target), overwrite=False)
    with pytest.raises(FileExistsError, match="expected a new name"):
        write_table(TABLE, str(target), more(), overwrite=older)
    assert target.read_text() == "my only copy"
    assert check_free(TABLE, str(target), overwrite=True)
    write_table(TABLE, str(target), overwrite=True)
    assert check_free(TABLE, str(target), overwrite=False), "an older table"


def test_a_table_goes_into_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as readers:
        read = readers.submit((tmp_path / "pipe").read_text)
        write_table(TABLE, str(tmp_path / "pipe"))
        assert read.result() == "word,weight\noil,0.5\ngas,0.25\n"
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a folder below /dev")
def test_files_below_dev_are_files(tmp_path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        thesis = Path(folder, "thesis.txt")
        thesis.write_text("the only one")
        link = tmp_path / "link"
        link.symlink_to(thesis)
        for name in (thesis, link):
            with pytest.raises(FileExistsError, match="which is something else; --overwrite replaces it"):
                check_free(TABLE, str(name), overwrite=False)
        assert thesis.read_text() == "the only one"


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev/stdout")  # noqa: PTH110
def test_a_table_goes_to_standard_output_wherever_that_leads(tmp_path):
    """To a file as well, after what stands there and before what is said of it."""
    code = (
        "import pandas as pd; from countveil.cli.tables import check_free, write_table; print('first')\n"
        "table = pd.DataFrame({'word': ['oil']}); check_free(table, '/dev/stdout', False)\n"
        "write_table(table, '/dev/stdout')"
    )
    told = "first\nword\noil\nWrote /dev/stdout.\n"
    file = tmp_path / "out.txt"
    with file.open("w") as opened:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=opened)
    assert file.read_text() == told
    piped = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert piped.stdout == told


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    write_table(TABLE, str(tmp_path / "a.csv"))

    def full(self, file, **_):
        file.write(b"word,wei")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_table(TABLE, str(tmp_path / "a.csv"))
    assert pd.read_csv(tmp_path / "a.csv").equals(TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_it_is_the_same_fit_as_in_python(release, tmp_path):
    run = tmp_path / "run.zarr"
    settings = ["--burn-in", "20", "--chains", "1", "--method", "bessel", "--threads", "1", "--shape", "0.5"]
    words = [*QUICK, *settings, "--rate", "2", "--quiet"]
    assert main(["fit", "topics", str(release), "-o", str(run), *words]) == 0
    loaded = cv.load_posterior(run)
    posterior = cv.fit(
        cv.TopicModel(2, shape=0.5, rate=2), cv.load_release(release), sweeps=60, burn_in=20, thin=2,
        chains=1, seed=1, method="bessel", progress=False,
    )  # fmt: skip
    assert np.array_equal(loaded.tree["posterior"]["phi"], posterior.tree["posterior"]["phi"])


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["--chains", "1"], "One chain: whether there are other solutions (modes) cannot be seen"),
        (["--burn-in", "56"], "Too few draws for diagnostics: more sweeps."),
        ([], "Advised: R-hat at most 1.01, ESS at least 400."),
    ],
)
def test_the_verdict_on_the_chains(release, tmp_path, capsys, words, verdict):
    assert main(["fit", "topics", str(release), "-o", str(tmp_path / "run"), *QUICK, *words]) == 0
    assert verdict in capsys.readouterr().out


def test_quiet_says_nothing(release, tmp_path, capsys):
    assert main(["fit", "topics", str(release), "-o", str(tmp_path / "run"), "--quiet", *QUICK]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["wide.csv", "long.csv", "mtx", "npz"])
def test_plain_counts(tmp_path, kind, capsys):
    options = []
    if kind == "wide.csv":
        file = tmp_path / "counts.csv"
        pd.DataFrame(COUNTS, index=NAMES, columns=WORDS).to_csv(file, index_label="letter")
        options = ["--index", "letter"]
    elif kind == "long.csv":
        file = tmp_path / "counts.csv"
        cells = pd.DataFrame(COUNTS, index=NAMES, columns=WORDS).stack().rename("n")
        cells.rename_axis(["letter", "word"]).reset_index().to_csv(file, index=False)
        options = ["--long", "letter,word,n"]
    else:
        file = tmp_path / f"counts.{kind}"
        matrix = sparse.coo_array(COUNTS)
        io.mmwrite(file, matrix) if kind == "mtx" else sparse.save_npz(file, matrix.tocsr())
        (tmp_path / "words.txt").write_bytes("\r\n".join(WORDS).encode() + b"\r\n")
        options = ["--columns", str(tmp_path / "words.txt")]
    run = tmp_path / "run.zarr"
    assert main(["fit", "topics", str(file), "--plain", *options, "-o", str(run), *QUICK]) == 0
    assert "goal" in capsys.readouterr().out
    posterior = cv.load_posterior(run)
    assert posterior.release is None  # a run never holds true counts
    if kind.endswith("csv"):
        assert posterior.memberships(rows=["letter 3"]).sizes["topic"] == 2


@pytest.mark.parametrize("kind", ["mtx", "npz", "csv"])
def test_plain_counts_that_are_sparse_in_the_file_stay_sparse(tmp_path, kind, monkeypatch):
    file, n, options = tmp_path / f"counts.{kind}", 20_000, []
    places = np.random.default_rng(0).integers(0, n, (2, 500))
    matrix = sparse.coo_array((np.ones(500, dtype=int), places), shape=(n, n))
    if kind == "mtx":
        io.mmwrite(file, matrix)
    elif kind == "npz":
        sparse.save_npz(file, matrix.tocsr())
    else:
        pd.DataFrame({"row": places[0], "column": places[1], "n": 1}).to_csv(file, index=False)
        labels = tmp_path / "labels.txt"
        labels.write_text("\n".join(map(str, range(n))))
        options = ["--long", "row,column,n", "--rows", str(labels), "--columns", str(labels)]
    given = []

    def stop(store, problem, *_):
        given.append(problem.views[""].given)
        raise KeyboardInterrupt

    monkeypatch.setattr("countveil.chains_to_posterior.run_into", stop)
    tracemalloc.start()
    try:
        assert (
            main(["fit", "topics", str(file), "--plain", *options, "-o", str(tmp_path / "run"), *QUICK])
            == 130
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert given[0].shape == (n, n)
    assert given[0].total() == 500
    assert peak < 1e8  # dense it would be 3.2e9 bytes, and 4e8 at a byte per cell


def interrupted_after(n):
    def progress(sweeps, _):
        for sweep in sweeps:
            if sweep > n:
                raise KeyboardInterrupt
            yield sweep

    return progress


def test_stopping_keeps_and_saves_what_was_drawn(release, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: interrupted_after(41))
    run = tmp_path / "run.zarr"
    assert main(["fit", "topics", str(release), "-o", str(run), *QUICK]) == 130
    told = capsys.readouterr().out
    assert "Stopped early" in told
    assert f"To go on: countveil resume {run}" in told
    with pytest.warns(UserWarning, match=r"unfinished: .* has 5 of 15 draws per chain so far"):
        posterior = cv.load_posterior(run)
    assert posterior.n_draws == 2 * 5
    assert json.loads(posterior.tree.attrs["settings"])["interrupted"]


def test_stopping_before_the_first_draw_leaves_a_run_that_goes_on(release, tmp_path, monkeypatch, capsys):
    run, words = tmp_path / "run", ["fit", "topics", str(release), *QUICK]
    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: interrupted_after(3))
    assert main([*words, "-o", str(run)]) == 130
    told = capsys.readouterr().err
    assert f"Stopped before the first draw. To go on: countveil resume {run}" in told
    assert "stopped" in told
    monkeypatch.undo()
    assert main(["resume", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "2 chains x 15 draws" in shown
    assert "goal" in shown
    assert main([*words, "-o", str(tmp_path / "whole"), "--quiet"]) == 0
    same_draws(cv.load_posterior(run), cv.load_posterior(tmp_path / "whole"))


def test_stopping_before_the_chains_says_that_nothing_was_written(release, tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("countveil.fitting.fit", interrupted)
    assert main(["fit", "topics", str(release), "-o", str(tmp_path / "run"), *QUICK]) == 130
    assert "Stopped before the chains began: nothing was written." in capsys.readouterr().err


def same_draws(one, other):
    for group in ("posterior", "sample_stats"):
        assert one.tree[group].to_dataset().equals(other.tree[group].to_dataset())


def test_a_run_becomes_longer(release, tmp_path, capsys):
    run, words = tmp_path / "run", ["fit", "topics", str(release), *QUICK, "--burn-in", "30", "--quiet"]
    assert main([*words, "-o", str(run)]) == 0
    assert main(["resume", str(run), "--sweeps", "90", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*words, "--sweeps", "90", "-o", str(tmp_path / "whole")]) == 0
    same_draws(cv.load_posterior(run), cv.load_posterior(tmp_path / "whole"))
    assert main(["resume", str(run)]) == 0, "a finished run is shown"
    assert "2 chains x 30 draws" in capsys.readouterr().out
    assert main(["resume", str(run), "--sweeps", "10"]) == 2
    error = capsys.readouterr().err
    assert (
        "sweeps: expected a new total of at least 90, the sweeps that this run has done and keeps, got 10"
        in error
    )
    assert main(["resume", str(tmp_path / "no")]) == 2
    assert "expected the folder of a run" in capsys.readouterr().err


def test_plain_counts_are_given_again(tmp_path, monkeypatch, capsys):
    file, run = tmp_path / "counts.csv", tmp_path / "run"
    pd.DataFrame(COUNTS, index=NAMES, columns=WORDS).to_csv(file, index_label="letter")
    plain = ["--plain", "--index", "letter"]
    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: interrupted_after(41))
    assert main(["fit", "topics", str(file), *plain, "-o", str(run), *QUICK, "--quiet"]) == 130
    monkeypatch.undo()
    assert main(["resume", str(run), "--quiet"]) == 2
    assert "data: expected the plain counts of this run" in capsys.readouterr().err
    assert main(["resume", str(run), "--plain", str(file), "--index", "letter", "--quiet"]) == 0
    assert main(["fit", "topics", str(file), *plain, "-o", str(tmp_path / "whole"), *QUICK, "--quiet"]) == 0
    same_draws(cv.load_posterior(run), cv.load_posterior(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--burn-in", "60"], "burn_in: expected fewer than the 60 sweeps, got 60"),
        (["--topics", "0"], "n_topics: expected a whole number >= 1, got 0"),
        (["--shape", "-1"], "shape: expected a finite number >= 0.001, got -1.0"),
        (["--index", "letter"], "--index: expected --plain beside it"),
        (["-o", "{folder}"], "--output: expected a new folder, got"),
        (["-o", "{folder}/no/run"], "--output: expected an existing folder around it, got"),
        (["--plain"], "--plain: expected a file of plain counts, got a release; leave --plain out"),
    ],
)
def test_bad_input_is_one_line_and_code_2(release, tmp_path, capsys, words, message):
    given = ["fit", "topics", str(release), "-o", str(tmp_path / "run"), *QUICK]
    assert main([*given, *(word.format(folder=tmp_path) for word in words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("countveil fit: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_files_that_are_not_there_or_something_else(release, tmp_path, capsys):
    assert main(["fit", "topics", str(tmp_path / "no.parquet"), "-o", str(tmp_path / "run")]) == 2
    assert "no.parquet" in capsys.readouterr().err
    assert main(["topics", str(tmp_path / "no.zarr")]) == 2
    assert "expected the folder of a run" in capsys.readouterr().err
    assert main(["topics", str(release)]) == 2
    assert main(["fit", "topics", str(release), "-o", str(tmp_path / "run"), "--quiet", *QUICK]) == 0
    assert main(["topics", str(tmp_path / "run"), "--csv", str(tmp_path / "no" / "a.csv")]) == 2
    assert "--csv: expected an existing folder" in capsys.readouterr().err


def test_help_and_errors_in_a_process_of_their_own(tmp_path):
    command = [sys.executable, "-m", "countveil"]
    for words in (["fit", "--help"], ["fit", "topics", "--help"], ["topics", "--help"], ["demo", "--help"]):
        shown = subprocess.run([*command, *words], capture_output=True, text=True, check=True).stdout
        assert "usage: countveil" in shown
        assert max(map(len, shown.splitlines())) <= 88
    failed = subprocess.run(
        [*command, "fit", "topics", "no", "-o", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr
