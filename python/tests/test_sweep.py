"""Sweeps: designs, content, resumption, failed cases."""

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import interleaf
import numpy as np
import pytest

pytest.importorskip("pyarrow")

DESIGN = interleaf.grid(mix=["R", "W2"], threads=[16, 64], weights=["3:1", "1:0", "2:1"])


def contents(folder):
    return {
        name: (folder / name).read_bytes()
        for name in sorted(os.listdir(folder))
        if name.endswith(".parquet")
    }


def test_grid():
    assert len(DESIGN) == 12
    assert DESIGN[1] == {"mix": "R", "threads": 16, "weights": "1:0"}
    assert interleaf.grid(a=1, b="xy")[0] == {"a": 1, "b": "xy"}


def test_a_temporary_folder_is_removed_with_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = interleaf.sweep("predict", DESIGN)
    assert len(os.listdir(result.path)) == len(result.parts)
    assert os.listdir(tmp_path) == [os.path.basename(result.path)]
    del result
    assert os.listdir(tmp_path) == []
    with pytest.raises(interleaf.InputError, match="no engine"):
        interleaf.sweep("predict", DESIGN, engine="lokal")
    assert os.listdir(tmp_path) == []


def test_a_latin_hypercube_has_one_value_in_each_part():
    design = interleaf.latin_hypercube(
        50,
        noise=interleaf.Range(0, 10, "%"),
        design_seed=3,
        threads=interleaf.Range(1, 50, whole=True),
    )
    noise = sorted(float(case["noise"].rstrip("%")) for case in design)
    assert [int(value / 10 * 50) for value in noise] == list(range(50))
    assert sorted(case["threads"] for case in design) == list(range(1, 51))
    again = interleaf.latin_hypercube(
        50,
        noise=interleaf.Range(0, 10, "%"),
        design_seed=3,
        threads=interleaf.Range(1, 50, whole=True),
    )
    assert design == again


def test_a_random_design_of_a_logarithmic_range():
    design = interleaf.random_design(
        2000, design_seed=1, x=interleaf.Range(1, 10000, log=True), y=[1, 2]
    )
    x = np.array([case["x"] for case in design])
    assert 0.45 < np.mean(x < 100) < 0.55
    assert {case["y"] for case in design} == {1, 2}


def test_whole_numbers_of_a_logarithmic_range():
    whole = interleaf.Range(1, 10000, log=True, whole=True)
    x = [case["x"] for case in interleaf.random_design(2000, design_seed=1, x=whole)]
    assert 0.45 < np.mean(np.array(x) < 100) < 0.55
    assert all(isinstance(value, int) for value in x)
    narrow = interleaf.Range(1.4, 3.6, log=True, whole=True)
    assert [narrow.at(part) for part in (0.0, 0.5, 1.0)] == [2, 2, 3]


def test_the_content_does_not_depend_on_the_engine(tmp_path):
    local = interleaf.sweep(
        "predict", DESIGN, platform="xeon6-cz122", output=tmp_path / "local", batch=5
    )
    table = local.to_pandas() if _has("pandas") else local.to_arrow()
    assert len(table) == 12
    assert local.computed == 12
    assert not local.errors()
    with ThreadPoolExecutor(3) as threads:
        interleaf.sweep("predict", DESIGN, platform="xeon6-cz122", output=tmp_path / "threads",
                        batch=5, engine=threads)  # fmt: skip
    with ProcessPoolExecutor(2) as processes:
        interleaf.sweep("predict", DESIGN, platform="xeon6-cz122", output=tmp_path / "processes",
                        batch=5, engine=processes)  # fmt: skip
    assert contents(tmp_path / "local") == contents(tmp_path / "threads")
    assert contents(tmp_path / "local") == contents(tmp_path / "processes")


