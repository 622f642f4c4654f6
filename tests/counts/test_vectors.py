"""The test vectors for clients in other languages, docs/vectors: by the standard library, and by countveil."""

import hashlib
import json
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import countveil as cv

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "vectors" / "releases.json").read_text())
NAMES = [vector["name"] for vector in VECTORS]


def written(vector, path):
    """The file that a client writes, with a Parquet library and no countveil."""
    header = {**vector["header"], "sha256": vector["header_sha256"]}
    places = np.unravel_index(np.array([at for at, _ in vector["cells"]], dtype=int), header["shape"])
    columns = [pa.array(index, pa.int32()) for index in places]
    columns.append(pa.array([value for _, value in vector["cells"]], pa.int64()))
    table = pa.Table.from_arrays(columns, names=[*header["axes"], "value"])
    metadata = {"countveil": json.dumps(header, sort_keys=True, separators=(",", ":"))}
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_the_numbers_are_those_of_the_format_note(vector):
    values = np.array(vector["noisy"], dtype=object).reshape(-1)
    cells = [[at, value] for at, value in enumerate(values) if value is None or value > 0]
    assert cells == vector["cells"]
    listed = b"".join(struct.pack("<qq", at, -(2**63) if v is None else v) for at, v in cells)
    assert listed.hex() == vector["cells_bytes"]
    assert hashlib.sha256(listed).hexdigest() == vector["cells_sha256"] == vector["header"]["cells_sha256"]
    canonical = json.dumps(vector["header"], sort_keys=True, separators=(",", ":"))
    assert canonical == vector["header_canonical"]
    assert hashlib.sha256(canonical.encode()).hexdigest() == vector["header_sha256"]


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_countveil_reads_what_a_client_writes(vector, tmp_path):
    written(vector, tmp_path / "client.parquet")
    release, header = cv.load_release(tmp_path / "client.parquet"), vector["header"]
    values = np.array(vector["noisy"], dtype=float)
    expected = cv.PrivateCounts(
        np.nan_to_num(values).astype(int),
        guarantee=cv.Guarantee(header["guarantee"]["epsilon"], int(header["guarantee"]["precision"])),
        mask=np.isnan(values),
        labels=dict(zip(header["axes"], header["labels"], strict=True)),
    )
    assert release == expected
    promised = Fraction(header["guarantee"]["epsilon"]) / Fraction(header["guarantee"]["precision"])
    assert float(release.rho) == float(promised)


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_countveil_writes_the_same(vector, tmp_path):
    written(vector, tmp_path / "client.parquet")
    cv.load_release(tmp_path / "client.parquet").save(tmp_path / "ours.parquet")
    ours = json.loads(pq.read_metadata(tmp_path / "ours.parquet").metadata[b"countveil"])
    assert vector["header"].items() <= ours.items()
    assert set(ours) - set(vector["header"]) == {"sha256", "pieces"}


def test_a_wrong_byte_is_noticed(tmp_path):
    for name in ("header_sha256", "header"):
        vector = json.loads(json.dumps(VECTORS[0]))
        if name == "header":
            vector["header"]["cells_sha256"] = "0" * 64
        else:
            vector["header_sha256"] = "0" * 64
        written(vector, tmp_path / "client.parquet")
        with pytest.raises(cv.counts.ReleaseFileError, match="checksum"):
            cv.load_release(tmp_path / "client.parquet")
