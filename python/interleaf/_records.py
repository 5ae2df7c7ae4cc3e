"""Records: the results of predictions, simulations, studies and measurements.

A record is the JSON document that the command writes with ``-o``, with the same bytes. It is
immutable, hashable, comparable and picklable. Names of fields have their unit: ``_ns``, ``_s``,
``_bytes``, ``_w``, ``_j``, and ``_gbps`` for 10^9 bytes per second. Shares are from 0 to 1.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._errors import InputError
from ._options import path_of, word

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

_R = TypeVar("_R")


def _immutable(value: object) -> Any:
    """Return a JSON value with tuples in place of lists."""
    if isinstance(value, list):
        return tuple(_immutable(item) for item in value)
    return value


def _row(kind: type[_R], data: Mapping[str, Any]) -> _R:
    """Make a row of type ``kind`` from a JSON object; absent fields have their default."""
    values = {}
    for field in dataclasses.fields(cast(Any, kind)):
        if field.name in data:
            nested = field.metadata.get("row")
            value = data[field.name]
            if nested is None or value is None:
                values[field.name] = _immutable(value)
            else:
                values[field.name] = _row(nested, value)
    return kind(**values)


class Record:
    """A result: the JSON document of the command, and what is computed from it.

    Args:
        text: The JSON text.
    """

    __slots__ = ("_data", "_text")

    #: The schema of the document; empty for any.
    SCHEMA: ClassVar[str] = ""

    _text: str
    _data: dict[str, Any] | None

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", word("text", text))
        object.__setattr__(self, "_data", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a record cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Callable[..., Record], tuple[object, ...]]:
        return (type(self), (self._text,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.schema}, {len(self)} rows)"

    def __len__(self) -> int:
        return len(self._rows())

    def to_json(self) -> str:
        """Return the JSON text, the same bytes as those of the command's ``--json``."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """Return the document as new dictionaries and lists."""
        return cast("dict[str, Any]", json.loads(self._text))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the document to a file, for ``interleaf report`` and :func:`interleaf.read`."""
        Path(path).write_text(self._text, encoding="utf-8")

    def write_page(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page with the figures, which works offline."""
        Path(path).write_text(_core.page(self._text), encoding="utf-8")

    @property
    def schema(self) -> str:
        """The schema of the document with its version."""
        return str(self._get("schema"))

    def figures(self) -> list[dict[str, Any]]:
        """Return the figures of the record as data: axes, series, labels."""
        return cast("list[dict[str, Any]]", json.loads(_core.figures(self._text)))

    def columns(self) -> dict[str, list[Any]]:
        """Return the main table by column. A list by tier becomes a column for each tier."""
        tiers = self._loaded().get("tiers")
        names = [str(name) for name in tiers] if isinstance(tiers, list) else []
        rows = [_flat(row, names) for row in self._rows()]
        keys: dict[str, None] = {}
        for row in rows:
            keys.update(dict.fromkeys(row))
        return {key: [row.get(key) for row in rows] for key in keys}

    def to_pandas(self) -> pandas.DataFrame:
        """Return the main table as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> polars.DataFrame:
        """Return the main table as a Polars data frame."""
        import polars

        return polars.DataFrame(self.columns(), strict=False)

    def to_arrow(self) -> pyarrow.Table:
        """Return the main table as an Arrow table."""
        import pyarrow

        return pyarrow.table(self.columns())

    def to_numpy(self, column: str) -> NDArray[Any]:
        """Return a column of the main table, shape ``(rows,)``; a missing number is NaN.

        Raises:
            InputError: There is no such column.
        """
        columns = self.columns()
        if word("column", column) not in columns:
            raise InputError(
                f"there is no column {column!r}", f"the columns are {', '.join(columns)}"
            )
        values = columns[column]
        if any(value is None for value in values):
            return np.array([np.nan if value is None else value for value in values])
        return np.array(values)

    def plot(self, figure: int | str = 0, ax: Axes | None = None) -> Axes:
        """Draw a figure of the record with matplotlib, in the colours of the HTML pages.

        Args:
            figure: The number of the figure from 0, or its id.
            ax: The axes to draw on. Default: new ones.
        """
        from . import plot

        return plot.record(self, figure, ax)

    def _repr_html_(self) -> str:
        from . import plot

        return plot.html(self)

    def _loaded(self) -> dict[str, Any]:
        if self._data is None:
            object.__setattr__(self, "_data", json.loads(self._text))
        return cast("dict[str, Any]", self._data)

    def _get(self, name: str) -> Any:
        return self._loaded().get(name)

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the JSON objects of the main table."""
        tables = ("rows", "points", "periods", "results", "runs", "processes", "capabilities")
        for name in tables:
            rows = self._get(name)
            if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
                return rows
        return []


