"""The lines of a commit in a fixed number of files, whatever the number of tasks that have written them."""

from __future__ import annotations

import contextlib
import io
import itertools
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument
from dataflow_model.io.sinks.file_writer import PendingFile
from dataflow_model.io.sinks.publishing import pending_directory, sync_pending
from dataflow_model.io.sinks.text_files import LinesWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.io.sinks.file_sinks import TextSink


def check_num_shards(_: object, __: object, value: Any) -> None:
    """Check the argument `num_shards`.

    Raises:
        InvalidArgument: unless it is a positive whole number, or `None`.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidArgument(
            f"`num_shards` must be a positive whole number, got {value!r}",
            hint="pass num_shards=1 for one file, or leave it out: each task then writes a file of its own",
        )


def merged(sink: TextSink, commit_id: str, pending: Sequence[PendingFile], shards: int) -> list[PendingFile]:
    """Copy the lines of pending files to as many files as a commit has, and return these and those of dead letters.

    The lines stay in order, and the files have equally many, or some one more than others. The pending files are kept
    until the commit is published, so that it can be repeated; if one is missing, it was published as a whole.

    Args:
        sink: the sink.
        commit_id: the commit.
        pending: the messages of the tasks, in the order of their lines.
        shards: the number of files.

    Raises:
        OSError: when a file cannot be read or written.
    """
    directory = pending_directory(sink.path, commit_id)
    total = sum(part.rows for part in pending)
    rows = [total * (shard + 1) // shards - total * shard // shards for shard in range(shards)]
    stem = f"shard-{uuid.uuid4().hex[:12]}"  # another start of the run may be publishing the same commit
    files = [PendingFile("", f"{stem}-{shard}{sink.suffix}", rows[shard], None, 0, None) for shard in range(shards)]
    sources = [directory / name for part in pending for name, _ in part.files()]
    if all(map(Path.exists, sources)):
        directory.mkdir(parents=True, exist_ok=True)
        lines = itertools.chain.from_iterable(_lines(source, sink.header) for source in sources)
        names = [name for file in files for name, _ in file.files()]
        for name, count in zip(names, rows, strict=True):
            with contextlib.closing(LinesWriter(directory / name, sink.header)) as writer:
                writer.copy_lines(itertools.islice(lines, count))
        if sink.is_synced:
            sync_pending(sink.path, commit_id, names)
    return [*files, *(attrs.evolve(part, file=None) for part in pending)]


def _lines(path: Path, header: str | None) -> Iterator[bytes]:
    """Yield the lines of a file below its header, with their ends."""
    stream: Any = pa.input_stream(str(path), compression="detect")
    with stream, io.BufferedReader(stream) as file:
        yield from itertools.islice(file, 0 if header is None else header.count("\n") + 1, None)
