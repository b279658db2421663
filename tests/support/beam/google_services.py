"""Stands for Pub/Sub and BigQuery in programs that ship with Beam: messages from a script, and rows in files."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import apache_beam as beam
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextlib.contextmanager
def standing_for(folder: Path, messages: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Let pipelines that are built in the `with` block read from a script and write to files.

    Args:
        folder: the folder of the files, `out-` and the name of a table or topic for each.
        messages: what is read from Pub/Sub, each with its event time in seconds, which advances the watermark.
    """

    def read(**_: Any) -> Any:
        coder: Any = beam.coders.BytesCoder()
        stream = BeamTestStream(coder=coder)
        for message, second in messages:
            stream.advance_watermark_to(second).add_elements([window.TimestampedValue(message.encode(), second)])
        return stream.advance_watermark_to_infinity()

    def write(name: str, *_: Any, **__: Any) -> Any:
        return beam.Map(_append, str(folder / f"out-{name.rpartition('/')[2]}"))

    with mock.patch.multiple(beam.io, ReadFromPubSub=read, WriteToPubSub=write, WriteToBigQuery=write):
        yield


def _append(row: Any, path: str) -> None:
    if isinstance(row, bytes):
        line = row.decode()
    else:
        line = json.dumps({name: value for name, value in row.items() if name != "processing_time"}, sort_keys=True)
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - the path of a file in any process
        file.write(line + "\n")
