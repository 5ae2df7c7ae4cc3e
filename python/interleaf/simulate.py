"""Simulations: a policy on a machine, memory modules, NVRAM cards."""

from __future__ import annotations

import os
from collections.abc import Sequence

from . import _core
from ._errors import InputError, InputTypeError
from ._model import Demand, Mix, Platform, Weights
from ._options import called, items, path_of, texts, word
from ._policy import (
    Observation,
    Policy,
    PolicyFactory,
    TierLayout,
    TierObservation,
    adapter_factory,
)
from ._predict import Progress, _demand, optional_platform
from ._records import CardOutcome, DimmOutcome, MachineOutcome

__all__ = [
    "Observation",
    "Policy",
    "TierLayout",
    "TierObservation",
    "card",
    "dimm",
    "machine",
]


def machine(
    platform: str | os.PathLike[str] | Platform | None = None,
    *,
    workload: str | Demand | None = None,
    demand: str | os.PathLike[str] | Demand | None = None,
    scenario: str | os.PathLike[str] | None = None,
    policy: str | Policy | type | PolicyFactory = "dmi",
    threads: int | str | None = None,
    weights: str | Weights | None = None,
    duration: str | None = None,
    footprint: str | None = None,
    migration_rate: str | None = None,
    counter_noise: str | None = None,
    curve_error: str | None = None,
    seed: int | str | None = None,
    page_groups: int | str | None = None,
    compare: bool = False,
    progress: Progress | None = None,
) -> MachineOutcome:
    """Simulate a machine with page migration under a policy, which sees only counters.

    Args:
        platform: A platform, its name, or its file. Default: the scenario's.
        workload: A built-in workload; give one of ``workload``, ``demand`` and ``scenario``.
        demand: A demand, or its file.
        scenario: A scenario by name, or its file.
        policy: The name of a built-in policy; or a policy of your own: an object with a method
            ``decide(observation)``, its class, or a function that makes one for each domain.
        threads: Threads. Default: the most that the workload's runs had.
        weights: With ``policy="static"``, the weights. Default: the best static weights.
        duration: Simulated time, such as ``600s`` (1 ms to 24 h).
        footprint: Memory that the workload touches, such as ``48GiB``.
        migration_rate: The highest migration rate, such as ``4GB/s``.
        counter_noise: Standard deviation of a counter's reading, such as ``2%`` (at most 50 %).
        curve_error: Error of the curves that the policy believes, such as ``-20%``.
        seed: The seed of all randomness.
        page_groups: Groups of pages, 1 to 4194304. Default: 65536, or the scenario's.
        compare: Run every other policy too.
        progress: Called about twenty times a second with done steps, all steps and the task.

    Returns:
        The record of ``interleaf simulate machine``.

    Raises:
        InputError: A value cannot be used; the message names the field.
        Exception: Whatever a policy of your own raises.
    """
    called("progress", progress)
    machine = optional_platform(platform)
    handle = None if machine is None else machine._handle
    traffic = _demand(workload, demand)
    traffic_handle = None if traffic is None else traffic._handle
    options = texts(
        scenario=None if scenario is None else path_of("scenario", scenario),
        threads=threads,
        weights=weights,
        duration=duration,
        footprint=footprint,
        migration_rate=migration_rate,
        counter_noise=counter_noise,
        curve_error=curve_error,
        seed=seed,
        page_groups=page_groups,
        compare=bool(compare),
    )
    if isinstance(policy, str):
        options["policy"] = policy
        return MachineOutcome(_core.simulate_machine(handle, traffic_handle, options, progress))
    if not isinstance(policy, Policy) and not callable(policy):
        kind = type(policy).__name__
        raise InputTypeError(f"policy is of type {kind}", "give a name, or an object with decide")
    if weights is not None:
        raise InputError('weights goes with policy="static"', "leave weights out")
    named = policy if isinstance(policy, type) or callable(policy) else type(policy)
    name = str(getattr(named, "__name__", type(named).__name__))
    factory = adapter_factory(policy)
    return MachineOutcome(
        _core.simulate_policy(handle, traffic_handle, options, name, factory, progress)
    )


