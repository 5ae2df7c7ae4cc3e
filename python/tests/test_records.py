"""Records as objects, tables and pictures."""

import pickle

import interleaf
import numpy as np
import pytest


@pytest.fixture(scope="module")
def prediction():
    return interleaf.predict("xeon6-cz122", workload="hpcg", weights="1:0,3:1,2:1")


@pytest.fixture(scope="module")
def outcome():
    return interleaf.simulate.machine(scenario="shifting-demand", duration="20s")


def test_records_are_values(prediction):
    copy = pickle.loads(pickle.dumps(prediction))
    assert type(copy) is interleaf.Prediction
    assert copy == prediction
    assert len({copy, prediction}) == 1
    with pytest.raises(AttributeError, match="cannot be changed"):
        prediction.rows = ()
    changed = prediction.to_dict()
    changed["rows"].clear()
    assert len(prediction.rows) == 3


def test_rows_are_typed(prediction, outcome):
    row = prediction.rows[1]
    assert row.weights == (3, 1)
    assert row.speedup_interval[0] <= row.speedup <= row.speedup_interval[1]
    assert prediction.best in prediction.rows
    assert outcome.workloads[0].threads > 0
    assert outcome.periods[-1].target_weights == outcome.final_weights
    dimm = interleaf.simulate.dimm("rdimm-6400-2r", channels=1, requests=5000)
    assert dimm.points[0].latency_ns.p50 <= dimm.points[0].latency_ns.p99
    card = interleaf.simulate.card("all-mram", rw="randread", runtime="1ms")
    assert card.points[0].iops > 0


def test_numpy(prediction):
    speedups = prediction.to_numpy("speedup")
    assert speedups.shape == (3,)
    np.testing.assert_array_equal(speedups, [row.speedup for row in prediction.rows])
    with pytest.raises(interleaf.InputError, match="no column 'x'"):
        prediction.to_numpy("x")


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_tables(prediction, outcome, library):
    pytest.importorskip({"arrow": "pyarrow"}.get(library, library))
    for record in (prediction, outcome):
        table = getattr(record, f"to_{library}")()
        assert len(table) == len(record)
    table = getattr(prediction, f"to_{library}")()
    assert list(table["tier_latency_ns_cxl"])[1] is not None


def test_plots_have_the_colours_and_labels_of_the_page(prediction, outcome, tmp_path):
    pytest.importorskip("matplotlib")
    for record in (prediction, outcome):
        figure = record.figures()[0]
        axes = record.plot()
        assert axes.get_xlabel() == figure["x_label"]
        assert axes.get_ylabel() == figure["y_label"]
        path = tmp_path / "page.html"
        record.write_page(path)
        page = path.read_text()
        for series in figure["series"]:
            assert interleaf.plot.colour(series["group"]) in page
    axes = interleaf.compare([prediction, prediction])
    colours = {line.get_color() for line in axes.lines}
    assert colours == {interleaf.plot.colour(0), interleaf.plot.colour(1)}
    curve = interleaf.Platform("xeon6-cz122").tiers[0].curve("R")
    assert curve.plot().get_ylabel() == "latency, ns"
    with pytest.raises(interleaf.InputError, match="no figure 'x'"):
        prediction.plot("x")


def test_notebooks_show_a_picture_and_a_table(prediction):
    shown = prediction._repr_html_()
    assert "<svg" in shown
    assert "<th>speedup</th>" in shown
    assert "3:1" in shown
    assert "dram" in interleaf.Platform("xeon6-cz122")._repr_html_()
