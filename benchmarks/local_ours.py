"""Our side of the comparisons in process: the pipelines on `LocalRunner`.

Each takes the events and the folder to write Parquet to. Those whose panes depend on when events arrive replay them by
the column `arrived_at`, with the watermark two seconds behind; the others read them as they are, and drop nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

import dataflow_model as dm
from benchmarks.data import DELAY, Events
from benchmarks.local_functions import (
    PAID_WITHIN,
    Statistics,
    Summary,
    as_pair,
    both_of,
    buckets,
    doubled,
    scaled,
    scaled_columns,
    words_of,
    write_sums_of_table,
)
from benchmarks.triggered import WINDOWS, arriving, arriving_rows, windowing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dataflow_model.triggers import TriggerContext

__all__ = [
    "csv_sums",
    "greatest",
    "greatest_of_csv",
    "greatest_of_csv_seven_times",
    "greatest_of_ten_times",
    "group_by_key",
    "hot_key",
    "interval_join",
    "json_sums",
    "like_keys",
    "maps",
    "on_time",
    "one_by_one",
    "python",
    "python_with_workers",
    "sessions",
    "stateful",
    "triggered",
    "upserts",
    "user_trigger",
    "vectorized",
    "words",
]

_COUNTS: Final = pa.schema({"key": pa.string(), "value": pa.int64()})
_SUMS: Final = pa.schema({"key": pa.int64(), "value": pa.int64()})


@attrs.frozen
class EveryTenth(dm.Trigger):
    """Fires with every tenth element, as `AfterCount(10)` does that is repeated; written as a user would write it."""

    def on_element(self, context: TriggerContext) -> None:
        """Count the element."""
        count = (context.lookup_state("count") or 0) + 1
        context.store_state("count", count % 10)
        if count == 10:
            context.trigger()

    def may_finish(self, *, allowed_lateness: dm.Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False


class CountInWindow(dm.DoFn):
    """Counts the elements of each key and window, and tells the count when the window ends."""

    count = dm.ValueStateSpec[int](default=0)
    end = dm.TimerSpec()

    def process(
        self, pair: tuple[int, int], window: dm.IntervalWindow, count: dm.ValueState[int], end: dm.Timer
    ) -> Iterable[Any]:
        """Count one more."""
        del pair
        seen = count.read()
        if not seen:
            end.set(window.max_timestamp)
        count.write(seen + 1)
        return ()

    @dm.on_timer(end)
    def tell(self, key: int, count: dm.ValueState[int]) -> Iterable[tuple[int, int]]:
        """Tell the count."""
        return [(key, count.read())]


def maps(events: Events, out: Path) -> None:
    """Call three Python functions in a row."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        rows = pipeline | _read(events)
        mapped = rows | "pair" >> dm.Map(as_pair) | "double" >> dm.Map(doubled) | "bucket" >> dm.Map(buckets)
        _ = mapped | dm.io.WriteParquet(str(out), schema=_SUMS)


def words(events: Events, out: Path) -> None:
    """Count words, with functions in Python up to the grouping."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        ones = pipeline | _read(events) | dm.FlatMap(lambda row: words_of(row.value)) | dm.Map(lambda word: (word, 1))
        _ = ones | dm.CombinePerKey(sum) | dm.io.WriteParquet(str(out), schema=_COUNTS)


def interval_join(events: Events, out: Path) -> None:
    """Join orders with their payments of the next quarter of an hour."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        sides = []
        for name, folder in zip(("orders", "payments"), events.orders(), strict=True):
            read = dm.io.ReadParquet(folder, event_time="event_time", watermark=dm.BoundedOutOfOrderness(DELAY))
            sides.append(pipeline | name >> read | f"pairs of {name}" >> dm.WithKeys("key", value="value"))
        joined = tuple(sides) | dm.Join(between=("0 s", PAID_WITHIN)) | dm.Map(both_of)
        _ = joined | dm.io.WriteParquet(str(out), schema=_SUMS)


def vectorized(events: Events, out: Path) -> None:
    """Call a function on columns."""
    _map(events, out, dm.Map(scaled_columns, vectorized=True))


def one_by_one(events: Events, out: Path) -> None:
    """Call the function of one element that says the same."""
    _map(events, out, dm.Map(scaled))


def triggered(events: Events, out: Path) -> None:
    """Sum per key and 10-second window, with early and late panes."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        _ = arriving(pipeline, events) | windowing().accumulating() | dm.Sum.per_key() | _write(out)


def user_trigger(events: Events, out: Path) -> None:
    """Do the same with early panes by a trigger of the user's."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        _ = arriving(pipeline, events) | windowing(early=EveryTenth()).accumulating() | dm.Sum.per_key() | _write(out)