def _flat(row: Mapping[str, Any], tiers: Sequence[str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name.endswith("weights") and isinstance(value, list):
            flat[name] = ":".join(str(weight) for weight in value)
        elif name.endswith(("_interval", "_interval_gbps")) and isinstance(value, list):
            flat[f"{name}_low"], flat[f"{name}_high"] = value
        elif isinstance(value, dict):
            flat.update({f"{name}_{key}": item for key, item in _flat(value, ()).items()})
        elif isinstance(value, list) and tiers and len(value) == len(tiers):
            flat.update({f"{name}_{tier}": item for tier, item in zip(tiers, value, strict=True)})
        elif isinstance(value, list):
            flat[name] = json.dumps(value)
        else:
            flat[name] = value
    return flat


@dataclass(frozen=True)
class PredictionRow:
    """The prediction for one choice of weights; lists are by tier."""

    weights: tuple[int, ...]
    tier_share: tuple[float, ...]
    bandwidth_gbps: float
    bandwidth_interval_gbps: tuple[float, float]
    tier_bandwidth_gbps: tuple[float, ...]
    tier_latency_ns: tuple[float, ...]
    latency_ns: float
    runtime_s: float | None
    rate: float | None
    speedup: float
    speedup_interval: tuple[float, float]
    fits: bool
    extrapolated: bool
    notes: tuple[str, ...] = ()


class Prediction(Record):
    """Bandwidth, latency and speed-up by weights (``interleaf.predict/1``)."""

    __slots__ = ()
    SCHEMA = "interleaf.predict/1"

    @property
    def platform(self) -> str:
        """The name of the platform."""
        return str(self._get("platform"))

    @property
    def workload(self) -> str:
        """The name of the workload, or the mix."""
        return str(self._get("workload"))

    @property
    def tiers(self) -> tuple[str, ...]:
        """The names of the tiers."""
        return tuple(self._get("tiers"))

    @property
    def threads(self) -> float:
        """The number of threads."""
        return float(self._get("threads"))

    @property
    def rows(self) -> tuple[PredictionRow, ...]:
        """A row for each choice of weights."""
        return tuple(_row(PredictionRow, row) for row in self._get("rows"))

    @property
    def best(self) -> PredictionRow | None:
        """The row of the best weights whose pages fit; ``None`` if none do."""
        best = self._get("best")
        if best is None:
            return None
        rows = self._get("rows")
        found = next(row for row in rows if row["weights"] == best["weights"])
        return _row(PredictionRow, found)


@dataclass(frozen=True)
class PlanRow:
    """One configuration of a plan; speeds are relative to the baseline."""

    configuration: str
    does: str
    future: bool
    speed: float
    speed_interval: tuple[float, float]
    result: float
    bandwidth_gbps: float
    latency_ns: float
    power_w: float | None
    task_energy_j: float | None
    cost: float
    parts_cost: float
    capacity_bytes: int
    fits: bool
    bound_by: str
    on_cost_front: bool
    on_energy_front: bool
    dominated_by: str | None
    weights: tuple[int, ...] = ()
    threads: float | None = None
    work_cost: float | None = None
    notes: tuple[str, ...] = ()


class Plan(Record):
    """Configurations of a server for a demand (``interleaf.plan/1``)."""

    __slots__ = ()
    SCHEMA = "interleaf.plan/1"

    @property
    def demand(self) -> str:
        """The workload, the mix, or the workloads with their shares."""
        return str(self._get("demand"))

    @property
    def baseline(self) -> str:
        """The configuration that the others are compared with."""
        return str(self._get("baseline"))

    @property
    def recommended(self) -> PlanRow | None:
        """The recommended configuration; ``None`` if none holds the demand."""
        name = self._get("recommended")
        return next((row for row in self.rows if row.configuration == name), None)

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """A row for each configuration."""
        return tuple(_row(PlanRow, row) for row in self._get("rows"))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What limits the answer, such as placeholder prices."""
        return tuple(self._get("warnings") or ())


@dataclass(frozen=True)
class Period:
    """One period of a policy on a simulated machine; lists are by tier."""

    time_s: float
    target_weights: tuple[int, ...]
    hot_share: tuple[float, ...]
    bandwidth_gbps: float
    judged_gbps: float | None
    tier_bandwidth_gbps: tuple[float, ...]
    tier_latency_ns: tuple[float | None, ...]
    migrated_bytes: int
    decision: str
    reason: str


@dataclass(frozen=True)
class WorkloadResult:
    """The result of a workload on a simulated machine."""

    name: str
    threads: int
    footprint_bytes: int
    runtime_s: float | None
    runs: float
    speedup: float | None
    local_runtime_s: float
    regret: float | None
    regret_over_duration: float | None
    energy_per_run_j: float | None
    rate: float | None = None
    rate_unit: str | None = None
    domain: str | None = None


class MachineOutcome(Record):
    """A policy on a simulated machine (``interleaf.simulate.machine/1``)."""

    __slots__ = ()
    SCHEMA = "interleaf.simulate.machine/1"

    @property
    def platform(self) -> str:
        """The name of the platform."""
        return str(self._get("platform"))

    @property
    def scenario(self) -> str:
        """The name of the scenario or workload."""
        return str(self._get("scenario"))

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self._get("policy"))

    @property
    def tiers(self) -> tuple[str, ...]:
        """The names of the tiers."""
        return tuple(self._get("tiers"))

    @property
    def duration_s(self) -> float:
        """Simulated time, s."""
        return float(self._get("duration_s"))

    @property
    def periods(self) -> tuple[Period, ...]:
        """The periods of the policy."""
        return tuple(_row(Period, row) for row in self._get("periods"))

    @property
    def workloads(self) -> tuple[WorkloadResult, ...]:
        """The result of each workload."""
        return tuple(_row(WorkloadResult, row) for row in self._get("workloads"))

    @property
    def converged_after_s(self) -> float | None:
        """Time from which the target stays within 3 points of its last value, s."""
        return cast("float | None", self._get("converged_after_s"))

    @property
    def migrated_bytes_total(self) -> int:
        """Bytes of migrated pages."""
        return int(self._get("migrated_bytes_total"))

    @property
    def final_weights(self) -> tuple[int, ...]:
        """The last target in percent by tier."""
        periods = self._get("periods")
        return tuple(periods[-1]["target_weights"]) if periods else ()


@dataclass(frozen=True)
class DimmLatency:
    """Latency of reads from the core's miss to its data, ns."""

    mean: float
    p50: int
    p80: int
    p99: int
    p99_9: int
    p99_9999: int
    max: int


@dataclass(frozen=True)
class DimmPoint:
    """Memory modules under one mix and load.

    ``offered_gbps`` is ``None`` for the maximum, ``latency_ns`` when no read was measured.
    """

    mix: str
    offered_gbps: float | None
    bandwidth_gbps: float
    bus_utilisation: float
    energy_pj_per_bit: float | None
    power_w: float | None
    row_hit_rate: float
    latency_ns: DimmLatency | None = dataclasses.field(metadata={"row": DimmLatency})


class DimmOutcome(Record):
    """Simulated memory modules under load (``interleaf.simulate.dimm/1``)."""

    __slots__ = ()
    SCHEMA = "interleaf.simulate.dimm/1"

    @property
    def device(self) -> str:
        """The name of the module."""
        return str(self._get("device"))

    @property
    def peak_gbps(self) -> float:
        """Bandwidth of the data pins of all channels, GB/s."""
        return float(self._get("peak_gbps"))

    @property
    def points(self) -> tuple[DimmPoint, ...]:
        """A point for each mix and load."""
        return tuple(_row(DimmPoint, row) for row in self._get("points"))


@dataclass(frozen=True)
class CardPoint:
    """One job on one card: reads and writes together."""

    card: str
    rw: str
    bs_bytes: int
    iodepth: int
    numjobs: int
    iops: float
    bandwidth_gbps: float
    ios: int
    measured_s: float
    bound_by: str


class CardOutcome(Record):
    """Simulated NVRAM cards under load (``interleaf.simulate.card/1``)."""

    __slots__ = ()
    SCHEMA = "interleaf.simulate.card/1"

    @property
    def points(self) -> tuple[CardPoint, ...]:
        """A point for each card, job and queue depth."""
        return tuple(_row(CardPoint, row) for row in self._get("points"))


class Reproduction(Record):
    """Published studies beside our figures (``interleaf.reproduce/1``)."""

    __slots__ = ()
    SCHEMA = "interleaf.reproduce/1"

    @property
    def studies(self) -> tuple[str, ...]:
        """The names of the studies."""
        return tuple(study["name"] for study in self._get("studies"))

    def mean_abs_error(self, study: str) -> float:
        """Return the mean absolute error of a study, over rows that were not used for fitting.

        Raises:
            InputError: The record does not have that study.
        """
        for found in self._get("studies"):
            if found["name"] == study:
                return float(found["mean_abs_error"])
        raise InputError(f"there is no study {study!r}", f"it has {', '.join(self.studies)}")

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"study": study["name"], **row}
            for study in self._get("studies")
            for row in study["rows"]
        ]


_KINDS: tuple[type[Record], ...] = (
    Prediction,
    Plan,
    MachineOutcome,
    DimmOutcome,
    CardOutcome,
    Reproduction,
)


def _typed(schema: str, text: str) -> Record:
    kind = next((kind for kind in _KINDS if schema == kind.SCHEMA), Record)
    return kind(text)


def read(path: str | os.PathLike[str]) -> Record:
    """Read a record that the command wrote with ``-o``, or output of Intel MLC or Mess.

    Returns:
        A record of the class of its schema; measurements and comparisons are a :class:`Record`.

    Raises:
        InputError: The file cannot be read, or a field is missing or out of range.
    """
    return _typed(*_core.read_record(path_of("path", path)))


def parse(text: str, label: str = "record") -> Record:
    """Check the JSON text of a record; ``label`` names it in errors."""
    return _typed(*_core.parse_record(word("label", label), word("text", text)))
