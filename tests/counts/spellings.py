"""Labels as they are found in counts, and as people declare them: one label in two spellings."""

import datetime as dt
import unicodedata
from decimal import Decimal

import numpy as np
import pandas as pd

BERLIN = dt.timezone(dt.timedelta(hours=1))
NARROW = np.array([0.1, 0.2], np.float32)

#: Two labels in two spellings each: as counts have them, and as they are declared.
SPELLINGS = {
    "numbers as text": ([7, 8], ["7", "8"]),
    "text as numbers": (["7", "8"], np.array([7, 8], np.int8)),
    "floats": ([7.0, 8.0], [7, 8]),
    "floats as text": (["7.0", "8.0"], [7, 8]),
    "numbers as text of floats": ([7, 8], ["7.0", "8.0"]),
    "decimals": ([Decimal("7.0"), Decimal("8.5")], ["7", 8.5]),
    "narrow floats as text": (NARROW, ["0.1", "0.2"]),
    "narrow floats": (["0.1", "0.2"], NARROW),
    "an index of narrow floats": (list(NARROW), pd.Index(NARROW)),
    "truths": ([True, False], [1, 0]),
    "truths as text": ([True, False], ["True", "False"]),
    "numbers as truths": ([1, 0], np.array([True, False])),
    "bytes": ([b"ann", b"bo"], ["ann", "bo"]),
    "days": (pd.to_datetime(["2025-01-01", "2025-01-02"]), [dt.date(2025, 1, 1), dt.date(2025, 1, 2)]),
    "days as text": (np.array(["2025-01-01", "2025-01-02"], "M8[ns]"), ["2025-01-01", "2025-01-02"]),
    "zones": (
        [dt.datetime(2025, 1, day, 12, tzinfo=BERLIN) for day in (1, 2)],
        pd.to_datetime(["2025-01-01 11:00", "2025-01-02 11:00"]).tz_localize("UTC"),
    ),
    "UTC and none": (
        [dt.datetime(2025, 1, day, 12, tzinfo=dt.UTC) for day in (1, 2)],
        ["2025-01-01 12:00:00", "2025-01-02 12:00:00"],
    ),
    "hours as text": (
        pd.date_range("2025-01-01", periods=2, freq="24h").as_unit("s"),
        ["2025-01-01 00:00:00", "2025-01-02T00:00:00.000000"],
    ),
    "text as hours": (
        ["2025-01-01 00:00:00", "2025-01-01 01:00:00"],
        pd.date_range("2025-01-01", periods=2, freq="h"),
    ),
    "days with midnight": (["2025-01-01 00:00:00", "2025-01-02"], [dt.date(2025, 1, 1), dt.date(2025, 1, 2)]),
    "fractions of a second": (
        ["2025-01-01 05:00:00.500", "2025-01-01T05:00:01.000"],
        np.array(["2025-01-01T05:00:00.5", "2025-01-01T05:00:01"], "M8[ms]"),
    ),
    "UTC in ISO 8601": (
        ["2025-01-01T11:00:00Z", "2025-01-02T00:00:00+00:00"],
        [dt.datetime(2025, 1, 1, 12, tzinfo=BERLIN), dt.datetime(2025, 1, 2, 1, tzinfo=BERLIN)],
    ),
    "nanoseconds as text": (
        ["2025-01-01T11:00:00.000000000", "2025-01-02 11:00:00.500000000"],
        pd.to_datetime(["2025-01-01 11:00:00.0", "2025-01-02 11:00:00.5"]),
    ),
    "true nanoseconds as text": (
        ["2025-01-01T11:00:00.000000001", "2025-01-02T11:00:00.000000002"],
        pd.to_datetime(["2025-01-01 11:00:00.000000001", "2025-01-02 11:00:00.000000002"]),
    ),
    "zones without a colon": (
        ["2025-01-01 12:00:00+0100", "2025-01-02T11:00:00.000000+0000"],
        [dt.datetime(2025, 1, day, 12, tzinfo=BERLIN) for day in (1, 2)],
    ),
    "half seconds": (["0 days 00:00:00.500000", "0 days 00:00:01.000000"], pd.to_timedelta([500, 1000], unit="ms")),
    "whole days": (["1 days", "2 days"], pd.to_timedelta([1, 2], unit="D")),
    "truths of R and polars": (["TRUE", "false"], [True, False]),
    "powers of ten": (["99999", "1e+05"], [99_999, 100_000]),
    "small numbers": (["0.00001", "0.5"], [1e-05, 0.5]),
    "powers of ten of polars": (["1e-7", "1e16"], [1e-7, 10**16]),
    "durations": ([dt.timedelta(hours=26), dt.timedelta(1)], ["1 days 02:00:00", "1 days 00:00:00"]),
    "accents": (["M\u00fc", "b"], [unicodedata.normalize("NFD", "M\u00fc"), "b"]),
    "categories": (pd.Categorical([7.0, 8.0]), ["7", "8"]),
}  # fmt: skip
