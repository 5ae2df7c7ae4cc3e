"""Platforms, tiers, curves, mixes, demands and weights: immutable, hashable, picklable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._errors import InputError, InputTypeError
from ._options import items, number, path_of, plain, whole, word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]

_T = TypeVar("_T")


@dataclass(frozen=True, init=False)
class Mix:
    """A traffic mix at the memory controllers.

    Args:
        name: A name of Intel's Memory Latency Checker (``R``, ``W2``, ``W5``, ``W10``, ...) or a
            read share such as ``0.62`` or ``0.62nt``, with ``/random`` for random order.

    Raises:
        InputError: There is no such mix.
    """

    name: str
    read_share: float = field(compare=False)
    nontemporal: bool = field(compare=False)
    random: bool = field(compare=False)

    def __init__(self, name: str | float | Mix) -> None:
        shown, read_share, nontemporal, random = _core.mix(plain("mix", str(name)))
        object.__setattr__(self, "name", shown)
        object.__setattr__(self, "read_share", read_share)
        object.__setattr__(self, "nontemporal", nontemporal)
        object.__setattr__(self, "random", random)

    def __str__(self) -> str:
        return self.name

    def __interleaf_option__(self) -> str:
        return self.name


@dataclass(frozen=True, init=False)
class Weights:
    """Pages on each tier in one round of interleaving, such as ``Weights("3:1")``.

    Args:
        value: Text, or whole numbers from 0 to 255, at least one of them above 0.

    Raises:
        InputError: The value is not a set of weights.
    """

    values: tuple[int, ...]

    def __init__(self, value: str | Weights | Iterable[int]) -> None:
        if isinstance(value, Weights):
            text = str(value)
        elif isinstance(value, str):
            text = plain("weights", value)
        elif isinstance(value, Iterable):
            text = ":".join(str(weight) for weight in value)
        else:
            kind = type(value).__name__
            raise InputTypeError(f"weights are of type {kind}", "write weights such as 3:1")
        object.__setattr__(self, "values", tuple(_core.weights(text)))

    def __str__(self) -> str:
        return ":".join(str(weight) for weight in self.values)

    def __iter__(self) -> Any:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of pages on each tier; they sum to 1."""
        total = sum(self.values)
        return tuple(weight / total for weight in self.values)

    def __interleaf_option__(self) -> str:
        return str(self)


