"""The synthetic events, made once and kept: Parquet files in order of arrival.

Events arrive one every 300 µs and are up to half a minute old then (2-second exponential skew), so 10-second windows of
20,000 keys hold about two events each. Event times are multiples of 3 µs: no two of them are exactly 5 seconds apart,
which Spark's `session_window` and ours treat differently. `arrived_at`, where it is there, is when an event arrived,
in whole milliseconds: the replay clock of comparisons in process. With 1,000 keys a window of a key holds about 33
events, so that triggers fire early, and with the watermark two seconds behind they fire late about as often.
`hot_key`, where it is there, is 0 for nine events of ten, drawn at random, and the key for the others.

A `sentinel` file, an hour later than all others, stands apart: Spark's own watermark has no end of the input, so its
queries read the sentinel last, which closes every window but the sentinel's own. Ours reads only the events.

Orders and payments, which are made when they are asked for, are as many as the events, with an order every 3 ms. An
order has a number as key, and all but one in twenty have a payment, which is a few minutes later: 2 % of these are
later than a quarter of an hour. Both are in order of arrival, up to half a minute late as the events are.

For programs of Beam's there are as many lines of ten words each, of five thousand, and as many events of Nexmark.

The events are also there as text, for comparisons of reading it: a file of CSV and one of JSON lines. Event times are
in ISO 8601 there. The files are made beside those of Parquet when they are asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.nexmark import write_events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DELAY", "HOT_KEY", "Events", "make_events"]

DELAY: Final = "60 seconds"
"""The watermark's delay; the largest skew of 4 million events is about 30 seconds."""
_KEYS: Final = 20_000
_MILLI: Final = 1_000
_ARRIVAL_PERIOD: Final = 300
_SKEW: Final = 2_000_000
_GRID: Final = 3
HOT_KEY: Final = 0
"""The key that most rows have in the column `hot_key`."""
_HOT: Final = 0.9
_ORDER_PERIOD: Final = 3_000
_UNPAID: Final = 0.05
_PAID_AFTER: Final = 230_000_000
"""The mean time from an order to its payment, in microseconds."""
_EPOCH: Final = 1_700_000_001_000_000  # 2023, and a multiple of the grid
_HOUR: Final = 3_600_000_000
_CACHE: Final = Path(__file__).resolve().parent / ".cache"


@attrs.frozen
class Events:
    """A folder of events.

    Attributes:
        rows: how many events there are.
        rows_per_file: how many of them a file holds, which is also a micro-batch.
        string_keys: whether keys are strings like `customer-000042` rather than integers.
        keys: how many keys there are.
        arrivals: whether the column `arrived_at` is there.
        hot: whether the column `hot_key` is there.
        folder: where they are; `events/` and `sentinel/` within.
    """

    rows: int
    rows_per_file: int
    string_keys: bool
    keys: int
    arrivals: bool
    folder: Path
    hot: bool = False

    @property
    def events(self) -> str:
        """The folder of the events alone."""
        return str(self.folder / "events")

    @property
    def with_sentinel(self) -> str:
        """A glob of the events and the sentinel, whose file is the newest."""
        return str(self.folder / "*")

    @property
    def csv(self) -> str:
        """A file of CSV with the events."""
        return self._text("events.csv", pa_csv.write_csv)

    @property
    def json(self) -> str:
        """A file of JSON lines with the events."""
        return self._text("events.json", _write_json)

    @property
    def words(self) -> str:
        """A file of text, with as many lines of ten words."""
        return self._made("words.txt", lambda path: _write_words(path, self.rows))

    @property
    def nexmark(self) -> str:
        """A file of JSON lines with as many events of Nexmark."""
        return self._made("nexmark.json", lambda path: write_events(path, self.rows))

    def orders(self) -> tuple[str, str]:
        """Return the folders of the orders and of the payments."""
        folders = tuple(self.folder / name for name in ("orders", "payments"))
        if not folders[1].exists():
            half_made = Path(tempfile.mkdtemp(dir=self.folder))
            _write_orders(self, half_made)
            for folder in folders:
                (half_made / folder.name).rename(folder)
            half_made.rmdir()
        orders, payments = map(str, folders)
        return orders, payments

    def repeated(self, times: int, *, csv: bool = False) -> str:
        """Return a folder that holds the events several times, as links to their files."""
        kept = [Path(self.csv)] if csv else sorted(Path(self.events).iterdir())
        folder = self.folder / f"{times}-times-{'csv' if csv else 'parquet'}"
        folder.mkdir(exist_ok=True)
        for number, file in itertools.product(range(times), kept):
            link = folder / f"{number:03}-{file.name}"
            with contextlib.suppress(FileExistsError):
                link.hardlink_to(file)
        return str(folder)

    def _text(self, name: str, write: Callable[[pa.Table, str], None]) -> str:
        def write_table(path: Path) -> None:
            table = ds.dataset(self.events).to_table(columns=["key", "event_time", "value"])
            written = pc.call_function("strftime", [table["event_time"]], pc.StrftimeOptions("%Y-%m-%dT%H:%M:%SZ"))
            write(table.set_column(1, "event_time", written), str(path))

        return self._made(name, write_table)

    def _made(self, name: str, write: Callable[[Path], None]) -> str:
        """Return a file, which is written if it is not there yet; a file with its name is complete."""
        path = self.folder / name
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as half_made:
                write(Path(half_made.name))
            Path(half_made.name).rename(path)
        return str(path)

    @property
    def key_type(self) -> str:
        """Spark's name of the keys' type."""
        return "string" if self.string_keys else "bigint"


