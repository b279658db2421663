"""Files up to an hour, then a log that had begun before: a job that reads them as one, and may be killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from tests.support.faults.killed_jobs import killed_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.watermarks.estimators import Arrival

__all__ = ["COLUMNS", "EACH", "LAST", "SEAM", "Log", "build", "merged", "write_history"]

SEAM = 50
"""The second from which on rows are those of the log."""
_BEGIN = 30
"""The first row of the log: until the seam, the files have its rows too."""
_MORE = 8
"""How many rows behind the seam the files have too."""
LAST = 100
EACH = list(range(LAST))
_SECOND = 1_000_000
COLUMNS = pa.schema({"at": pa.int64(), "seen": pa.int64(), "n": pa.int64()})


def rows_of(numbers: list[int]) -> pa.Table:
    """Return rows, a second apart, seen two seconds later; every fifth comes seven seconds late."""
    at = [(number - 7 * (number % 5 == 4)) * _SECOND for number in numbers]
    seen = [(number + 2) * _SECOND for number in numbers]
    return pa.table({"at": at, "seen": seen, "n": numbers}, schema=COLUMNS)


def is_before(number: int) -> bool:
    """Return whether a row is before the seam, by its event time."""
    return number - 7 * (number % 5 == 4) < SEAM


def write_history(folder: Path) -> None:
    """Write two files."""
    (folder / "history").mkdir()
    for name, first, last in (("a", 0, 25), ("b", 25, SEAM + _MORE)):
        pq.write_table(rows_of(list(range(first, last))), folder / "history" / f"{name}.parquet")


@attrs.frozen(kw_only=True)
class Log(dm.io.ColumnSource):
    """A log of two origins, whose positions have gaps or not, of which a file says how far it goes.

    Attributes:
        folder: the folder of that file.
        clock: the column of the replay clock.
    """

    folder: Path
    clock: str | None = None
    is_bounded: bool = False
    has_gaps: bool = False
    event_time: str | Arrival | None = "at"
    processing_time: str | None = attrs.field(default=attrs.Factory(lambda self: self.clock, takes_self=True))
    watermark: Any = attrs.field(factory=lambda: dm.BoundedOutOfOrderness("10 seconds"))
    poll_interval = None

    @property
    def position_column(self) -> str | None:
        """The column of positions, if they have gaps."""
        return "position" if self.has_gaps else None

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return COLUMNS.append(pa.field("position", pa.int64())) if self.has_gaps else COLUMNS

    def origins(self) -> list[dm.io.Origin]:
        """Return the odd rows and the even ones."""
        end = int((self.folder / "end").read_text())
        counts = [len(range(_BEGIN + part, end, 2)) for part in (0, 1)]
        if self.has_gaps:
            return [dm.io.Origin(str(part), 3 * count, first=1_000) for part, count in enumerate(counts)]
        return [dm.io.Origin(str(part), count) for part, count in enumerate(counts)]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield a range of rows."""
        numbers = list(range(_BEGIN + int(origin), int((self.folder / "end").read_text()), 2))
        positions = [1_000 + 3 * index for index in range(len(numbers))] if self.has_gaps else range(len(numbers))
        chosen = [
            (number, position)
            for number, position in zip(numbers, positions, strict=True)
            if start <= position and (stop is None or position < stop)
        ]
        table = rows_of([number for number, _ in chosen])
        if self.has_gaps:
            table = table.append_column("position", pa.array([position for _, position in chosen], pa.int64()))
        yield from table.to_batches()


def merged(folder: Path, *, replays: bool, bounded: bool = False, has_gaps: bool = False) -> Any:
    """Return the transform that reads the files, then the log."""
    clock = "seen" if replays else None
    history = dm.io.ReadParquet(folder / "history", event_time="at", processing_time=clock)
    log = Log(folder=folder, clock=clock, is_bounded=bounded, has_gaps=has_gaps)
    return dm.io.Then(history, dm.Read(log), at=dm.EventTime(SEAM * _SECOND))


def build(p: dm.Pipeline, read: Any) -> None:
    """Collect the numbers, and the sums of windows that the seam is within."""
    rows = p | "rows" >> read
    _ = rows | dm.Map(lambda row: row.n).with_output_types(int) | "n" >> dm.io.Collect()
    _ = (
        rows
        | dm.WithKeys(lambda row: row.n % 2)
        | dm.MapTuple(lambda key, row: (key, row.n)).with_output_types(tuple[int, int])
        | dm.Window.into(dm.FixedWindows("20 seconds", offset="10 seconds"))
        | "sums" >> dm.Sum.per_key()
        | "panes" >> dm.io.Collect()
    )


def main(folder: Path, point: str, micro_batch: int, mark: str, replays: str) -> None:
    """Run the job to its end, and kill it at a point of a micro-batch if no process has been killed there."""
    with killed_at(point, micro_batch, mark):
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=folder / "checkpoint", max_rows_per_batch=12))
        build(p, merged(folder, replays=replays == "replays"))
        result: Any = p.run(until="drained")
        result.wait_until_finish()
    (folder / "collected.json").write_text(json.dumps([record.value for record in result.collected("n")]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
