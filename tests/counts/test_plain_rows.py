"""Releases with plain rows: what they hold, say, and keep on disk; and stacking them."""

import json
import re

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import countveil as cv
from counts.test_damaged_files import rewritten
from countveil.cli import main
from countveil.counts import PrivateCounts, ReleaseFileError, load_release, privatize, simulate_release
from countveil.counts.cells.layout import same_arrays
from countveil.counts.describe import explanation
from countveil.counts.inputs.forms import FORMS
from countveil.counts.sources import stack
from countveil.privacy import Guarantee
from goodness_of_fit import SEED

SIGNED = np.array([[3, -2, 0, 7], [0, 1, 5, 0], [1, 300, -4, 2]])
MASK = np.array([[0, 0, 1, 1], [0, 1, 0, 0], [0, 1, 1, 0]], dtype=bool)
ALPHA = [0.3, 0, 0.2]
PUBLIC = np.array([[4, 0, 1, 9], [0, 0, 2, 0]])


def test_a_plain_row_has_infinite_rho():
    release = PrivateCounts(SIGNED, alpha=ALPHA)
    assert release.rho.reshape(-1)[1] == np.inf
    assert release.plain_rows.tolist() == [False, True, False]
    assert release.alpha.reshape(-1).tolist() == pytest.approx(ALPHA, rel=1e-15)
    assert release == PrivateCounts(SIGNED, rho=-np.log([0.3, 1e-320, 0.2]) * [1, np.inf, 1])
    assert not PrivateCounts(SIGNED, alpha=0.3).plain_rows.any()
    assert not PrivateCounts(SIGNED, alpha=np.full(SIGNED.shape, 0.3)).plain_rows.any()
    assert PrivateCounts([5, 0, 2], alpha=[0.1, 0, 0.3]).plain_rows.tolist() == [False, True, False]


def test_plain_rows_are_compared():
    release = PrivateCounts(SIGNED, alpha=ALPHA)
    assert release == PrivateCounts(SIGNED, alpha=ALPHA)
    assert release != PrivateCounts(SIGNED, alpha=[0.3, 1e-9, 0.2])


def test_plain_rows_enter_the_total_as_they_are():
    release = PrivateCounts(SIGNED, alpha=ALPHA)
    assert release.nonpositive.rho[-1] == np.inf
    assert release.nonpositive.number.tolist() == [2, 1, 2]
    below = 1 * 0.2 / 0.8 + 2 * 0.3 / 0.7
    assert release.total() == pytest.approx(3 + 7 + 6 + 303 - below)


def test_a_masked_negative_value_of_a_plain_row_is_not_looked_at():
    values = SIGNED.copy()
    values[1, 1] = -50
    assert PrivateCounts(values, alpha=ALPHA, mask=MASK) == PrivateCounts(SIGNED, alpha=ALPHA, mask=MASK)


def test_hiding_keeps_plain_rows_plain():
    release = PrivateCounts(SIGNED, alpha=ALPHA).hide(MASK)
    assert release == PrivateCounts(SIGNED, alpha=ALPHA, mask=MASK)
    assert release.plain_rows.tolist() == [False, True, False]


def test_it_says_that_nothing_protects_plain_rows():
    release = PrivateCounts(SIGNED, alpha=ALPHA)
    assert "alpha 0.2 to 0.3 by row" in repr(release)
    assert repr(release).endswith("1 row PLAIN: not protected)")
    assert release.explain().startswith(
        "1 of 3 rows is PLAIN: true counts as they are, which nothing protects."
    )
    assert "PLAIN" not in repr(PrivateCounts(SIGNED, alpha=0.3))
    both = cv.stack_rows(privatize(np.abs(SIGNED), epsilon=[1, 2, "1/2"]), PUBLIC)
    assert "up to epsilon 2 at precision 1" in repr(both)
    assert repr(both).endswith("2 rows PLAIN: not protected)")
    assert both.explain().startswith(
        "2 of 5 rows are PLAIN: true counts as they are, which nothing protects.\n"
    )
    assert Guarantee(2).explain() in both.explain()
    assert privatize([[1, 2]], epsilon=2).explain().startswith(Guarantee(2).explain())
    assert (
        simulate_release([[1, 2]], epsilon=2, seed=0).explain().startswith("SIMULATED: this protects nobody.")
    )