def _has(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def test_rows_are_those_of_single_calls(tmp_path):
    design = interleaf.grid(policy=["dmi", "guided"], seed=[1, 2])
    swept = interleaf.sweep(
        "simulate.machine", design, scenario="shifting-demand", duration="5s", output=tmp_path
    )
    rows = swept.to_arrow().to_pylist()
    for case in design:
        single = interleaf.simulate.machine(scenario="shifting-demand", duration="5s", **case)
        own = [r for r in rows if (r["policy"], r["seed"]) == (case["policy"], str(case["seed"]))]
        assert [row["speedup"] for row in own] == [task.speedup for task in single.workloads]
        assert own[0]["migrated_bytes"] == single.migrated_bytes_total


def test_all_parts_have_one_schema(tmp_path):
    """Arrow and others read the folder, also where a figure is absent from all rows of a part."""
    pq = pytest.importorskip("pyarrow.parquet")
    design = interleaf.grid(workload=["lbm", "hpcg"], threads=[16, 119])
    interleaf.sweep(
        "simulate.machine",
        design,
        platform="gnr120-cz122",
        policy="static",
        weights="3:1",
        duration="30s",
        output=tmp_path,
        batch=1,
    )
    schemas = [pq.read_schema(tmp_path / name) for name in contents(tmp_path)]
    assert len(schemas) == 4
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert pq.read_table(tmp_path)["runtime_s"].null_count > 0


def test_a_failed_case_is_a_row(tmp_path):
    swept = interleaf.sweep(
        "predict", interleaf.grid(mix=["R", "Q"]), platform="xeon6-cz122", output=tmp_path
    )
    (failed,) = swept.errors()
    assert failed["mix"] == "Q"
    assert 'there is no mix "Q"' in failed["error"]
    assert len(swept.to_arrow()) == 2


def test_a_sweep_goes_on_and_grows(tmp_path):
    options = {"platform": "xeon6-cz122", "output": tmp_path}
    first = interleaf.sweep("predict", interleaf.grid(threads=[1, 2, 3]), mix="R", **options)
    again = interleaf.sweep("predict", interleaf.grid(threads=[1, 2, 3]), mix="R", **options)
    assert (first.computed, again.computed) == (3, 0)
    larger = interleaf.sweep("predict", interleaf.grid(threads=[0, 1, 2, 3]), mix="R", **options)
    assert larger.computed == 1
    assert [row["threads"] for row in larger.to_arrow().to_pylist()] == ["0", "1", "2", "3"]
    other = interleaf.sweep("predict", interleaf.grid(threads=[1, 2, 3]), mix="W2", **options)
    assert other.computed == 3


def test_a_sweep_that_grows_twice_has_each_case_once(tmp_path):
    for xs in ([1, 2, 3], [0, 1, 2, 3], [-1, 0, 1, 2, 3]):
        swept = interleaf.sweep(_area, interleaf.grid(width=xs), height=1, output=tmp_path)
        assert swept.to_arrow()["area"].to_pylist() == xs
    for batch in (2, 3):
        swept = interleaf.sweep(
            _area, interleaf.grid(width=xs), height=1, output=tmp_path, batch=batch
        )
        assert (swept.computed, len(swept.to_arrow())) == (0, 5)


def test_a_design_with_a_case_twice_has_two_rows(tmp_path):
    for xs in ([1, 1], [0, 1, 1]):
        swept = interleaf.sweep(_area, interleaf.grid(width=xs), height=1, output=tmp_path, batch=9)
        assert swept.to_arrow()["area"].to_pylist() == xs


@pytest.mark.parametrize("batch", [1, 2])
def test_a_failed_case_beside_results_that_are_called_like_arguments(tmp_path, batch):
    design = interleaf.grid(threads=[64, 70000])
    swept = interleaf.sweep(
        "plan", design, demand="hpcg", configuration="rdimm-6400", output=tmp_path, batch=batch
    )
    first, second = swept.to_arrow().to_pylist()
    assert (first["threads"], first["result_threads"]) == ("64", 64.0)
    assert (second["threads"], second["result_threads"]) == ("70000", None)
    assert [row["threads"] for row in swept.errors()] == ["70000"]


def _reserved(width):
    return {"width": width, "result_width": 5, "case": 6, "error": 7, "result_case": 8}


def test_results_take_the_place_of_no_other_column(tmp_path):
    swept = interleaf.sweep(_reserved, interleaf.grid(width=[1]), output=tmp_path)
    (row,) = swept.to_arrow().to_pylist()
    assert (row["width"], row["error"], len(row["case"])) == ("1", None, 32)
    assert (row["result_width"], row["result_result_width"]) == (5.0, 1.0)
    assert (row["result_case"], row["result_result_case"], row["result_error"]) == (8.0, 6.0, 7.0)
    assert interleaf.sweep(_reserved, interleaf.grid(width=[1]), output=tmp_path).computed == 0


def _mixed(width):
    return {"value": "none" if width == 2 else float(width)}


@pytest.mark.parametrize("batch", [1, 3])
def test_a_column_with_numbers_and_texts_is_text(tmp_path, batch):
    design = interleaf.grid(width=[1, 2, 3])
    swept = interleaf.sweep(_mixed, design, output=tmp_path, batch=batch)
    assert swept.to_arrow()["value"].to_pylist() == ["1.0", "none", "3.0"]


FILE = """
schema = "interleaf.sweep/1"
duration = "5s"
page_groups = 4096
platform = ["gnr120-cz122"]
workload = ["lbm"]
threads = [30]
scenario = ["shifting-demand"]
policy = ["dmi", "guided"]
counter_noise = ["2%"]
curve_error = ["-20%"]
seeds = 2
"""

#: Columns of the command's sweep, and their names in the package's sweep.
COLUMNS = {
    "policy": "policy",
    "seed": "seed",
    "workload": "result_workload",
    "runtime_s": "runtime_s",
    "speedup": "speedup",
    "best_static_weights": "best_static_weights",
    "regret": "regret",
    "final_weights": "final_weights",
    "migrated_bytes": "migrated_bytes",
}


def test_a_sweep_file_has_the_rows_of_the_command(command, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(FILE)
    command("simulate", "machine", "--sweep", str(path), "-o", str(tmp_path / "sweep.csv"))
    with open(tmp_path / "sweep.csv", newline="") as file:
        said = list(csv.DictReader(file))
    swept = interleaf.sweep(path, output=tmp_path / "sweep")
    assert not swept.errors()
    rows = swept.to_arrow().to_pylist()
    assert len(rows) == len(said) > 8
    for row, expected in zip(rows, said, strict=True):
        for theirs, ours in COLUMNS.items():
            shown, value = expected[theirs], row[ours]
            if isinstance(value, float):
                assert float(shown) == value, (theirs, expected, row)
            else:
                assert shown == (value or ""), (theirs, expected, row)


def test_a_sweep_file_is_one_more_way_to_write_a_grid(tmp_path):
    path = tmp_path / "sweep.toml"
    lists = {
        "platform": ["gnr120-cz122", "xeon6-cz122"],
        "workload": ["lbm"],
        "footprint": ["16GiB", "64GiB"],
        "policy": ["dmi", "guided"],
        "seed": [1, 2],
    }
    lines = [f"{name} = {json.dumps(values)}" for name, values in lists.items()]
    path.write_text("\n".join(['schema = "interleaf.sweep/1"', 'duration = "60s"', *lines]))
    assert interleaf.read_design(path) == interleaf.grid(**lists, duration="60s")
    path.write_text("\n".join(['schema = "interleaf.sweep/1"', *lines, 'polcy = ["dmi"]']))
    with pytest.raises(interleaf.InputError, match=r"sweep.toml:7"):
        interleaf.sweep(path)


MODULES = """
schema = "interleaf.sweep.dimm/1"
device = ["rdimm-6400-2r", "ddr4-3200-2r"]
channels = [1]
mix = ["R", "W2"]
load = ["10GB/s", "max"]
requests = [5000]
"""


def test_a_sweep_of_modules_is_the_same_in_csv_parquet_and_python(command, tmp_path):
    path, table = tmp_path / "modules.toml", tmp_path / "rows.parquet"
    path.write_text(MODULES)
    command("simulate", "dimm", "--sweep", str(path), "-o", str(tmp_path / "rows.csv"),
            "--parquet", str(table))  # fmt: skip
    rows = pytest.importorskip("pyarrow.parquet").read_table(table).to_pylist()
    with open(tmp_path / "rows.csv", newline="") as file:
        said = list(csv.DictReader(file))
    assert len(rows) == len(said) == 8
    for row, expected in zip(rows, said, strict=True):
        for name, value in row.items():
            kind = type(value) if value is not None else str
            assert kind(expected[name]) == ("" if value is None else value), name
    assert isinstance(rows[0]["channels"], int)
    assert rows[1]["offered_gbps"] is None
    ours = interleaf.sweep(path).to_arrow().to_pylist()
    for own, name in {"latency_ns_mean": "latency_mean_ns", "power_w": "power_w"}.items():
        assert [row[own] for row in ours] == [row[name] for row in rows]


class Pace:
    """Moves the same share of pages in each period."""

    def __init__(self, share):
        self.share = share

    def decide(self, observation):
        second = min(observation.target[1] + self.share, 0.4)
        return [1 - second, second]


def test_policies_with_other_settings_are_other_cases(tmp_path):
    swept = interleaf.sweep(
        "simulate.machine",
        interleaf.grid(policy=[Pace(0.1), Pace(0.02)]),
        platform="gnr120-cz122",
        workload="cloverleaf",
        duration="20s",
        page_groups=4096,
        output=tmp_path,
    )
    first, second = swept.to_arrow().to_pylist()
    assert first["error"] is second["error"] is None
    assert first["case"] != second["case"]
    assert first["final_weights"] != second["final_weights"]


def _first(width):
    return {"area": width}


def _second(width):
    return {"area": 2 * width}


def test_a_changed_function_is_computed_again(tmp_path):
    _second.__qualname__ = _first.__qualname__
    design = interleaf.grid(width=[1, 2])
    first = interleaf.sweep(_first, design, output=tmp_path)
    assert interleaf.sweep(_first, design, output=tmp_path).computed == 0
    second = interleaf.sweep(_second, design, output=tmp_path)
    assert (first.computed, second.computed) == (2, 2)
    assert [row["area"] for row in second.to_arrow().to_pylist()] == [2.0, 4.0]


KILLED = """
import sys
import interleaf
design = interleaf.grid(seed=range(6))
def report(state):
    print(state.done, flush=True)
interleaf.sweep("simulate.machine", design, scenario="shifting-demand", duration="1s",
                page_groups=4096, output=sys.argv[1], batch=1, workers=1, progress=report)
print("whole", flush=True)
"""


def test_a_killed_sweep_has_the_same_content(tmp_path):
    kills = 0
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "killed")],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        said = child.stdout.readline()
        if kills < 3 and "whole" not in said:
            child.send_signal(signal.SIGKILL)
            kills += 1
        rest = child.stdout.read()
        child.wait()
        child.stdout.close()
        if "whole" in said + rest:
            break
    interleaf.sweep(
        "simulate.machine", interleaf.grid(seed=range(6)), scenario="shifting-demand",
        duration="1s", page_groups=4096, output=tmp_path / "whole", batch=1,
    )  # fmt: skip
    assert kills > 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def _area(width, height):
    return {"area": width * height, "name": "a", "none": None}


def test_functions_of_the_user(tmp_path):
    states = []
    swept = interleaf.sweep(
        _area, interleaf.grid(width=[1, 2], height=[3]), output=tmp_path, progress=states.append
    )
    assert [row["area"] for row in swept.to_arrow().to_pylist()] == [3.0, 6.0]
    assert states[-1].done == states[-1].total == 2
