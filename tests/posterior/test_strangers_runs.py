"""Run folders from strangers: none executes code, reads outside, or takes far more memory than room on disk."""

import itertools
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from functools import partial

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import ZstdCodec

import countveil as cv
from countveil.evaluation import log_likelihood, pit, rootogram
from countveil.posterior.describe import describe_run
from countveil.posterior.runs import reader
from countveil.posterior.runs.schema import OPENING, checksum, describe_model

QUIETLY = {"progress": False, "seed": 1}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run.zarr"
    release = cv.simulate_release(
        [[9, 0, 0], [0, 8, 7]], epsilon=2, seed=1, labels={"letter": ["a", "b"], "word": ["x", "y", "z"]}
    )
    cv.fit(cv.TopicModel(2), release, sweeps=40, **QUIETLY).save(path)
    return path


@pytest.fixture
def run(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


def refused(path, match):
    with pytest.raises(cv.PosteriorFileError, match=match):
        cv.load_posterior(path)


def changed(path, **new):
    node = json.loads(path.read_text())
    path.write_text(json.dumps({**node, **new}))


class Spy:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def format_2_array(place, mark):
    """As an attacker would write it: Zarr 2 metadata with a filter that unpickles its chunks."""
    place.mkdir()
    kind = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": None}
    filters = [{"id": "pickle", "protocol": 5}]
    (place / ".zarray").write_text(json.dumps({**kind, "fill_value": None, "order": "C", "filters": filters}))
    (place / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["chain"]}))
    (place / "0").write_bytes(pickle.dumps(np.array([Spy(mark)], dtype=object)))


def test_what_was_saved_loads(run):
    assert cv.load_posterior(run).model == cv.TopicModel(2)


def test_no_pickle_of_format_2(run, tmp_path):
    format_2_array(run / "posterior" / "extra", tmp_path / "mark")
    refused(run, r"Zarr format 2, 'posterior.+\.zattrs'|Zarr format 2, 'posterior.+\.zarray'")
    assert not (tmp_path / "mark").exists()
    # The attack is one: whoever reads the chunk as its metadata ask is hit.
    pickle.loads((run / "posterior" / "extra" / "0").read_bytes())
    assert (tmp_path / "mark").exists()


def test_no_format_2_behind_the_look(run, tmp_path, monkeypatch):
    """As where its owner puts another tree in the run's place after it was looked through: zarr opens format 3 alone."""
    other = tmp_path / "other.zarr"
    root = zarr.open_group(other, mode="w", zarr_format=2)
    for name in ("posterior", "sample_stats"):
        root.create_group(name)
    with xr.open_datatree(other, engine="zarr", consolidated=False) as tree:
        assert "posterior" in tree.children, "it would be opened"
    monkeypatch.setattr(reader, "check_folder", lambda _: shutil.rmtree(run) or shutil.copytree(other, run))
    with pytest.raises((cv.PosteriorFileError, FileNotFoundError)):
        cv.load_posterior(run)
    with pytest.raises(FileNotFoundError):
        xr.open_datatree(other, **OPENING)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_link_that_turns_after_the_look_leads_nowhere_else(run, tmp_path, monkeypatch):
    link, look = tmp_path / "link.zarr", reader.check_folder
    link.symlink_to(run)

    def turned(folder):
        look(folder)
        link.unlink()
        link.symlink_to(tmp_path / "elsewhere")

    monkeypatch.setattr(reader, "check_folder", turned)
    assert cv.load_posterior(link).model == cv.TopicModel(2)


def test_no_format_2_in_the_name_of_3(run):
    changed(run / "posterior" / "theta" / "zarr.json", zarr_format=2)
    refused(run, "another format than Zarr 3, 'posterior")


@pytest.mark.parametrize(
    "codecs",
    [
        [{"name": "numcodecs.pickle", "configuration": {}}],
        [{"name": "bytes"}, {"name": "blosc", "configuration": {}}],
        [{"name": "bytes"}],
        [{"name": "sharding_indexed", "configuration": {}}],
        [{"name": "bytes"}, {"name": "zstd"}, {"name": "zstd"}],
    ],
)
def test_no_other_codecs(run, codecs):
    changed(run / "posterior" / "theta" / "zarr.json", codecs=codecs)
    refused(run, r"got codecs \[.*'posterior")


