"""A service that answers differently whenever it is asked, and a job that reads it and may be killed.

It has events with the numbers from 0 on, each with a value that is drawn anew for each answer. How many it returns is
drawn too. It refuses to go back: once it has been asked for what is behind a cursor, it has forgotten what is before.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import dataflow_model as dm
from tests.support.faults.killed_jobs import killed_at

__all__ = ["EVENTS", "Event", "build", "events", "several_events"]

EVENTS = 60


class Event(NamedTuple):
    """An event of the service."""

    at: int
    number: int
    value: int


def answer(folder: str, cursor: dict[str, int] | None, limit: int) -> tuple[list[Event], dict[str, int]]:
    """Return some of the events behind a cursor, and the next cursor."""
    first = 0 if cursor is None else cursor["behind"] + 1
    asked = Path(folder, "asked")
    asked.mkdir(exist_ok=True)
    oldest = max((int(path.name) for path in asked.iterdir()), default=0)
    assert first >= oldest, f"asked for event {first}, but events before {oldest} are forgotten"
    (asked / str(first)).touch()
    drawn = random.SystemRandom()
    count = min(drawn.randint(1, limit), EVENTS - first)
    rows = [Event(number * 1_000_000, number, drawn.randrange(10**9)) for number in range(first, first + count)]
    return rows, {"behind": first + count - 1}


@dm.io.source(event_time="at", limit=9, poll_interval="1 ms")
def events(cursor: Any, limit: int, *, folder: str) -> tuple[list[Event], Any]:
    """Return events without an end, of which there are no more for now."""
    return answer(folder, cursor, limit)


@dm.io.source(event_time="at", limit=9, bounded=True)
def several_events(cursor: Any, limit: int, *, folder: str) -> tuple[list[Event], Any]:
    """Return events up to the last one."""
    rows, following = answer(folder, cursor, limit)
    return rows, None if following["behind"] == EVENTS - 1 else following


def build(p: dm.Pipeline, read: Any) -> None:
    """Send the events to two sinks, and count them in windows."""
    rows = p | "events" >> read
    _ = (
        rows
        | "first" >> dm.Map(lambda row: (row.number, row.value)).with_output_types(tuple[int, int])
        | "a" >> (dm.io.Collect())
    )
    _ = (
        rows
        | "second" >> dm.Map(lambda row: (row.number % 3, (row.number, row.value)))
        | dm.Window.into(dm.FixedWindows(10))
        | dm.GroupByKey()
        | dm.FlatMap(lambda pair: pair[1])
        | "b" >> dm.io.Collect()
    )


def main(folder: str, point: str, micro_batch: int, mark: str) -> None:
    """Run the job to its end, and kill it at a point of a micro-batch if no process has been killed there."""
    with killed_at(point, micro_batch, mark):
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=f"{folder}/checkpoint", max_rows_per_batch=7))
        build(p, events(folder=folder))
        result: Any = p.run(until="drained")
        result.wait_until_finish()
    collected = {sink: [record.value for record in result.collected(sink)] for sink in ("a", "b")}
    Path(folder, "collected.json").write_text(json.dumps(collected))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
