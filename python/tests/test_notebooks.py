"""The code of the notebooks runs."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyarrow")
    cells = json.loads(path.read_text())["cells"]
    names = {"__name__": path.stem}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), names)
    assert capsys.readouterr().out
    assert len(NOTEBOOKS) == 3
