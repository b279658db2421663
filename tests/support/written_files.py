"""What another reader sees in a directory that a file sink writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

from dataflow_model.io.sinks.file_sinks import FileSink, ParquetSink

if TYPE_CHECKING:
    from pathlib import Path


def rows(sink: FileSink) -> list[dict[str, Any]]:
    kind = "parquet" if isinstance(sink, ParquetSink) else "json"
    rows: list[dict[str, Any]] = ds.dataset(sink.path, format=kind).to_table().to_pylist()
    return rows


def visible(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if not file.name.startswith("_"))
