"""Which rows are one to the ledger, however they are spelt: it rather adds too much than too little."""

import datetime as dt
import decimal as dec
import itertools
import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import countveil as cv
from counts.spellings import BERLIN, NARROW, SPELLINGS
from countveil.counts.inputs import spellings as rules
from countveil.counts.inputs.labels import LabelIndex
from countveil.counts.ledger import accounts
from goodness_of_fit import SEED


def spent(tmp_path, *rows):
    ledger = tmp_path / "ledger"
    for one in rows:
        cv.privatize([[1]], epsilon=1, rows=[one], columns=["tea"], ledger=ledger, dataset="letters")
    return cv.Ledger(ledger).accounts()[0].spent


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(
            (found[0], declared[0])
            for found, declared in SPELLINGS.values()
            if not isinstance(found[0], bytes)
        ),
        (float(NARROW[0]), "0.1"),
        (float(np.float16(0.1)), "0.1"),
        ("2025-01-01 12:00:00+01:00", "2025-01-01T11:00Z"),
        ("2025-01-01 12:00:00.25+01:00", "2025-01-01 11:00:00.250000"),
        ("2025-01-01T12:00:00.123456789+01:00", "2025-01-01 11:00:00.123456789 UTC"),
        ("2025-01-01 00:30:00+01", "2024-12-31 23:30:00+00"),
        ("1880-05-01 12:53:28+00:53:28", "1880-05-01 12:00"),
        ("\u0141ukasz", "Lukasz"),
        ("S\u00f8ren", "soren"),
        ("Ann B.", "annb."),
        ('"ann"', "ann"),
        ("TRUE", 1),
        (("ann", True), ("ann", 1)),
        (pd.Interval(0, 10), "(0.0, 10.0]"),
        (pd.Interval(0.0, 10.0, closed="left"), "[0, 10)"),
    ],
)
def test_the_ledger_adds_what_is_one_row(one, other, tmp_path):
    assert spent(tmp_path, one, other) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann", "bo"),
        (0.1, 0.2),
        (16777216, 16777217),
        ((3, 7), (7, 3)),
        ("2025-01-01 12:00:00.25", "2025-01-01 12:00:00.26"),
        ("2025-01-01 12:00:00+01", "2025-01-01 12:00:00+02"),
    ],
)
def test_the_ledger_tells_rows_apart(one, other, tmp_path):
    assert spent(tmp_path, one, other) == 1


