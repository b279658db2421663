"""A table that is another one whenever it is read, and a job that looks it up and may be killed."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import dataflow_model as dm
from tests.support.asking import EVENTS, events
from tests.support.faults.killed_jobs import killed_at

__all__ = ["build", "check_looked_up"]


class Drawn(NamedTuple):
    """A row of the table: what each key has since it was read."""

    key: int
    number: int


@dm.io.source(bounded=True)
def table(cursor: Any, limit: int) -> tuple[list[Drawn], None]:
    """Return some of the keys from 0 to 9, all with one number that no other reading has."""
    del cursor, limit
    drawn = random.SystemRandom()
    number = drawn.randrange(10**12)
    return [Drawn(key, number) for key in drawn.sample(range(10), 5)], None


def build(p: dm.Pipeline, folder: str) -> None:
    """Look up the table for each event twice: before and behind a grouping."""
    rows = p | "table" >> dm.io.ReadAgain(table(), every="1 ms")
    numbers = dm.AsDict(rows | "by key" >> dm.WithKeys("key", value="number"))
    looked = (
        p
        | "events" >> events(folder=folder)
        | "look" >> dm.Map(lambda row, numbers: (row.number, sorted(numbers.items())), numbers=numbers)
    )
    _ = looked | "a" >> dm.io.Collect()
    _ = (
        looked
        | "pairs" >> dm.Map(lambda pair: (pair[0] % 3, pair))
        | dm.Window.into(dm.FixedWindows(10))
        | dm.GroupByKey()
        | dm.FlatMap(lambda pair: pair[1])
        | "b" >> dm.io.Collect()
    )


def check_looked_up(collected: dict[str, Any]) -> None:
    """Assert that each event saw one whole reading, the same in both sinks, and that there were several readings."""
    first, second = (sorted([number, list(map(list, rows))] for number, rows in collected[sink]) for sink in "ab")
    assert [number for number, _ in first] == list(range(EVENTS))
    assert first == second
    assert all(len(rows) == 5 and len({number for _, number in rows}) == 1 for _, rows in first)
    assert len({rows[0][1] for _, rows in first}) > 1


def main(folder: str, point: str, micro_batch: int, mark: str) -> None:
    """Run the job to its end, and kill it at a point of a micro-batch if no process has been killed there."""
    with killed_at(point, micro_batch, mark):
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=f"{folder}/checkpoint", max_rows_per_batch=7))
        build(p, folder)
        result: Any = p.run(until="drained")
        result.wait_until_finish()
    collected = {sink: [record.value for record in result.collected(sink)] for sink in "ab"}
    Path(folder, "collected.json").write_text(json.dumps(collected))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
