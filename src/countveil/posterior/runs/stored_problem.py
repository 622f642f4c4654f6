"""The problem of a run, so that its chains can go on: what is told of it in the folder, and how it comes back.

Releases are in the run. Plain counts never are, nor models of a user's own: they must be given again, and a SHA-256
of the data says whether they are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.inputs.labels import expect_labels
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.counts.sources.plain_counts import PlainCounts, read_counts
from countveil.inference.engines.engine import may_stay_unread
from countveil.inference.memory_needed import bytes_of_cells
from countveil.inference.problem import Counts, Problem, for_rows_of, make_problem
from countveil.models.einsum.model import EinsumModel
from countveil.models.shared_factors import SharedFactors
from countveil.models.unknown_noise import UnknownNoise
from countveil.posterior.axes import readable_labels
from countveil.posterior.runs.checks.problem import check_state
from countveil.posterior.runs.schema import is_described, stored_model

_ON_DISK = "release "
#: Numbers of a block: 8 MB of int64.
_BLOCK = 2**20


def describe_problem(problem: Problem) -> dict[str, Any]:
    """What the tree of a run does not say of its problem."""
    return {
        "unknown_noise": None if problem.alpha is None else list(problem.alpha.prior),
        "robust": problem.robust,
        "data": {name: _identity(view.given) for name, view in problem.views.items()},
    }


def _identity(given: Counts) -> str:
    """By which the data of a run are known again: of a release on disk its own checksum, or it had to be read."""
    return f"{_ON_DISK}{given.sha256}" if isinstance(given, ReleaseOnDisk) else data_hash(given)


def releases_of(problem: Problem) -> dict[str, PrivateCounts | CombinedReleases]:
    """The releases that go into the run, by the names of their groups."""
    return {
        f"release_{name}" if name else "release": view.given
        for name, view in problem.views.items()
        if not isinstance(view.given, PlainCounts)
    }


def problem_again(
    attributes: Mapping[str, Any],
    releases: Mapping[str, PrivateCounts | CombinedReleases],
    labels: Mapping[str, tuple[np.ndarray | None, ...]],
    model: Any,
    data: Any,
    n_bytes: int,
    n_chains: int,
    engine: str = "cpu",
) -> Problem:
    """The problem of a run from its root's attributes, its releases and labels, and what it does not hold.

    ``n_bytes`` it takes on disk: a stranger's model asks for no more memory than a run of that size may. A release
    that lies elsewhere stays unread where the ``engine`` spreads its rows.
    """
    told, described = json.loads(attributes["problem"]), json.loads(attributes["model"])
    method = json.loads(attributes["settings"])["method"]
    if isinstance(model, UnknownNoise):
        model = model.model
    own = stored_model(described)
    if own is None:
        if model is None or not is_described(model, described):
            got = "none" if model is None else repr(model)
            raise ValueError(
                f"model: expected the {described['name']} of this run, which it does not hold, got {got}"
            )
        own = model
    given = _data(told["data"], releases, labels, data, isinstance(own, SharedFactors))
    if isinstance(own, EinsumModel | SharedFactors):
        data_of = given if isinstance(own, SharedFactors) else {"": given}
        n_bytes += sum(one.n_bytes for one in data_of.values() if isinstance(one, ReleaseOnDisk))
        # Plain counts are not in a run: whoever gives them has the room.
        of_cells = sum(
            bytes_of_cells(one, data_of[view].shape, method, n_chains)
            for view, one in own.views.items()
            if not isinstance(data_of[view], PlainCounts)
        )
        shapes = {view: data_of[view].shape for view in own.views}
        check_state(own.views, shapes, n_chains, n_bytes, of_cells)
    if isinstance(given, ReleaseOnDisk) and not may_stay_unread(given, own, engine):
        given.read()
    if own is not model and model is not None:
        again = model if isinstance(own, SharedFactors) else for_rows_of(model, given)
        if again != own:
            raise ValueError(f"model: expected that of this run, {own!r}, got {model!r}")
    if told["unknown_noise"] is not None:
        own = UnknownNoise(own, tuple(told["unknown_noise"]))
    problem = make_problem(own, given, method, robust=told["robust"])
    return replace(problem, source=given) if isinstance(given, ReleaseOnDisk) else problem


def _data(
    hashes: Mapping[str, str],
    releases: Mapping[str, PrivateCounts | CombinedReleases],
    labels: Mapping[str, tuple[np.ndarray | None, ...]],
    data: Any,
    several: bool,
) -> Any:
    if several and data is not None and not isinstance(data, Mapping):
        raise TypeError(f"data: expected a mapping from views to arrays, got {type(data).__name__}")
    found: dict[str, Counts] = {}
    for view, told in hashes.items():
        name = f"{view}: " if view else ""
        again = data.get(view) if several and data is not None else data
        kept = releases.get(f"release_{view}" if view else "release")
        if again is None and kept is None:
            raise ValueError(
                f"{name}data: expected the plain counts of this run, which it does not hold, got none"
            )
        if told.startswith(_ON_DISK) and kept is not None:
            if again is not None and not isinstance(kept, ReleaseOnDisk):
                raise ValueError(
                    f"{name}data: expected none, because the release is in the run, got {again!r}"
                )
            found[view] = kept  # in the run, or checked where it lies
            continue
        found[view] = kept if again is None and kept is not None else read_counts(again)
        if data_hash(found[view]) != told:
            raise ValueError(f"{name}data: expected the counts that the run was begun with, got others")
        if again is not None:
            begun = check_labels(
                labels[view], found[view].labels, f"{name}data", "with which the run was begun"
            )
            # Draws go on in the run, and its labels say what they are of.
            given = found[view]
            found[view] = given._replace(labels=begun) if isinstance(given, PlainCounts) else kept or given
    return found if several else found[""]


def check_labels(
    begun: tuple[np.ndarray | None, ...], given: tuple[np.ndarray | None, ...], name: str, which: str
) -> tuple[np.ndarray | None, ...]:
    """The labels of the same cells: those of the run, where it has any; others are refused."""
    found = []
    for axis, (before, now) in enumerate(zip(begun, readable_labels(given), strict=True)):
        message = f"{name}: expected the labels {which} along axis {axis}"
        expect_labels(before, now, message, numbers_are_names=False)
        found.append(given[axis] if before is None else before)
    return tuple(found)


def data_hash(counts: Counts) -> str:
    """SHA-256 of all that a fit sees of its data: cells and noise. Labels are compared by themselves."""
    digest = hashlib.sha256()
    for piece in _pieces(counts):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(counts: Counts) -> Iterator[bytes]:
    if isinstance(counts, CombinedReleases):
        for release in counts.releases:
            yield from _pieces(release)
        return
    yield json.dumps([type(counts).__name__, list(counts.shape)]).encode()
    cells = [*counts.positive, *(counts.missing or (None, None))]
    if isinstance(counts, PrivateCounts):
        below = counts.nonpositive
        cells += [np.asarray(counts.rho), below.rho, below.number, below.total]
    for array in cells:
        if array is None:
            yield b"none"
            continue
        yield json.dumps(list(array.shape)).encode()
        flat = array.reshape(-1)
        for start in range(0, len(flat), _BLOCK):
            block = flat[start : start + _BLOCK]
            yield block.astype("<f8" if block.dtype.kind == "f" else "<i8").tobytes()
