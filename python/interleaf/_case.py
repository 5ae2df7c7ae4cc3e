"""The cases of a sweep: their computation, their rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence, Set

from . import simulate
from ._errors import InputError, InputTypeError
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


def is_own(value: object) -> bool:
    """Return whether a value is a class, a function, or an object such as a policy."""
    return isinstance(value, type) or callable(value) or hasattr(value, "decide")


def argument_text(name: str, value: object) -> str:
    """Return an argument as the text of its column."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if is_own(value) and type(value).__repr__ in _DEFAULT_REPR:
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
            taken = {*head, "error"}
            results.append([{**head, **_beside(taken, row), "error": None} for row in rows])
        except Exception as why:
            results.append([{**head, "error": f"{type(why).__name__}: {why}"}])
    return results


def _beside(taken: Set[str], row: Row) -> Row:
    """Return a row whose columns differ from those of the arguments.

    A column of results has text or numbers, and that of an argument always text. If a result
    replaced the argument of the same name, the column of a failed case would have another type.
    """
    names = {*taken, *row}
    beside: Row = {}
    for name, value in row.items():
        own = name
        while own in taken or (own != name and own in names):
            own = f"result_{own}"
        names.add(own)
        beside[own] = value
    return beside


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
