"""Every example of the documentation runs and gives what it shows."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import sheaf_admm as sa

ROOT = Path(__file__).parent.parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = {
    "sheaf_admm": 20,
    "sheaf_admm._batch": 5,
    "sheaf_admm.maze": 3,
    "sheaf_admm.sudoku": 3,
    "sheaf_admm.mnist": 4,
    "sheaf_admm.torch": 8,
    "sheaf_admm.jax": 4,
}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    for need in ("torch", "jax"):
        if name.endswith(f".{need}"):
            pytest.importorskip(need)
    if name == "sheaf_admm":
        pytest.importorskip("networkx")
    result = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert result.failed == 0 and result.attempted >= MODULES[name], result


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_pages(page):
    """Blocks marked `python` run one after another in one interpreter; their assertions hold."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks, page
    needs = {"torch", "jax", "networkx"} & set(re.findall(r"^(?:import|from) (\w+)", "\n".join(blocks), re.M))
    for need in needs:
        pytest.importorskip(need)
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert sa
