"""A stream that is killed at a named point of a commit, and what it should commit.

Usage: python -m tests.support.conformance.killed FOLDER POINT; it runs in process and kills itself there.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.testing import CrashPoint, TestStream
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["COMMITTED", "IN_PROCESS_ONLY", "MICRO_BATCH", "ROWS", "building", "main"]

IN_PROCESS_ONLY: Final = ("before_commit", "after_commit")
"""The points that Spark has not."""
MICRO_BATCH: Final = 2
"""The micro-batch that is killed."""
ROWS: Final = 2
"""How many steps of the script a micro-batch reads."""
SCHEMA: Final = pa.schema([("key", pa.string()), ("value", pa.int64())])
SCRIPT: Final = (
    TestStream().add(1, 5, key="a").add(2, 6, key="d").watermark(8).add(4, 7, key="a").watermark(20).add(8, 25, key="d")
)
COMMITTED: Final = [("a", 1), ("d", 2), ("a", 5), ("a", 5), ("d", 2), ("d", 8), ("d", 8)]
"""The panes of each element and of each window that ends, in order."""


class Ticket(dm.DoFn):
    """A new ticket for each element, in place of the key's ticket before it."""

    retracts = True
    held = dm.ValueStateSpec[Any](default=None)

    def __init__(self, *, is_drawn: bool) -> None:
        self.is_drawn = is_drawn

    def process(self, pair: Any, timestamp: dm.EventTime, held: Any) -> Iterator[Any]:
        if held.read() is not None:
            yield dm.Retract((pair[0], held.read()))
        held.write(random.random() if self.is_drawn else int(timestamp))
        yield pair[0], held.read()


def building(folder: Path, *, is_drawn: bool) -> Callable[[dm.Pipeline], Any]:
    """Return the pipeline, which writes its panes to files in a folder too.

    Args:
        folder: the folder.
        is_drawn: whether its tickets are random numbers.
    """

    def build(p: dm.Pipeline) -> None:
        trigger = dm.AfterWatermark(early=dm.AfterCount(1))
        each = dm.Window.into(dm.FixedWindows(10)).trigger(trigger).accumulating()
        elements = p | "script" >> SCRIPT
        tickets = elements | "tickets" >> dm.ParDo(Ticket(is_drawn=is_drawn))
        _ = tickets | "held" >> dm.io.Collect()
        _ = tickets | "number" >> dm.Count.globally() | "number of tickets" >> dm.io.Collect()
        sums = elements | each | "sums" >> dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()
        _ = sums | "write" >> dm.io.WriteJson(folder / "out", schema=SCHEMA, panes=True)

    return build


def main(folder: Path, point: str) -> None:
    """Run the pipeline until it is killed."""
    with CrashPoint(point, MICRO_BATCH):
        run(
            dm.LocalRunner(clock=0, checkpoint=folder / "checkpoint", max_rows_per_batch=ROWS),
            building(folder, is_drawn=True),
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
