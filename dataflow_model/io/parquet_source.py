"""Parquet files as a source: only the row groups and columns that a range needs are read."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, ClassVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from dataflow_model.errors import SourceError
from dataflow_model.io.file_identity import FileVersion
from dataflow_model.io.file_source import BATCH_ROWS, FileSource
from dataflow_model.plan.nested import without_views

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ParquetSource"]

_HINT = (
    "rewrite or remove the file; rename a file into place only when it is completely written; "
    "names that begin with '_' or '.' are skipped"
)


@attrs.frozen(kw_only=True)
class ParquetSource(FileSource):
    """Rows of Parquet files; the footers contain the schema and the number of rows."""

    kind: ClassVar[str] = "Parquet"
    is_typed: ClassVar[bool] = True

    def file_schema(self, path: str) -> pa.Schema:
        """Return the schema in the footer, without metadata and constraints."""
        return _footer(FileVersion.of(path))[1]

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Raise `SourceError` if the names and types in the footer differ from the expected ones."""
        schema = self.file_schema(path)
        kinds = dict(zip(schema.names, schema.types, strict=True))
        for field in expected:
            if field.name not in kinds:
                problem = f"it has no column {field.name!r}"
            elif kinds[field.name] != field.type:
                problem = f"column {field.name!r} is {kinds[field.name]}, not {field.type}"
            else:
                continue
            raise SourceError(
                f"{path} does not have the expected schema: {problem}; its columns are {', '.join(schema.names)}",
                hint="read files with another schema separately, and merge the collections with dm.Flatten()",
            )

    def count_rows(self, version: FileVersion) -> int:
        """Return the number of rows in the footer."""
        return int(_footer(version)[0].num_rows)

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Skip row groups by the footer, and slice inside them."""
        self.check_file(path, columns)
        footer, _ = _footer(FileVersion.of(path))
        stop = footer.num_rows if stop is None else min(stop, footer.num_rows)
        groups: list[int] = []
        first, at = 0, 0
        for group in range(footer.num_row_groups):
            end = at + footer.row_group(group).num_rows
            if at < stop and end > start:
                first = at if not groups else first
                groups.append(group)
            at = end
        if not groups:
            return
        at = first
        try:
            with pq.ParquetFile(path, metadata=footer, memory_map=True, page_checksum_verification=True) as file:
                batches = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns.names, use_threads=False)
                for batch in batches:
                    low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                    at += batch.num_rows
                    if low < high:
                        yield _ordered(batch, columns).slice(low, high - low)
                    if at >= stop:
                        return
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{path} cannot be read at row {at} or after: {error}", hint=_HINT) from error


def _ordered(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    return batch.select(columns.names).cast(columns)


@functools.lru_cache(maxsize=4096)
def _footer(version: FileVersion) -> tuple[pq.FileMetaData, pa.Schema]:
    try:
        with pq.ParquetFile(version.path) as file:
            schema = pa.schema([pa.field(field.name, field.type) for field in file.schema_arrow])
            return file.metadata, without_views(schema)
    except UnicodeEncodeError as error:
        raise SourceError(
            f"Arrow opens only files whose names are UTF-8, got {os.fsencode(version.path)!r}", hint="rename the file"
        ) from error
    except (pa.ArrowException, OSError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{version.path} is not a readable Parquet file: {problem}", hint=_HINT) from error
