"""Results of a sweep: one Parquet file for each batch, written when the batch is done.

The name of a file has the hash of the cases in it, so that a sweep which was killed goes on where
it stopped. A file is written under another name and renamed: a reader never sees a part of one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._case import Row
from ._errors import InputError

if TYPE_CHECKING:
    import pyarrow


def part_name(number: int, hashes: Sequence[str]) -> str:
    """Return the name of the file of batch ``number`` with these cases."""
    digest = hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]
    return f"part-{number:06d}-{digest}.parquet"


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as why:
        raise ImportError("a sweep needs Arrow: pip install pyarrow") from why
    return pyarrow


class Store:
    """A folder of parts: a local path, or one that fsspec knows (``s3://bucket/sweep``)."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._pa = _arrow()
        path = os.fspath(folder)
        self._fs: Any = None
        if "://" in path:
            try:
                import fsspec
            except ImportError as why:
                raise ImportError(f"{path} needs fsspec: pip install fsspec") from why
            self._fs, path = fsspec.core.url_to_fs(path)
            self._fs.makedirs(path, exist_ok=True)
        else:
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as why:
                raise InputError(f"output: {why}", "name a folder that can be written") from None
        self.path = path

    def names(self) -> set[str]:
        """Return the names of the complete parts."""
        if self._fs is None:
            found = os.listdir(self.path)
        else:
            found = [os.path.basename(name) for name in self._fs.ls(self.path, detail=False)]
        return {name for name in found if name.startswith("part-") and name.endswith(".parquet")}

    def read(self, name: str) -> pyarrow.Table:
        """Return the table of a part."""
        with self._open(name, "rb") as file:
            return self._pa.parquet.read_table(file)

    def cases(self, name: str) -> set[str]:
        """Return the hashes of the cases of a part; empty for a damaged file."""
        try:
            with self._open(name, "rb") as file:
                column = self._pa.parquet.read_table(file, columns=["case"])
        except (OSError, self._pa.ArrowException):
            return set()
        return set(column["case"].to_pylist())

    def write(self, name: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """Write a part with its rows; ``columns`` come first, in this order."""
        table = self.table(rows, columns)
        temporary = f".{name}.{os.getpid()}"
        with self._open(temporary, "wb") as file:
            self._pa.parquet.write_table(table, file, compression="zstd")
            if self._fs is None:
                file.flush()
                os.fsync(file.fileno())
        if self._fs is None:
            os.replace(os.path.join(self.path, temporary), os.path.join(self.path, name))
        else:
            self._fs.mv(f"{self.path}/{temporary}", f"{self.path}/{name}")

    def table(self, rows: Sequence[Row], columns: Sequence[str]) -> pyarrow.Table:
        """Return rows as a table: numbers are float64, all other columns text."""
        names: dict[str, None] = dict.fromkeys(columns)
        for row in rows:
            names.update(dict.fromkeys(row))
        names.pop("error", None)
        names["error"] = None
        arrays = {}
        for name in names:
            values = [row.get(name) for row in rows]
            is_number = any(isinstance(value, (int, float)) for value in values)
            kind = self._pa.float64() if is_number else self._pa.string()
            is_unknown = name not in columns and all(value is None for value in values)
            kind = self._pa.null() if is_unknown and name != "error" else kind
            arrays[name] = self._pa.array(values, kind)
        return self._pa.table(arrays)

    def joined(self, tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
        """Return the tables as one."""
        return self._pa.concat_tables(tables, promote_options="permissive")

    def _open(self, name: str, mode: str) -> Any:
        path = f"{self.path}/{name}"
        return open(path, mode) if self._fs is None else self._fs.open(path, mode)
