"""The hash of a case: a sweep computes a case again when what it depends on has changed."""

import functools
import os
import pathlib

import interleaf
import numpy as np
import pytest

pytest.importorskip("pyarrow")


def values(function, design, folder):
    """Run a sweep; return the number of computed cases and the values."""
    swept = interleaf.sweep(function, interleaf.cases(design), output=folder)
    return swept.computed, swept.to_arrow()["value"].to_pylist()


def read(config):
    path = config
    while not isinstance(path, (str, os.PathLike)):
        path = next(iter(path))
    with open(path, encoding="utf-8") as file:
        return {"value": float(file.read())}


@pytest.mark.parametrize(
    "given",
    [str, pathlib.Path, lambda path: [str(path)], lambda path: {path: 0.6}, lambda path: [(path,)]],
    ids=["text", "path", "list", "mapping", "nested"],
)
def test_an_edited_file(tmp_path, given):
    config = tmp_path / "config.txt"
    found = []
    for text in ("1", "1", "2"):
        config.write_text(text)
        found.append(values(read, [{"config": given(config)}], tmp_path / "rows"))
    assert found == [(1, [1.0]), (0, [1.0]), (1, [2.0])]


def test_an_edited_device_of_a_file(tmp_path):
    device = tmp_path / "device.toml"
    found = []
    for text in ("1", "2"):
        device.write_text(text)
        design = [{"device": f"{device}:name"}]
        found.append(values(lambda device: read(device[: -len(":name")]), design, tmp_path))
    assert found == [(1, [1.0]), (1, [2.0])]


def closure(factor):
    def area(x):
        return {"value": factor * x}

    return area


def default(factor):
    def area(x, factor=factor):
        return {"value": factor * x}

    return area


def keyword(factor):
    def area(x, *, factor=factor):
        return {"value": factor * x}

    return area


def nested(factor):
    inner = closure(factor)
    return lambda x: {"value": inner(x)["value"]}


def partial(factor):
    return functools.partial(lambda factor, x: {"value": factor * x}, factor)


class Area:
    def __init__(self, factor):
        self.factor = factor
        self.shown = lambda: "an object without a pickle"

    def area(self, x):
        return {"value": self.factor * x}


def method(factor):
    return Area(factor).area


def decorated(factor):
    def scaled(function):
        @functools.wraps(function)
        def area(x):
            return {"value": factor * function(x)}

        return area

    return scaled(lambda x: x)


def recursive(factor):
    def area(x):
        return {"value": factor * x} if x < 10 else area(x - 1)

    return area


@pytest.mark.parametrize(
    "make", [closure, default, keyword, nested, partial, method, decorated, recursive]
)
def test_a_function_with_other_values(tmp_path, make):
    design = [{"x": 1}, {"x": 2}]
    assert values(make(1.0), design, tmp_path) == (2, [1.0, 2.0])
    assert values(make(1.0), design, tmp_path) == (0, [1.0, 2.0])
    assert values(make(10.0), design, tmp_path) == (2, [10.0, 20.0])


def test_lambdas_on_one_line(tmp_path):
    first, second = (lambda x: {"value": x}), (lambda x: {"value": 2 * x})
    assert values(first, [{"x": 1}], tmp_path) == (1, [1.0])
    assert values(second, [{"x": 1}], tmp_path) == (1, [2.0])


def test_arguments_that_are_objects(tmp_path):
    def call(what):
        return {"value": what(3) if callable(what) else np.sum(what)}

    def scaled(factor):
        class Scale:
            def __call__(self, x):
                return factor * x

        return Scale

    small, large = np.zeros(5000), np.zeros(5000)
    large[2500] = 1.0
    for first, second in [
        (small, large),
        (scaled(1)(), scaled(2)()),
        (lambda x: x, lambda x: x + 1),
        ([1, 2], [1, 3]),
    ]:
        assert values(call, [{"what": first}], tmp_path)[0] == 1
        assert values(call, [{"what": first}], tmp_path)[0] == 0
        assert values(call, [{"what": second}], tmp_path)[0] == 1
