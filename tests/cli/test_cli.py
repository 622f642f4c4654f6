"""The command as people run it: what it prints, what it writes, how it ends."""

import re
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import io, sparse

from countveil.cli import main
from countveil.counts import load_release
from countveil.privacy import Guarantee

LINES = "who,what,n\nann,x,900000\nbo,y,700000\nann,q,5\n"


@pytest.fixture
def letters(tmp_path):
    (tmp_path / "letters.csv").write_text(LINES)
    (tmp_path / "rows.txt").write_text("ann\nbo\ncy\n")
    (tmp_path / "columns.txt").write_text("x\r\ny\r\n")
    return tmp_path


def command(folder, *more):
    return ["privatize", str(folder / "letters.csv"), "-o", str(folder / "release"), "--epsilon", "2", *more]


def declared(folder):
    return [
        "--long",
        "who,what,n",
        "--rows",
        str(folder / "rows.txt"),
        "--columns",
        str(folder / "columns.txt"),
    ]


def test_privatize(letters, capsys):
    assert main([*command(letters, "--precision", "10", "--unit", "person"), *declared(letters)]) == 0
    release = load_release(letters / "release")
    assert release.guarantee == Guarantee(2, 10, "person")
    assert [labels.tolist() for labels in release.labels] == [["ann", "bo", "cy"], ["x", "y"]]
    assert np.abs(release.to_dense() - [[900000, 0], [0, 700000], [0, 0]]).max() < 500
    told = capsys.readouterr()
    assert str(release.guarantee) in told.out
    assert "released as they are" in told.out
    assert told.err == ""


def test_other_files_and_options(letters, capsys):
    io.mmwrite(letters / "m.mtx", sparse.coo_array(np.eye(3, dtype=int)), symmetry="general")
    release = str(letters / "r")
    assert main(["privatize", str(letters / "m.mtx"), "-o", release, "--epsilon", "1/3", "--explain"]) == 0
    assert load_release(release).guarantee == Guarantee("1/3")
    assert "Not protected:" in capsys.readouterr().out
    assert main([*command(letters), "--long", "who,what,", "--public-labels"]) == 0  # each line counts once
    assert load_release(letters / "release").shape == (2, 3)
    pd.DataFrame({"who": ["a", "b"], "x": [1, 2]}).to_parquet(letters / "wide.parquet")
    wide = ["privatize", str(letters / "wide.parquet"), "-o", release, "--epsilon", "1"]
    assert main([*wide, "--index", "who", "--public-labels", "--overwrite"]) == 0
    assert load_release(release).labels[0].tolist() == ["a", "b"]


