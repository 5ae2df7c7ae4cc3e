"""Designs: the cases of a sweep."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import _core
from ._errors import InputError, InputTypeError
from ._options import items, number, path_of, whole, word

#: Arguments of a sweep file that are integers.
_WHOLE = ("threads", "seed", "page_groups", "channels", "outstanding", "requests")

#: The most cases of a design.
CASES_MAX = 10_000_000

Case = dict[str, object]


@dataclass(frozen=True)
class Range:
    """Values between two numbers, for a random or Latin-hypercube design.

    Args:
        low: The lowest value.
        high: The highest value.
        unit: Written behind each number, such as ``%`` or ``GB/s``.
        log: Spread the logarithms evenly in place of the numbers.
        whole: Whole numbers only.
    """

    low: float
    high: float
    unit: str = ""
    log: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            number(f"{name} of a range", value)
        word("unit of a range", self.unit)
        if self.whole and math.ceil(self.low) > math.floor(self.high):
            raise InputError(
                f"there is no whole number from {self.low} to {self.high}", "widen the range"
            )
        if not self.low < self.high:
            raise InputError(f"a range from {self.low} to {self.high}", "give low < high")
        if self.log and self.low <= 0:
            raise InputError(f"a logarithmic range from {self.low}", "give a low end above 0")

    def at(self, part: float) -> object:
        """Return the value at a fraction of the range, 0 to 1."""
        if self.whole and self.log:
            least, most = math.ceil(self.low), math.floor(self.high)
            value: float = min(max(round(self._logarithmic(part)), least), most)
        elif self.whole:
            count = math.floor(self.high) - math.ceil(self.low) + 1
            value = math.ceil(self.low) + min(int(part * count), count - 1)
        elif self.log:
            value = self._logarithmic(part)
        else:
            value = self.low + part * (self.high - self.low)
        number = int(value) if self.whole else float(f"{value:.6g}")
        return f"{number}{self.unit}" if self.unit else number

    def _logarithmic(self, part: float) -> float:
        return float(self.low * (self.high / self.low) ** part)


@dataclass(frozen=True)
class Design:
    """The cases of a sweep, each with arguments by name.

    Args:
        names: The names of the arguments.
        rows: The values of each case, in the order of ``names``.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def __post_init__(self) -> None:
        hint = "give names, and a row of values for each case"
        names = tuple(word("names", name) for name in items("names", self.names, hint))
        rows = tuple(tuple(items("rows", row, hint)) for row in items("rows", self.rows, hint))
        if any(len(row) != len(names) for row in rows):
            raise InputError(f"a row has not {len(names)} values", hint)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "rows", rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Case]:
        for row in self.rows:
            yield dict(zip(self.names, row, strict=True))

    def __getitem__(self, number: int) -> Case:
        return dict(zip(self.names, self.rows[number], strict=True))


def grid(**lists: object) -> Design:
    """Return every combination of the lists; the last argument varies fastest.

    Raises:
        InputError: A list is empty, or there are more than ten million combinations.
    """
    values = [_list(name, given) for name, given in lists.items()]
    count = math.prod(len(given) for given in values)
    _check_count(count)
    return Design(tuple(lists), tuple(itertools.product(*values)))


def cases(given: Iterable[Mapping[str, object]]) -> Design:
    """Return a design of these cases; an absent argument is ``None``.

    Raises:
        InputTypeError: A case is not a mapping of names to values.
    """
    hint = "give a design, or a list of dictionaries"
    if isinstance(given, Mapping):
        raise InputTypeError("design is one case", hint)
    listed = items("design", given, hint)
    names: dict[str, None] = {}
    for at, case in enumerate(listed):
        if not isinstance(case, Mapping):
            kind = type(case).__name__
            raise InputTypeError(f"cases[{at}] is of type {kind}", "give arguments by name")
        names.update(dict.fromkeys(str(name) for name in case))
    _check_count(len(listed))
    rows = tuple(tuple(case.get(name) for name in names) for case in listed)
    return Design(tuple(names), rows)


