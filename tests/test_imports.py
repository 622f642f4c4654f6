"""What an import loads: `import countveil` is light, and each layer needs only what it says, in which versions."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import countveil

HEAVY = ["numba", "scipy", "xarray", "pyarrow", "pandas", "matplotlib"]


def loaded_by(code: str) -> set[str]:
    program = f"{code}\nimport sys; print(*sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(finished.stdout.split())


def test_import_countveil_loads_nothing_heavy():
    loaded = loaded_by("import countveil")
    assert "countveil" in loaded
    assert not loaded & {*HEAVY, "numpy"}


def test_privacy_needs_numpy_alone():
    loaded = loaded_by("from countveil import Guarantee, add_noise; add_noise([1, 2], Guarantee(1))")
    assert "numpy" in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("folder", ["kernels", "distributions", "privacy", "counts"])
def test_the_lower_folders_import_with_numpy_scipy_and_numba_alone(folder):
    blocked = ["xarray", "pyarrow", "pandas", "matplotlib", "zarr", "polars", "networkx"]
    block = f"import sys; sys.modules.update(dict.fromkeys({blocked}))"
    files = sorted((Path(countveil.__file__).parent / folder).glob("*.py"))
    imports = "\n".join(f"import countveil.{folder}.{f.stem}" for f in files if f.stem != "__init__")
    assert f"countveil.{folder}" in loaded_by(f"{block}\n{imports}")


def test_every_public_name_is_found_and_documented():
    for name in countveil.__all__:
        thing = getattr(countveil, name)
        assert name == "__version__" or thing.__doc__, name
    assert dir(countveil) == sorted(countveil.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = countveil.nonsense


def test_the_lazy_names_and_the_typed_names_are_the_same():
    tree = ast.parse(Path(countveil.__file__).read_text())
    typed = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("countveil.")
        for alias in node.names
        if alias.asname  # what is re-exported
    }
    modules = {name for name, home in countveil._HOME.items() if home == f"countveil.{name}"}
    assert typed == set(countveil._HOME) - modules


def test_the_oldest_constraints_are_the_promised_floors():
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    promised = [Requirement(line) for line in project["dependencies"]]
    lines = (root / "oldest-constraints.txt").read_text().splitlines()
    tried = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert {r.name: Version(s.version) for r in promised for s in r.specifier if s.operator == ">="} == {
        r.name: Version(s.version) for r in tried for s in r.specifier
    }


def test_pictures_and_diagnostics_take_no_settings_from_the_working_folder(tmp_path):
    """Some versions of matplotlib run what stands there as code, and of a pipe arviz would wait for ever."""
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 77\n")
    (tmp_path / "arvizrc").write_text("stats.ci_prob: 0.123\n")
    shown = "import matplotlib, arviz_base; print(matplotlib.rcParams['lines.linewidth'], arviz_base.rcParams['stats.ci_prob'])"
    ours = "from countveil.posterior import load_posterior; from countveil.report import plot_topics; "
    for first, read in (("", True), (ours, False), ("import countveil.studies.experiments.months; ", False)):
        ran = subprocess.run(
            [sys.executable, "-c", first + shown], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert (ran.stdout.split() == ["77.0", "0.123"]) == read, ran.stdout


def test_numba_takes_no_settings_from_the_working_folder(tmp_path):
    """They say which files are written and which libraries are loaded, and anybody may have put them there."""
    pytest.importorskip("yaml")
    (tmp_path / ".numba_config.yaml").write_text("developer_mode: 1\n")
    shown = "import numba; print(numba.config.DEVELOPER_MODE); import yaml; print(yaml.__name__)"
    for first, mode in (("", "1"), ("import countveil.kernels.poisson; ", "0")):
        ran = subprocess.run(
            [sys.executable, "-c", first + shown], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == [mode, "yaml"]
