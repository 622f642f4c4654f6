"""The counts of the case studies, from a small archive that is written here."""

import gzip

import numpy as np
import pytest
from scipy import sparse

import countveil as cv
from countveil.cli import main
from countveil.studies.enron import read_mails
from countveil.studies.experiments.months import load_messages
from countveil.studies.experiments.networks import load_network
from countveil.studies.experiments.texts import load_documents

WORDS = ["gas", "power", "price", "market", "trade", "contract", "energy", "pipeline", "meeting", "schedule"]
DATE = "Mon, 14 May 2001 16:39:00 -0700 (PDT)"


def write_mail(folder, name, *, sender, to, text="short note", date=DATE, cc="", bcc=""):
    folder.mkdir(parents=True, exist_ok=True)
    headers = [f"From: {sender}", f"To: {to}", f"Date: {date}", f"Cc: {cc}", f"Bcc: {bcc}", "Subject: re"]
    (folder / name).write_text("\n".join([*headers, "", text]) + "\n", encoding="latin-1")


def long_text(i):
    """Sixty tokens of which one is in every text, and words of two letters, which are none."""
    picked = [WORDS[i % 5], WORDS[5 + i % 5]]
    return " ".join(["common"] * 10 + picked * 25 + ["of", "by", "x1", "99"])


@pytest.fixture
def maildir(tmp_path):
    root = tmp_path / "maildir"
    ann, bob, cat = (f"{name}@enron.com" for name in ("ann", "bob", "cat"))
    for i in range(20):
        write_mail(root / "a-ann" / "sent_items", f"{i}.", sender=f"Ann <{ann}>", to=f"{bob}, {cat}",
                   text=long_text(i), date=f"Mon, {i + 1} May 2001 10:00:00 +0000")  # fmt: skip
    for i in range(90):
        write_mail(root / "b-bob" / "_sent_mail", f"{i}.", sender=bob, to=ann.upper(), cc=f"{ann}, x@other.org",
                   date=f"Mon, {i % 28 + 1} Jun 2001 10:{i % 60:02d}:00 +0000")  # fmt: skip
    write_mail(root / "b-bob" / "inbox", "1.", sender=ann, to=bob, date="Mon, 1 May 2001 10:00:00 +0000",
               text=long_text(0))  # fmt: skip  # a second copy of ann's first message, and no sent mail
    write_mail(root / "b-bob" / "_sent_mail", "self.", sender=bob, to=bob)
    write_mail(
        root / "b-bob" / "_sent_mail", "old.", sender=bob, to=ann, date="Mon, 31 Dec 1979 16:00:00 -0800"
    )
    write_mail(root / "b-bob" / "_sent_mail", "broken.", sender=bob, to=ann, date="yesterday")
    write_mail(root / "c-cat" / "sent", "1.", sender=cat, to=ann)  # one message, and few received
    return root


def build(maildir, out, *more):
    return main(["enron", "build", str(maildir), "-o", str(out), *more])


def test_the_network_follows_the_rules(maildir, tmp_path, capsys):
    assert build(maildir, tmp_path / "out") == 0, capsys.readouterr().err
    found = load_network({"network": tmp_path / "out" / "network.npz"})
    # Ann and Bob have 100 messages sent or received, Cat has not. Ann is named twice in Bob's mails, and counts once.
    assert found["counts"].tolist() == [[0, 21], [90, 0]]
    # The copy in Bob's inbox is the same message.
    assert found["counts_unique"].tolist() == [[0, 20], [90, 0]]
    lines = gzip.decompress((tmp_path / "out" / "edges.csv.gz").read_bytes()).decode().splitlines()
    assert lines[:2] == ["time,sender,recipient,type", "2001-05-01 10:00:00,0,1,to"]
    assert len(lines) == 1 + found["counts"].sum()
    tensor = load_messages({"edges": tmp_path / "out" / "edges.csv.gz"})
    assert (tensor["counts"].sum(axis=2) == found["counts_unique"]).all()
    assert b"enron.com" not in gzip.decompress((tmp_path / "out" / "edges.csv.gz").read_bytes())


