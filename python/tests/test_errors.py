"""Bad input: the field, the value and a hint, as ValueError or TypeError."""

from pathlib import Path

import interleaf
import numpy as np
import pytest
from interleaf import predict, simulate

X = "xeon6-cz122"

SWEEP = Path(__file__).parents[2] / "crates/cli/tests/documents/sweep.csv"

CASES = [
    (lambda: predict("nope", mix="R"), 'no platform "nope"'),
    (lambda: predict(X), "a mix, a workload or a demand"),
    (lambda: predict(X, mix="R", workload="hpcg"), "a mix, a workload or a demand"),
    (lambda: predict(X, mix="Q"), 'mix = "Q"'),
    (lambda: predict(X, mix="R", threads=0), 'threads = "0"'),
    (lambda: predict(X, mix="R", threads="many"), 'threads = "many"'),
    (lambda: predict(X, mix="R", weights="3:1:1"), "3 weights, but there are 2 tiers"),
    (lambda: predict(X, mix="R", weights="0:0"), "all weights are zero"),
    (lambda: predict(X, mix="R", load="150"), 'load = "150"'),
    (lambda: predict(X, mix="R", load="9000GB/s"), "carries 5.. GB/s"),
    (lambda: predict(X, workload="hpcg", load="sweep"), "--load goes with --mix"),
    (lambda: predict(X, workload="nope"), 'no workload "nope"'),
    (lambda: predict(X, demand="/nowhere.toml"), "/nowhere.toml"),
    (lambda: predict(X, mix="R", weights=np.ones((2, 3), int)), r"shape \(2, 3\)"),
    (lambda: predict(X, mix="R", weights=np.array([[256, 1]])), "out of range"),
    (lambda: predict(X, mix="R", weights=np.array([[0, 0]])), r"weights\[0\]"),
    (lambda: predict(X, mix="R", weights=np.ones((1, 2))), "float64"),
    (lambda: interleaf.Curve([(0, 100), (100, 1)]), r"points\[1\]"),
    (lambda: interleaf.Curve([]), "at least one point"),
    (lambda: interleaf.Curve([(float("nan"), 1)]), r"points\[0\]"),
    (lambda: interleaf.Weights("256:1"), '"256"'),
    (lambda: interleaf.Platform.parse("cores = 1", {}), "schema"),
    (lambda: interleaf.Platform.build("x", cores=0, tiers=[]), "."),
    (lambda: interleaf.Demand.parse("name = 1"), "name"),
    (simulate.machine, "one of workload, demand and scenario"),
    (lambda: simulate.machine(workload="hpcg"), "no platform"),
    (lambda: simulate.machine(scenario="nope"), 'no scenario "nope"'),
    (lambda: simulate.machine(X, workload="hpcg", policy="nope"), 'no policy "nope"'),
    (lambda: simulate.machine(X, workload="hpcg", duration="600"), 'duration = "600"'),
    (lambda: simulate.machine(X, workload="hpcg", duration="99h"), "between 1ms and 24h"),
    (lambda: simulate.machine(X, workload="hpcg", weights="3:1"), "--policy static"),
    (lambda: simulate.machine(X, workload="hpcg", footprint="9EiB"), "footprint"),
    (lambda: simulate.machine(X, workload="hpcg", page_groups=0), "page_groups"),
    (lambda: simulate.machine(X, workload="hpcg", seed=-1), 'seed = "-1"'),
    (lambda: simulate.machine(scenario="shifting-demand", threads=3), "threads goes with"),
    (lambda: simulate.dimm("nope"), "nope"),
    (interleaf.plan, "give one of them"),
    (lambda: interleaf.plan("hpcg", mix="R"), "give one of them"),
    (lambda: interleaf.plan(mix="R", footprint="64GiB"), "footprint goes with demand"),
    (lambda: interleaf.plan(mix="R", threads=4), "threads goes with demand"),
    (lambda: interleaf.plan("hpcg", goal="fast"), 'no goal "fast"'),
    (lambda: interleaf.plan({"hpcg": 1.5}), "1.5"),
    (lambda: interleaf.plan("hpcg", configuration="nope"), "nope"),
    (lambda: simulate.dimm("rdimm-6400-2r", refresh="always"), "refresh"),
    (simulate.dimm, "neither device nor server"),
    (lambda: simulate.dimm(server="nope"), "nope"),
    (lambda: simulate.dimm(server="sapphire-rapids-2r", channels=1), "channels cannot be used"),
    (lambda: simulate.dimm("rdimm-6400-2r", channels=65), 'channels = "65"'),
    (lambda: simulate.dimm("rdimm-6400-2r", requests=1), "at least"),
    (lambda: simulate.dimm("rdimm-6400-2r", pattern="zigzag"), 'pattern = "zigzag"'),
    (lambda: simulate.dimm("rdimm-6400-2r", uncore_ns=float("nan")), "uncore_ns"),
    (lambda: simulate.card("nope", rw="randread"), "nope"),
    (lambda: simulate.card("all-mram", rw="sideways"), 'rw = "sideways"'),
    (lambda: simulate.card("all-mram", rw="randread", iodepth="x"), 'iodepth = "x"'),
    (lambda: simulate.card("all-mram", rw="randread", access="air"), 'access = "air"'),
    (lambda: simulate.card("all-mram", rw="randread", power_fail_at="1ms"), "no writes"),
    (lambda: simulate.card("all-mram", "/nowhere.fio"), "/nowhere.fio"),
    (lambda: interleaf.reproduce("nope"), 'no study "nope"'),
    (lambda: interleaf.read("/nowhere.json"), "/nowhere.json"),
    (lambda: interleaf.read(SWEEP), "interleaf.plot.sweep"),
    (lambda: interleaf.parse("{"), "record:1:"),
    (lambda: interleaf.parse('{"schema": "other/1"}'), "other/1"),
    (lambda: interleaf.names("things"), "'things'"),
    (lambda: interleaf.Range(2, 1), "from 2 to 1"),
    (lambda: interleaf.grid(seed=[]), "seed is an empty list"),
    (lambda: interleaf.sweep("nope", [{}]), "no function 'nope'"),
    (lambda: interleaf.sweep("predict", [{}], engine="nope"), "no engine 'nope'"),
    (lambda: interleaf.sweep("predict", [{}], workers=0), "workers = 0"),
    (lambda: interleaf.sweep("predict", [{}], batch=0), "batch = 0"),
    (lambda: interleaf.sweep("predict", [{"mix": "R"}], mix="R"), "mix is in the design"),
    (lambda: interleaf.Balance("/nowhere.sock"), "/nowhere.sock"),
    (lambda: interleaf.extended_array(1, store="/tmp", dram="8"), "dram = '8'"),
    (lambda: interleaf.extended_array(1, store="/tmp", dram=".GiB"), "dram = '.GiB'"),
    (lambda: simulate.card("all-mram", rw="randread", seed="x"), '^seed = "x"'),
]

