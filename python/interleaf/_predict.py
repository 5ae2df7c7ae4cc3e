"""Predictions of bandwidth, latency and speed-up by weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, overload

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._errors import InputError
from ._model import Demand, FloatArray, Mix, Platform, Weights
from ._options import called, items, texts, whole
from ._records import Prediction

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from typing_extensions import Unpack

#: Called with done steps, all steps and the name of the task.
Progress = Callable[[int, int, str], object]

#: The most choices of weights that :func:`every_ratio` returns.
RATIOS_MAX = 10_000_000

WeightsLike = str | Weights | Iterable[str | Weights]


@dataclass(frozen=True, eq=False)
class PredictionArray:
    """Predictions for many weights as NumPy arrays, read-only and with full precision.

    Scalars by row have the shape ``(n,)``, figures by tier ``(n, tiers)``; ``_low`` and ``_high``
    are the ends of an interval that holds nine tenths of the behaviours which agree with the
    measured runs.
    """

    tiers: tuple[str, ...]
    weights: NDArray[np.uint8]
    bandwidth_gbps: FloatArray
    bandwidth_low_gbps: FloatArray
    bandwidth_high_gbps: FloatArray
    latency_ns: FloatArray
    speedup: FloatArray
    speedup_low: FloatArray
    speedup_high: FloatArray
    #: Seconds or a rate, in the metric of the workload; NaN for a mix.
    result: FloatArray
    tier_bandwidth_gbps: FloatArray
    tier_latency_ns: FloatArray
    #: True if each tier holds its share of the footprint, shape ``(n,)``.
    fits: NDArray[np.bool_]
    extrapolated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def best(self) -> int:
        """The number of the row with the highest speed-up whose pages fit.

        Raises:
            InputError: No weights fit.
        """
        if not np.any(self.fits):
            raise InputError("no weights fit", "give weights with fewer pages on the small tiers")
        return int(np.argmax(np.where(self.fits, self.speedup, -np.inf)))

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Return all arrays by column; an array by tier becomes a column for each tier."""
        found: dict[str, NDArray[np.generic]] = {}
        for name, values in vars(self).items():
            if not isinstance(values, np.ndarray):
                continue
            if values.ndim == 2:
                found.update({f"{name}_{t}": values[:, at] for at, t in enumerate(self.tiers)})
            else:
                found[name] = values
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """Return the arrays as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> polars.DataFrame:
        """Return the arrays as a Polars data frame."""
        import polars

        return polars.DataFrame(self.columns())

    def to_arrow(self) -> pyarrow.Table:
        """Return the arrays as an Arrow table."""
        import pyarrow

        return pyarrow.table(self.columns())


class _Options(TypedDict, total=False):
    """The options of a prediction beside its weights."""

    mix: str | float | Mix | None
    workload: str | Demand | None
    demand: str | os.PathLike[str] | Demand | None
    threads: int | str | None
    load: str
    progress: Progress | None


@overload
def predict(
    platform: str | os.PathLike[str] | Platform,
    *,
    weights: WeightsLike | None = ...,
    **options: Unpack[_Options],
) -> Prediction: ...


@overload
def predict(
    platform: str | os.PathLike[str] | Platform,
    *,
    weights: NDArray[np.integer],
    **options: Unpack[_Options],
) -> PredictionArray: ...


def predict(
    platform: str | os.PathLike[str] | Platform,
    *,
    mix: str | float | Mix | None = None,
    workload: str | Demand | None = None,
    demand: str | os.PathLike[str] | Demand | None = None,
    threads: int | str | None = None,
    weights: WeightsLike | NDArray[np.integer] | None = None,
    load: str = "max",
    progress: Progress | None = None,
) -> Prediction | PredictionArray:
    """Predict the gain of each choice of weights.

    Args:
        platform: A platform, its name, or its file.
        mix: The traffic of a bandwidth benchmark (``R``, ``W2``, ``0.62``).
        workload: A built-in workload; give one of ``mix``, ``workload`` and ``demand``.
        demand: A demand, or its file.
        threads: Threads. Default: those of the workload's runs, at most one a core; as many as
            saturate a mix.
        weights: ``all``, a list such as ``3:1,2:1`` or ``[Weights("3:1")]``, or an array of whole
            numbers from 0 to 255, shape ``(n, tiers)``. Default: ``all``.
        load: With ``mix``: ``max``, ``sweep``, or a bandwidth of the first tier (``150GB/s``).
        progress: Called about twenty times a second with done steps, all steps and the task.

    Returns:
        A :class:`Prediction`, equal to the record of ``interleaf predict``; for an array of
        weights a :class:`PredictionArray`.

    Raises:
        InputError: A value cannot be used; the message names the field.
    """
    called("progress", progress)
    handle = _platform(platform)._handle
    traffic = _demand(workload, demand)
    options = texts(mix=mix, threads=threads, load=load)
    traffic_handle = None if traffic is None else traffic._handle
    if isinstance(weights, np.ndarray):
        return _array(handle, traffic_handle, options, weights, progress)
    if weights is not None:
        options["weights"] = _weights_text(weights)
    return Prediction(_core.predict(handle, traffic_handle, options, progress))


def _weights_text(weights: WeightsLike) -> str:
    if isinstance(weights, str):
        return weights
    if isinstance(weights, Weights):
        return str(weights)
    listed = items("weights", weights, 'write weights such as "3:1,2:1"')
    if listed and all(isinstance(item, int) for item in listed):
        return str(Weights(listed))
    return ",".join(str(Weights(item)) for item in listed)


def _array(
    platform: _core.PlatformHandle,
    demand: _core.DemandHandle | None,
    options: dict[str, str],
    weights: NDArray[np.integer],
    progress: Progress | None,
) -> PredictionArray:
    names = tuple(name for name, _, _ in platform.tiers())
    tiers = len(names)
    if weights.ndim != 2 or weights.shape[1] != tiers:
        raise InputError(
            f"weights has the shape {weights.shape}",
            f"give one row for each choice, with a weight for each of {', '.join(names)}",
        )
    if not np.issubdtype(weights.dtype, np.integer):
        raise InputError(f"weights has the type {weights.dtype}", "give whole numbers, 0 to 255")
    if weights.size and (weights.min() < 0 or weights.max() > 255):
        raise InputError("weights has a value out of range", "give whole numbers from 0 to 255")
    rows = np.ascontiguousarray(weights, dtype=np.uint8)
    values, flags = _core.predict_rows(platform, demand, options, rows.tobytes(), progress)
    table = np.frombuffer(values, dtype=np.float64).reshape(len(rows), 10 + 2 * tiers)
    marks = np.frombuffer(flags, dtype=np.uint8)
    rows = rows.copy() if rows is weights else rows
    rows.setflags(write=False)
    bandwidth, low, high, latency, speedup, speedup_low, speedup_high, result = table.T[:8]
    return PredictionArray(
        tiers=names,
        weights=rows,
        bandwidth_gbps=bandwidth,
        bandwidth_low_gbps=low,
        bandwidth_high_gbps=high,
        latency_ns=latency,
        speedup=speedup,
        speedup_low=speedup_low,
        speedup_high=speedup_high,
        result=result,
        tier_bandwidth_gbps=table[:, 10 : 10 + tiers],
        tier_latency_ns=table[:, 10 + tiers :],
        fits=(marks & 1).astype(np.bool_),
        extrapolated=(marks & 2).astype(np.bool_),
    )


def _platform(platform: str | os.PathLike[str] | Platform) -> Platform:
    return platform if isinstance(platform, Platform) else Platform(platform)


def _demand(
    workload: str | Demand | None, demand: str | os.PathLike[str] | Demand | None
) -> Demand | None:
    if workload is not None and demand is not None:
        raise InputError("workload and demand are both given", "leave one of the two out")
    if workload is not None:
        return workload if isinstance(workload, Demand) else Demand(workload)
    if demand is None or isinstance(demand, Demand):
        return demand
    return Demand.read(demand)


def optional_platform(platform: str | os.PathLike[str] | Platform | None) -> Platform | None:
    """Return a platform, or ``None`` for none."""
    return None if platform is None else _platform(platform)


def every_ratio(tiers: int, limit: int) -> NDArray[np.uint8]:
    """Return every choice of whole numbers up to ``limit`` but all zeros, shape ``(n, tiers)``.

    Args:
        tiers: The number of tiers, 1 to 8.
        limit: The largest weight, 1 to 255.
    """
    if not 1 <= whole("tiers", tiers) <= 8 or not 1 <= whole("limit", limit) <= 255:
        raise InputError(f"tiers={tiers}, limit={limit}", "give 1 to 8 tiers, a limit of 1 to 255")
    if (limit + 1) ** tiers > RATIOS_MAX:
        raise InputError(
            f"tiers={tiers}, limit={limit}: there are {(limit + 1) ** tiers} choices",
            f"give a lower limit: at most {RATIOS_MAX} choices",
        )
    grid = np.indices([int(limit) + 1] * int(tiers), dtype=np.uint8).reshape(int(tiers), -1).T
    return np.ascontiguousarray(grid[1:])


__all__: Sequence[str] = ["Prediction", "PredictionArray", "every_ratio", "predict"]