@pytest.mark.parametrize("kind", ["object", "complex64", "r64", {"name": "numpy.datetime64"}, None, ["int8"]])
def test_no_other_types(run, kind):
    changed(run / "posterior" / "theta" / "zarr.json", data_type=kind)
    refused(run, "got data of type")


def test_no_links(run, tmp_path):
    outside = tmp_path / "secret"
    outside.mkdir()
    (run / "posterior" / "elsewhere").symlink_to(outside)
    refused(run, r"got a link, 'posterior.elsewhere'")
    (run / "posterior" / "elsewhere").unlink()
    chunk = run / "posterior" / "theta" / "c" / "0"
    shutil.move(chunk, outside / "0")
    chunk.symlink_to(outside / "0")
    refused(run, "got a link, 'posterior")


def test_no_node_of_another_kind(run):
    changed(run / "sample_stats" / "zarr.json", node_type="table")
    refused(run, "neither group nor array, 'sample_stats")


def test_no_consolidated_metadata(run):
    changed(run / "zarr.json", consolidated_metadata={"kind": "inline", "metadata": {}})
    refused(run, "consolidated metadata")


def one_array(run, shape, chunk):
    """The metadata of theta with this shape and these chunks, none of which is there: all are zeros."""
    shutil.rmtree(run / "posterior" / "theta" / "c")
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    changed(run / "posterior" / "theta" / "zarr.json", shape=shape, chunk_grid=grid)


def test_no_shape_far_larger_than_the_folder(run):
    """8 GB in one chunk that is not there."""
    one_array(run, [1, 1, 1, 2**31], [1, 1, 1, 2**31])
    refused(run, "arrays far larger than the folder")


def test_no_chunk_of_another_size_than_declared(run):
    changed(run / "posterior" / "theta" / "zarr.json", shape=[2, 4, 2, 2**20])
    changed_grid = {"name": "regular", "configuration": {"chunk_shape": [1, 4, 2, 2**20]}}
    changed(run / "posterior" / "theta" / "zarr.json", chunk_grid=changed_grid)
    refused(run, r"a chunk of \d+ bytes where 33554432 are declared")


def test_no_chunk_that_swells(run):
    """128 MB of one value, as a real zstd frame of some kilobytes."""
    root = zarr.open_group(run.with_name("bomb.zarr"), mode="w", zarr_format=3)
    array = root.create_array(
        "zeros", shape=(2**27,), chunks=(2**27,), dtype="int8", compressors=[zarr.codecs.ZstdCodec(level=0)]
    )
    array[:] = 1
    size = sum(f.stat().st_size for f in run.with_name("bomb.zarr").rglob("*") if f.is_file())
    assert size < 2**27 / 1000
    refused(run.with_name("bomb.zarr"), "arrays far larger than the folder")


def test_no_texts_that_swell(run):
    """A chunk of texts says by its frame how large it is, not by its shape."""
    place = run / "posterior" / "column"
    if not place.exists():
        place = run / "posterior" / "word"
    chunk = next(f for f in (place / "c").rglob("*") if f.is_file())
    chunk.write_bytes(numcodecs.Zstd(level=1).encode(bytes(2**28)))
    refused(run, "arrays far larger than the folder")


def test_no_millions_of_chunks(run):
    one_array(run, [3000, 1000, 1, 1], [1, 1, 1, 1])
    refused(run, "3000000 chunks declared, 0 there")