def test_entries_of_earlier_versions_still_add(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(accounts, "coarse_keys", lambda labels: {rules.coarse_key(label) for label in labels})
        spent(tmp_path, "True")
    assert spent(tmp_path, True) == 2


def test_rows_that_are_one_are_not_stacked(tmp_path):
    for one, other in ((True, 1), (float(NARROW[0]), "0.1"), (("ann", True), ("ann", 1))):
        parts = [cv.privatize([[1]], epsilon=1, rows=[row], columns=["tea"]) for row in (one, other)]
        with pytest.raises(ValueError, match="parts: expected rows of their own in every release"):
            cv.stack_rows(*parts)
        parts[0].save(tmp_path / "release.parquet", overwrite=True)
        with pytest.raises(ValueError, match="parts: expected every respondent once"):
            cv.append_release(tmp_path / "release.parquet", parts[1])


@pytest.mark.parametrize("first", [4096, 16_000, 60_000, 123_456_700, 5_000_000_000])
def test_a_number_kept_as_a_float_is_no_other_number(first, tmp_path):
    """Not even one that is the same in 16 or 32 bits: it would be in two rows, and the ledger would not know."""
    ids = list(range(first, first + 200))
    lines = pd.DataFrame({"id": [*map(float, ids), np.nan], "n": [*range(1, 201), 5]})
    halves = np.random.default_rng(SEED).permutation(ids).reshape(2, -1).tolist()
    for rows in halves:
        release = cv.privatize(lines, epsilon=60, long=("id", "n"), labels=(rows,))
        assert release.to_dense().tolist() == [one - first + 1 for one in rows]


def as_it_is(moment):
    return moment


def test_labels_that_find_one_row_are_one_row_to_the_ledger():
    """Whatever a label is found under, two names of it must add."""
    rng = np.random.default_rng(SEED)
    floats = [*rng.normal(size=50), *rng.integers(0, 2**40, 50), *np.float32(rng.normal(size=50)).tolist()]
    floats += [*map(float, range(4096, 4200)), *range(4096, 4200)]
    sixteen = [float(np.float16(one)) for one in rng.normal(size=50)]
    moments = [
        dt.datetime(2025, 1, 1) + dt.timedelta(milliseconds=int(n)) for n in rng.integers(0, 10**9, 20)
    ]
    known = [
        *(one for pair in SPELLINGS.values() for half in pair for one in half if not isinstance(one, bytes)),
        *floats,
        *sixteen,
    ]
    known += [
        *moments,
        *(one.replace(tzinfo=dt.UTC) for one in moments),
        dt.datetime(2025, 1, 1, tzinfo=BERLIN),
    ]
    known += [
        *pd.to_timedelta([1, 86_400_000, 500], unit="ms"),
        ("ann", 100_000),
        ("ann", "100000"),
        10**5,
        True,
    ]
    ends = [dt.datetime.max.replace(microsecond=0), dt.datetime.min]
    zones = [dt.timezone(dt.timedelta(hours=hours)) for hours in (-5, 5)]
    known += [
        kind(one.replace(tzinfo=zone)) for one in ends for zone in zones for kind in (as_it_is, pd.Timestamp)
    ]
    known += ["0000-12-31 19:00:00 UTC", "10000-01-01 04:59:59 UTC"]
    known += [(np.timedelta64(26, "h"), "a"), (np.timedelta64(3_600_000_000_000, "ns"), "a")]
    known += [(pd.Timedelta(hours=26), "a"), (pd.Timedelta(hours=1), "a"), (3_600_000_000_000, "a")]
    known += [10**n for n in (300, 399, 400, 401, 500)] + [f"1e{n}" for n in (399, 400, 401)]
    known += [f"{10**n}.0" for n in (399, 400)] + [dec.Decimal("1e399"), dec.Decimal("1e500")]
    known += [kind(0, 1) for kind in (pd.Interval, lambda *ends: pd.Interval(*map(float, ends)))]
    known += [text for one in [*known] for text in rules.spellings(one)]
    indexes = [(one, LabelIndex([one], "row")) for one in known]
    found_by = {}
    for one, index in indexes:
        for text in index._place:
            found_by.setdefault(text, []).append((one, rules.coarse_keys(index.labels)))
    for text, those in found_by.items():
        for (one, keys), (other, others) in itertools.combinations(those, 2):
            assert keys & others, (text, one, other)
        assert set.intersection(*(set(keys) for _, keys in those)), text  # which all of them share


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_of_every_width_are_found(kind, tmp_path):
    """17/1024 is 0.016601562 to 32 bits and 0.0166015625 to 64."""
    doses = np.concatenate([np.arange(1, 400), [0.1, 1e-05]]).astype(kind) / kind(1024)
    doses = np.unique(doses)
    table = pd.DataFrame({"dose": doses, "word": "tea", "n": 1000})
    table.to_csv(tmp_path / "counts.csv", index=False)
    forms = [table, pa.Table.from_pandas(table), tmp_path / "counts.csv"]
    if kind != np.float16:  # which polars does not have
        forms.append(pl.from_pandas(table))
    for form in forms:
        # Of 64 bits they are written otherwise in a file.
        longer = [] if isinstance(form, pathlib.Path) else [doses.tolist()]
        for declared in (doses, list(doses), [str(one) for one in doses], *longer):
            found = cv.privatize(
                form, epsilon=900, long=("dose", "word", "n"), rows=declared, columns=["tea"]
            )
            assert (found.to_dense() == 1000).all(), type(form)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_float_is_one_row_in_the_writing_of_every_width(kind):
    """What 16 bits hold exactly 32 hold too, and write otherwise: 0.0003 and 0.00029993057."""
    labels = [float(kind(m / 2**k)) for k in range(8, 25, 2) for m in (1, 3, 5, 629)] + [float(kind(0.0003))]
    for label in labels:
        own = rules.coarse_keys([rules.spellings(label)[0]])
        for text in (
            *rules.spellings(label),
            str(np.float16(label)) if np.float16(label) == label else str(label),
        ):
            assert own & rules.coarse_keys([text]), text


def test_every_number_of_16_bits_is_one_row_in_the_writing_of_32():
    """Which libraries make of it before they write it."""
    numbers = np.arange(2**15, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    for short in numbers:
        keys = rules.coarse_keys([rules.label_text(short)]) & rules.coarse_keys(
            [rules.label_text(np.float32(short))]
        )
        assert keys, short


#: A column of labels each, as pandas has them; ``astype(str)`` is what the docs advise where a file cannot hold them.
KINDS = {
    "ages": pd.Series(pd.cut([18.0, 33.0, 64.0], 3)),
    "whole ages": pd.Series(pd.cut([18, 33, 64], [0, 30, 65])),
    "quantiles": pd.Series(pd.qcut([18.5, 33.0, 64.0, 70], 2)),
    "large ends": pd.Series(pd.interval_range(1e16, 4e16, periods=3)),
    "years": pd.Series(pd.interval_range(pd.Timestamp("2025"), periods=2, freq="YS")),
    "hours": pd.Series(pd.interval_range(pd.Timestamp("2025-01-01 12:00"), periods=2, freq="h")),
    "months of a zone": pd.Series(
        pd.interval_range(pd.Timestamp("2025", tz="Europe/London"), periods=2, freq="MS")
    ),
    "spans": pd.Series(pd.interval_range(pd.Timedelta(0), periods=2, freq="D")),
    "floats": pd.Series([1.0, 2.5, 1e16, 1e-5, 1e5]),
    "short floats": pd.Series(np.array([0.1, 7, 1e10], np.float32)),
    "nullable floats": pd.Series([0.1, 7], dtype="Float32"),
    "whole": pd.Series([1, 2], dtype="Int64"),
    "truths": pd.Series([True, False]),
    "days": pd.Series(pd.to_datetime(["2025-01-01", "2025-01-02"])),
    "moments": pd.Series(pd.to_datetime(["2025-01-01 12:00:00.5", "2025-01-02 00:00:00.25"])),
    "zoned": pd.Series(pd.to_datetime(["2025-01-01 12:00", "2025-07-02 12:00"])).dt.tz_localize("Europe/London"),
    "durations": pd.Series(pd.to_timedelta(["1 days", "2 days 01:00:00"])),
    "months": pd.Series(pd.period_range("2025-01", periods=2, freq="M")),
    "dates": pd.Series([dt.date(2025, 1, 1), dt.date(2025, 1, 2)]),
    "times of day": pd.Series([dt.time(1, 2), dt.time(1, 3)]),
    "decimals": pd.Series([dec.Decimal("1.10"), dec.Decimal("1.2")]),
}  # fmt: skip
WRAPPED = {
    "alone": lambda label: label,
    "second": lambda label: ("north", label),
    "first of three": lambda label: (label, "x", "y"),
    "twice": lambda label: (label, label),
    "in a part": lambda label: ("north", (label, 7)),
}


def keys(label):
    return rules.coarse_keys([rules.label_text(label)])


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_their_texts_are_one_row_alone_and_in_parts(kind, wrap):
    column, put = KINDS[kind].drop_duplicates(), WRAPPED[wrap]
    labels, texts = column.tolist(), column.astype(str).tolist()
    for label, text in zip(labels, texts, strict=True):
        assert keys(put(label)) & keys(put(text)), (label, text)
    for one, other in itertools.permutations(range(len(labels)), 2):
        assert not keys(put(labels[one])) & keys(put(texts[other])), (labels[one], texts[other])


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize(
    "name",
    [
        "Ann\xa0Smith",
        "Ann Smith ",
        "Ann\tSmith",
        "Ann Smith\n",
        "\ufeffAnn Smith",
        "\u200bAnn Smith",
        "Ann Smi\xadth",
        "Ann\u3000Smith",
        "ANN SMITH",
        '"Ann" Smith',
        "'Ann Smith'",
        "\u00c1nn Smith",
    ],
)
def test_odd_spaces_and_quotes_are_one_row_alone_and_in_parts(name, wrap, tmp_path):
    put = WRAPPED[wrap]
    assert keys(put("Ann Smith")) & keys(put(name))
    assert not keys(put("Ann Smyth")) & keys(put(name))
    assert spent(tmp_path, put("Ann Smith"), put(name)) == 2


@pytest.mark.parametrize(
    "written",
    ["('ann', np.int64(7))", "(ann, 7)", "('ann', Decimal('7.0'))", "[ann, 7]", "('ann', '7')"],
)
def test_parts_are_one_row_however_they_are_written(written):
    assert keys(("ann", 7)) & keys(written)
    stamp = ("ann", pd.Timestamp("2025-01-01 12:00"))
    assert keys(stamp) & keys(str(stamp))
    ages = ("ann", pd.Interval(17.5, 30.0))
    assert keys(ages) & keys(str(ages))
