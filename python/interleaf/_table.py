"""Columns of tables: results of sweeps, data frames, CSV files."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ._errors import InputError, InputTypeError

#: A table by column.
Columns = Mapping[str, Sequence[object]]

#: A number with its unit: ``2%``, ``16GiB``, ``4 GB/s``.
_MEASURE = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z%/]*)\s*\Z")

_HINT = (
    "give the result of a sweep, a data frame, a dictionary of columns, or the path of a CSV file"
)


def columns_of(given: object) -> Columns:
    """Return the columns of a table, a data frame, a dictionary or a CSV file.

    Parameters that follow the names of platforms (``xeon6-cz122:cxl.count=4``) are columns, too:
    ``cxl.count``.

    Raises:
        InputError: The file cannot be read, or the columns have different lengths.
        InputTypeError: It is not a table.
    """
    columns = _columns_of(given)
    return {**_parameters(columns.get("platform", [])), **columns}


def _parameters(platforms: Sequence[object]) -> Columns:
    """Return a column for each parameter that a platform's name has."""
    rows = []
    for name in platforms:
        _, _, text = str(name).rpartition(":")
        pairs = (part.partition("=") for part in text.split(",") if "=" in part)
        rows.append({key: value for key, _, value in pairs})
    names = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in names}


def _columns_of(given: object) -> Columns:
    if isinstance(given, (str, os.PathLike)):
        return _csv_columns(os.fspath(given))
    table = cast("Any", given)
    if hasattr(table, "to_arrow") and not hasattr(table, "columns"):
        table = table.to_arrow()  # the result of a sweep
    if hasattr(table, "to_pydict"):
        return cast("Columns", table.to_pydict())
    names = table.keys() if isinstance(table, Mapping) else getattr(table, "columns", None)
    if names is None:
        raise InputTypeError(f"the rows are of type {type(given).__name__}", _HINT)
    found = {str(name): list(table[name]) for name in names}
    if len({len(values) for values in found.values()}) > 1:
        raise InputError("the columns have different lengths", "give a value for each row")
    return found


def _csv_columns(path: str) -> Columns:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as why:
        raise InputError(f"{path}: {why}", "name a CSV file with a header") from None
    header, *rows = rows or [[]]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(
                f"{path}: row {number} has {len(row)} cells, and the header {len(header)}",
                "run the sweep again: it computes rows that were cut off",
            )
    return {name: [row[at] for row in rows] for at, name in enumerate(header)}


def column(table: Columns, name: str) -> Sequence[object]:
    """Return a column.

    Raises:
        InputError: There is no such column.
    """
    if name not in table:
        raise InputError(f"there is no column {name!r}", f"the columns are {', '.join(table)}")
    return table[name]


def is_absent(value: object) -> bool:
    """Return whether a cell has no value: empty, ``None`` or NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def is_same(cell: object, value: object) -> bool:
    """Return whether a cell has this value, as text or as a number: ``0.02`` is ``2e-2``."""
    if str(cell) == str(value):
        return True
    own, other = measure(cell), measure(value)
    return own is not None and own == other


def measure(cell: object) -> tuple[float, str] | None:
    """Return the number and the unit of a cell; ``None`` for any other text."""
    if isinstance(cell, bool):
        return None
    if isinstance(cell, str):
        found = _MEASURE.match(cell)
        return (float(found[1]), found[2]) if found else None
    if hasattr(cell, "__float__"):
        return (float(cast("Any", cell)), "")
    return None


def numbers(cells: Sequence[object]) -> tuple[list[float], str] | None:
    """Return cells as numbers, and their unit; ``None`` unless all are numbers of one unit."""
    found = [measure(cell) for cell in cells]
    known = [one for one in found if one is not None]
    if len(known) != len(found) or len({unit for _, unit in known}) > 1:
        return None
    return [value for value, _ in known], known[0][1] if known else ""
