"""The messages between the parent and its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from dataflow_model.metrics.tally import Tally
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections import Counter
    from multiprocessing.connection import Connection

    from dataflow_model.runners.engine.bounded.files import ListedSource
    from dataflow_model.runners.engine.sources.estimation import Jump
    from dataflow_model.runners.sharded.feed.slices import Slice

PROGRAM_FILE: Final = "program.pickle"
"""The file with the program in the folder of a run."""


@attrs.frozen(kw_only=True)
class Assignment:
    """What one worker does.

    Attributes:
        number: the number of the worker, which is also its shard.
        workers: how many workers there are.
        folder: the folder of the run, with the program in `PROGRAM_FILE` and the files that the workers exchange.
        listed: the sources of rows.
        parts: the rows that this worker reads.
        path, directory, environment: `sys.path`, the current directory and the environment of the parent.
    """

    number: int
    workers: int
    folder: str
    listed: tuple[ListedSource, ...]
    parts: tuple[Slice, ...]
    path: tuple[str, ...]
    directory: str
    environment: dict[str, str] = attrs.field(repr=False)


@attrs.frozen
class Began:
    """A worker has begun.

    Attributes:
        process: the id of its process.
    """

    process: int


@attrs.frozen
class Running:
    """A worker runs some transforms from now on.

    Attributes:
        labels: the labels of the transforms.
    """

    labels: tuple[str, ...]


@attrs.define
class Progress:
    """What one worker has counted so far.

    Attributes:
        counters: the counters by label.
        tally: the tally.
        state: the entries of each transform's state.
        watermarks: the low watermark of each source and keyed node; the same on every worker.
        clock: the clock.
        jumps: by source, an event that has moved its watermark far ahead of the clock; the same on every worker.
    """

    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    tally: Tally = attrs.field(factory=Tally)
    state: dict[str, int] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    clock: int = 0
    jumps: dict[str, Jump] = attrs.field(factory=dict)


@attrs.frozen
class Arrived:
    """A worker has done its part before a barrier, and waits for the others.

    Attributes:
        progress: what it has counted.
        writes: whether it writes to sinks after the barrier.
    """

    progress: Progress
    writes: bool = False


@attrs.frozen
class Done:
    """A worker has written the output of its shard.

    Attributes:
        progress: what it has counted.
        messages: the messages of the sinks' writers by label.
    """

    progress: Progress
    messages: dict[str, bytes]


@attrs.frozen
class Failed:
    """A worker has failed.

    Attributes:
        error: the exception, as `failures.pack_error` packs it.
    """

    error: bytes


@attrs.frozen
class Go:
    """All workers have reached a barrier."""


@attrs.frozen
class Stop:
    """A worker ends at once."""


Report: TypeAlias = Began | Arrived | Done | Failed


def send(connection: Connection, message: Report | Running | Assignment | Go | Stop) -> None:
    """Send a message; what plain pickle cannot refer to by name is sent by value."""
    connection.send_bytes(dump(message))


def receive(connection: Connection) -> Any:
    """Return the next message.

    Raises:
        EOFError: if the other process has ended.
    """
    return load(connection.recv_bytes())