@pytest.mark.parametrize(
    "content", [b"", b"\x28\xb5\x2f\xfd", b"none at all", b"\x28\xb5\x2f\xfd\x00\x00\x00\x00"]
)
def test_no_other_chunks(run, content):
    chunk = next(f for f in (run / "posterior" / "theta" / "c").rglob("*") if f.is_file())
    chunk.write_bytes(content)
    refused(run, "no zstd frame|does not say its size")


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"zarr_format": 3}', '{"zarr_format": 3, "node_type": "array"}']
)
def test_metadata_of_any_kind_give_the_one_error(run, text):
    (run / "posterior" / "theta" / "zarr.json").write_text(text)
    with pytest.raises(cv.PosteriorFileError):
        cv.load_posterior(run)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
def test_a_small_folder_takes_little_memory(run):
    """Even where a limit would be missed: the whole attempt fits into 1 GB beyond what imports need."""
    changed(run / "posterior" / "phi" / "zarr.json", shape=[2, 4, 2**20, 2**10])
    program = (
        "import countveil as cv, resource\n"
        "soft = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        f"try:\n    cv.load_posterior({str(run)!r})\n"
        "except cv.PosteriorFileError:\n    pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - soft)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 2**30


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_draws_that_are_no_rates_are_refused_where_they_are_used(value):
    release = cv.simulate_release([[9, 0, 0], [0, 8, 7]], epsilon=2, seed=1)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=40, **QUIETLY)
    posterior.tree["posterior"]["phi"][0, 0, 0, 0] = value
    checks = (partial(rootogram, posterior), partial(pit, posterior, loo=False))
    for ask in (posterior.true_counts, posterior.posterior_predictive, *checks):
        with pytest.raises(ValueError, match="posterior: expected draws whose rates are finite and >= 0"):
            ask()


@pytest.mark.parametrize("field", ["phi", "theta_mean", "theta_scale_upper", "theta_scale_lower"])
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -1.0])
def test_new_rows_are_not_drawn_by_numbers_that_are_no_rates(field, value):
    """Tokens would be handed out one by one for ever, in compiled code that no Ctrl-C reaches."""
    release = cv.simulate_release([[9, 0, 0], [0, 8, 7]], epsilon=2, seed=1)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=40, **QUIETLY)
    posterior.tree["posterior"][field][:] = value
    with pytest.raises(ValueError, match="posterior: expected draws of factors, finite numbers"):
        cv.transform(posterior, release, progress=False)


@pytest.mark.parametrize("value", [np.nan, -0.5, 0.0, 1.0, np.inf])
def test_inferred_noise_that_is_none_is_refused_where_it_is_used(value):
    """Counts far from their release were drawn by it for ever."""
    counts = np.full((3, 4), 50)
    unsigned = cv.PrivateCounts(counts, alpha=0.3, clamped=False)
    posterior = cv.fit(cv.UnknownNoise(cv.TopicModel(2)), unsigned, sweeps=20, **QUIETLY)
    posterior.tree["posterior"]["alpha"][:] = value
    for ask in (posterior.true_counts, posterior.posterior_predictive, lambda: log_likelihood(posterior)):
        with pytest.raises(ValueError, match=r"posterior: expected draws of alpha in \(0, 1\)"):
            ask()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
def test_single_rates_take_no_room_for_all_cells(tmp_path):
    """Of a tensor all columns were made, of a network a list of all pairs: gigabytes for some kilobytes."""
    program = (
        "import countveil as cv, numpy as np, resource\n"
        "from scipy import sparse\n"
        "few = dict(sweeps=2, burn_in=0, thin=1, chains=1, seed=1, progress=False, threads=1, start='plain')\n"
        "mails = sparse.csr_array(([5], ([0], [1])), shape=(10_000, 10_000))\n"
        "network = cv.fit(cv.CommunityModel(1, rate=1.0), mails, **few)\n"
        "tensor = cv.fit(cv.TensorModel(1, rate=1.0), np.ones((2, 2, 2), int), **few)\n"
        "axes = {'row': 2, 'axis1': 9_000, 'axis2': 9_000}\n"
        "from countveil.posterior.states import KeptStates\n"
        "State = tensor._state_type\n"
        "state = State(*(np.ones((n, 1)) for n in (2, 9_000, 9_000)))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert tensor.model.rates_at(state, np.array([1]), np.array([9_000 * 8_000 + 7])) == 1.0\n"
        "assert len(network.summary(10)) > 10\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n"
    )
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) < 2**28


