"""The notebooks run from their first cell to the last."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == ["leo", "satpep", "size-a-gateway", "which-tcp"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, capsys, command):
    cells = json.loads(path.read_text())["cells"]
    scope = {"__name__": "__main__"}
    try:
        for cell in cells:
            if cell["cell_type"] == "code":
                assert not cell["outputs"], "outputs are not kept: they would age"
                exec(compile("".join(cell["source"]), path.stem, "exec"), scope)
        assert plt.get_fignums() and capsys.readouterr().out
    finally:
        plt.close("all")
