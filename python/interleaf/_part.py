"""The Parquet file of a batch of a sweep: its name, its table and its bytes.

Workers encode the rows that they have computed, so that the client of a cluster only writes files.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

#: A row of a result: numbers and texts by name.
Row = dict[str, str | float | None]


#: Figures of results that can be absent from all rows of a part. Their columns always have the
#: type of numbers, so that all parts of a sweep have the same schema.
_NUMBERS = frozenset(
    {
        "best_rate",
        "best_runtime_s",
        "best_static_runtime_s",
        "converged_after_s",
        "energy_per_run_j",
        "energy_pj_per_bit",
        "gbps_per_w",
        "offered_gbps",
        "point_fsync",
        "point_rate_iops",
        "point_rwmixread",
        "power_w",
        "regret",
        "regret_over_duration",
        "runtime_s",
        "speedup",
    }
)

#: Texts of results that can be absent from all rows of a part. Their columns have the type of text.
_TEXTS = frozenset({"best_static_weights", "best_weights", "error"})


def part_name(number: int, hashes: Sequence[str]) -> str:
    """Return the name of the file of batch ``number`` with these cases."""
    digest = hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]
    return f"part-{number:06d}-{digest}.parquet"


def arrow() -> Any:
    """Return the module ``pyarrow``, with ``pyarrow.parquet``.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as why:
        raise ImportError("a sweep needs Arrow: pip install pyarrow") from why
    return pyarrow


def table(rows: Sequence[Row], columns: Sequence[str]) -> pyarrow.Table:
    """Return rows as a table: columns of numbers are float64, all others text.

    ``columns`` come first, in this order. Numbers of a column that also has texts are texts.
    """
    pa = arrow()
    names: dict[str, None] = dict.fromkeys(columns)
    for row in rows:
        names.update(dict.fromkeys(row))
    names.pop("error", None)
    names["error"] = None
    arrays = {}
    for name in names:
        values = [row.get(name) for row in rows]
        is_text = any(isinstance(value, str) for value in values)
        has_number = any(isinstance(value, (int, float)) for value in values)
        if is_text and has_number:
            values = as_texts(values)
        is_number = not is_text and (has_number or name in _NUMBERS)
        kind = pa.float64() if is_number else pa.string()
        is_known = name in columns or name in _NUMBERS or name in _TEXTS
        if not is_known and all(value is None for value in values):
            kind = pa.null()
        arrays[name] = pa.array(values, kind)
    return pa.table(arrays)


def as_texts(values: Sequence[str | float | None]) -> list[str | float | None]:
    """Return values with each number as text."""
    return [value if value is None or isinstance(value, str) else repr(value) for value in values]


def encoded(rows: Sequence[Row], columns: Sequence[str]) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    file = io.BytesIO()
    arrow().parquet.write_table(table(rows, columns), file, compression="zstd")
    return file.getvalue()
