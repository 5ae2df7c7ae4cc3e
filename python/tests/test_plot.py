"""Plots of sweeps, and the examples of the documentation."""

import re
from pathlib import Path

import interleaf
import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

ROWS = {
    "policy": ["dmi", "dmi", "guided", "guided", "dmi", "guided"],
    "noise": ["2%", "5%", "5%", "2%", "2%", "2%"],
    "weights": ["3:1", "1:0", "1:0", "3:1", "3:1", "3:1"],
    "seed": [1, 1, 1, 1, 2, 2],
    "regret": ["0.1", "0.2", "0.4", "", "0.3", "0.5"],
}

DOCUMENTATION = Path(__file__).parents[2] / "docs/python.md"


def points(axes):
    """Return the points of each line by its label; a line without one has the label ``""``."""
    return {
        "" if line.get_label().startswith("_") else line.get_label(): (
            list(line.get_xdata()),
            [round(y, 9) for y in line.get_ydata()],
        )
        for line in axes.lines
    }


def test_a_line_for_each_value_and_a_band_over_the_seeds():
    axes = interleaf.plot.sweep(ROWS, "noise", "regret", "policy")
    assert points(axes) == {"dmi": ([2, 5], [0.2, 0.2]), "guided": ([2, 5], [0.5, 0.4])}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("noise, %", "regret")
    assert axes.get_legend().get_title().get_text() == "policy"
    assert [line.get_color() for line in axes.lines] == [
        interleaf.plot.colour(0),
        interleaf.plot.colour(1),
    ]
    # Only the cases of dmi have two values at the same x.
    (band,) = axes.collections
    low, high = band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()
    assert np.allclose([low, high], [0.1, 0.3])


def test_rows_are_chosen_and_texts_stand_side_by_side():
    axes = interleaf.plot.sweep(ROWS, "weights", "regret", where={"policy": "dmi", "seed": 1.0})
    assert points(axes) == {"": ([0, 1], [0.1, 0.2])}
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["3:1", "1:0"]
    assert axes.get_legend() is None


@pytest.mark.parametrize("kind", ["csv", "pandas", "polars", "pyarrow"])
def test_every_table_is_drawn_alike(kind, tmp_path):
    expected = points(interleaf.plot.sweep(ROWS, "noise", "regret", "policy"))
    if kind == "csv":
        table = tmp_path / "sweep.csv"
        lines = zip(*ROWS.values(), strict=True)
        text = "\n".join(",".join(map(str, row)) for row in [tuple(ROWS), *lines])
        table.write_text(text + "\n")
        assert points(interleaf.plot.sweep(str(table), "noise", "regret", "policy")) == expected
    else:
        library = pytest.importorskip(kind)
        table = (library.table if kind == "pyarrow" else library.DataFrame)(ROWS)
    assert points(interleaf.plot.sweep(table, "noise", "regret", "policy")) == expected


def test_an_absent_number_of_a_data_frame_is_left_out():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2, 3], "y": [1.0, float("nan"), 3.0]})
    assert points(interleaf.plot.sweep(frame, "x", "y")) == {"": ([1, 3], [1, 3])}


@pytest.mark.parametrize(
    ("given", "arguments", "options", "message"),
    [
        (ROWS, ("noise", "speed"), {}, "there is no column 'speed'"),
        (ROWS, ("noise", "regret", "x"), {}, "there is no column 'x'"),
        (ROWS, ("noise", "regret"), {"where": {"y": 1}}, "there is no column 'y'"),
        (ROWS, ("noise", "regret"), {"where": {"policy": "x"}}, "no row has 'noise'"),
        (ROWS, ("noise", "policy"), {}, "'policy' has texts that are no numbers"),
        ({"x": [1], "y": [1, 2]}, ("x", "y"), {}, "different lengths"),
        ("/no/such.csv", ("x", "y"), {}, "/no/such.csv"),
    ],
)
def test_errors_name_the_column(given, arguments, options, message):
    with pytest.raises(interleaf.InputError, match=message):
        interleaf.plot.sweep(given, *arguments, **options)


def test_a_row_that_was_cut_off_is_named(tmp_path):
    path = tmp_path / "sweep.csv"
    path.write_text("x,y\n1,2\n3\n")
    with pytest.raises(interleaf.InputError, match=r"row 3 has 1 cells"):
        interleaf.plot.sweep(path, "x", "y")
    with pytest.raises(interleaf.InputTypeError, match="of type int"):
        interleaf.plot.sweep(7, "x", "y")


SWEEP = """
schema = "interleaf.sweep/1"
duration = "5s"
page_groups = 4096
platform = ["gnr120-cz122"]
workload = ["lbm"]
threads = [30]
policy = ["dmi", "guided"]
counter_noise = ["2%", "5%"]
seeds = 2
"""


def test_the_examples_of_the_documentation_run(command, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("noise.toml").write_text(SWEEP)
    command("simulate", "machine", "--sweep", "noise.toml", "-o", "noise.csv")
    section = DOCUMENTATION.read_text().split("\n### Plots\n")[1].split("\n### ")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, "docs/python.md", "exec"), {})
    for name in ("speedup.png", "regret.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")
    axes = interleaf.plot.sweep("noise.csv", "counter_noise", "regret", "policy")
    assert {line.get_label() for line in axes.lines} == {"dmi", "guided"}
    assert list(axes.lines[0].get_xdata()) == [0.02, 0.05]


def test_parameters_of_platforms_are_columns():
    table = {
        "platform": [f"gnr120-cz122:cxl.count={count},dram.capacity=64GiB" for count in (8, 2, 4)],
        "speedup": [1.3, 1.05, 1.1],
    }
    axes = interleaf.plot.sweep(table, "cxl.count", "speedup")
    assert axes.lines[0].get_xdata().tolist() == [2, 4, 8]
    with pytest.raises(interleaf.InputError, match=r"there is no column 'cxl.cout'"):
        interleaf.plot.sweep(table, "cxl.cout", "speedup")


def test_a_figure_that_no_record_has():
    record = interleaf.predict("xeon6-cz122", mix="R")
    known = record.figures()[0]["id"]
    for figure in ("typo", 99, -1):
        with pytest.raises(interleaf.InputError, match=f"no figure {figure!r}") as raised:
            interleaf.compare([record, record], figure=figure)
        assert known in raised.value.hint
    assert interleaf.compare([record, record], figure=known).lines