def on_time(events: Events, out: Path, key: str = "key", read: Any = None) -> None:
    """Sum per key and 10-second window, with the default trigger."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        pairs = pipeline | (read or _read(events)) | dm.WithKeys(key, value="value")
        _ = pairs | dm.Window.into(WINDOWS) | dm.Sum.per_key() | _write(out)


def hot_key(events: Events, out: Path) -> None:
    """Do the same where nine events of ten have one key."""
    on_time(events, out, "hot_key")


like_keys = on_time


def greatest(events: Events, out: Path) -> None:
    """Keep the greatest value per key and 2-second window: 600,000 cells for four million rows."""
    _greatest(dm.io.ReadParquet(events.events, event_time="event_time", watermark=DELAY), out)


def greatest_of_ten_times(events: Events, out: Path) -> None:
    """Do the same with each row ten times: in the same cells, with the same answer."""
    _greatest(dm.io.ReadParquet(events.repeated(10), event_time="event_time", watermark=DELAY), out)


def greatest_of_csv(events: Events, out: Path) -> None:
    """Do the same with a file of CSV."""
    _greatest(dm.io.ReadCsv(events.csv, event_time="event_time", watermark=DELAY), out)


def greatest_of_csv_seven_times(events: Events, out: Path) -> None:
    """Do the same with that file seven times, which is a gigabyte."""
    _greatest(dm.io.ReadCsv(events.repeated(7, csv=True), event_time="event_time", watermark=DELAY), out)


def csv_sums(events: Events, out: Path) -> None:
    """Do the same with a file of CSV, whose types are inferred."""
    on_time(events, out, read=dm.io.ReadCsv(events.csv, event_time="event_time", watermark=DELAY))


def json_sums(events: Events, out: Path) -> None:
    """Do the same with a file of JSON lines."""
    on_time(events, out, read=dm.io.ReadJson(events.json, event_time="event_time", watermark=DELAY))


def upserts(events: Events, out: Path) -> None:
    """Write all rows to a table of SQLite."""
    database = out / "table.db"
    out.mkdir()
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        rows = pipeline | _read(events)
        _ = rows | dm.io.WriteTable(f"sqlite:///{database}", table="events", keys=("event_time", "key"))
    write_sums_of_table(database, out)


def python(events: Events, out: Path, workers: int = 1) -> None:
    """Combine tuples in Python behind two functions, with early and late panes."""
    schema = pa.schema({"key": pa.int64(), **{name: pa.int64() for name in Summary._fields}})
    with dm.Pipeline(runner=dm.LocalRunner(workers=workers)) as pipeline:
        rows = pipeline | arriving_rows(events)
        pairs = rows | "pair" >> dm.Map(as_pair) | "double" >> dm.Map(doubled)
        combined = pairs | windowing().accumulating() | dm.CombinePerKey(Statistics())
        _ = combined | dm.io.WriteParquet(str(out), schema=schema, panes=True)


def python_with_workers(events: Events, out: Path) -> None:
    """Do the same in two processes."""
    python(events, out, workers=2)


def group_by_key(events: Events, out: Path) -> None:
    """Collect the values of each key and 10-second window in a list."""
    schema = pa.schema({"key": pa.int64(), "value": pa.list_(pa.int64())})
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        pairs = pipeline | _read(events) | dm.WithKeys("key", value="value")
        grouped = pairs | dm.Window.into(WINDOWS) | dm.GroupByKey()
        _ = grouped | dm.io.WriteParquet(str(out), schema=schema, panes=True)


def sessions(events: Events, out: Path) -> None:
    """Sum per key and session, with early and late panes that take back the panes before them."""
    windows = windowing(dm.Sessions("5 seconds"), dm.AfterCount(2))
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        sums = arriving(pipeline, events) | windows.accumulating_and_retracting() | dm.Sum.per_key()
        _ = sums | _write(out)


def stateful(events: Events, out: Path) -> None:
    """Count per key and 10-second window by state and a timer."""
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        pairs = pipeline | _read(events) | dm.WithKeys("key", value="value")
        _ = pairs | dm.Window.into(WINDOWS) | dm.ParDo(CountInWindow()) | _write(out)


def _greatest(read: Any, out: Path) -> None:
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        pairs = pipeline | read | dm.WithKeys("key", value="value")
        _ = pairs | dm.Window.into(dm.FixedWindows("2 seconds")) | dm.Max.per_key() | _write(out)


def _map(events: Events, out: Path, mapping: Any) -> None:
    with dm.Pipeline(runner=dm.LocalRunner()) as pipeline:
        mapped = pipeline | _read(events) | mapping
        _ = mapped | dm.io.WriteParquet(str(out), schema=_SUMS)


def _read(events: Events) -> Any:
    return dm.io.ReadParquet(events.events, event_time="event_time", watermark=dm.BoundedOutOfOrderness(DELAY))


def _write(out: Path) -> Any:
    return dm.io.WriteParquet(str(out), schema=_SUMS, panes=True)