def test_the_documents_follow_the_rules(maildir, tmp_path):
    assert build(maildir, tmp_path / "out") == 0
    counts = load_documents({"documents": tmp_path / "out" / "documents.npz"})["documents"]
    with np.load(tmp_path / "out" / "documents.npz") as file:
        vocabulary = file["vocabulary"].tolist()
    # Ann's texts are five different ones, sent four times each; every text counts once; short ones do not.
    assert counts.shape == (5, 10)
    assert sorted(vocabulary) == sorted(WORDS)  # "common" is in all documents
    gas = counts[:, [vocabulary.index("gas")]].toarray().ravel()
    assert sorted(gas.tolist()) == [0, 0, 0, 0, 25]
    release = cv.simulate_release(sparse.csr_array(counts), epsilon=1, seed=0)
    assert release.shape == (5, 10)


def test_a_list_of_addresses_takes_the_place_of_owners(maildir, tmp_path, capsys):
    (tmp_path / "list.txt").write_text("Bob@enron.com\nann@enron.com\nnobody@enron.com\n", encoding="utf-8")
    assert build(maildir, tmp_path / "out", "--addresses", str(tmp_path / "list.txt")) == 0
    assert load_network({"network": tmp_path / "out" / "network.npz"})["counts"].tolist() == [
        [0, 21],
        [90, 0],
    ]
    (tmp_path / "list.txt").write_text("nobody@enron.com\n", encoding="utf-8")
    assert build(maildir, tmp_path / "other", "--addresses", str(tmp_path / "list.txt")) == 2
    assert "expected actors with at least 100 messages" in capsys.readouterr().err


def test_what_is_no_archive_is_refused(tmp_path, capsys):
    assert build(tmp_path / "nowhere", tmp_path / "out") == 2
    assert "MAILDIR: expected a folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert build(tmp_path / "empty", tmp_path / "out") == 2
    assert "got none" in capsys.readouterr().err


def test_files_of_the_user_are_not_replaced(maildir, tmp_path, capsys):
    (tmp_path / "network.npz").write_bytes(b"mine")
    assert build(maildir, tmp_path) == 2
    assert "--output: expected a folder without network.npz" in capsys.readouterr().err
    assert (tmp_path / "network.npz").read_bytes() == b"mine"
    assert not (tmp_path / "documents.npz").exists()


def test_a_mail_that_cannot_be_read_does_not_end_the_reading(maildir):
    before = list(read_mails(maildir))
    folder = maildir / "a-ann" / "sent_items"
    for i, date in enumerate(
        ["Mon, 14 May 2001 16:39:00 +99999999999999999", "Fri, 31 Dec 9999 23:59:59 -0500"]
    ):
        write_mail(folder, f"odd{i}", sender="ann@enron.com", to="bob@enron.com", date=date)
    write_mail(folder, "brackets", sender="ann@enron.com", to="(" * 100_000)
    found = list(read_mails(maildir))
    # The last one is no mail, or (since Python 3.13) one to nobody.
    assert sum(bool(mail.recipients) for mail in found) == sum(bool(mail.recipients) for mail in before) + 2
    assert len(found) - len(before) in (2, 3)
    assert sum(mail.time is None for mail in found) == sum(mail.time is None for mail in before) + 2


def test_a_file_of_documents_is_checked_as_any_other(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, data=np.ones(5, np.int64), indices=np.array([0, 1, 2**30, 3, -(2**30)], np.int32),
             indptr=np.array([0, 2, 5], np.int32), shape=np.array([2, 4]), format=b"csr")  # fmt: skip
    with pytest.raises(ValueError, match="documents: expected a sparse matrix whose entries lie within it"):
        load_documents({"documents": path, "part": (2, 3)})
