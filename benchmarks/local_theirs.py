"""The alternatives in process: loops and comprehensions, Polars, and Beam's DirectRunner.

Each takes the events and the folder to write Parquet to. A loop reads the same file, calls the same functions and
writes the final answer of each key and window, once. A function on columns is compared with our own pipeline one
element at a time, two workers with our own pipeline in one process, the memory of many rows with that of fewer rows in
the same cells, and a hot key with our own pipeline where all keys are alike.
"""

# Neither Polars nor Beam need be installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import logging
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.local_functions import Statistics, Summary, as_pair, buckets, doubled, words_of, write_sums_of_table
from benchmarks.local_ours import greatest, greatest_of_csv, like_keys, one_by_one, python

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.data import Events

__all__ = [
    "beam_triggered",
    "beam_words",
    "combines",
    "comprehension",
    "counts",
    "executemany",
    "greatest",
    "greatest_of_csv",
    "like_keys",
    "lists",
    "one_by_one",
    "polars_csv_sums",
    "polars_join",
    "polars_json_sums",
    "polars_sums",
    "python",
    "session_sums",
    "sums",
]

_WINDOW: Final = 10_000_000
_GAP: Final = 5_000_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_INSTANT: Final = pa.timestamp("us", "UTC")
_WRITTEN: Final = "%Y-%m-%dT%H:%M:%S%.6fZ"
"""How Polars says in which form event times are written."""

_Windows = dict[tuple[int, int], Any]
"""By key and start of the window, what is kept of it."""


def comprehension(events: Events, out: Path) -> None:
    """Call the three functions for the rows of the file, in one comprehension."""
    mapped = [buckets(doubled(as_pair(row))) for row in _rows(events)]
    _write_columns(
        out, {"key": pa.array([key for key, _ in mapped]), "value": pa.array([value for _, value in mapped])}
    )


def executemany(events: Events, out: Path) -> None:
    """Write all rows to a table of SQLite in one transaction."""
    table = _table(events)
    names = table.column_names
    out.mkdir()
    with contextlib.closing(sqlite3.connect(out / "table.db")) as connection, connection:
        connection.execute(f"CREATE TABLE events ({', '.join(names)}, PRIMARY KEY (event_time, key))")
        changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in {"key", "event_time"})
        connection.executemany(
            f"INSERT INTO events VALUES ({', '.join('?' * len(names))}) "  # noqa: S608 - names of our own columns
            f"ON CONFLICT (event_time, key) DO UPDATE SET {changed}",
            zip(*(_as_stored(column) for column in table.columns), strict=True),
        )
    write_sums_of_table(out / "table.db", out)


