"""The cases of a sweep: their content hash, their computation, their rows."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType

from . import _core, simulate
from ._errors import InputError, InputTypeError
from ._model import Demand, Platform
from ._options import text
from ._part import Row, encoded
from ._plan import plan
from ._predict import predict
from ._records import CardOutcome, MachineOutcome, Prediction, Record

#: A function of a sweep: it returns a record, or a row of numbers and texts.
Target = Callable[..., object]

#: Default `__repr__` of objects, classes and functions. They show an address or a name, but no
#: content.
_DEFAULT_REPR = (object.__repr__, type.__repr__, type(lambda: None).__repr__)

#: The built-in functions that a sweep can call by name.
TARGETS: dict[str, Target] = {
    "predict": predict,
    "plan": plan,
    "simulate.machine": simulate.machine,
    "simulate.dimm": simulate.dimm,
    "simulate.card": simulate.card,
}

#: The argument that names a platform: its content is part of the hash.
_PLATFORM = "platform"


def target_of(given: object) -> Target:
    """Return the function of a name such as ``simulate.machine``, or the function itself."""
    if isinstance(given, str):
        if given not in TARGETS:
            raise InputError(
                f"there is no function {given!r}", f"write one of {', '.join(TARGETS)}"
            )
        return TARGETS[given]
    if not callable(given):
        kind = type(given).__name__
        raise InputTypeError(f"the function is of type {kind}", "give a function or its name")
    return given


def label_of(target: Target) -> str:
    """Return the name of a function that a content hash has."""
    found = next((name for name, known in TARGETS.items() if known is target), None)
    module = getattr(target, "__module__", "")
    return found or f"{module}.{getattr(target, '__qualname__', type(target).__name__)}"


@lru_cache(maxsize=256)
def _digest(kind: str, value: object) -> str:
    """Return a hash of the content that an argument stands for."""
    if kind == _PLATFORM and isinstance(value, str):
        value = Platform(value)
    if isinstance(value, (Platform, Demand)):
        return hashlib.sha256(repr(value._made_from).encode()).hexdigest()
    if isinstance(value, str) and os.path.isfile(value):
        with open(value, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    return ""


def content_hash(target: Target, arguments: Mapping[str, object]) -> str:
    """Return the hash of a case: of the function, the version, and all that its arguments name."""
    own = "" if target in TARGETS.values() else code_hash(target)
    parts: list[list[str]] = [[label_of(target), _core.VERSION, own]]
    for name in sorted(arguments):
        value = arguments[name]
        if value is None:
            continue
        shown = argument_text(name, value)
        try:
            digest = code_hash(value) if _is_own(value) else _digest(name, value)
        except (InputError, TypeError):
            digest = ""
        parts.append([name, shown, digest])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _is_own(value: object) -> bool:
    """Return whether a value is a class, a function, or an object such as a policy."""
    return isinstance(value, type) or callable(value) or hasattr(value, "decide")


def code_hash(value: object) -> str:
    """Return a hash of a function, a class, or an object: of its code and its state.

    The state is that of its pickle: an object that has none counts by its code only.
    """
    kind = value if isinstance(value, type) or inspect.isroutine(value) else type(value)
    found = hashlib.sha256(_code(kind).encode())
    if kind is not value:
        try:
            found.update(pickle.dumps(value, protocol=4))
        except Exception:
            found.update(b"no pickle")
    return found.hexdigest()


@lru_cache(maxsize=256)
def _code(kind: object) -> str:
    try:
        return inspect.getsource(kind)  # type: ignore[arg-type]
    except (OSError, TypeError):
        own = [kind, *(vars(kind).values() if isinstance(kind, type) else ())]
        codes = (getattr(item, "__code__", None) for item in own)
        return "".join(_instructions(code) for code in codes if isinstance(code, CodeType))


def _instructions(code: CodeType) -> str:
    constants = (
        _instructions(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts
    )
    return f"{code.co_code.hex()}{code.co_names}({','.join(constants)})"


def argument_text(name: str, value: object) -> str:
    """Return an argument as the text of its column."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if _is_own(value) and type(value).__repr__ in _DEFAULT_REPR:
        return str(getattr(value, "__qualname__", type(value).__name__))
    try:
        return text(name, value)
    except InputTypeError:
        return repr(value)