@dataclass(frozen=True, init=False)
class Curve:
    """Loaded latency against bandwidth of one tier and one mix.

    Args:
        points: Bandwidth in GB/s and latency in ns, in the order of offered load. The bytes in
            flight (bandwidth times latency) must rise from point to point.
        mix: The mix of the traffic.
        domain: The domain of the traffic; ``None`` for all.
        provenance: ``measured``, ``published``, ``simulated`` or ``assumed``.
        source: Where the points are from.

    Raises:
        InputError: A point is out of range, or the bytes in flight do not rise.
    """

    points: tuple[tuple[float, float], ...]
    mix: Mix
    domain: str | None
    provenance: str
    source: str

    def __init__(
        self,
        points: Iterable[tuple[float, float]],
        mix: str | float | Mix = "R",
        *,
        domain: str | None = None,
        provenance: str = "assumed",
        source: str = "given from Python",
    ) -> None:
        try:
            pairs = tuple((float(bandwidth), float(latency)) for bandwidth, latency in points)
        except (TypeError, ValueError, OverflowError) as why:
            raise InputTypeError(
                f"points: {why}", "give pairs of bandwidth in GB/s and latency in ns"
            ) from None
        _core.curve_limits(list(pairs))
        object.__setattr__(self, "points", pairs)
        object.__setattr__(self, "mix", Mix(mix))
        object.__setattr__(self, "domain", None if domain is None else word("domain", domain))
        object.__setattr__(self, "provenance", _provenance(provenance))
        object.__setattr__(self, "source", word("source", source))

    @property
    def idle_latency_ns(self) -> float:
        """Latency without load, ns."""
        return _core.curve_limits(list(self.points))[0]

    @property
    def max_bandwidth_gbps(self) -> float:
        """The highest bandwidth, GB/s."""
        return _core.curve_limits(list(self.points))[1]

    @property
    def bandwidth_gbps(self) -> FloatArray:
        """Bandwidth of each point, GB/s, shape ``(points,)``."""
        return np.array([bandwidth for bandwidth, _ in self.points])

    @property
    def latency_ns(self) -> FloatArray:
        """Latency of each point, ns, shape ``(points,)``."""
        return np.array([latency for _, latency in self.points])

    def at_in_flight(self, in_flight_bytes: float | FloatArray) -> FloatArray:
        """Read the curve at a number of bytes in flight.

        Args:
            in_flight_bytes: Bytes of outstanding requests, shape ``(n,)`` or a number.

        Returns:
            Bandwidth in GB/s and latency in ns, shape ``(n, 2)``.
        """
        try:
            given = np.atleast_1d(np.asarray(in_flight_bytes, dtype=np.float64))
        except (TypeError, ValueError, OverflowError) as why:
            raise InputTypeError(f"in_flight_bytes: {why}", "give numbers of bytes") from None
        if not np.all(np.isfinite(given)) or np.any(given < 0):
            raise InputError("in_flight_bytes has a value that is not 0 or above", "give bytes")
        return np.array(_core.curve_at(list(self.points), given.tolist())).reshape(-1, 2)

    def scaled(self, factor: float) -> Curve:
        """Return the curve with all bandwidths multiplied by ``factor``."""
        factor = number("factor", factor)
        points = [(factor * bandwidth, latency) for bandwidth, latency in self.points]
        return Curve(
            points,
            self.mix,
            domain=self.domain,
            provenance=self.provenance,
            source=f"{self.source}, bandwidths x {factor:g}",
        )

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the curve with matplotlib; returns the axes."""
        from . import plot

        return plot.curve(self, ax, label)


@dataclass(frozen=True)
class Tier:
    """A pool of memory with its curves.

    Args:
        name: A name, unique on the platform.
        kind: ``dram``, ``cxl``, ``nvram`` or ``storage``.
        capacity_bytes: The capacity, bytes.
        curves: One curve for each domain and mix.
    """

    name: str
    kind: str
    capacity_bytes: int
    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        word("name", self.name)
        word("kind", self.kind)
        object.__setattr__(self, "capacity_bytes", whole("capacity_bytes", self.capacity_bytes))
        hint = "give one curve for each domain and mix"
        curves = items("curves", self.curves, hint)
        for at, curve in enumerate(curves):
            if not isinstance(curve, Curve):
                raise InputTypeError(f"curves[{at}] is of type {type(curve).__name__}", hint)
        object.__setattr__(self, "curves", tuple(curves))

    def curve(self, mix: str | float | Mix = "R") -> Curve:
        """Return the curve of exactly this mix.

        Raises:
            InputError: The tier has no such curve.
        """
        wanted = Mix(mix)
        for curve in self.curves:
            if curve.mix == wanted:
                return curve
        known = ", ".join(str(curve.mix) for curve in self.curves)
        raise InputError(f"{self.name} has no curve of {wanted}", f"its curves are of {known}")


#: The kinds of provenance of a figure.
_PROVENANCE = ("measured", "published", "simulated", "assumed")


def _provenance(given: object) -> str:
    if word("provenance", given) not in _PROVENANCE:
        raise InputError(f"provenance = {given!r}", f"write one of {', '.join(_PROVENANCE)}")
    return str(given)


class _Parsed(Generic[_T]):
    """An object of the native module, made from texts when it is first needed."""

    __slots__ = ("_handle", "_made_from")

    _made_from: tuple[Any, ...]
    _handle: _T

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def _set(self, handle: _T, made_from: tuple[Any, ...]) -> None:
        object.__setattr__(self, "_handle", handle)
        object.__setattr__(self, "_made_from", made_from)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._made_from == self._made_from

    def __hash__(self) -> int:
        return hash(self._made_from)


class Platform(_Parsed["_core.PlatformHandle"]):
    """A server: cores, and tiers with their curves.

    Args:
        name: A built-in platform (``interleaf.names("platforms")``), or the path of a platform
            file (docs/files.md describes it).

    Raises:
        InputError: There is no such platform, or a field of the file is invalid.
    """

    __slots__ = ()

    def __init__(self, name: str | os.PathLike[str]) -> None:
        if not isinstance(name, (str, os.PathLike)):
            kind = type(name).__name__
            raise InputTypeError(f"platform is of type {kind}", "name a platform or its file")
        handle = _core.PlatformHandle.find(path_of("platform", name))
        label, text, curves = handle.texts()
        self._set(handle, (label, text, tuple(sorted(curves.items()))))

    @classmethod
    def parse(cls, text: str, curves: Mapping[str, str], label: str = "platform") -> Platform:
        """Parse the text of a platform file and of the files of curves that it names.

        Args:
            text: TOML with the schema ``interleaf.platform/1``.
            curves: The text of each file of curves, by its path in ``text``.
            label: The name of the text in errors.
        """
        if not isinstance(curves, Mapping):
            kind = type(curves).__name__
            raise InputTypeError(f"curves are of type {kind}", "give the text of each file by path")
        for path, csv in curves.items():
            word(f"curves[{path!r}]", csv)
            word("a path in curves", path)
        platform = cls.__new__(cls)
        handle = _core.PlatformHandle.parse(word("label", label), word("text", text), dict(curves))
        platform._set(handle, (label, text, tuple(sorted(curves.items()))))
        return platform

    @classmethod
    def build(
        cls,
        name: str,
        *,
        cores: int,
        tiers: Sequence[Tier],
        outstanding_lines_per_core: float = 48.0,
        uncore_latency_ns: float = 60.0,
        source: str = "given from Python",
    ) -> Platform:
        """Describe a server by its tiers, the fastest first.

        Args:
            name: The name of the platform.
            cores: The number of cores.
            tiers: The tiers, the fastest first.
            outstanding_lines_per_core: Lines that a core can have outstanding.
            uncore_latency_ns: Round trip between core and memory controller, ns.
            source: Where the figures are from.
        """
        lines = [
            'schema = "interleaf.platform/1"',
            f"name = {_toml(name)}",
            f"source = {_toml(source)}",
            "[cpu]",
            f"cores = {whole('cores', cores)}",
            "outstanding_lines_per_core = "
            f"{number('outstanding_lines_per_core', outstanding_lines_per_core)!r}",
            f"uncore_latency_ns = {number('uncore_latency_ns', uncore_latency_ns)!r}",
        ]
        texts: dict[str, str] = {}
        for at, tier in enumerate(items("tiers", tiers, "give tiers, the fastest first")):
            if not isinstance(tier, Tier):
                kind = type(tier).__name__
                raise InputTypeError(f"tiers[{at}] is of type {kind}", "give a Tier")
            path = f"tier{at}.csv"
            lines += ["[[tier]]", f"name = {_toml(tier.name)}", f"kind = {_toml(tier.kind)}"]
            lines += [f'capacity = "{int(tier.capacity_bytes)}B"', f'curves = "{path}"']
            texts[path] = _curves_csv(tier.curves)
        return cls.parse("\n".join(lines) + "\n", texts, name)

    def __reduce__(self) -> tuple[Callable[..., Platform], tuple[object, ...]]:
        label, text, curves = self._made_from
        return (Platform.parse, (text, dict(curves), label))

    @property
    def name(self) -> str:
        """The name of the platform."""
        return self._handle.head()[0]

    @property
    def cores(self) -> int:
        """The number of cores."""
        return self._handle.head()[1]

    @property
    def source(self) -> str:
        """Where the figures of the platform are from."""
        return self._handle.head()[3]

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers, the fastest first."""
        found = []
        for at, (name, kind, capacity) in enumerate(self._handle.tiers()):
            curves = tuple(
                Curve(points, mix, domain=domain, provenance=provenance, source=self.source)
                for domain, mix, points, provenance in self._handle.curves(at)
            )
            found.append(Tier(name, kind, capacity, curves))
        return tuple(found)

    def __repr__(self) -> str:
        return f"Platform({self.name!r})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{tier.name}</td><td>{tier.kind}</td>"
            f"<td>{tier.capacity_bytes / 2**30:.0f} GiB</td>"
            f"<td>{max(curve.max_bandwidth_gbps for curve in tier.curves):.0f} GB/s</td>"
            f"<td>{min(curve.idle_latency_ns for curve in tier.curves):.0f} ns</td></tr>"
            for tier in self.tiers
        )
        head = "<th>tier</th><th>kind</th><th>capacity</th><th>bandwidth</th><th>idle latency</th>"
        title = f"{self.name}, {self.cores} cores"
        return f"<table><caption>{title}</caption><tr>{head}</tr>{rows}</table>"

    def __interleaf_option__(self) -> str:
        return self.name