def dimm(
    device: str | None = None,
    *,
    server: str | None = None,
    mix: str | float | Mix | Sequence[str | float | Mix] = "R",
    load: str = "max",
    pattern: str = "stream",
    channels: int | str | None = None,
    requests: int | str = 1_000_000,
    density: str | None = None,
    width: str | None = None,
    outstanding: int | str | None = None,
    uncore_ns: float | str | None = None,
    row_policy: str | None = None,
    refresh: str | None = None,
    seed: int | str = 1,
    progress: Progress | None = None,
) -> DimmOutcome:
    """Simulate memory modules command by command, under the load of a server.

    Args:
        device: A module (``interleaf.names("devices")``), or its file (``FILE:NAME``).
        server: A built-in server, in place of modules: with its channels, cores and fabric.
        mix: One traffic mix, or several.
        load: ``max``, ``sweep``, or a bandwidth such as ``150GB/s``.
        pattern: Order of lines: ``stream``, ``random`` or ``hot-bank``.
        channels: Channels with a module each, 1 to 64. Default: 12.
        requests: Lines that are read or written at each point on all channels.
        density: Density of the devices: ``16Gb``, ``24Gb`` or ``32Gb``.
        width: Width of the devices: ``x4`` or ``x8``.
        outstanding: The most outstanding lines of each channel, 1 to 65536.
        uncore_ns: Round trip between core and controller, 0 to 10000 ns. Default: 65.
        row_policy: When the controller closes a row that no request waits for: ``open``,
            ``closed`` or ``adaptive``. Default: ``adaptive``.
        refresh: ``all-bank``, ``same-bank`` (DDR5) or ``none``. Default: ``all-bank``.
        seed: The seed of all randomness.
        progress: A function as that of :func:`machine`.

    Returns:
        The record of ``interleaf simulate dimm``: bandwidth in GB/s, latency in ns.

    Raises:
        InputError: There is no such module, or an option is out of range.
    """
    called("progress", progress)
    options = texts(
        device=None if device is None else word("device", device),
        server=None if server is None else word("server", server),
        mix=mix,
        load=load,
        pattern=pattern,
        channels=channels,
        requests=requests,
        density=density,
        width=width,
        outstanding=outstanding,
        uncore_ns=uncore_ns,
        row_policy=row_policy,
        refresh=refresh,
        seed=seed,
    )
    return DimmOutcome(_core.simulate_dimm(options, progress))


def card(
    card: str | Sequence[str],
    jobs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    rw: str | None = None,
    bs: str | int | None = None,
    iodepth: int | str | Sequence[int] | None = None,
    numjobs: int | str | None = None,
    rate_iops: int | str | None = None,
    rwmixread: int | str | None = None,
    ramp_time: str | None = None,
    runtime: str | None = None,
    size: str | None = None,
    norandommap: bool = False,
    access: str = "storage",
    fsync: int | str | None = None,
    power_fail_at: str | None = None,
    power_fail_sweep: int | str | None = None,
    seed: int | str | None = None,
    progress: Progress | None = None,
) -> CardOutcome:
    """Simulate NVRAM cards under a load that options of fio describe.

    Args:
        card: A card (``interleaf.names("cards")``) or its file; or several, side by side.
        jobs: fio job files; their jobs take the place of a load of options.
        rw: ``read``, ``write``, ``rw``, ``randread``, ``randwrite`` or ``randrw``.
        bs: Block size, such as ``4k``.
        iodepth: Outstanding requests of each job: a number, a list, or a range ``1..256``.
        numjobs: Equal jobs, each with its own queue.
        rate_iops: The most I/Os per second of each job.
        rwmixread: Percentage of reads of ``rw`` and ``randrw``.
        ramp_time: Simulated time before the measurement, such as ``1ms``.
        runtime: Simulated time of the measurement, such as ``20ms``.
        size: The part of the card that is used: ``512m``, ``50%``.
        norandommap: Random offsets without a map of the blocks that were used already.
        access: ``storage`` (NVMe), or ``memory`` or ``peer`` (loads and stores to the BAR).
        fsync: Stores of a thread between two read-backs that make them durable.
        power_fail_at: Let the power fail at this time of the measurement.
        power_fail_sweep: The same at a number of random moments.
        seed: The seed of all randomness.
        progress: A function as that of :func:`machine`.

    Returns:
        The record of ``interleaf simulate card``: I/Os per second, latency in us.

    Raises:
        InputError: There is no such card, or a word of fio has a value that it does not take.
    """
    called("progress", progress)
    names = [card] if isinstance(card, str) else items("card", card, "name a card, or several")
    if not names:
        raise InputTypeError(f"card is {card!r}", "name a card, or several")
    is_one = isinstance(jobs, (str, os.PathLike))
    files = [jobs] if is_one else items("jobs", jobs, "name fio job files")
    options = texts(
        rw=rw,
        bs=bs,
        iodepth=iodepth,
        numjobs=numjobs,
        rate_iops=rate_iops,
        rwmixread=rwmixread,
        ramp_time=ramp_time,
        runtime=runtime,
        size=size,
        access=access,
        fsync=fsync,
        power_fail_at=power_fail_at,
        power_fail_sweep=power_fail_sweep,
        seed=seed,
    )
    if norandommap:
        options["norandommap"] = "1"
    cards = [word(f"card[{at}]", name) for at, name in enumerate(names)]
    paths = [path_of(f"jobs[{at}]", path) for at, path in enumerate(files)]
    return CardOutcome(_core.simulate_card(cards, paths, options, progress))