def test_scalars_that_swell_when_they_are_ranked_are_refused(run):
    """Each takes a hundred bytes then; packed they are nothing."""
    path = run / "sample_stats" / "log_joint"
    node = json.loads((path / "zarr.json").read_text())
    node |= {"shape": [2, 10**7], "data_type": "int8", "fill_value": 0, "attributes": {}}
    node["chunk_grid"]["configuration"]["chunk_shape"] = [2, 10**7]
    (path / "zarr.json").write_text(json.dumps(node))
    shutil.rmtree(path / "c")
    (path / "c" / "0").mkdir(parents=True)
    (path / "c" / "0" / "0").write_bytes(numcodecs.Zstd().encode(np.ones((2, 10**7), np.int8)))
    refused(run, "arrays far larger than the folder, 'sample_stats/log_joint'")


def test_many_views_of_long_axes_are_refused(tmp_path):
    """Each has axes and labels of its own; the folder holds them once."""
    run = tmp_path / "run.zarr"
    model = cv.SharedFactors(
        one=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=1),
        two=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=1),
    )
    data = {view: [[3, 1], [0, 2]] for view in ("one", "two")}
    cv.fit(model, data, sweeps=4, thin=1, store=run, **QUIETLY)
    cv.load_posterior(run)
    node = json.loads((run / "zarr.json").read_text())
    views = json.loads(node["attributes"]["views"])
    views["two"]["shape"] = [2, 10**8]
    signed(run, views=views)
    refused(run, "got a damaged one")


@pytest.mark.parametrize("keep", ["all", "columns", "summaries"])
def test_a_run_has_draws_of_all_fields_that_it_was_to_keep(keep, tmp_path):
    """New rows were drawn by what lies beyond an array of one number, in place of one that was not there."""
    run = tmp_path / "run.zarr"
    release = cv.simulate_release([[9, 0, 1], [0, 8, 2], [5, 5, 5]], epsilon=1, seed=0)
    model = cv.TopicModel(2, groups=["a", "b", "b"])
    cv.fit(model, release, sweeps=4, thin=1, store=run, keep=keep, **QUIETLY)
    cv.load_posterior(run)
    gone = "theta_level" if keep == "summaries" else "theta_mean"
    gone = next(name for name in (gone, "phi_level") if (run / "posterior" / name).is_dir())
    shutil.rmtree(run / "posterior" / gone)
    fields = json.loads(json.loads((run / "zarr.json").read_text())["attributes"]["fields"])
    signed(run, fields=[name for name in fields if name != gone])
    refused(run, r"got a damaged one in .* \(ValueError\)")


def test_what_was_found_is_told_in_few_letters(run):
    changed(run / "posterior" / "phi" / "zarr.json", data_type="x" * 100_000)
    with pytest.raises(cv.PosteriorFileError, match=r"data of type 'xxx.* \.\.\. .*'posterior/phi'") as error:
        cv.load_posterior(run)
    assert len(str(error.value)) < 1000


def signed(run, **said):
    """The run of a stranger who says this of it, and signs it."""
    path = run / "zarr.json"
    node = json.loads(path.read_text())
    node["attributes"] |= {name: json.dumps(value) for name, value in said.items()}
    path.write_text(json.dumps(node))
    with xr.open_datatree(run, **OPENING) as tree:
        node["attributes"]["checksum"] = checksum(tree.load())
    path.write_text(json.dumps(node))


def test_settings_that_lack_something_give_the_one_error(run):
    signed(run, settings={})
    refused(run, "got a damaged one")


def test_a_model_of_a_hundred_thousand_factors_is_refused_at_once(run):
    """Their names were compared each with each: 400 kB kept ``countveil show`` busy for many minutes."""
    spec = ",".join(["dk", *["k"] * 200_000, "kv"]) + "->dv"
    signed(run, model={"name": "countveil.Factorization", "settings": {"spec": spec, "k": 2}})
    refused(run, r"got a damaged one in .* \(ValueError\)")
    with pytest.raises(ValueError, match="spec: expected at most 32 factors, got 200,002"):
        cv.Factorization(spec, k=2)


