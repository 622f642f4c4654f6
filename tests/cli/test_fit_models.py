"""``countveil fit communities | tensor | factorization``, as a user types them, and the table of models."""

import inspect
import json
import warnings

import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil import models
from countveil.cli import main
from countveil.cli.models import MODELS
from countveil.models import CommunityModel, Factorization, TensorModel
from countveil.posterior import ModesWarning

QUICK = ["--sweeps", "60", "--thin", "2", "--seed", "1"]
ACTORS = [f"actor {i}" for i in range(6)]
NETWORK = np.kron(np.array([[9, 1], [1, 8]]), np.ones((3, 3), int))
TENSOR = np.multiply.outer(NETWORK, [1, 3])


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "network.parquet"
    cv.privatize(NETWORK, epsilon=3, rows=ACTORS, columns=ACTORS).save(path)
    return path


@pytest.fixture
def tensor(tmp_path):
    path = tmp_path / "tensor.parquet"
    cv.simulate_release(TENSOR, epsilon=3, seed=1).save(path)
    return path


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ([], CommunityModel(2)),
        (["--undirected"], CommunityModel(2, directed=False)),
        (["--rate", "1"], CommunityModel(2, rate=1.0)),
        (["--self-loops", "--shape", "0.5"], CommunityModel(2, self_loops=True, shape=0.5)),
    ],
)
def test_communities(network, tmp_path, capsys, words, model):
    run = tmp_path / "run.zarr"
    assert (
        main(["fit", "communities", str(network), "-o", str(run), "--communities", "2", *words, *QUICK]) == 0
    )
    out = capsys.readouterr().out
    assert repr(model) in out
    assert "actor 0" in out
    assert "agreement" in out
    loaded = cv.load_posterior(run)
    posterior = cv.fit(model, cv.load_release(network), sweeps=60, thin=2, seed=1, progress=False)
    assert np.array_equal(loaded.tree["posterior"]["pi"], posterior.tree["posterior"]["pi"])


@pytest.mark.filterwarnings(
    "ignore::countveil.posterior.ModesWarning"
)  # so few sweeps may end in two solutions
def test_tables_of_a_network_and_a_plain_start(network, tmp_path, capsys):
    run, file = tmp_path / "run.zarr", tmp_path / "table.csv"
    fit = [
        "fit",
        "communities",
        str(network),
        "-o",
        str(run),
        "--communities",
        "2",
        "--start",
        "plain",
        *QUICK,
    ]
    assert main(fit) == 0
    posterior = cv.load_posterior(run)
    assert json.loads(posterior.tree.attrs["settings"])["start"] == "plain"
    for kind in ("memberships", "blocks", "scales", "rates", "true_counts", "scalars"):
        assert main(["table", str(run), kind, "-o", str(file), "--overwrite"]) == 0
        read, table = pd.read_csv(file), posterior.to_dataframe(kind)
        assert list(read.columns) == list(table.columns)
        assert len(read) == len(table)
    assert "actor 0" in set(cv.load_posterior(run).to_dataframe("memberships").iloc[:, 0])
    assert main(["table", str(run), "scalars", "-o", str(file)]) == 0  # a table of this kind is replaced
    for words, said in (
        (["blocks", "-o", str(file)], "--overwrite replaces it"),
        (["magic", "-o", str(file)], "KIND: expected one of topics"),
        (["topics", "-o", str(tmp_path / "new.csv")], "expected"),
        (["scalars", "-o", str(tmp_path / "none" / "new.csv")], "--output: expected an existing folder"),
        (["scalars", "-o", str(file), "--view", "a"], "--view: expected a run of several arrays"),
    ):
        capsys.readouterr()
        assert main(["table", str(run), *words]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "new.csv").exists()


@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4)])
def test_long_tables_are_written_some_lines_at_a_time(shape, tmp_path, monkeypatch):
    counts = np.random.default_rng(1).poisson(3.0, shape)
    model = cv.TopicModel(2) if len(shape) == 2 else cv.TensorModel(rank=2)
    run, written, to_csv = tmp_path / "run.zarr", [], pd.DataFrame.to_csv
    cv.fit(model, cv.simulate_release(counts, epsilon=3, seed=1), sweeps=20, seed=1, progress=False).save(run)

    def spy(table, *given, **options):
        written.append(len(table))
        return to_csv(table, *given, **options)

    monkeypatch.setattr(pd.DataFrame, "to_csv", spy)
    monkeypatch.setattr("countveil.posterior.export.LINES_AT_ONCE", 3, raising=False)
    for kind in ("rates", "true_counts", *(["memberships"] if len(shape) == 2 else [])):
        for end in ("", ".gz", ".bz2", ".xz"):
            file = tmp_path / f"{kind}.csv{end}"
            assert main(["table", str(run), kind, "-o", str(file)]) == 0
            pd.testing.assert_frame_equal(pd.read_csv(file), cv.load_posterior(run).to_dataframe(kind))
    assert max(written) <= 3
    monkeypatch.setattr("countveil.posterior.export.LARGEST_ANSWER", 8 * 19, raising=False)
    assert main(["table", str(run), "rates", "-o", str(tmp_path / "new.csv")]) == 2
    assert not (tmp_path / "new.csv").exists()


