"""A file or a folder as a tree in memory, and what may happen to it: links, pipes, folders, names, other bodies."""

import os
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzz.formats import PICKLE, changed
from fuzz.worker import SUBJECT

#: The name of a file that nobody may touch.
OUTSIDE = "outside"


class Link(NamedTuple):
    """A link to somewhere, from the folder in which the cases lie."""

    target: str


class Pipe(NamedTuple):
    """A pipe with a name."""


class Folder(NamedTuple):
    """An empty folder."""


class Hole(NamedTuple):
    """A file of nothing, by its apparent size."""

    size: int


Entry = bytes | Link | Pipe | Folder | Hole
#: By names below the subject; of a single file the name is "".
Tree = dict[str, Entry]


def read_tree(path: Path) -> Tree:
    if path.is_file():
        return {"": path.read_bytes()}
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def size_of(tree: Tree) -> int:
    """Bytes that it takes on disk."""
    return sum(len(entry) for entry in tree.values() if isinstance(entry, bytes))


def write_tree(tree: Tree, path: Path) -> None:
    """Names that cannot be made, because another entry is in their way, are left out."""
    for name, entry in tree.items():
        place = path / name if name else path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(entry, bytes):
                place.write_bytes(entry)
            elif isinstance(entry, Link):
                place.symlink_to(entry.target.replace("@", str(path.parent)))
            elif isinstance(entry, Pipe):
                os.mkfifo(place)
            elif isinstance(entry, Hole):
                with place.open("wb") as file:
                    file.truncate(entry.size)
            else:
                place.mkdir()
        except (OSError, ValueError):
            continue


_NAMES = [
    "..\\x",
    "C:x",
    "x",
    "c",
    "zarr.json",
    ".zarray",
    ".zattrs",
    "c/0",
    "c/00",
    "c/-1",
    "c/99999999999999999999",
    "part-00001.parquet",
    "a/b/c/d/e/f",
    "\u202e",
    "x" * 255,
    "release.json",
]


def tree_changed(tree: Tree, rng: Random, donors: list[Tree], follows: bool) -> Tree:
    """The tree after one change. ``follows``: the reader may follow a link in place of the file itself."""
    tree = dict(tree)
    files = [name for name, entry in tree.items() if isinstance(entry, bytes)]
    if not files:
        return tree
    name, single = rng.choice(files), "" in tree
    donor_tree = rng.choice(donors)
    donor = next((e for e in (donor_tree.get(name), *donor_tree.values()) if isinstance(e, bytes)), b"")
    kind = rng.random()
    if kind < (0.95 if single else 0.75):
        tree[name] = changed(tree[name], rng, donor)  # type: ignore[arg-type]
    elif kind < 0.8 or single:
        links = [
            Link("@"),
            Link(name.split("/")[-1] or SUBJECT),
            Link("/dev/zero"),
            Link("/dev/null"),
            Link("@/nowhere"),
        ]
        if not (single and follows):
            links += [Link(f"@/{OUTSIDE}"), Link(f"@/../{OUTSIDE}"), Link("/etc/passwd")]
        tree[name] = rng.choice(
            (Pipe(), Folder(), Hole(rng.choice((1, 1 << 20, 1 << 40))), PICKLE, b"", rng.choice(links))
        )
    elif kind < 0.84:
        del tree[name]
    elif kind < 0.9:  # the metadata of one with the body of another
        other = rng.choice([f for f in files if f.split("/")[-1] == name.split("/")[-1]])
        tree[name], tree[other] = tree[other], tree[name]
    elif kind < 0.95:
        around = name.rsplit("/", 1)[0] + "/" if "/" in name else ""
        tree[around + rng.choice(_NAMES)] = rng.choice((tree[name], PICKLE, Link(f"@/{OUTSIDE}"), Folder()))
    else:  # a folder that stands twice, or is a link
        parts = name.split("/")
        top = "/".join(parts[: rng.randrange(1, len(parts))]) if len(parts) > 1 else name
        if rng.random() < 0.5:
            tree |= {
                f"{top}x{key[len(top) :]}": entry for key, entry in tree.items() if key.startswith(f"{top}/")
            }
        else:
            tree = {key: entry for key, entry in tree.items() if not key.startswith(f"{top}/")}
            tree[top] = Link(rng.choice((f"@/{OUTSIDE}", "@", ".")))
    return tree