def test_a_model_far_larger_than_its_run_does_not_go_on(tmp_path):
    """Room was made for its state before it was compared with the checkpoint's: terabytes for 50 kB."""
    run = tmp_path / "run.zarr"
    release = cv.simulate_release([[9, 0, 0], [0, 8, 7]], epsilon=2, seed=1)
    cv.fit(cv.TopicModel(2), release, sweeps=40, store=run, **QUIETLY)
    signed(run, model={"name": "countveil.TopicModel", "settings": {"n_topics": 10**9}})
    with pytest.raises(
        ValueError, match=r"path: expected a model that fits a run of .* 10,000,000,000 numbers"
    ):
        cv.extend(run, 60, progress=False)


@pytest.mark.parametrize("shape", [[4 * 10**8, 3], [2, 4 * 10**8], [2, 3, 1], [2], [2, "3"], [2, -3]])
def test_a_run_that_says_other_axes_than_its_draws_is_refused(run, shape):
    """Answers are of the size that a run says: 18 kB made ``rates()`` take 6 GB."""
    signed(run, shape=shape)
    refused(run, r"got a damaged one in .* \(ValueError\)")
    signed(run, shape=[2, 3])
    assert cv.load_posterior(run).rates().shape == (2, 3)


@pytest.mark.parametrize(
    "said",
    [
        {"dims": ["row", "other"], "shape": [2, 2000]},
        {"dims": ["other", "column"], "shape": [4 * 10**8, 3]},
        {"model": {"name": "countveil.TopicModel", "settings": {"n_topics": 50}}},
        {"model": {"name": "countveil.CommunityModel", "settings": {"n_communities": 2}}},
    ],
    ids=["columns", "rows", "topics", "another model"],
)
def test_draws_of_other_sizes_than_model_and_shape_say_are_refused(said, tmp_path):
    """An axis that the draws do not have by name was not compared: ``transform`` read beyond its arrays."""
    run = tmp_path / "run.zarr"  # without a release, which has a shape of its own
    cv.fit(cv.TopicModel(2), [[9, 0, 0], [0, 8, 7]], sweeps=40, **QUIETLY).save(run)
    signed(run, **said)
    refused(run, "got a damaged one in")


@pytest.mark.parametrize("views", [[1, 2], [["a"]]], ids=str)
def test_views_of_any_kind_give_the_one_error(run, views):
    signed(run, views=views)
    refused(run, r"got a damaged one in .* \(ValueError\)")


def test_a_view_that_leads_out_of_the_run_is_not_looked_for(run, monkeypatch):
    (run / "release").rename(run / "release_a")
    told = {"shape": [2, 3], "axes": ["row", "column"], "labelled": [False, False]}
    node = json.loads((run / "zarr.json").read_text())
    node["attributes"]["views"] = json.dumps({"a/../..": told})
    changed(run / "zarr.json", **node)
    seen, look = [], reader.size_on_disk
    monkeypatch.setattr(reader, "size_on_disk", lambda folder: seen.append(folder.resolve()) or look(folder))
    assert "not in the run" in str(describe_run(run))
    assert all(folder.is_relative_to(run.resolve()) for folder in seen)


def test_no_chunk_of_several_chains(run):
    """It would be decoded anew for each of them: 4,096 chains out of 600 kB took hours."""
    place = run / "posterior" / "theta"
    node = json.loads((place / "zarr.json").read_text())
    node["chunk_grid"]["configuration"]["chunk_shape"][0] = node["shape"][0]
    changed(place / "zarr.json", chunk_grid=node["chunk_grid"])
    refused(run, "got several chains in a chunk, 'posterior")


