"""Results of a sweep: one Parquet file for each batch, written when the batch is done.

The name of a file has the hash of the cases in it, so that a sweep which was killed goes on where
it stopped. A file is written under another name and renamed: a reader never sees a part of one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._errors import InputError
from ._part import arrow, as_texts

if TYPE_CHECKING:
    import pyarrow


class Store:
    """A folder of parts: a local path, or one that fsspec knows (``s3://bucket/sweep``)."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._pa = arrow()
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

    def write(self, name: str, part: bytes) -> None:
        """Write the bytes of a part."""
        temporary = f".{name}.{os.getpid()}"
        with self._open(temporary, "wb") as file:
            file.write(part)
            if self._fs is None:
                file.flush()
                os.fsync(file.fileno())
        if self._fs is None:
            os.replace(os.path.join(self.path, temporary), os.path.join(self.path, name))
        else:
            self._fs.mv(f"{self.path}/{temporary}", f"{self.path}/{name}")

    def joined(self, tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
        """Return the tables as one. A column with texts in one of them has texts in all."""
        pa = self._pa
        fields = [field for table in tables for field in table.schema]
        texts = {field.name for field in fields if pa.types.is_string(field.type)}

        def same(table: pyarrow.Table) -> pyarrow.Table:
            for at, field in enumerate(table.schema):
                if field.name in texts and pa.types.is_floating(field.type):
                    column = pa.array(as_texts(table[field.name].to_pylist()), pa.string())
                    table = table.set_column(at, field.name, column)
            return table

        return pa.concat_tables([same(table) for table in tables], promote_options="permissive")

    def _open(self, name: str, mode: str) -> Any:
        path = f"{self.path}/{name}"
        return open(path, mode) if self._fs is None else self._fs.open(path, mode)