def read_design(path: str | os.PathLike[str]) -> Design:
    """Read the cases of a sweep file, as the command simulates them.

    The commands are ``interleaf simulate machine --sweep`` and ``simulate dimm --sweep``;
    docs/simulate.md and docs/simulate-dimm.md describe the files.

    Args:
        path: A TOML file with the schema ``interleaf.sweep/1``, whose design is for
            ``simulate.machine``, or ``interleaf.sweep.dimm/1``, for ``simulate.dimm``.

    Returns:
        Every combination of the lists, in the order of the command; equal to :func:`grid` of the
        same lists.

    Raises:
        InputError: The file cannot be read, or a field of it is invalid.
    """
    return design_of_file(path)[1]


def design_of_file(path: str | os.PathLike[str]) -> tuple[str, Design]:
    """Return the function of a sweep file, such as ``simulate.dimm``, and its design."""
    command, columns = _core.read_sweep(path_of("sweep", path))
    names = tuple(name for name, _ in columns)
    values = [
        [int(text) if text is not None and name in _WHOLE else text for text in texts]
        for name, texts in columns
    ]
    return f"simulate.{command}", Design(names, tuple(zip(*values, strict=True)))


def random(count: int, *, design_seed: int = 1, **ranges: object) -> Design:
    """Return ``count`` cases with independent uniform values of lists and ranges.

    ``design_seed`` is the seed of the design; ``seed`` is an argument like any other.
    """
    _check_count(count)
    parts = np.random.default_rng(_design_seed(design_seed)).random((count, len(ranges)))
    return _at(parts, ranges)


def latin_hypercube(count: int, *, design_seed: int = 1, **ranges: object) -> Design:
    """Return ``count`` cases that have one value in each of ``count`` equal parts of each range.

    McKay, Beckman, Conover: A comparison of three methods for selecting values of input variables,
    Technometrics 21(2), 1979. ``design_seed`` is the seed of the design; ``seed`` is an argument
    like any other.
    """
    _check_count(count)
    generator = np.random.default_rng(_design_seed(design_seed))
    strata = [generator.permutation(count) for _ in ranges]
    offsets = generator.random((count, len(ranges)))
    parts = (np.stack(strata, axis=1) + offsets) / count if ranges else offsets
    return _at(parts, ranges)


def _at(parts: np.ndarray[tuple[int, ...], np.dtype[np.float64]], ranges: object) -> Design:
    given = dict(ranges) if isinstance(ranges, dict) else {}
    columns: list[list[object]] = []
    for at, (name, values) in enumerate(given.items()):
        column = [float(part) for part in parts[:, at]]
        if isinstance(values, Range):
            columns.append([values.at(part) for part in column])
        else:
            choice = _list(name, values)
            columns.append([choice[min(int(p * len(choice)), len(choice) - 1)] for p in column])
    rows = tuple(zip(*columns, strict=True)) if columns else tuple(() for _ in parts)
    return Design(tuple(given), rows)


def _list(name: str, given: object) -> Sequence[object]:
    if isinstance(given, Range):
        raise InputTypeError(f"{name} is a range", "give a list, or a random design")
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        return (given,)
    values = tuple(itertools.islice(given, CASES_MAX + 1))
    _check_count(max(len(values), 1))
    if not values:
        raise InputError(f"{name} is an empty list", "give at least one value")
    return values


def _design_seed(seed: object) -> int:
    if whole("design_seed", seed) < 0:
        raise InputError(f"design_seed = {seed!r}", "give a whole number from 0")
    return whole("design_seed", seed)


def _check_count(count: int) -> None:
    if not 1 <= whole("count", count) <= CASES_MAX:
        raise InputError(f"the design has {count} cases", f"give 1 to {CASES_MAX}")