@pytest.mark.parametrize(
    "chunk",
    [(1, 6, 500, 1000), (1, 1, 500, 1000), (1, 1, 100, 1000), (1, 3, 500, 1000), (1, 3, 100, 500)],
)
def test_every_chunk_is_decoded_once_for_a_checksum(chunk, tmp_path, monkeypatch):
    """Once for each part of a draw, 4 MB took hours."""
    values = np.random.default_rng(0).integers(0, 9, (2, 6, 500, 1000)).astype(np.float32)
    variable = xr.Variable(("chain", "draw", "row", "column"), values)
    dataset = xr.Dataset({"theta": variable})
    tree = xr.DataTree.from_dict({"/posterior": dataset, "/sample_stats": xr.Dataset()})
    encoding = {"/posterior": {"theta": {"chunks": chunk}}}
    tree.to_zarr(tmp_path / "run.zarr", consolidated=False, encoding=encoding)
    decoded, single = [], ZstdCodec._decode_single

    async def counted(self, *given):
        decoded.append(1)
        return await single(self, *given)

    monkeypatch.setattr(ZstdCodec, "_decode_single", counted)
    with xr.open_datatree(tmp_path / "run.zarr", **OPENING) as lazy:
        found = checksum(lazy)
    assert found == checksum(tree)
    assert len(decoded) == np.prod([n // c for n, c in zip(values.shape, chunk, strict=True)])


def test_no_other_order_of_bytes(run):
    """Who goes on with the run would add draws in ours."""
    place = run / "posterior" / "theta" / "zarr.json"
    codecs = json.loads(place.read_text())["codecs"]
    assert codecs[0]["configuration"] == {"endian": "little"}
    codecs[0]["configuration"] = {"endian": "big"}
    changed(place, codecs=codecs)
    refused(run, "got numbers in another order of bytes, 'posterior")


def test_scalars_of_other_axes_are_refused(run, tmp_path):
    """A table of all scalars has a line for every combination of their axes: 20 million for 21 kB."""
    tree = cv.load_posterior(run).tree
    zeros = {name: (f"of_{name}", np.zeros(1000, np.float32)) for name in "xy"}
    tree["sample_stats"].dataset = tree["sample_stats"].to_dataset().assign(zeros)
    posterior = cv.load_posterior(run)
    posterior.tree["sample_stats"].dataset = tree["sample_stats"].to_dataset()
    posterior.save(tmp_path / "other.zarr")
    refused(tmp_path / "other.zarr", "damaged")


@pytest.mark.parametrize("kind", ["another field", "whole numbers"])
def test_draws_are_those_of_the_model(kind, run, tmp_path):
    posterior = cv.load_posterior(run)
    draws = posterior.tree["posterior"].to_dataset()
    posterior.tree["posterior"].dataset = (
        draws.assign(phi=draws["phi"].astype("int64"))
        if kind == "whole numbers"
        else draws.assign(other=(("chain", "draw", "of_other"), np.zeros((2, draws.sizes["draw"], 9), "f4")))
    )
    posterior.save(tmp_path / "other.zarr")
    refused(tmp_path / "other.zarr", "damaged")


@pytest.mark.parametrize("place", ["word", "group"])
def test_labels_that_fill_every_line_of_an_answer_are_refused(place, tmp_path):
    """12 kB with a word of a million letters: its topics, as text, took 2 GB."""
    model = cv.TopicModel(2, groups=["a", "b"]) if place == "group" else cv.TopicModel(2)
    release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0, labels=[["a", "b"], ["x", "y"]])
    posterior = cv.fit(model, release, sweeps=4, thin=1, **QUIETLY)
    tree = posterior.tree["posterior"].to_dataset()
    dim = (
        tree["phi"].dims[-1] if place == "word" else next(d for d in tree["theta_mean"].dims if "group" in d)
    )
    names = tree[dim].to_numpy().astype(object)
    names[0] = "x" * 2_001
    posterior.tree["posterior"].dataset = tree.assign_coords({dim: names})
    posterior.save(tmp_path / "run.zarr")
    refused(tmp_path / "run.zarr", "damaged")
    with pytest.raises(ValueError, match="groups: expected names of at most 2,000 letters, got a longer one"):
        cv.TopicModel(2, groups=["a", "x" * 2_001])


@pytest.mark.parametrize(
    ("keep", "group", "name", "dims", "shape"),
    [
        ("all", "posterior", "theta", ("a", "b", "row", "topic"), (1, 1, 3, 2)),
        ("all", "posterior", "phi", ("chain", "some", "topic", "column"), (2, 1, 2, 3)),
        ("columns", "posterior", "theta_sum", ("chain", "draw", "longer"), (2, 2, 12)),
        ("summaries", "running", "length", ("chain", "other", "one"), (2, 12, 1)),
        ("summaries", "running", "root", ("chain", "matched", "topic"), (2, 3, 2)),
        ("summaries", "running", "share", ("chain", "matched"), (2, 3)),
        ("summaries", "running", "share_sd", ("chain", "row"), (2, 3)),
        ("summaries", "running", "memberships", ("chain", "row", "many"), (2, 3, 12)),
        ("summaries", "running", "n_draws", ("chain", "many"), (2, 12)),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_arrays_that_meet_have_the_axes_of_each_other(keep, group, name, dims, shape, tmp_path):
    """Of 11 kB by two axes numpy would make gigabytes: thousands of rows by thousands of draws."""
    release = cv.simulate_release([[9, 0, 1], [0, 8, 2], [5, 5, 5]], epsilon=1, seed=0)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=4, thin=1, chains=2, keep=keep, **QUIETLY)
    posterior.save(tmp_path / "run.zarr")
    cv.load_posterior(tmp_path / "run.zarr")
    arrays = posterior.tree[group].to_dataset()
    other = (dims, np.ones(shape, arrays[name].dtype))
    # From arrays alone: an axis may have got another length.
    posterior.tree[group] = xr.DataTree(xr.Dataset({**arrays.drop_vars(name).data_vars, name: other}))
    posterior.save(tmp_path / "other.zarr")
    refused(tmp_path / "other.zarr", "damaged")


def test_a_model_of_which_one_rate_takes_hours_is_refused(tmp_path):
    """Factors of a few thousand numbers whose indices make rings: no order of summing leaves small steps."""
    letters, seconds = "abcdefg", time.monotonic()
    pairs = ["".join(pair) for pair in itertools.combinations(letters, 2)]
    spec, path = ",".join(["ia", "ja", *pairs]) + "->ij", tmp_path / "run.zarr"
    release = cv.simulate_release([[9, 0], [0, 8]], epsilon=2, seed=1)
    small = cv.Factorization(spec, **dict.fromkeys(letters, 2))
    posterior = cv.fit(small, release, sweeps=4, thin=1, **QUIETLY)
    posterior.save(path)
    assert np.isfinite(cv.load_posterior(path).rates(rows=[0], columns=[0]).mean())
    large = cv.Factorization(spec, **dict.fromkeys(letters, 30))
    tree = posterior.tree
    draws = tree["posterior"].to_dataset()
    longer = {
        name: (
            array.dims,
            np.full([30 if dim in letters else n for dim, n in array.sizes.items()], 0.01, "f4"),
        )
        for name, array in draws.data_vars.items()
    }
    coordinates = {name: np.arange(30) if name in letters else given for name, given in draws.coords.items()}
    tree["posterior"].dataset = xr.Dataset(longer, coordinates, draws.attrs)
    tree.attrs["model"] = json.dumps(describe_model(large))
    shutil.rmtree(path)
    posterior.save(path)
    refused(path, "damaged")
    assert time.monotonic() - seconds < 30


def test_draws_of_narrow_numbers_count_as_they_are_computed_with(run):
    """One byte each on disk, eight in every answer."""
    room = 2**24 + 1000 * sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    changed(run / "posterior" / "theta" / "zarr.json", data_type="int8", fill_value=0, attributes={})
    one_array(run, [2, 4, 2, room // 128], [1, 4, 2, room // 128])  # half of the room, by the bytes on disk
    refused(run, "arrays far larger than the folder")