TYPES = [
    (lambda: predict(3, mix="R"), "platform is of type int"),
    (lambda: predict(X, mix="R", threads={}), "threads is of type dict"),
    (lambda: predict(X, workload=3), "workload is of type int"),
    (lambda: interleaf.Weights(3), "weights are of type int"),
    (lambda: interleaf.Curve([1, 2]), "points"),
    (lambda: simulate.machine(X, workload="hpcg", policy=3), "policy is of type int"),
    (lambda: simulate.machine(X, workload="hpcg", duration=b"1s"), "duration is of type bytes"),
    (lambda: simulate.dimm(3), "device is of type int"),
    (lambda: interleaf.plan(3), "demand is of type int"),
    (lambda: simulate.card([], rw="randread"), "card is"),
    (lambda: interleaf.sweep(3, [{}]), "function is of type int"),
    (lambda: interleaf.sweep("predict", [3]), r"cases\[0\] is of type int"),
    (lambda: interleaf.sweep("predict", [{}], engine=3), "engine is of type int"),
]


@pytest.mark.parametrize(("call", "message"), CASES, ids=[message for _, message in CASES])
def test_a_value_that_cannot_be_used(call, message):
    with pytest.raises(interleaf.InputError, match=message) as raised:
        call()
    assert raised.value.hint, "an error has a hint"


@pytest.mark.parametrize(("call", "message"), TYPES, ids=[message for _, message in TYPES])
def test_a_value_of_another_type(call, message):
    with pytest.raises(TypeError, match=message) as raised:
        call()
    assert isinstance(raised.value, interleaf.InputError)