def run_batch(
    target: Target, names: Sequence[str], batch: Sequence[tuple[str, tuple[object, ...]]]
) -> list[list[Row]]:
    """Compute cases, each with its hash and its values; returns the rows of each.

    A case that fails has one row with its error.
    """
    results = []
    for digest, values in batch:
        arguments = {n: v for n, v in zip(names, values, strict=True) if v is not None}
        shown: Row = {
            name: argument_text(name, value) if value is not None else None
            for name, value in zip(names, values, strict=True)
        }
        head: Row = {"case": digest, **shown}
        try:
            rows = summary(target(**arguments))
            results.append([{**head, **row, "error": None} for row in rows])
        except Exception as why:
            results.append([{**head, "error": f"{type(why).__name__}: {why}"}])
    return results


def run_part(
    target: Target, names: Sequence[str], batch: Sequence[tuple[str, tuple[object, ...]]]
) -> bytes:
    """Compute cases as :func:`run_batch` does; returns the bytes of the part with their rows."""
    rows = [row for rows in run_batch(target, names, batch) for row in rows]
    return encoded(rows, ("case", *names))


def summary(result: object) -> list[Row]:
    """Return the rows of a result: of a record, or of a mapping."""
    if isinstance(result, MachineOutcome):
        return _machine(result)
    if isinstance(result, Prediction):
        return _prediction(result)
    if isinstance(result, Record):
        return _points(result)
    if isinstance(result, Mapping):
        return [{str(name): _cell(value) for name, value in result.items()}]
    kind = type(result).__name__
    raise InputTypeError(f"the function returned {kind}", "return a record or a dictionary")


def _cell(value: object) -> str | float | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)) or hasattr(value, "__float__"):
        return float(value)
    return json.dumps(value, default=str)


def _machine(result: MachineOutcome) -> list[Row]:
    document = result.to_dict()
    setting = document["setting"]
    rows = []
    for workload in document["workloads"]:
        best = workload["best_static"] or {}
        row: Row = {
            "result_workload": str(workload["name"]),
            "result_threads": float(workload["threads"]),
            "footprint_bytes": float(workload["footprint_bytes"]),
            "counter_noise_used": float(setting["counter_noise"]),
            "migration_rate_gbps": float(setting["migration_rate_gbps"]),
            "runtime_s": workload["runtime_s"],
            "speedup": workload["speedup"],
            "best_static_weights": ":".join(map(str, best["weights"])) if best else None,
            "best_static_runtime_s": best.get("runtime_s"),
            "regret": workload["regret"],
            "regret_over_duration": workload["regret_over_duration"],
            "converged_after_s": document["converged_after_s"],
            "final_weights": ":".join(map(str, result.final_weights)),
            "migrated_bytes": float(document["migrated_bytes_total"]),
            "energy_per_run_j": workload["energy_per_run_j"],
        }
        rows.append(row)
    return rows


def _prediction(result: Prediction) -> list[Row]:
    best = result.best
    row: Row = {"rows": float(len(result)), "threads_used": result.threads}
    if best is not None:
        row |= {
            "best_weights": ":".join(str(weight) for weight in best.weights),
            "best_speedup": best.speedup,
            "best_speedup_low": best.speedup_interval[0],
            "best_speedup_high": best.speedup_interval[1],
            "best_bandwidth_gbps": best.bandwidth_gbps,
            "best_latency_ns": best.latency_ns,
            "best_runtime_s": best.runtime_s,
            "best_rate": best.rate,
        }
    return [row]


#: Columns of points that are left out of rows: each value is a histogram or a list.
_LEFT_OUT = ("histogram", "clat_histogram", "utilisation", "directions")


def _points(result: Record) -> list[Row]:
    columns = {
        name: values for name, values in result.columns().items() if not name.startswith(_LEFT_OUT)
    }
    prefix = "" if not isinstance(result, CardOutcome) else "point_"
    count = max((len(values) for values in columns.values()), default=0)
    return [
        {f"{prefix}{name}": _cell(values[at]) for name, values in columns.items()}
        for at in range(count)
    ]
