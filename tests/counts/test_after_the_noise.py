"""What comes after the noise sees noisy counts alone: the same noisy counts give the same release, whatever the true ones."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from countveil.counts import guarantees, load_release, privatize, privatize_to_file
from countveil.counts.cells.layout import same_arrays

SHAPE = (40, 40)
NAMES, WORDS = [f"n{i}" for i in range(40)], [f"w{i}" for i in range(40)]
DECIDED = ("shape", "axes", "labels", "rho", "positive", "missing", "nonpositive", "negative")


def noisy_whatever_comes(counts, guarantee):
    """In place of add_noise: values of both signs that depend on nothing but the shape."""
    return np.random.default_rng(5).integers(-9, 10, counts.shape)


def cells(counts):
    """A long table of the cells above zero."""
    row, column = np.nonzero(counts)
    return pd.DataFrame(
        {"r": [NAMES[i] for i in row], "c": [WORDS[j] for j in column], "n": counts[row, column]}
    )


def graph(counts):
    found = nx.Graph()
    found.add_nodes_from(NAMES)
    for i, j in zip(*np.nonzero(np.triu(counts, 1)), strict=True):
        found.add_edge(NAMES[i], NAMES[j], weight=int(counts[i, j]))
    return found


FORMS = {
    "dense": (lambda counts: counts, {}),
    "sparse": (sparse.csr_array, {}),
    "long": (cells, {"long": ("r", "c", "n"), "rows": NAMES, "columns": WORDS}),
    "wide": (lambda counts: pd.DataFrame(counts, NAMES, WORDS), {"rows": NAMES, "columns": WORDS}),
    "graph": (graph, {"rows": NAMES}),
    "texts": (
        lambda counts: [" ".join(np.repeat(NAMES, row)) for row in counts], {"vocabulary": NAMES},
    ),
}  # fmt: skip


def decided(release):
    return tuple(getattr(release._contents, field) for field in DECIDED)


@pytest.mark.filterwarnings("ignore:counts. nothing but noise")
@pytest.mark.parametrize("keep_negative", [False, True])
@pytest.mark.parametrize(
    ("form", "by_row"),
    [(form, by_row) for form in FORMS for by_row in (False, True) if (form, by_row) != ("graph", True)],
)
def test_a_release_is_a_function_of_the_noisy_counts(form, keep_negative, by_row, tmp_path, monkeypatch):
    as_given, options = FORMS[form]
    options = {
        **options,
        "epsilon": [1 + i % 2 for i in range(40)] if by_row else 1,
        "keep_negative": keep_negative,
    }
    rng = np.random.default_rng(1)
    few = np.zeros(SHAPE, dtype=np.int64)
    few[3, 4] = 1
    true = [few, rng.poisson(3.0, SHAPE)]
    without = [privatize(as_given(counts), **options) for counts in true]
    monkeypatch.setattr(guarantees, "add_noise", noisy_whatever_comes)
    one, other = (privatize(as_given(counts), **options) for counts in true)
    assert same_arrays(decided(one), decided(other))
    assert not same_arrays(decided(without[0]), decided(without[1]))  # it does tell releases apart
    sizes = []
    for counts in true:
        path = tmp_path / f"{len(sizes)}.parquet"
        privatize_to_file(as_given(counts), path, **options)
        assert same_arrays(decided(load_release(path)), decided(one))
        sizes.append(path.stat().st_size)
    assert sizes[0] == sizes[1]


def test_a_refusal_for_size_is_one_of_the_noisy_counts(monkeypatch, tmp_path):
    """The noise alone decides here, since the counts are the same: one call is released, the next is not."""
    from countveil.privacy import mechanism

    counts = np.full((2, 3), 2**53)
    for noise, refused in ((2**62, False), (2**63 - 2**53 - 1, False), (2**63 - 2**53, True)):
        monkeypatch.setattr(
            mechanism, "two_sided_geometric", lambda rate, size, source, noise=noise: np.full(size, noise)
        )
        path = tmp_path / f"{noise}.parquet"
        if refused:
            with pytest.raises(OverflowError, match="nothing was released"):
                privatize_to_file(counts, path, epsilon=1)
            assert not list(tmp_path.glob(f"*{noise}*"))
        else:
            privatize_to_file(counts, path, epsilon=1)
            assert path.exists()
