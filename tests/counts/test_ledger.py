"""The ledger: charged before any noise, and whole after any crash."""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

import countveil as cv
from counts.conftest import spent
from countveil.counts.ledger import ledger as ledger_file

COUNTS = [[3, 0], [1, 2]]


def states(ledger_path):
    return [one["state"] for account in cv.Ledger(ledger_path).accounts() for one in account.releases]


def no_noise(monkeypatch):
    """Whoever draws noise from now on fails."""

    def draw(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("countveil.counts.guarantees.add_noise", draw)


def test_what_an_entry_says(ledger_path, enter, tmp_path):
    made = enter("1/3", precision=2, unit="person")
    cv.privatize_to_file(COUNTS, tmp_path / "r.parquet", 2, ledger=ledger_path, dataset="letters")
    first, second = cv.Ledger(ledger_path).accounts()[0].releases
    assert (first["epsilon"], first["precision"], first["unit"], first["slope"]) == (
        "1/3",
        "2",
        "person",
        "1/6",
    )
    assert (first["release"], first["path"], first["countveil"]) == (made.records[0].id, None, cv.__version__)
    assert second["release"] == cv.load_release(tmp_path / "r.parquet").records[0].id
    assert second["path"] == str(tmp_path / "r.parquet")
    assert first["time"].endswith("+00:00")
    lines = ledger_path.read_text().splitlines()
    assert [json.loads(line)["what"] for line in lines[1:]] == ["release", "finished"] * 2
    assert ledger_path.stat().st_mode & 0o777 == 0o600


def test_a_budget_refuses_before_any_noise(ledger_path, enter, monkeypatch):
    cv.Ledger(ledger_path).set_budget("letters", cv.Guarantee(3))
    enter(2)
    no_noise(monkeypatch)
    with pytest.raises(
        cv.LedgerError, match=r"expected at most 1 more .* \(budget 3, spent 2\), got 2; nothing"
    ):
        enter(2)
    with pytest.raises(cv.LedgerError, match=r"expected at most 1 more"):
        enter("101/100", unit="cell")  # which tells as much of a count
    with pytest.raises(cv.LedgerError, match=r"expected at most 1 more"):
        enter(2, dataset="LETTERS ")
    assert spent(ledger_path) == 2
    monkeypatch.undo()
    enter(1)
    assert spent(ledger_path) == 3
    assert [a.budget for a in cv.Ledger(ledger_path).accounts()] == [3]


def test_a_budget_counts_what_came_before_and_rises_only_on_request(ledger_path, enter):
    enter(2)
    ledger = cv.Ledger(ledger_path)
    with pytest.raises(cv.LedgerError, match="expected at least what is spent, 2 per count, got 1"):
        ledger.set_budget("letters", cv.Guarantee(1))
    ledger.set_budget("letters", cv.Guarantee(4))
    with pytest.raises(cv.LedgerError, match="expected at most the present one of 4 per count, got 5"):
        ledger.set_budget("letters", cv.Guarantee(5))
    ledger.set_budget("letters", cv.Guarantee(5), raise_it=True)
    assert ledger.accounts()[0].budget == 5


def test_the_entry_is_on_disk_before_noise_is_drawn(ledger_path, enter, monkeypatch):
    seen = []

    def draw(counts, guarantee):
        seen.append(states(ledger_path))
        raise KeyboardInterrupt

    monkeypatch.setattr("countveil.counts.guarantees.add_noise", draw)
    with pytest.raises(KeyboardInterrupt):
        enter(1)
    assert seen == [["unfinished"]]
    assert states(ledger_path) == ["aborted"]
    assert spent(ledger_path) == 1


def test_the_entry_is_synced(ledger_path, enter, monkeypatch):
    happened = []
    real_sync, real_noise = os.fsync, cv.add_noise

    def sync(descriptor):
        happened.append(os.fstat(descriptor).st_size)
        real_sync(descriptor)

    def draw(*given):
        happened.append("noise")
        return real_noise(*given)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr("countveil.counts.guarantees.add_noise", draw)
    enter(1)
    before = happened[: happened.index("noise")]
    entry = ledger_path.read_bytes().splitlines(keepends=True)[:2]
    assert sum(map(len, entry)) in before


def test_a_killed_release_stays_charged(ledger_path):
    script = (
        "import os, signal, sys, countveil as cv\n"
        "import countveil.counts.guarantees as g\n"
        "g.add_noise = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "cv.privatize([[1, 2]], epsilon=1, ledger=sys.argv[1], dataset='letters')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(ledger_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert states(ledger_path) == ["unfinished"]
    assert spent(ledger_path) == 1


def test_an_overwritten_release_stays_charged(ledger_path, tmp_path):
    for _ in range(2):
        cv.privatize_to_file(COUNTS, tmp_path / "r", 1, overwrite=True, ledger=ledger_path, dataset="letters")
    assert states(ledger_path) == ["overwritten", "finished"]
    assert spent(ledger_path) == 2


def test_bad_input_is_not_charged(ledger_path, enter):
    with pytest.raises(ValueError, match="negative"):
        enter(1, [[-1, 2]])
    assert not ledger_path.exists()


@pytest.mark.parametrize("name", ["typo/r", "folder", "n" * 300, "r.csv"])
@pytest.mark.parametrize("most", [100_000, 1], ids=["a file", "a folder"])
def test_a_name_that_cannot_be_written_is_not_charged(ledger_path, tmp_path, monkeypatch, name, most):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", most)
    no_noise(monkeypatch)
    (tmp_path / "folder").mkdir()
    with pytest.raises((OSError, ValueError)):
        cv.privatize_to_file(
            COUNTS, tmp_path / name, 1, rows=["a", "b"], ledger=ledger_path, dataset="letters"
        )
    assert not ledger_path.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("most", [100_000, 1], ids=["a file", "a folder"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_that_leads_to_nothing_is_not_charged(ledger_path, tmp_path, monkeypatch, most, overwrite):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", most)
    no_noise(monkeypatch)
    (tmp_path / "r").symlink_to("nowhere")
    with pytest.raises(
        FileExistsError, match=r"path: expected a new name, got .*, a link that leads to nothing"
    ):
        cv.privatize_to_file(
            COUNTS,
            tmp_path / "r",
            1,
            rows=["a", "b"],
            ledger=ledger_path,
            dataset="letters",
            overwrite=overwrite,
        )
    assert not ledger_path.exists()


@pytest.mark.parametrize("most", [100_000, 1], ids=["a file", "a folder"])
def test_names_that_no_file_holds_are_not_charged(ledger_path, tmp_path, monkeypatch, most):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", most)
    no_noise(monkeypatch)
    half = [{"labels": {"a\ud800": ["a", "b"], "b": None}}]
    if most == 1:  # one file holds such labels, as JSON
        half.append({"rows": ["a", "\ud800"]})
    for names in half:
        with pytest.raises(
            ValueError, match=r"labels: expected .* that UTF-8 can hold, got half a character"
        ):
            cv.privatize_to_file(COUNTS, tmp_path / "r", 1, ledger=ledger_path, dataset="letters", **names)
    assert not ledger_path.exists()
    assert not list(tmp_path.iterdir())


def test_more_rows_than_a_file_may_have_are_not_charged(ledger_path, tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.MOST_ROWS", 1)
    with pytest.raises(ValueError, match="path: expected at most 1 rows"):
        cv.privatize_to_file(COUNTS, tmp_path / "r", 1, ledger=ledger_path, dataset="letters")
    assert not ledger_path.exists()


def test_what_fails_once_noise_is_drawn_stays_charged(ledger_path, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("countveil.counts.files.cells.CellFile.add", full)
    with pytest.raises(OSError, match="cannot write the release: No space left"):
        cv.privatize_to_file(COUNTS, tmp_path / "r", 1, ledger=ledger_path, dataset="letters")
    assert (spent(ledger_path), states(ledger_path)) == (1, ["aborted"])


def spend_one(ledger_path):
    try:
        cv.privatize(COUNTS, epsilon=1, ledger=ledger_path, dataset="letters")
    except cv.LedgerError:
        return 0
    return 1


def test_processes_cannot_both_spend_the_last_of_it(ledger_path, monkeypatch):
    cv.Ledger(ledger_path).set_budget("letters", cv.Guarantee(7))
    slow = ledger_file.accounts_of

    def read_slowly(entries):
        time.sleep(0.02)  # between reading what is spent and writing what is charged
        return slow(entries)

    monkeypatch.setattr(ledger_file, "accounts_of", read_slowly)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert sum(pool.map(spend_one, [ledger_path] * 20, chunksize=1)) == 7
    assert spent(ledger_path) == 7


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_ledger(ledger_path, enter, monkeypatch):
    """It holds the open file, too, and lives on: to close the file is not to let go of its lock."""
    children, charged = [], ledger_file.accounts_of

    def forking(entries):
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep(60)
            os._exit(0)
        return charged(entries)

    monkeypatch.setattr(ledger_file, "accounts_of", forking)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waits for the child"))
    signal.alarm(20)
    try:
        enter(1)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert children
    assert spent(ledger_path) == 1


@pytest.mark.parametrize("cut", [b"", b"{", b'{"what": "release", "ti'])
def test_a_line_that_was_cut_off_is_passed_over_and_goes(ledger_path, enter, cut):
    enter(1)
    whole = ledger_path.read_bytes()
    ledger_path.write_bytes(whole + cut)
    assert spent(ledger_path) == 1
    enter(1)
    assert spent(ledger_path) == 2
    assert ledger_path.read_bytes().startswith(whole + b'{"what": "release"')


@pytest.mark.parametrize("length", range(0, len(ledger_file.HEAD) + 1, 7))
def test_a_first_line_that_was_cut_off_is_completed(ledger_path, enter, length):
    ledger_path.write_bytes(ledger_file.HEAD[:length])
    assert spent(ledger_path) is None
    enter(1)
    assert ledger_path.read_bytes().startswith(ledger_file.HEAD)
    assert spent(ledger_path) == 1


def test_what_was_changed_during_a_release_is_not_vouched_for(ledger_path, enter, monkeypatch):
    def draw(counts, guarantee):
        lines = ledger_path.read_bytes().splitlines(keepends=True)
        ledger_path.write_bytes(b"".join(lines[:-1]))  # its own entry is gone
        return counts

    monkeypatch.setattr("countveil.counts.guarantees.add_noise", draw)
    before = ledger_file.HEAD
    with pytest.warns(UserWarning, match="has lost the entry of release"):
        enter(1)
    assert ledger_path.read_bytes() == before


def test_a_ledger_that_was_replaced_while_one_waited_is_opened_anew(ledger_path, enter, monkeypatch):
    enter(1)
    copy, first = ledger_path.read_bytes(), []
    original = ledger_file._open

    def replaced(name):
        file = original(name)
        if not first:
            first.append(1)
            ledger_path.with_suffix(".new").write_bytes(copy)
            ledger_path.with_suffix(".new").replace(ledger_path)
        return file

    monkeypatch.setattr(ledger_file, "_open", replaced)
    enter(1)
    assert spent(ledger_path) == 2


def test_a_ledger_that_is_replaced_while_it_is_written_releases_nothing(ledger_path, enter, monkeypatch):
    enter(1)
    copy, write = ledger_path.read_bytes(), ledger_file._Book._write

    def replaced(self, line):
        write(self, line)
        ledger_path.with_suffix(".new").write_bytes(copy)
        ledger_path.with_suffix(".new").replace(ledger_path)

    monkeypatch.setattr(ledger_file._Book, "_write", replaced)
    no_noise(monkeypatch)
    with pytest.raises(cv.LedgerError, match="was replaced meanwhile; nothing was released"):
        enter(1)


def test_a_last_line_without_its_end_counts(ledger_path, enter, monkeypatch):
    monkeypatch.setattr(cv.Ledger, "close", lambda *_: None)
    enter(1)
    ledger_path.write_bytes(ledger_path.read_bytes().removesuffix(b"\n"))  # as editors leave it
    assert spent(ledger_path) == 1
    enter(1)
    assert spent(ledger_path) == 2


def test_a_ledger_that_comes_back_under_its_name_does_not_wait_for_itself(ledger_path, enter, monkeypatch):
    enter(1)
    answers = iter([False])
    is_at = ledger_file._is_at
    monkeypatch.setattr(ledger_file, "_is_at", lambda *given: next(answers, None) is None and is_at(*given))
    enter(1)
    assert spent(ledger_path) == 2


@pytest.mark.parametrize(
    "entry",
    [
        {"what": "something new"}, {"what": "release"}, {"what": "budget", "dataset": "a", "slope": "1" * 1001}, {"what": "budget", "dataset": "a", "slope": "x"},
        {"what": "finished"},
    ],
)  # fmt: skip
def test_entries_that_are_not_understood_are_refused(ledger_path, enter, entry):
    enter(1)
    content = ledger_path.read_bytes()
    signed = {**entry, "before": hashlib.sha256(content).hexdigest()}
    ledger_path.write_bytes(content + json.dumps(signed).encode() + b"\n")
    for use in (lambda: cv.Ledger(ledger_path).accounts(), lambda: enter(1)):
        with pytest.raises(cv.LedgerError, match="cannot be understood"):
            use()


def test_a_link_to_a_ledger_that_is_not_there_is_no_new_ledger(tmp_path, ledger_path, enter):
    ledger_path.symlink_to(tmp_path / "unmounted")
    for ask in (cv.Ledger(ledger_path).accounts, enter):
        with pytest.raises(cv.LedgerError, match=r"expected a ledger behind the link .* got nothing"):
            ask()
    assert not (tmp_path / "unmounted").exists()
    cv.Ledger(tmp_path / "unmounted").set_budget("letters", cv.Guarantee(9))
    enter()
    assert len(cv.Ledger(ledger_path).accounts()) == 1


def test_a_ledger_is_a_file(tmp_path):
    with pytest.raises(cv.LedgerError, match="expected a file, got /dev/full"):
        cv.privatize(COUNTS, epsilon=1, ledger="/dev/full", dataset="letters")
    with pytest.raises(cv.LedgerError, match="expected a file"):
        cv.Ledger(tmp_path).accounts()


@pytest.mark.parametrize("fault", ["lost", "changed", "damaged end", "damaged", "foreign"])
def test_what_was_changed_is_noticed(ledger_path, enter, fault):
    for _ in range(3):
        enter(1)
    lines = ledger_path.read_bytes().splitlines(keepends=True)
    if fault == "lost":
        del lines[3]
    elif fault == "changed":
        lines[3] = lines[3].replace(b'"slope": "1"', b'"slope": "0"')
    elif fault == "damaged end":
        lines[-1] = lines[-1].replace(b"{", b"[")
    elif fault == "damaged":
        lines[3] = b"#" + lines[3]
    else:
        lines = [b"row,column,value\n"]
    ledger_path.write_bytes(b"".join(lines))
    with pytest.raises(cv.LedgerError, match=r"was changed, in line|expected a ledger"):
        cv.Ledger(ledger_path).accounts()
    before = ledger_path.read_bytes()
    with pytest.raises(cv.LedgerError):
        enter(1)
    assert ledger_path.read_bytes() == before


def test_a_full_disk_before_the_entry_releases_nothing(ledger_path, enter, monkeypatch):
    enter(1)
    no_noise(monkeypatch)

    def full(self, line):
        self._file.write(line[: len(line) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger_file._Book, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        enter(1)
    monkeypatch.undo()
    assert spent(ledger_path) == 1
    enter(1)
    assert spent(ledger_path) == 2


def test_a_full_disk_says_that_it_is_the_ledgers(ledger_path, enter, monkeypatch):
    enter(1)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="ledger: expected to write an entry, got: No space left") as caught:
        enter(1)
    assert caught.value.filename == str(ledger_path)
    with pytest.raises(OSError, match="ledger: expected to write an entry, got: No space left") as caught:
        cv.privatize_to_file(COUNTS, ledger_path.parent / "r", 1, ledger=ledger_path, dataset="letters")
    assert caught.value.filename == str(ledger_path)
    assert not (ledger_path.parent / "r").exists()


def test_a_release_is_not_lost_when_the_ledger_is_full_after_it(enter, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cv.Ledger, "close", full)
    with pytest.warns(UserWarning, match="the release is made and charged"):
        assert enter(1).shape == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ledger": "x"}, "dataset: expected a name for the data"),
        ({"ledger": "x", "dataset": " "}, "dataset: expected a name for the data"),
        ({"dataset": "letters"}, "dataset: expected ledger="),
        ({"ledger": 3, "dataset": "letters"}, "ledger: expected the name of a file, got int"),
        ({"ledger": "no/such/folder/x", "dataset": "letters"}, "ledger: No such file"),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    no_noise(monkeypatch)
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        cv.privatize(COUNTS, epsilon=1, **options)


def test_the_ledger_is_not_written_over(ledger_path, enter):
    enter(1)
    for ledger in (ledger_path, cv.Ledger(ledger_path)):
        with pytest.raises(ValueError, match="path: expected another file than those that are read"):
            cv.privatize_to_file(COUNTS, ledger_path, 1, overwrite=True, ledger=ledger, dataset="letters")
    assert spent(ledger_path) == 1


def test_names_are_shown_escaped(ledger_path, enter):
    enter(1, dataset="a\x1b[2J\u202eb")
    assert "\x1b" not in str(cv.Ledger(ledger_path))
    assert r"a\x1b[2J" in str(cv.Ledger(ledger_path))


def test_a_budget_holds_wherever_the_program_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = cv.Ledger("study.ledger")
    ledger.set_budget("letters", cv.Guarantee(epsilon=1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(cv.LedgerError, match="expected at most 1 more"):
        cv.privatize(COUNTS, 5, ledger=ledger, dataset="letters")
    assert not list((tmp_path / "elsewhere").iterdir())
