"""The pages about models run as they stand."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

DOCS = Path(__file__).parents[2] / "docs"


# The quick stage runs these pages, as all others, in test_readme.py.
@pytest.mark.long
@pytest.mark.parametrize("page", ["communities", "tensors", "factorization"])
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})
    assert list(tmp_path.glob("*.png")), "every page has a picture"
