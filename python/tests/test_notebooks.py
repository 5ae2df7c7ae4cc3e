"""The notebooks run in a kernel, and show their plots."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))

#: The number of plots of each notebook.
PLOTS = {"choose-a-memory": 2, "extend-an-array": 0, "find-a-policy": 2}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, monkeypatch):
    # Only the notebook kernel's own backend puts a plot into the output of its cell.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "notebooks are kept without their outputs"
    # The start of a kernel has the time limit of a cell, because it imports as much.
    limits = {"timeout": 600, "startup_timeout": 600}
    nbclient.NotebookClient(notebook, kernel_name="python3", **limits).execute()
    outputs = [output for cell in cells for output in cell.outputs]
    plots = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(plots) == PLOTS[path.stem]
    assert any(output.output_type == "stream" for output in outputs), "it prints results"


def test_there_are_three():
    assert {path.stem for path in NOTEBOOKS} == set(PLOTS)