class Demand(_Parsed["_core.DemandHandle"]):
    """The requests of a workload to memory, from runs with all pages on the first tier.

    Args:
        workload: A built-in workload (``interleaf.names("workloads")``).

    Raises:
        InputError: There is no such workload.
    """

    __slots__ = ()

    def __init__(self, workload: str) -> None:
        if not isinstance(workload, str):
            kind = type(workload).__name__
            raise InputTypeError(f"workload is of type {kind}", "name a workload")
        self._parsed(_core.DemandHandle.workload(plain("workload", workload)))

    def _parsed(self, handle: _core.DemandHandle) -> None:
        self._set(handle, handle.texts())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Demand:
        """Read a demand file (``interleaf measure app --demand FILE`` writes one)."""
        demand = cls.__new__(cls)
        demand._parsed(_core.DemandHandle.read(path_of("demand", path)))
        return demand

    @classmethod
    def parse(cls, text: str, label: str = "demand") -> Demand:
        """Parse the text of a demand file."""
        demand = cls.__new__(cls)
        handle = _core.DemandHandle.parse(word("label", label), word("text", text))
        demand._parsed(handle)
        return demand

    def __reduce__(self) -> tuple[Callable[..., Demand], tuple[object, ...]]:
        label, text = self._made_from
        return (Demand.parse, (text, label))

    @property
    def name(self) -> str:
        """The name of the workload."""
        return self._handle.head()[0]

    @property
    def mix(self) -> Mix:
        """The mix of the traffic."""
        return Mix(self._handle.head()[1])

    @property
    def threads(self) -> int:
        """The threads of the largest run."""
        return self._handle.head()[2]

    @property
    def footprint_bytes(self) -> int | None:
        """Memory that the workload touches, bytes, if known."""
        return self._handle.head()[3]

    def __repr__(self) -> str:
        return f"Demand({self.name!r})"

    def __interleaf_option__(self) -> str:
        return self.name


def names(kind: str) -> tuple[str, ...]:
    """Return the built-in names of a kind.

    Args:
        kind: ``platforms``, ``workloads``, ``scenarios``, ``devices``, ``cards`` or ``studies``.
    """
    kinds = ("platforms", "workloads", "scenarios", "devices", "cards", "studies")
    if kind not in kinds:
        raise InputError(f"there is no kind {kind!r}", f"write one of {', '.join(kinds)}")
    return tuple(_core.names(kind))


def _toml(text: object) -> str:
    escaped = word("a name", text).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'


def _curves_csv(curves: Iterable[Curve]) -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    given = tuple(curves)
    by_domain = any(curve.domain for curve in given)
    rows = ["mix,bandwidth_gbps,latency_ns,provenance,source" + (",domain" if by_domain else "")]
    for curve in given:
        for bandwidth, latency in curve.points:
            cells = [str(curve.mix), repr(bandwidth), repr(latency)]
            cells += [cell(curve.provenance), cell(curve.source)]
            rows.append(",".join(cells + ([cell(curve.domain or "")] if by_domain else [])))
    return "\n".join(rows) + "\n"
