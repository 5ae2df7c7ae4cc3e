"""Engines of sweeps that are not installed here: their modules are replaced by small ones."""

import sys
from types import ModuleType

import interleaf
import pytest

pytest.importorskip("pyarrow")


class Ray(ModuleType):
    """The functions of Ray that a sweep calls, in this process."""

    def __init__(self, is_running):
        super().__init__("ray")
        self.is_running = is_running
        self.ends = 0

    def is_initialized(self):
        return self.is_running

    def init(self, **_options):
        self.is_running = True

    def shutdown(self):
        self.is_running = False
        self.ends += 1

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, function):
        return Remote(function)

    def wait(self, handles, **_options):
        return handles[:1], handles[1:]

    def get(self, handle):
        return handle.call()

    def cancel(self, handle):
        handle.is_cancelled = True


class Remote:
    def __init__(self, function):
        self.function = function

    def remote(self, *arguments):
        return Handle(self.function, arguments)


class Handle:
    def __init__(self, function, arguments):
        self.function = function
        self.arguments = arguments
        self.is_cancelled = False

    def call(self):
        return self.function(*self.arguments)


@pytest.mark.parametrize("is_running", [False, True])
def test_only_a_ray_that_the_sweep_started_is_shut_down(monkeypatch, tmp_path, is_running):
    ray = Ray(is_running)
    monkeypatch.setitem(sys.modules, "ray", ray)
    swept = interleaf.sweep(
        lambda x: {"value": x}, interleaf.grid(x=[1, 2, 3]), engine="ray", output=tmp_path
    )
    assert swept.to_arrow()["value"].to_pylist() == [1.0, 2.0, 3.0]
    assert (ray.is_running, ray.ends) == (is_running, 0 if is_running else 1)


def test_a_ray_is_shut_down_after_an_error(monkeypatch, tmp_path):
    ray = Ray(is_running=False)
    monkeypatch.setitem(sys.modules, "ray", ray)

    def stop(_state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interleaf.sweep(
            lambda x: {"value": x}, [{"x": 1}], engine="ray", output=tmp_path, progress=stop
        )
    assert ray.ends == 1
