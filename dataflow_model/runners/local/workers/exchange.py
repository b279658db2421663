"""The exchange between workers: in each round every worker writes one Arrow file for each other worker."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from dataflow_model.errors import SinkError
from dataflow_model.plan.logical.stages import owner_of_cut
from dataflow_model.runners.sharded.tasks.compact import dump_compact
from dataflow_model.runners.sharded.tasks.rows import SCHEMA, Kind, Row, arrow_batches, rows_of_batches
from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_element
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from dataflow_model.runners.engine.lanes.chunk import PlacedBundle


@attrs.frozen
class PlacedElements:
    """Elements for one cut, each with the index of its instant in the whole timeline."""

    cut: str
    placed: PlacedBundle


@attrs.define
class Exchange:
    """One worker's end of the exchange.

    Files do not block: a worker never waits for another one to read. What a worker sends to itself stays as it is.

    Args:
        folder: the folder of the run.
        number: the number of the worker.
        workers: the number of workers.
        barrier: returns when all workers have called it.
    """

    folder: pathlib.Path
    number: int
    workers: int
    barrier: Callable[[], None]
    _round: int = attrs.field(init=False, default=0)

    def swap(self, rows: Iterable[Row]) -> list[Any]:
        """Send rows to the workers whose shards they name, and return the payloads for this worker, by sender.

        Raises:
            InvalidType: for an element that cannot be pickled.
            SinkError: if the folder of the run cannot be written, or its disk is full.
        """
        outboxes: list[list[Row]] = [[] for _ in range(self.workers)]
        for row in rows:
            outboxes[row.shard].append(row)
        for receiver, outbox in enumerate(outboxes):
            if outbox and receiver != self.number:
                self._write(self._path(self.number, receiver), outbox)
        self.barrier()
        received: list[Any] = []
        for sender in range(self.workers):
            if sender == self.number:
                received += [row.payload for row in outboxes[sender]]
            else:
                received += self._read(self._path(sender, self.number))
        self._round += 1
        return received

    def _path(self, sender: int, receiver: int) -> pathlib.Path:
        return self.folder / f"{self._round}-from-{sender}-to-{receiver}.arrow"

    def _write(self, path: pathlib.Path, rows: list[Row]) -> None:
        payloads = arrow_batches(attrs.evolve(row, payload=_pickled(row)) for row in rows)
        with writing_in(self.folder), pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
            for batch in payloads:
                writer.write_batch(batch)

    def _read(self, path: pathlib.Path) -> Iterator[Any]:
        if not path.exists():
            return
        with pa.memory_map(str(path)) as file:
            for row in rows_of_batches(pa.ipc.open_stream(file)):
                yield load(row.payload)
        path.unlink()


@contextlib.contextmanager
def writing_in(folder: pathlib.Path) -> Iterator[None]:
    """Raise errors of the file system as `SinkError`, while something is written to the folder of a run."""
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"LocalRunner(workers=…) cannot write what its workers exchange to {str(folder)!r}: "
            f"{os.strerror(error.errno) if error.errno else error}",
            hint="free space there, or name a folder on a larger disk in the environment variable TMPDIR",
        ) from error


def _pickled(row: Row) -> bytes:
    try:
        return dump_compact(row.payload)
    except BaseException as error:
        if row.kind != Kind.DATA:
            raise
        elements: PlacedElements = row.payload
        values = elements.placed.bundle.values
        raise unpicklable_element(owner_of_cut(elements.cut), values, error) from error