def test_no_guarantee_holds_for_all_rows():
    both = cv.stack_rows(privatize(np.abs(SIGNED), epsilon=3, unit="person"), PUBLIC)
    promise = Guarantee(3, unit="person")
    assert both.guarantee is None
    assert both.row_guarantees == (promise, promise, promise, None, None)
    assert both.guarantee_for([0, 2]) == promise
    with pytest.raises(
        ValueError, match="rows: expected rows with noise, got plain ones, which nothing protects"
    ):
        both.guarantee_for([0, 3])


RELEASES = {
    "elsewhere": PrivateCounts(SIGNED, alpha=ALPHA, mask=MASK),
    "signed": PrivateCounts(SIGNED, alpha=ALPHA, keep_negative=True),
    "clamped": PrivateCounts(np.maximum(SIGNED, 0), alpha=ALPHA, labels=(list("abc"), list("wxyz"))),
    "one axis": PrivateCounts([5, 0, 2], alpha=[0.1, 0, 0.3]),
    "three axes": PrivateCounts(np.arange(12).reshape(2, 3, 2), alpha=[0, 0.7]),
    "simulated": cv.stack_rows(simulate_release(np.abs(SIGNED), epsilon=1, seed=0), PUBLIC),
    "private": cv.stack_rows(privatize(np.abs(SIGNED), epsilon=[1, 2, 1], unit="cell"), PUBLIC),
    "private, one promise": cv.stack_rows(
        PUBLIC, privatize(np.abs(SIGNED), epsilon="1/3", keep_negative=True)
    ),
    "two releases": cv.stack_rows(
        privatize(PUBLIC, epsilon=1), privatize(np.abs(SIGNED), epsilon=2), different_rows=True
    ),
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", RELEASES)
def test_round_trip(name, many, tmp_path, monkeypatch):
    if many:  # a folder, as with many labels
        monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", -1)
    release = RELEASES[name]
    release.save(tmp_path / "r")
    assert (tmp_path / "r").is_dir() == many
    loaded = load_release(tmp_path / "r")
    assert same_arrays(loaded._contents, release._contents)
    assert (loaded.rho == release.rho).all()
    assert repr(loaded) == repr(release)


def test_the_version_says_who_can_read_it(tmp_path):
    def version(release):
        release.save(tmp_path / "r", overwrite=True)
        return json.loads(pq.ParquetFile(tmp_path / "r").metadata.metadata[b"countveil"])["version"]

    assert version(PrivateCounts(SIGNED, alpha=ALPHA)) == 2
    assert version(PrivateCounts(SIGNED, alpha=0.3)) == 1


INF, ONE = "inf", "0x1p+0"
BAD_HEADERS = [
    ({"version": 1}, "expected finite noise in format version 1"),
    (
        {"unit": "person", "guarantee": {"epsilon": "1", "precision": "1", "unit": "cell"}},
        "guarantee beside those",
    ),
    ({"rho": {"shape": [3, 1], "hex": [INF, ONE, ONE]}}, "expected one guarantee for each row"),
    (
        {"row_guarantees": {"epsilon": ["1"], "precision": ["1"], "rows": [0, 0, 0]}},
        "one guarantee for each row",
    ),
    (
        {"row_guarantees": {"epsilon": ["1"], "precision": ["1"], "rows": [0, None]}},
        "one guarantee for each row",
    ),
    (
        {"row_guarantees": {"epsilon": ["1"], "precision": ["1"], "rows": [0, 7, None]}},
        "one guarantee for each",
    ),
    (
        {"row_guarantees": {"epsilon": ["2"], "precision": ["1"], "rows": [0, 0, None]}},
        "does not match the noise",
    ),
    ({"simulated": True}, "a simulated release cannot have a guarantee"),
    (
        {"nonpositive_total": {"shape": [2], "hex": ["0x0p+0", ONE]}},
        "expected counts of at least 0 in plain rows",
    ),
    ({"unit": "planet"}, "unit: expected"),
]


@pytest.mark.parametrize(("change", "message"), BAD_HEADERS)
def test_every_entry_is_checked(tmp_path, change, message):
    release = cv.stack_rows(privatize([[1, 2], [3, 4]], epsilon=1), [[5, 0]])
    release.save(tmp_path / "r")
    rewritten(tmp_path / "r", change)
    with pytest.raises(ReleaseFileError, match=message):
        load_release(tmp_path / "r")


def test_stacking_is_the_release_of_all_rows():
    top = PrivateCounts(SIGNED, alpha=0.3, mask=MASK, keep_negative=True)
    other = PrivateCounts(PUBLIC - 1, alpha=[0.3, 0.4], keep_negative=True)
    plain = np.ma.array(PUBLIC, mask=PUBLIC == 9)
    both = cv.stack_rows(top, plain, other)
    expected = PrivateCounts(
        np.concatenate([SIGNED, PUBLIC, PUBLIC - 1]),
        alpha=[0.3] * 3 + [0, 0, 0.3, 0.4],
        mask=np.concatenate([MASK, PUBLIC == 9, np.zeros((2, 4), bool)]),
        keep_negative=True,
    )
    assert same_arrays(both._contents, expected._contents)
    assert both.positive.values.dtype == expected.positive.values.dtype


@pytest.mark.parametrize("form", [np.ndarray.tolist, sparse.csr_array, pd.DataFrame])
def test_public_counts_in_every_form(form):
    release = PrivateCounts(SIGNED, alpha=0.3)
    rows = None if form is not pd.DataFrame else list("abcde")
    assert cv.stack_rows(release, form(PUBLIC), rows=rows).to_dense()[3:].tolist() == PUBLIC.tolist()


def test_equal_noise_stays_one_number():
    both = cv.stack_rows(PrivateCounts(SIGNED, alpha=0.3), PrivateCounts(PUBLIC, alpha=0.3))
    assert both.rho.ndim == 0
    promised = cv.stack_rows(privatize([[1]], epsilon=1), privatize([[2]], epsilon=1), different_rows=True)
    assert (promised.guarantee, promised.row_guarantees) == (Guarantee(1), None)
    assert cv.stack_rows(
        privatize([[1]], epsilon=1), privatize([[2]], epsilon=2), different_rows=True
    ).guarantee == Guarantee(2)
    cells = cv.stack_rows(PrivateCounts(PUBLIC, alpha=np.full((2, 4), 0.2)), PrivateCounts(PUBLIC, alpha=0.1))
    assert cells.rho.shape == (4, 4)
    assert cv.stack_rows(privatize([[1]], epsilon=1), PrivateCounts([[1]], alpha=0.5)).guarantee is None


def test_clamped_zeros_stay_unknown():
    both = cv.stack_rows(PrivateCounts(SIGNED, alpha=0.3), PrivateCounts(PUBLIC, alpha=0.3, clamped=True))
    assert both.nonpositive.total is None


def test_labels_are_carried_and_compared():
    words = list("wxyz")
    release = PrivateCounts(SIGNED, alpha=0.3, labels={"letter": list("abc"), "word": words})
    frame = pd.DataFrame(PUBLIC, index=["p", "q"], columns=words)
    both = cv.stack_rows(frame, release)
    assert both.axes == ("letter", "word")
    assert both.labels[0].tolist() == ["p", "q", "a", "b", "c"]
    assert both.labels[1].tolist() == words
    named = cv.stack_rows(release, PUBLIC, rows=list("abcde"))
    assert named.labels[0].tolist() == list("abcde")


LABELLED = PrivateCounts(SIGNED, alpha=0.3, labels={"letter": list("abc"), "word": list("wxyz")})


def test_one_release_twice_is_found_whatever_is_hidden(monkeypatch):
    """And without comparing each with all others."""
    compared = []
    real = stack.is_same_release
    monkeypatch.setattr(stack, "is_same_release", lambda *both: compared.append(both) or real(*both))
    counts = np.random.default_rng(SEED).poisson(3.0, (200, 40))
    values = np.random.default_rng(SEED + 1).integers(1, 1000, (200, 40)) + counts
    parts = [PrivateCounts([row], rho=0.1, labels=([f"p{i}"], None)) for i, row in enumerate(values)]
    hidden = [part.hide(([0], [i % 40])) for i, part in enumerate(parts)]
    assert cv.stack_rows(*hidden).shape == (200, 40)
    assert len(compared) < 200
    again = PrivateCounts([values[3]], rho=0.1, labels=(["q"], None))
    for one in (again, again.hide(([0], [7])), hidden[3]):
        for parts_given in ((*hidden, one), (one, *hidden)):
            with pytest.raises(ValueError, match="parts: expected different releases, got one of them twice"):
                cv.stack_rows(*parts_given)
    few = [PrivateCounts([[5, 1]], rho=1.0, labels=([f"p{i}"], None)).hide(([0], [0])) for i in range(3)]
    assert cv.stack_rows(*few).shape == (3, 2)
    with pytest.raises(ValueError, match="parts: expected different releases, got one of them twice"):
        cv.stack_rows(*few, few[0])


BAD = [
    ((PUBLIC,), {}, "parts: expected a release among them, got none: plain counts are no release"),
    ((), {}, "parts: expected a release among them, got none"),
    ((LABELLED, PUBLIC[:, :3]), {}, r"parts: expected 4 columns, got 3$"),
    ((LABELLED, PUBLIC), {}, r"rows: expected labels for all rows, .* pass rows=\[...\]"),
    ((LABELLED, PUBLIC), {"rows": ["a"]}, "labels: expected 5 letter labels, got 1"),
    ((LABELLED, LABELLED), {}, "parts: expected different releases, got one of them twice"),
    (
        (LABELLED, pd.DataFrame(PUBLIC, columns=list("wxzy"))),
        {},
        "same labels along axis 1, got them in another order; bring one into the order of the other first",
    ),
    ((LABELLED, pd.DataFrame(PUBLIC, columns=list("wxya"))), {}, r"got 'a' in place of 'z' \(place 3\)"),
    (
        (LABELLED, PrivateCounts(PUBLIC, alpha=0.1, labels={"mail": None, "word": None})),
        {},
        "parts: expected the axes letter, word, got mail, word",
    ),
    ((LABELLED, -PUBLIC), {}, "parts: expected counts >= 0, got negative values; if these are released"),
    (
        (PrivateCounts(SIGNED, alpha=np.full((3, 4), 0.1)), PUBLIC),
        {},
        "beside plain rows, got noise per cell",
    ),
    (
        (privatize(PUBLIC, 1), privatize(PUBLIC, 1, unit="person")),
        {"different_rows": True},
        "parts: expected guarantees for one unit, got document and person",
    ),
]


@pytest.mark.parametrize(("parts", "options", "message"), BAD)
def test_bad_input(parts, options, message):
    with pytest.raises(ValueError, match=message):
        cv.stack_rows(*parts, **options)


def test_a_list_of_parts_is_told_from_public_counts():
    for listed in ([LABELLED, PUBLIC], (LABELLED, LABELLED), [pd.DataFrame(PUBLIC)]):
        with pytest.raises(TypeError, match=r"parts: expected each as an argument .* stack_rows\(\*parts\)"):
            cv.stack_rows(listed)
    assert cv.stack_rows(PrivateCounts(SIGNED, alpha=0.3), PUBLIC.tolist()).shape == (5, 4)
    assert cv.stack_rows(PrivateCounts(SIGNED, alpha=0.3), list(PUBLIC)).shape == (5, 4)


def test_errors_about_public_counts_name_the_kind_of_fault_only():
    with pytest.raises(ValueError, match="parts: expected counts") as caught:
        cv.stack_rows(PrivateCounts(PUBLIC, alpha=0.1), [[1, -7345, 2, 3]])
    assert not re.search(r"\d{2}", str(caught.value))
    with pytest.raises(ValueError, match="values") as caught:
        PrivateCounts([[1, 2], [-7345, 4]], alpha=[0.5, 0])
    assert "7345" not in str(caught.value)


@pytest.mark.long
def test_a_run_keeps_the_plain_rows_of_its_release(tmp_path):
    both = cv.stack_rows(PrivateCounts(SIGNED, alpha=0.3), PUBLIC)
    posterior = cv.fit(cv.TopicModel(2), both, sweeps=20, seed=1, progress=False)
    posterior.save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr")
    assert loaded.release == both
    assert loaded.true_counts(rows=[4])["mean"].to_numpy().tolist() == [PUBLIC[1].tolist()]


def test_the_command_says_that_nothing_protects_plain_rows(tmp_path, capsys):
    cv.stack_rows(privatize(np.abs(SIGNED), epsilon=1), PUBLIC).save(tmp_path / "r.parquet")
    words = ["--topics", "2", "--sweeps", "20", "--seed", "1", "-o", str(tmp_path / "run.zarr")]
    assert main(["fit", "topics", str(tmp_path / "r.parquet"), *words]) == 0
    assert "PLAIN: 2 of 5 rows, which nothing protects." in capsys.readouterr().out


@pytest.mark.parametrize("n", [1, 100, 10_000])
def test_a_release_in_which_noise_changes_nothing_says_that_it_is_plain(n):
    """From n * 2a/(1+a) < 2**-64 on, a = exp(-rho): n cells are all as they were but once in 2**64 releases."""
    edge = np.log(2 * n) + 64 * np.log(2)
    for epsilon, plain in ((edge - 0.01, False), (edge + 0.01, True), (1000, True)):
        release = privatize(np.zeros((n, 1), int), epsilon)
        assert ("PLAIN: not protected" in repr(release)) == plain
        assert ("PLAIN: true counts as they are, which nothing protects." in release.explain()) == plain
    mask = np.arange(n)[:, None] > 0
    hidden = PrivateCounts(np.zeros((n, 1), int), rho=edge + 0.01, mask=mask)  # missing cells do not count
    assert "PLAIN" in repr(hidden)


def test_rows_in_which_noise_changes_nothing_are_told_from_others():
    release = privatize([[1, 2], [3, 4], [5, 6]], [1, 900, 2])
    assert "1 row PLAIN: not protected" in repr(release)
    told = release.explain()
    assert told.startswith(
        "1 of 3 rows is PLAIN: true counts as they are, which nothing protects.\nThe other rows:\n"
    )
    assert Guarantee(2).explain() in told  # the weakest of the others
    cells = PrivateCounts([[1, 2], [3, 4]], rho=np.array([[1.0, 1.0], [1.0, 99.0]]))
    assert "1 row PLAIN" in repr(cells)


def test_an_explanation_speaks_of_the_form_of_the_counts():
    release = privatize(nx.DiGraph([("a", "b")]), 1, rows=["a", "b"], unit="person")
    for form, known in FORMS.items():
        record = release.records[0]._replace(form=form, stability=str(known.stability))
        told = explanation(release._contents._replace(records=(record,)))
        assert f": a row is {known.row}, a cell is {known.cell}.\n" in told
        assert f"\n{known.stability}\n" in told
        assert ("A count belongs to two people" in told) == known.pairs
        assert told.startswith(release.guarantee.explain())
