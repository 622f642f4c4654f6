"""The counts of the paper's case studies, from the raw e-mail archive: documents x words, and who wrote to whom.

The archive is a folder for every mailbox, with folders of messages in it (Klimt and Yang, 2004). The rules:

* **Documents**: messages in folders of sent mail, each text once, with at least 50 tokens, a token being a run
  of three or more letters, in lower case. 10,000 of them are drawn with a seed. Words are the 10,000 most
  frequent ones that less than 0.3 of the documents have. The paper does not say how it tokenised.
* **Network**: a message is counted for every recipient (To, Cc, Bcc) once; ``counts`` counts every stored copy,
  ``counts_unique`` every (time, sender, recipient) once. Mail to oneself is left out, and so is mail whose date
  is not between 1998 and 2002. Actors are those of a list of addresses that sent at least one message and sent
  or received at least 100. Without a list they are the owners of the mailboxes: of each the address from which
  most of its sent mail came.

Messages are read with the standard library; broken headers and encodings are skipped over, not repaired.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from countveil.counts.files.atomic import write_file

#: What is written.
FILES = DOCUMENTS, NETWORK, EDGES = "documents.npz", "network.npz", "edges.csv.gz"
LEAST_TOKENS, MOST_DOCUMENTS, MOST_WORDS, MOST_FREQUENT = 50, 10_000, 10_000, 0.3
LEAST_MESSAGES = 100
YEARS = (1998, 2002)
_TOKEN = re.compile(r"[a-z]{3,}")
_SENT = re.compile(r"sent", re.IGNORECASE)


class Mail(NamedTuple):
    """What is needed of a message."""

    mailbox: str
    sent: bool  # whether it lies in a folder of sent mail
    time: datetime | None
    sender: str
    recipients: tuple[tuple[str, str], ...]  # (to, cc or bcc; address)
    text: str


class Record(NamedTuple):
    """One message to one recipient."""

    time: datetime
    sender: str
    recipient: str
    kind: str


class Documents(NamedTuple):
    """Counts (documents, words) and the words."""

    counts: sparse.csr_array
    vocabulary: np.ndarray


class Network(NamedTuple):
    """Counts from actor to actor, and the records behind them; actors are numbers, in the order of ``actors``."""

    counts: np.ndarray
    counts_unique: np.ndarray
    actors: list[str]
    records: list[Record]


def build_enron(
    maildir: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    addresses: Sequence[str] | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Documents, Network]:
    """Write ``documents.npz``, ``network.npz`` and ``edges.csv.gz`` into ``output``, as the studies read them.

    The network and the edges have numbers in place of addresses. Files of these names are not replaced.
    """
    target = Path(output)
    for name in FILES:  # before hours of work
        if os.path.lexists(target / name):
            raise FileExistsError(f"output: expected a folder without {name}, got {target}, which has one")
    mails = list(read_mails(maildir))
    if not mails:
        raise ValueError(
            f"maildir: expected a folder of mailboxes with messages in it, got none in {maildir}"
        )
    say(f"{len(mails)} messages read.")
    documents = build_documents(mails, seed=seed)
    say(
        f"Documents: {documents.counts.shape[0]} x {documents.counts.shape[1]}, {documents.counts.sum()} tokens."
    )
    network = build_network(mails, addresses)
    say(f"Network: {len(network.actors)} actors, {network.counts.sum()} messages.")
    target.mkdir(parents=True, exist_ok=True)
    write_file(target / DOCUMENTS, _npz_of(documents), overwrite=False)
    content = io.BytesIO()
    np.savez_compressed(content, counts=network.counts, counts_unique=network.counts_unique)
    write_file(target / NETWORK, content.getvalue(), overwrite=False)
    write_file(target / EDGES, _edges_of(network), overwrite=False)
    return documents, network


def read_mails(maildir: str | os.PathLike[str]) -> Iterator[Mail]:
    """All messages below the mailboxes, in the order of their paths; links are not followed."""
    root = Path(maildir)
    if not root.is_dir():
        raise ValueError(f"maildir: expected a folder, got {root}")
    for folder, inside, names in os.walk(root):
        inside.sort()
        parts = Path(folder).relative_to(root).parts
        if not parts:
            continue
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                try:
                    with path.open("rb") as file:
                        message = BytesParser().parse(file)
                    mail = _mail(message, parts[0], any(_SENT.search(part) for part in parts[1:]))
                except RecursionError:  # thousands of parts or brackets in each other: no mail
                    continue
                yield mail


def _mail(message: Message, mailbox: str, sent: bool) -> Mail:
    senders = _addresses(message, "from")
    recipients = tuple((kind, one) for kind in ("to", "cc", "bcc") for one in _addresses(message, kind))
    return Mail(mailbox, sent, _time(message), senders[0] if senders else "", recipients, _text(message))


def _addresses(message: Message, header: str) -> list[str]:
    found = getaddresses([str(value) for value in message.get_all(header, [])])
    return [address.strip().strip("'").lower() for _, address in found if "@" in address]


def _time(message: Message) -> datetime | None:
    """In UTC; None where there is no date that can be read, or an impossible one."""
    try:
        time = parsedate_to_datetime(str(message["date"]))
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _text(message: Message) -> str:
    parts = [part for part in message.walk() if part.get_content_type() == "text/plain"]
    found = []
    for part in parts:
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            found.append(content.decode("utf-8", errors="replace"))
    return "\n".join(found)


def tokens_of(text: str) -> list[str]:
    """Runs of three or more letters, in lower case.

    >>> tokens_of("Re: the Q3 gas-price forecast, by 10am")
    ['the', 'gas', 'price', 'forecast']
    """
    return _TOKEN.findall(text.lower())


def build_documents(
    mails: Iterable[Mail],
    *,
    least_tokens: int = LEAST_TOKENS,
    n_documents: int = MOST_DOCUMENTS,
    n_words: int = MOST_WORDS,
    seed: int = 0,
) -> Documents:
    """The document-term matrix; words in the order of their frequency."""
    texts: dict[str, Counter[str]] = {}
    for mail in mails:
        if mail.sent and mail.text not in texts:
            found = Counter(tokens_of(mail.text))
            if found.total() >= least_tokens:
                texts[mail.text] = found
    every = list(texts.values())
    if not every:
        raise ValueError(f"maildir: expected sent messages of at least {least_tokens} tokens, got none")
    chosen = every
    if len(every) > n_documents:
        places = np.random.default_rng(seed).choice(len(every), n_documents, replace=False)
        chosen = [every[place] for place in np.sort(places)]
    total: Counter[str] = Counter()
    presence: Counter[str] = Counter()
    for found in chosen:
        total.update(found)
        presence.update(found.keys())
    usable = [word for word in total if presence[word] < MOST_FREQUENT * len(chosen)]
    words = sorted(usable, key=lambda word: (-total[word], word))[:n_words]
    place = {word: index for index, word in enumerate(words)}
    cells = [(d, place[w], n) for d, found in enumerate(chosen) for w, n in found.items() if w in place]
    rows, columns, values = (np.array(part, dtype=np.int64) for part in zip(*cells, strict=True))
    counts = sparse.csr_array((values, (rows, columns)), shape=(len(chosen), len(words)))
    return Documents(counts, np.array(words))


def build_network(
    mails: Sequence[Mail], addresses: Sequence[str] | None = None, *, least_messages: int = LEAST_MESSAGES
) -> Network:
    """Who wrote to whom how often, among the actors that are active enough."""
    known = owners_of(mails) if addresses is None else {address.strip().lower() for address in addresses}
    records = [
        Record(mail.time, mail.sender, recipient, kind)
        for mail in mails
        if mail.time is not None and YEARS[0] <= mail.time.year <= YEARS[1] and mail.sender in known
        for recipient, kind in {one: kind for kind, one in reversed(mail.recipients)}.items()
        if recipient in known and recipient != mail.sender
    ]
    sent, received = Counter(r.sender for r in records), Counter(r.recipient for r in records)
    # The rule is about messages among all actors that were listed, not among those that are left.
    actors = sorted(one for one in known if sent[one] >= 1 and sent[one] + received[one] >= least_messages)
    if not actors:
        raise ValueError(f"maildir: expected actors with at least {least_messages} messages, got none")
    place = {actor: index for index, actor in enumerate(actors)}
    records = [record for record in records if record.sender in place and record.recipient in place]
    records.sort(key=lambda record: (record.time, place[record.sender], place[record.recipient]))
    counts, unique = (np.zeros((len(actors), len(actors)), dtype=np.int64) for _ in range(2))
    for record in records:
        counts[place[record.sender], place[record.recipient]] += 1
    for _, sender, recipient in {record[:3] for record in records}:
        unique[place[sender], place[recipient]] += 1
    return Network(counts, unique, actors, records)


def owners_of(mails: Iterable[Mail]) -> set[str]:
    """Of every mailbox the address from which most of its sent mail came."""
    senders: dict[str, Counter[str]] = {}
    for mail in mails:
        if mail.sent and mail.sender:
            senders.setdefault(mail.mailbox, Counter())[mail.sender] += 1
    return {min(found, key=lambda one: (-found[one], one)) for found in senders.values()}


def _npz_of(documents: Documents) -> bytes:
    """As ``scipy.sparse.save_npz`` writes it, with the vocabulary beside it."""
    counts = documents.counts.astype(np.int32)
    arrays = {"data": counts.data, "indices": counts.indices.astype(np.int32), "indptr": counts.indptr}
    content = io.BytesIO()
    np.savez_compressed(
        content, **arrays, shape=np.array(counts.shape), format=b"csr", vocabulary=documents.vocabulary
    )
    return content.getvalue()


def _edges_of(network: Network) -> bytes:
    place = {actor: index for index, actor in enumerate(network.actors)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "sender", "recipient", "type"])
    for time, sender, recipient, kind in network.records:
        writer.writerow([f"{time:%Y-%m-%d %H:%M:%S}", place[sender], place[recipient], kind])
    return gzip.compress(text.getvalue().encode(), mtime=0)
