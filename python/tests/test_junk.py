"""Random junk for every argument of every call: an error with a message, never a panic."""

import math
import random

import interleaf
import numpy as np
import pytest

JUNK = [
    None,
    True,
    0,
    -1,
    3,
    2**64,
    -(2**70),
    10**5000,
    0.5,
    -2.5,
    math.nan,
    math.inf,
    1e308,
    "",
    "R",
    "3:1",
    "2ms",
    "1e999GB/s",
    "99999999999999999999%",
    "a\0b",
    "\ud800",
    "é" * 300,
    "/dev/null/x",
    "/",
    b"bytes",
    [],
    (),
    {},
    {"a": 1},
    [1, 2],
    [[1], [2]],
    ["3:1", None],
    {1, 2},
    object(),
    int,
    len,
    np.float32(2.5),
    np.array(3),
    np.array([]),
    np.array([[1, 0], [0, 1]]),
    np.array([["a", "b"]]),
    np.ones((2, 2, 2), np.uint8),
    complex(1, 2),
    range(3),
    lambda *_: 1 / 0,
]

X = "xeon6-cz122"
DRAM = interleaf.Curve([(0, 100), (200, 150)])
FAST = interleaf.Tier("fast", "dram", 1 << 30, (DRAM,))
RECORD = interleaf.predict(X, mix="R", weights="3:1")

#: Valid calls, with the arguments that the tests replace by junk.
CALLS = {
    "predict": (
        interleaf.predict,
        {"platform": X, "mix": "R", "weights": "3:1", "threads": 4, "load": "max"},
        ("workload", "demand", "progress"),
    ),
    "machine": (
        interleaf.simulate.machine,
        {"platform": X, "workload": "hpcg", "duration": "1ms", "page_groups": 16},
        (
            "demand",
            "scenario",
            "policy",
            "threads",
            "weights",
            "footprint",
            "migration_rate",
            "counter_noise",
            "curve_error",
            "seed",
            "progress",
        ),
    ),
    "dimm": (
        interleaf.simulate.dimm,
        {"device": "rdimm-6400-2r", "channels": 1, "requests": 5000},
        (
            "mix",
            "load",
            "pattern",
            "density",
            "width",
            "outstanding",
            "uncore_ns",
            "row_policy",
            "refresh",
            "seed",
            "server",
            "progress",
        ),
    ),
    "plan": (
        interleaf.plan,
        {"mix": "R", "configuration": ["rdimm-6400", "mrdimm-8800"]},
        ("demand", "baseline", "prices", "footprint", "threads", "goal", "vary", "progress"),
    ),
    "card": (
        interleaf.simulate.card,
        {"card": "all-mram", "rw": "randread", "runtime": "10us"},
        (
            "jobs",
            "bs",
            "iodepth",
            "numjobs",
            "rate_iops",
            "rwmixread",
            "size",
            "access",
            "fsync",
            "power_fail_at",
            "power_fail_sweep",
            "seed",
            "progress",
        ),
    ),
    "curve": (
        interleaf.Curve,
        {"points": [(0, 100), (10, 120)], "mix": "R"},
        ("domain", "provenance", "source"),
    ),
    "tier": (
        interleaf.Tier,
        {"name": "a", "kind": "dram", "capacity_bytes": 1 << 30, "curves": (DRAM,)},
        (),
    ),
    "build": (
        interleaf.Platform.build,
        {"name": "mine", "cores": 8, "tiers": [FAST]},
        ("outstanding_lines_per_core", "uncore_latency_ns", "source"),
    ),
    "parse platform": (interleaf.Platform.parse, {"text": "x = 1", "curves": {}}, ("label",)),
    "platform": (interleaf.Platform, {"name": X}, ()),
    "demand": (interleaf.Demand, {"workload": "hpcg"}, ()),
    "read demand": (interleaf.Demand.read, {"path": "/none"}, ()),
    "parse demand": (interleaf.Demand.parse, {"text": "x = 1"}, ("label",)),
    "mix": (interleaf.Mix, {"name": "R"}, ()),
    "weights": (interleaf.Weights, {"value": "3:1"}, ()),
    "at in flight": (DRAM.at_in_flight, {"in_flight_bytes": 100.0}, ()),
    "scaled": (DRAM.scaled, {"factor": 2.0}, ()),
    "curve of a mix": (FAST.curve, {}, ("mix",)),
    "names": (interleaf.names, {"kind": "cards"}, ()),
    "read": (interleaf.read, {"path": "/none"}, ()),
    "parse": (interleaf.parse, {"text": "{}"}, ("label",)),
    "reproduce": (interleaf.reproduce, {"study": "nope"}, ("progress",)),
    "column": (RECORD.to_numpy, {"column": "speedup"}, ()),
    "grid": (interleaf.grid, {"a": [1]}, ("b",)),
    "cases": (interleaf.cases, {"given": [{"a": 1}]}, ()),
    "range": (interleaf.Range, {"low": 1, "high": 2}, ("unit", "log", "whole")),
    "random": (interleaf.random_design, {"count": 3, "a": [1, 2]}, ("design_seed",)),
    "hypercube": (interleaf.latin_hypercube, {"count": 3, "a": [1, 2]}, ("design_seed",)),
    "design": (interleaf.Design, {"names": ("a",), "rows": ((1,),)}, ()),
    "read design": (interleaf.read_design, {"path": "/none"}, ()),
    "every ratio": (interleaf.every_ratio, {"tiers": 2, "limit": 3}, ()),
    "balance": (interleaf.Balance, {"path": "/none", "timeout_s": 1.0}, ()),
    "extended memory": (interleaf.ExtendedMemory, {"dram": "1B", "store": "/none"}, ()),
}


def accepted(call, arguments):
    """Call, and return whether the arguments were accepted."""
    try:
        call(**arguments)
    except (ValueError, TypeError, ZeroDivisionError, interleaf.ExtendedMemoryError) as why:
        assert str(why), f"an empty message for {arguments!r}"
        assert "panic" not in str(why)
        return False
    return True


@pytest.mark.parametrize("name", CALLS)
def test_each_argument_takes_junk(name):
    call, good, others = CALLS[name]
    for argument in (*good, *others):
        for junk in JUNK:
            accepted(call, {**good, argument: junk})


@pytest.mark.parametrize("name", CALLS)
def test_several_arguments_take_junk(name):
    call, good, others = CALLS[name]
    generator = random.Random(name)
    for _ in range(60):
        names = generator.sample([*good, *others], min(3, len(good) + len(others)))
        accepted(call, {**good, **{argument: generator.choice(JUNK) for argument in names}})


def test_junk_of_sweeps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pyarrow")
    good = {"function": "predict", "design": [{"mix": "R"}], "platform": X, "weights": "3:1"}
    for argument in ("function", "design", "engine", "workers", "output", "batch", "progress"):
        for junk in JUNK:
            if argument == "output" and isinstance(junk, str) and junk == "/":
                continue
            accepted(interleaf.sweep, {**good, "output": tmp_path, argument: junk})


def test_unknown_names_of_arguments():
    for call, good, _ in CALLS.values():
        if call in (interleaf.grid, interleaf.random_design, interleaf.latin_hypercube):
            continue
        with pytest.raises(TypeError, match="nonsense"):
            call(**good, nonsense=1)
