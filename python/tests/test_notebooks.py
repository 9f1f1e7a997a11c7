"""The notebooks run from beginning to end, their assertions hold, and they make their pictures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
NEEDS = {"toy_layer": ["torch", "matplotlib"], "own_graph": ["networkx", "matplotlib"], "maze_trace": ["matplotlib"]}


def test_every_notebook_is_here():
    assert {path.stem for path in NOTEBOOKS.glob("*.py")} == set(NEEDS)
    assert {path.stem for path in (NOTEBOOKS / "pictures").glob("*.png")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_a_notebook_runs(name, tmp_path):
    for need in NEEDS[name]:
        pytest.importorskip(need)
    environment = dict(os.environ, SHEAF_PICTURES=str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(NOTEBOOKS / f"{name}.py")], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