def make_events(
    rows: int,
    *,
    files: int = 10,
    string_keys: bool = False,
    keys: int = _KEYS,
    arrivals: bool = False,
    hot: bool = False,
    cache: Path = _CACHE,
) -> Events:
    """Return `rows` events in `files` files, from the cache if they were made before."""
    kind = f"{keys}-{'string' if string_keys else 'int'}-keys{'-arrivals' if arrivals else ''}{'-hot' if hot else ''}"
    folder = cache / f"{rows}-rows-{files}-files-{kind}"
    made = Events(rows, -(-rows // files), string_keys, keys, arrivals, folder, hot)
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        half_made = Path(tempfile.mkdtemp(dir=cache))
        _write(attrs.evolve(made, folder=half_made))
        try:
            half_made.rename(folder)  # all or nothing: an interrupted run leaves no half of it under the name
        except OSError:  # another run was faster
            shutil.rmtree(half_made)
    return made


def _write(target: Events) -> None:
    random = np.random.default_rng(1)
    arrival = np.arange(target.rows) * _ARRIVAL_PERIOD
    event_time = (arrival - random.exponential(_SKEW, target.rows).astype(np.int64)) // _GRID * _GRID + _EPOCH
    keys = random.integers(0, target.keys, target.rows)
    values = random.integers(0, 100, target.rows)
    hot_keys = np.where(random.random(target.rows) < _HOT, HOT_KEY, keys)
    for name in ("events", "sentinel"):
        (target.folder / name).mkdir()
    for number, start in enumerate(range(0, target.rows, target.rows_per_file)):
        part = slice(start, start + target.rows_per_file)
        path = target.folder / "events" / f"{number:03}.parquet"
        columns = {"hot_key": pa.array(hot_keys[part])} if target.hot else {}
        _write_file(target, path, keys[part], event_time[part], values[part], arrival[part] + _EPOCH, columns)
        _date(path, number)
    path = target.folder / "sentinel" / "999.parquet"
    end = event_time.max(keepdims=True) + _HOUR
    columns = {"hot_key": pa.array([-1])} if target.hot else {}
    _write_file(target, path, np.array([-1]), end, np.array([0]), end, columns)
    _date(path, 999)


def _write_orders(target: Events, folder: Path) -> None:
    random = np.random.default_rng(2)
    keys = np.arange(target.rows)
    ordered = keys * _ORDER_PERIOD + _EPOCH
    paid = ordered + random.exponential(_PAID_AFTER, target.rows).astype(np.int64)
    is_paid = random.random(target.rows) >= _UNPAID
    for name, of_keys, at in (("orders", keys, ordered), ("payments", keys[is_paid], paid[is_paid])):
        (folder / name).mkdir()
        arrival = np.argsort(at + random.exponential(_SKEW, len(at)), kind="stable")
        for number, rows in enumerate(np.array_split(arrival, -(-target.rows // target.rows_per_file))):
            path = folder / name / f"{number:03}.parquet"
            values = random.integers(0, 100, len(rows))
            _write_file(attrs.evolve(target, arrivals=False), path, of_keys[rows], at[rows], values, at[rows], {})
            _date(path, number)


def _write_file(
    target: Events,
    path: Path,
    keys: np.ndarray,
    event_time: np.ndarray,
    values: np.ndarray,
    arrival: np.ndarray,
    further: Mapping[str, pa.Array],
) -> None:
    names = pa.array([f"customer-{key:06}" for key in keys.tolist()]) if target.string_keys else pa.array(keys)
    instants = pa.timestamp("us", "UTC")
    columns = {"key": names, "event_time": pa.array(event_time).cast(instants), "value": pa.array(values)}
    if target.arrivals:
        columns["arrived_at"] = pa.array(-(-arrival // _MILLI) * _MILLI).cast(instants)
    pq.write_table(pa.table({**columns, **further}), path)


def _write_json(table: pa.Table, path: str) -> None:
    texts = [column.cast(pa.string()) for column in table.columns]
    begins = ['{"key": ', ', "event_time": "', '", "value": ']
    pieces = [piece for begin, text in zip(begins, texts, strict=True) for piece in (begin, text)]
    lines = pc.call_function("binary_join_element_wise", [*pieces, "}\n", ""])
    Path(path).write_bytes(b"".join(memoryview(lines.chunk(place).buffers()[2]) for place in range(lines.num_chunks)))


def _write_words(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for line in range(count):
            file.write(" ".join(f"w{(line * 10 + word) * (line % 7 + 1) % 5_003}" for word in range(10)) + "\n")


def _date(path: Path, number: int) -> None:
    """Set the file's time of change, by which Spark orders the files of a stream."""
    seconds = _EPOCH // 10**6 + number
    os.utime(path, (seconds, seconds))
