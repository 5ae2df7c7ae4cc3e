"""Plans: which memory to buy for a demand."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from . import _core
from ._errors import InputTypeError
from ._model import Mix
from ._options import called, path_of, texts
from ._predict import Progress
from ._records import Plan

#: A workload by name, or a demand file.
DemandName = str | os.PathLike[str]


def plan(
    demand: DemandName | Sequence[DemandName] | Mapping[str, float | str] | None = None,
    *,
    mix: str | float | Mix | None = None,
    configuration: str | Sequence[str] = (),
    baseline: str | None = None,
    prices: str | os.PathLike[str] | None = None,
    footprint: str | None = None,
    threads: int | str | None = None,
    goal: str = "value",
    future: bool = False,
    vary: str = "20%",
    progress: Progress | None = None,
) -> Plan:
    """Compare configurations of a server for one demand or several, without the hardware.

    Args:
        demand: A workload, a demand file, a list of them with equal parts of the time, or a
            dictionary with the share of the run time of each: ``{"hpcg": 0.6, "lbm": 0.4}``.
        mix: A traffic mix at its highest bandwidth, in place of a demand.
        configuration: Configurations by name, or their files. Default: all that come along.
        baseline: The configuration that the others are compared with. Default: the first.
        prices: The file of prices and power of parts. Default: placeholders.
        footprint: Memory that each demand needs, such as ``1TiB``.
        threads: Threads of each demand.
        goal: The merit that decides: ``value``, ``speed``, ``energy`` or ``cost``.
        future: Also recommend configurations that are not on sale yet.
        vary: The percentage by which assumed figures are varied.
        progress: A function as that of :func:`predict`.

    Returns:
        A :class:`Plan`, equal to the record of ``interleaf plan``.

    Raises:
        InputError: A value cannot be used; the message names it.
    """
    called("progress", progress)
    options = texts(
        mix=mix,
        baseline=baseline,
        prices=None if prices is None else path_of("prices", prices),
        footprint=footprint,
        threads=threads,
        goal=goal,
        vary=vary,
    )
    names = [configuration] if isinstance(configuration, str) else list(configuration)
    names = [path_of("configuration", name) for name in names]
    return Plan(_core.plan(_demands(demand), names, options, bool(future), progress))


def _demands(
    demand: DemandName | Sequence[DemandName] | Mapping[str, float | str] | None,
) -> list[str]:
    if demand is None:
        return []
    if isinstance(demand, Mapping):
        return [f"{path_of('demand', name)}={share}" for name, share in demand.items()]
    if isinstance(demand, (str, os.PathLike)):
        return [path_of("demand", demand)]
    if not isinstance(demand, Sequence):
        kind = type(demand).__name__
        raise InputTypeError(f"demand is of type {kind}", "give names, files or shares by name")
    return [path_of("demand", name) for name in demand]


__all__: Sequence[str] = ["plan"]