BAD = [
    (
        ["--long", "who,what,n"],
        "--rows: expected --rows FILE, got none: the labels in counts are private data",
    ),
    (["--long", "who,what,n"], "or pass --public-labels if anyone may know"),
    (["--public-labels"], "; --index names the column that holds row labels, --long those of a long table"),
    (
        ["--public-labels", "--long", "who,what,n", "--precision", "0"],
        "precision: expected a whole number >= 1",
    ),
    (["--public-labels", "--long", "who,what,count"], "'count': no such column"),
    (["--rows", "absent.txt", "--long", "who,what,n"], "No such file or directory: absent.txt"),
    (["--epsilon", "-1", "--public-labels", "--long", "who,what,n"], "epsilon: expected a number > 0"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(options, message, letters, capsys):
    assert main(command(letters, *options)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("countveil privatize: error: ")
    assert told.err.count("\n") == 1
    assert message in told.err
    assert not (letters / "release").exists()


def test_a_second_release_does_not_replace_the_first(letters, capsys):
    assert main([*command(letters), *declared(letters)]) == 0
    first = (letters / "release").read_bytes()
    capsys.readouterr()
    assert main([*command(letters), *declared(letters)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("countveil privatize: error: --output: expected a new name, got ")
    assert "pass --overwrite to replace it" in told
    assert "overwrite=" not in told
    assert (letters / "release").read_bytes() == first
    assert main([*command(letters), *declared(letters), "--overwrite"]) == 0


def test_a_folder_as_target(letters, capsys):
    (letters / "release").mkdir()
    assert main([*command(letters), *declared(letters)]) == 2
    assert "expected a file name, got the folder" in capsys.readouterr().err


def test_debug_shows_the_traceback(letters):
    with pytest.raises(ValueError, match="rows: expected"):
        main(command(letters, "--long", "who,what,n", "--debug"))


def test_audit(capsys, monkeypatch):
    assert main(["audit", "--samples", "50000"]) == 0
    told = capsys.readouterr().out
    assert "Verdict: passed" in told
    assert "none of 1,000 repeats another, none of 100 large repeats another" in told
    assert re.search(
        r"; finds a seed of 16 bits for each of them \(\d+ where other shapes or types have", told
    )
    assert re.search(r", a seed of 10 bits for large ones \((\d+|none) where other", told)
    assert "without noise: none (p-value 1); finds one cell in " in told
    assert "50,000 noisy counts per check, " in told.splitlines()[-1]
    assert main(["audit", "--samples", "50000", "--epsilon", "1/2", "--precision", "3"]) == 0
    assert "epsilon 1/2, precision 3: law of the noise" in capsys.readouterr().out
    monkeypatch.setattr("countveil.counts.guarantees.add_noise", lambda counts, guarantee: counts)
    assert main(["audit", "--samples", "50000"]) == 1
    assert "Verdict: FAILED" in capsys.readouterr().out
    assert main(["audit", "--precision", "3"]) == 2


def test_argparse_speaks_through_exit_codes(capsys):
    assert main([]) == 2
    assert main(["nonsense"]) == 2
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    for name in ("privatize", "audit"):
        assert name in told
        assert main([name, "--help"]) == 0
        assert "example:" in capsys.readouterr().out


def test_interruption_and_surprises(letters, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("countveil.counts.privatize_to_file", stop)
    assert main(command(letters)) == 130
    assert capsys.readouterr().err == "countveil: stopped\n"

    def surprise(*_, **__):
        raise RuntimeError("987654321")

    monkeypatch.setattr("countveil.counts.privatize_to_file", surprise)
    assert main(command(letters)) == 2
    assert (
        capsys.readouterr().err == "countveil privatize: internal error (RuntimeError); --debug shows where\n"
    )


@pytest.mark.parametrize("words", ["--help", "privatize --help", "fit --help", "fit topics --help"])
def test_help_loads_nothing_heavy(words):
    program = f"import sys; from countveil.cli import main; main({words.split()}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "countveil.cli.commands.fit" in done.stdout.split()
    assert not {"numpy", "scipy", "pyarrow", "pandas", "xarray", "numba"} & set(done.stdout.split())


def test_python_m(letters):
    run = [sys.executable, "-m", "countveil", *command(letters), *declared(letters)]
    done = subprocess.run(run, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Wrote" in done.stdout


def test_what_is_read_is_not_replaced(letters, capsys):
    for name in ("letters.csv", "rows.txt", "columns.txt"):
        before = (letters / name).read_bytes()
        words = command(letters, "--overwrite", *declared(letters))
        words[words.index("-o") + 1] = str(letters / name)
        assert main(words) == 2
        told = capsys.readouterr().err
        assert told.startswith(
            "countveil privatize: error: --output: expected another file than those that are read"
        )
        assert (letters / name).read_bytes() == before


STOPPED = """
import os, signal, sys, time
from countveil.cli import main
from countveil.counts.files.cells import CellFile

def wait(self, listed):
    print(*os.listdir(os.path.dirname(sys.argv[4])), flush=True)
    time.sleep(60)

CellFile.add = wait
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_stops_it_in_order(number, code, letters):
    (letters / "out").mkdir()
    words = [*command(letters), *declared(letters)]
    words[words.index("-o") + 1] = str(letters / "out" / "release")
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # what runs the tests may ignore it
    ) as process:
        assert process.stdout.readline().startswith(".countveil-unfinished-")
        process.send_signal(number)
        _, told = process.communicate()
    assert process.returncode == code
    assert told == "countveil: stopped\n"
    assert not list((letters / "out").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_signals_are_given_back_and_ignored_ones_stay_ignored(letters, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        seen = []
        monkeypatch.setattr(
            "countveil.counts.privatize_to_file",
            lambda *_, **__: seen.extend(map(signal.getsignal, (signal.SIGHUP, signal.SIGTERM))) or "promise",
        )
        assert main(command(letters)) == 0
        assert seen[0] == signal.SIG_IGN
        assert callable(seen[1])
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