def _as_stored(column: pa.ChunkedArray) -> list[Any]:
    """Return values as SQLite stores them: it has no type for instants."""
    if pa.types.is_timestamp(column.type):
        return [instant.strftime("%Y-%m-%d %H:%M:%S.%f") for instant in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def sums(events: Events, out: Path) -> None:
    """Sum per key and 10-second window in a `dict`."""
    windows: _Windows = {}
    for key, time, value in _triples(events):
        cell = key, time - time % _WINDOW
        windows[cell] = windows.get(cell, 0) + value
    _write_windows(out, windows, {"value": pa.array(list(windows.values()))})


def counts(events: Events, out: Path) -> None:
    """Count per key and 10-second window in a `dict`."""
    windows: _Windows = {}
    for key, time, _ in _triples(events):
        cell = key, time - time % _WINDOW
        windows[cell] = windows.get(cell, 0) + 1
    _write_windows(out, windows, {"value": pa.array(list(windows.values()))})


def lists(events: Events, out: Path) -> None:
    """Collect the values of each key and 10-second window, in a `dict` of lists."""
    windows: _Windows = {}
    for key, time, value in _triples(events):
        windows.setdefault((key, time - time % _WINDOW), []).append(value)
    _write_windows(out, windows, {"value": pa.array(list(windows.values()), pa.list_(pa.int64()))})


def combines(events: Events, out: Path) -> None:
    """Combine per key and 10-second window in a `dict`, with the same functions and the same combiner."""
    combine = Statistics()
    windows: _Windows = {}
    times = _micros(_table(events)["event_time"])
    for row, time in zip(_rows(events), times, strict=True):
        key, value = doubled(as_pair(row))
        cell = key, time - time % _WINDOW
        held = windows.get(cell)
        windows[cell] = combine.add_input(combine.create_accumulator() if held is None else held, value)
    outputs = [combine.extract_output(held) for held in windows.values()]
    columns = {name: pa.array([output[index] for output in outputs]) for index, name in enumerate(Summary._fields)}
    _write_windows(out, windows, columns)


def session_sums(events: Events, out: Path) -> None:
    """Keep the sessions of each key in a list, `[start, end, sum]` each, and merge those that an event joins."""
    open_sessions: dict[int, list[list[int]]] = {}
    for key, time, value in _triples(events):
        start, end, total = time, time + _GAP, value
        kept = []
        for session in open_sessions.get(key, ()):
            if session[0] < end and start < session[1]:
                start, end, total = min(start, session[0]), max(end, session[1]), total + session[2]
            else:
                kept.append(session)
        kept.append([start, end, total])
        open_sessions[key] = kept
    rows = [(key, *session) for key, sessions in open_sessions.items() for session in sessions]
    columns = {
        name: pa.array([row[index] for row in rows])
        for index, name in enumerate(("key", "window_start", "window_end", "value"))
    }
    for name in ("window_start", "window_end"):
        columns[name] = columns[name].cast(_INSTANT)
    _write_columns(out, columns)


def polars_sums(events: Events, out: Path) -> None:
    """Sum per key and 10-second window with Polars: `group_by`."""
    import polars as pl

    _polars_sums(pl.scan_parquet(f"{events.events}/*.parquet"), out)


def polars_csv_sums(events: Events, out: Path) -> None:
    """Do the same with a file of CSV: `scan_csv`."""
    import polars as pl

    _polars_sums(pl.scan_csv(events.csv).with_columns(pl.col("event_time").str.to_datetime(_WRITTEN)), out)


def polars_json_sums(events: Events, out: Path) -> None:
    """Do the same with a file of JSON lines: `scan_ndjson`."""
    import polars as pl

    _polars_sums(pl.scan_ndjson(events.json).with_columns(pl.col("event_time").str.to_datetime(_WRITTEN)), out)


def polars_join(events: Events, out: Path) -> None:
    """Join orders with their payments of the next quarter of an hour: `join`, and a filter by the time in between."""
    import polars as pl

    orders, payments = (pl.scan_parquet(f"{folder}/*.parquet") for folder in events.orders())
    later = pl.col("event_time_right") - pl.col("event_time")
    pairs = orders.join(payments, on="key").filter(later.is_between(pl.duration(), pl.duration(minutes=15)))
    out.mkdir(parents=True)
    both = pl.col("value") + pl.col("value_right")
    pairs.select("key", both.alias("value")).collect().write_parquet(out / "answer.parquet")


def _polars_sums(rows: Any, out: Path) -> None:
    import polars as pl

    start = pl.col("event_time").dt.truncate("10s")
    grouped = rows.group_by("key", start.alias("window_start")).agg(pl.col("value").sum())
    ended = grouped.with_columns((pl.col("window_start") + pl.duration(seconds=10)).alias("window_end"))
    out.mkdir(parents=True)
    ended.collect().write_parquet(out / "answer.parquet")


def beam_triggered(events: Events, out: Path) -> None:
    """Sum per key and 10-second window with Beam's DirectRunner, with the same trigger.

    A bounded input has no watermark behind the events there: all arrive before it moves, so no pane is late.
    """
    import apache_beam as beam
    from apache_beam.io import ReadFromParquet, WriteToParquet
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import trigger, window

    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    out.mkdir(parents=True)
    names = ("key", "window_start", "window_end", "value", "pane_index")
    schema = pa.schema({name: pa.int64() for name in names})

    def stamped(row: dict[str, Any]) -> Any:
        return window.TimestampedValue((row["key"], row["value"]), row["event_time"].timestamp())

    def with_window(pair: Any, at: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam) -> dict[str, int]:
        return dict(zip(names, (pair[0], at.start.micros, at.end.micros, pair[1], pane.index), strict=True))

    windows = beam.WindowInto(
        window.FixedWindows(_WINDOW // 1_000_000),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(10), late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=60,
    )
    with beam.Pipeline(runner="DirectRunner", options=PipelineOptions([])) as pipeline:
        rows = pipeline | ReadFromParquet(f"{events.events}/*.parquet") | beam.Map(stamped)
        panes = rows | windows | beam.CombinePerKey(sum) | "with window" >> beam.Map(with_window)
        _ = panes | WriteToParquet(str(out / "answer"), schema, file_name_suffix=".parquet")


def beam_words(events: Events, out: Path) -> None:
    """Count words with Beam's FnApiRunner."""
    import apache_beam as beam
    from apache_beam.io import ReadFromParquet, WriteToParquet
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    out.mkdir(parents=True)
    schema = pa.schema({"key": pa.string(), "value": pa.int64()})
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        rows = pipeline | ReadFromParquet(f"{events.events}/*.parquet")
        ones = rows | beam.FlatMap(lambda row: words_of(row["value"])) | "one" >> beam.Map(lambda word: (word, 1))
        counts = ones | beam.CombinePerKey(sum) | "row" >> beam.Map(lambda pair: {"key": pair[0], "value": pair[1]})
        _ = counts | WriteToParquet(str(out / "answer"), schema, file_name_suffix=".parquet")


def _table(events: Events) -> pa.Table:
    return ds.dataset(events.events).to_table().combine_chunks()


def _micros(column: pa.ChunkedArray) -> list[int]:
    micros: list[int] = column.cast(pa.int64()).to_numpy().tolist()
    return micros


def _triples(events: Events) -> Iterable[tuple[int, int, int]]:
    """Return key, event time in microseconds, and value of each event."""
    table = _table(events)
    return zip(table["key"].to_pylist(), _micros(table["event_time"]), table["value"].to_pylist(), strict=True)


def _rows(events: Events) -> Iterable[Any]:
    """Return the events as named tuples, instants as datetimes."""
    table = _table(events)
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            # Adding durations to the epoch is several times faster than Arrow's own datetimes.
            columns.append((column.cast(pa.int64()).to_numpy().view("m8[us]").astype(object) + _EPOCH).tolist())
        else:
            columns.append(column.to_pylist())
    row = collections.namedtuple("Row", table.column_names)  # type: ignore[misc]  # noqa: PYI024 - as the file has it
    return map(row._make, zip(*columns, strict=True))


def _write_windows(out: Path, windows: _Windows, values: Mapping[str, pa.Array]) -> None:
    starts = [start for _, start in windows]
    columns = {
        "key": pa.array([key for key, _ in windows]),
        "window_start": pa.array(starts).cast(_INSTANT),
        "window_end": pa.array([start + _WINDOW for start in starts]).cast(_INSTANT),
        **values,
    }
    _write_columns(out, columns)


def _write_columns(out: Path, columns: Mapping[str, pa.Array]) -> None:
    out.mkdir(parents=True)
    pq.write_table(pa.table(dict(columns)), Path(out, "answer.parquet"))