def test_topics_of_other_runs_say_how_to_see_them(network, tmp_path, capsys):
    spec = ["--spec", "ic,cd,jd->ij", "--sizes", "c=2,d=2", "--names", "theta,pi,theta"]
    for kind, words in {"communities": ["--communities", "2"], "factorization": spec}.items():
        run = tmp_path / f"{kind}.zarr"
        assert main(["fit", kind, str(network), "-o", str(run), *words, *QUICK, "--quiet"]) == 0
        capsys.readouterr()
        assert main(["topics", str(run)]) == 2
        told = capsys.readouterr().err
        assert told.startswith("countveil topics: error: RUN: expected a run of topics, got one of ")
        _, lines = told.split("in Python: ")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModesWarning)  # so few sweeps may end in two solutions
            exec(lines, {})
        assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "model"),
    [(["--rank", "2"], TensorModel(rank=2)), (["--core", "2,2,1"], TensorModel(core=(2, 2, 1)))],
)
def test_tensor(tensor, tmp_path, capsys, words, model):
    run = tmp_path / "run.zarr"
    assert main(["fit", "tensor", str(tensor), "-o", str(run), *words, *QUICK]) == 0
    assert "axis2\ncomponent  share" in capsys.readouterr().out
    assert cv.load_posterior(run).model == model


def test_factorization(tensor, network, tmp_path, capsys):
    run = tmp_path / "run.zarr"
    words = ["--spec", "ik,jk,tk->ijt", "--sizes", "k=2"]
    assert main(["fit", "factorization", str(tensor), "-o", str(run), *words, *QUICK]) == 0
    assert cv.load_posterior(run).model == Factorization("ik,jk,tk->ijt", k=2)
    run = tmp_path / "tied.zarr"
    words = ["--spec", "ic,cd,jd->ij", "--sizes", "c=2,d=2", "--names", "theta,pi,theta", "--quiet"]
    capsys.readouterr()
    assert main(["fit", "factorization", str(network), "-o", str(run), *words, *QUICK]) == 0
    assert capsys.readouterr().out == ""
    names = ["theta", "pi", "theta"]
    assert cv.load_posterior(run).model == Factorization("ic,cd,jd->ij", names=names, c=2, d=2)


def test_plain_counts(tmp_path):
    path, run = tmp_path / "tensor.npy", tmp_path / "run.zarr"
    np.save(path, TENSOR)
    assert (
        main(["fit", "tensor", str(path), "--plain", "-o", str(run), "--rank", "2", "--quiet", *QUICK]) == 0
    )
    assert cv.load_posterior(run).release is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tensor", "--core", "2,x"], "--core: expected whole numbers, got 'x'"),
        (["tensor"], "rank, core: expected exactly one of them, got neither"),
        (["factorization", "--spec", "dk,kv->dv"], "k: expected the size of this summed index"),
        (
            ["factorization", "--spec", "dk,kv->dv", "--sizes", "k=a"],
            "--sizes: expected whole numbers, got 'a'",
        ),
        (["communities", "--communities", "0"], "n_communities: expected a whole number >= 1, got 0"),
    ],
)
def test_bad_options(network, tmp_path, capsys, words, message):
    model, *options = words
    assert main(["fit", model, str(network), "-o", str(tmp_path / "run.zarr"), *options]) == 2
    assert message in capsys.readouterr().err


def test_every_model_has_an_entry_whose_options_are_its_parameters():
    """The table names classes and parameters without importing them."""
    assert {command.model for command in MODELS.values()} == set(models.__all__) - {
        "CountModel",
        "SharedFactors",
        "UnknownNoise",
    }
    for command in MODELS.values():
        parameters = set(inspect.signature(getattr(models, command.model)).parameters)
        assert {"shape", "rate", *(option.parameter for option in command.options)} <= parameters
        assert (command.findings is None) == (command.shown is None)


def test_a_rate_is_a_number_or_inferred(capsys):
    assert main(["fit", "communities", "network.parquet", "--rate", "none", "-o", "run.zarr"]) == 2
    assert "--rate: expected a number or 'inferred', got 'none'" in capsys.readouterr().err
