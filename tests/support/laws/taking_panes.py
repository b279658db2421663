"""Pipelines in which each kind of reader takes the panes of a grouping, and what it makes of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import pyarrow.dataset as ds

import dataflow_model as dm
from dataflow_model.plan.endpoints.outcomes import Firings, Mode, Reader, Windows
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SIZE: Final = 60
GAP: Final = 20
DAY: Final = "1 day"
Step: TypeAlias = "tuple[str, int, int] | int"
"""An element (key, value, event time), or a watermark; both in seconds."""
Results: TypeAlias = "dict[tuple[str, int, int], int]"
"""The sums by key and window, as start and end."""
_TRIGGERS: Final = {
    Firings.ON_TIME: dm.AfterWatermark(),
    Firings.ONCE: dm.AfterCount(2),
    Firings.EARLY: dm.AfterWatermark(early=dm.AfterCount(1)),
    Firings.LATE: dm.AfterWatermark(late=dm.AfterCount(1)),
    Firings.EARLY_AND_LATE: dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1)),
    Firings.REOPENED: dm.AfterWatermark(),
}
_LATE: Final = {Firings.LATE, Firings.EARLY_AND_LATE}
_PANE: Final = ("window_start", "window_end", "pane_index")


@attrs.frozen
class Case:
    """A combination of what `outcome` is asked for."""

    mode: Mode
    firings: Firings
    windows: Windows
    reader: Reader

    @property
    def adds_up(self) -> bool:
        """Whether no element is in two panes."""
        single = {Firings.ON_TIME, Firings.ONCE, Firings.REOPENED}
        return self.mode is Mode.DISCARDING or self.firings in single


def cases() -> list[Case]:
    """Return all combinations that there can be: a window that merges has no trigger that is known to fire once."""
    return [
        Case(*parts)
        for parts in itertools.product(Mode, Firings, Windows, Reader)
        if parts[1:3] != (Firings.ONCE, Windows.MERGE)
    ]


def windowing(case: Case, *, again: bool = False) -> dm.WindowInto:
    """Return the strategy of a case, `again` for a grouping of panes."""
    trigger = _TRIGGERS[case.firings]
    if again:
        into = dm.Window.trigger(trigger, may_lose_data=True)
    else:
        window_fn = dm.Sessions(GAP) if case.windows is Windows.MERGE else dm.FixedWindows(SIZE)
        into = dm.Window.into(window_fn).trigger(trigger, may_lose_data=case.firings is Firings.ONCE)
    if case.firings in _LATE:
        into = into.allowed_lateness(DAY)
    if case.firings is Firings.REOPENED:
        into = into.late_data("duplicate_window")
    match case.mode:
        case Mode.DISCARDING:
            return into.discarding()
        case Mode.ACCUMULATING:
            return into.accumulating()
        case Mode.RETRACTING:
            return into.accumulating_and_retracting()


def panes(p: dm.Pipeline, case: Case, steps: Sequence[Step]) -> Any:
    """Return the panes of the grouping."""
    script, watermark = TestStream(), 0
    for step in steps:
        if not isinstance(step, int):
            script = script.add(step[1], step[2], key=step[0])
        elif step > watermark:
            script, watermark = script.watermark(step), step
    if case.windows is not Windows.VANISH:
        return p | script | windowing(case) | "sums" >> dm.Sum.per_key()
    first = windowing(attrs.evolve(case, mode=Mode.RETRACTING, windows=Windows.STAY, firings=_before(case.firings)))
    totals = p | script | first | "totals" >> dm.Sum.per_key()
    return totals | dm.MapTuple(_by_parity) | windowing(case, again=True) | "sums" >> dm.Sum.per_key()


def _before(firings: Firings) -> Firings:
    """Return the firings of a first grouping that takes values back, with no more lateness than a second one."""
    return Firings.EARLY_AND_LATE if firings in _LATE else Firings.EARLY


def _by_parity(key: str, total: int) -> tuple[str, int]:
    del key
    return ("odd" if total % 2 else "even", total)


def expected(case: Case, steps: Sequence[Step]) -> Results:
    """Return the sums that the windows should have, from the definition of the windows."""
    watermark, kept = -1, list[tuple[str, int, int]]()
    for step in steps:
        if isinstance(step, int):
            watermark = max(watermark, step)
        elif _keeps_all(case) or watermark < step[2] // SIZE * SIZE + SIZE:
            kept.append(step)
    sums: Results = {}
    if case.windows is Windows.MERGE:
        for key in {key for key, _, _ in kept}:
            start = end = -1
            for time, value in sorted((time, value) for other, value, time in kept if other == key):
                value_before = sums.pop((key, start, end), 0) if time < end else 0
                start, end = (start if time < end else time), time + GAP
                sums[key, start, end] = value_before + value
        return sums
    sizes: Counter[tuple[str, int, int]] = Counter()
    for key, value, time in kept:
        cell = (key, time // SIZE * SIZE, time // SIZE * SIZE + SIZE)
        sizes[cell] += 1
        if case.firings is not Firings.ONCE or sizes[cell] <= 2:
            sums[cell] = sums.get(cell, 0) + value
    if case.windows is Windows.VANISH:
        by_parity: Results = {}
        for (key, start, end), total in sums.items():
            cell = (_by_parity(key, total)[0], start, end)
            by_parity[cell] = by_parity.get(cell, 0) + total
        return by_parity
    return sums


def _keeps_all(case: Case) -> bool:
    return case.firings in _LATE or (case.firings is Firings.REOPENED and case.windows is not Windows.VANISH)


def take(p: dm.Pipeline, case: Case, taken: Any, folder: Path, seen: list[Any]) -> None:
    """Apply the case's reader, labelled `out`."""
    with_panes = case.reader in {Reader.ROWS_WITH_PANES, Reader.NEWEST_ROW, Reader.ROW_OF_WINDOW, Reader.ROW_OF_PANE}
    table: dict[str, Any] = {"table": "t", "panes": with_panes}
    url = f"sqlite:///{folder / 'test.db'}"
    match case.reader:
        case Reader.ROWS | Reader.ROWS_WITH_PANES:
            _ = taken | "out" >> dm.io.WriteParquet(folder / "out", panes=with_panes)
        case Reader.LINES:
            _ = taken | dm.MapTuple(lambda key, value: f"{key} {value}") | "out" >> dm.io.WriteText(folder / "out")
        case Reader.ROW_OF_PANE:
            _ = taken | "out" >> dm.io.WriteTable(url, keys=("key", *_PANE), **table)
        case Reader.ROW_OF_WINDOW:
            _ = taken | "out" >> dm.io.WriteTable(url, keys=("key", "window_start"), **table)
        case Reader.NEWEST_ROW | Reader.ROW:
            _ = taken | "out" >> dm.io.WriteTable(url, keys="key", **table)
        case Reader.REPLACED_ROW:
            _ = taken | "out" >> dm.io.WriteTable(url, keys="key", upsert="replace", **table)
            _ = taken | "all" >> dm.io.Collect()
        case Reader.VALUES:
            with_windows = taken | dm.Map(lambda pair, window: (*pair, int(window.start), int(window.end)))
            _ = with_windows | "out" >> dm.io.ForeachBundle(seen.extend)
        case Reader.RECORDS:
            _ = taken | "out" >> dm.io.Collect()
        case Reader.PARTS:
            _ = taken | "out" >> dm.Sum.per_key() | "all" >> dm.io.Collect()
        case Reader.WHOLES:
            _ = taken | "out" >> dm.Count.per_key() | "all" >> dm.io.Collect()
    del p


@attrs.frozen
class _Row:
    key: str
    value: int
    window: tuple[int, int] | None = None
    index: int = 0
    is_retraction: bool = False

    @property
    def signed(self) -> int:
        return -self.value if self.is_retraction else self.value


def difference(case: Case, right: Results, result: Any, folder: Path, seen: list[Any]) -> str:
    """Return how what the reader makes of the panes differs from what is right; `""` if it does not."""
    rows = _rows(case, result, folder, seen)
    newest = {key: value for (key, _, _), value in sorted(right.items(), key=lambda entry: entry[0][2])}
    wanted: dict[Any, int]
    actual: dict[Any, int]
    match case.reader:
        case Reader.NEWEST_ROW | Reader.ROW:
            wanted, actual = newest, {row.key: row.value for row in rows}
        case Reader.REPLACED_ROW:
            last = {}
            for record in result.collected("all"):
                key, value = record.value
                last[key] = 0 if record.is_retraction else value
            wanted, actual = last, {row.key: row.value for row in rows}
        case Reader.WHOLES:
            wanted = Counter(key for key, _, _ in right)
            actual = _summed((row.key, row.signed) for row in rows)
        case Reader.ROW_OF_WINDOW:
            wanted, actual = dict(right), {(row.key, *(row.window or ())): row.value for row in rows}
        case _ if case.adds_up or rows[0].window is None or case.reader is Reader.PARTS:
            wanted = _summed((key, value) for (key, _, _), value in right.items())
            actual = _summed((row.key, row.signed) for row in rows)
        case _ if case.mode is Mode.RETRACTING:
            wanted, actual = dict(right), _summed(((row.key, *(row.window or ())), row.signed) for row in rows)
        case Reader.VALUES | Reader.RECORDS:
            wanted, actual = dict(right), _newest(rows)
        case _:  # the last pane of each window counts
            rows.sort(key=lambda row: row.index)
            wanted, actual = dict(right), {(row.key, *(row.window or ())): row.value for row in rows}
    actual = {cell: value for cell, value in actual.items() if value}  # 0 is the sum of what was all taken back
    return "" if actual == {cell: value for cell, value in wanted.items() if value} else f"{actual} is not {wanted}"


def _newest(rows: Sequence[_Row]) -> dict[Any, int]:
    """Return the last value of each window, in emission order; one that has merged replaces those in it."""
    newest: dict[Any, int] = {}
    for row in rows:
        start, end = row.window or (0, 0)
        inside = [cell for cell in newest if cell[0] == row.key and start <= cell[1] and cell[2] <= end]
        for cell in inside:
            del newest[cell]
        newest[row.key, start, end] = row.value
    return newest


def _summed(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    sums: dict[Any, int] = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0) + value
    return sums


def _rows(case: Case, result: Any, folder: Path, seen: list[Any]) -> list[_Row]:
    match case.reader:
        case Reader.ROWS | Reader.ROWS_WITH_PANES:
            return [_row(row) for row in ds.dataset(folder / "out", format="parquet").to_table().to_pylist()]
        case Reader.LINES:
            lines = [line for path in (folder / "out").rglob("*.txt") for line in path.read_text().splitlines()]
            return [_Row(key, int(value)) for key, value in (line.split() for line in lines)]
        case Reader.VALUES:
            scale = 1_000_000
            return [
                _Row(key, value, (start // scale, end // scale), index)
                for index, (key, value, start, end) in enumerate(seen)
            ]
        case Reader.RECORDS | Reader.PARTS | Reader.WHOLES:
            return [
                _Row(
                    record.value[0],
                    record.value[1],
                    (int(record.window.start) // 1_000_000, int(record.window.end) // 1_000_000),
                    record.pane.index,
                    record.is_retraction,
                )
                for record in result.collected("out" if case.reader is Reader.RECORDS else "all")
            ]
        case _:
            with contextlib.closing(sqlite3.connect(folder / "test.db")) as database:
                database.row_factory = sqlite3.Row
                return [_row(dict(row)) for row in database.execute("SELECT * FROM t")]


def _row(row: dict[str, Any]) -> _Row:
    window = tuple(_seconds(row[name]) for name in _PANE[:2]) if "window_start" in row else None
    return _Row(row["key"], row["value"], window, row.get("pane_index", 0), row.get("is_retraction", False))  # type: ignore[arg-type]


def _seconds(at: str | dt.datetime) -> int:
    moment = dt.datetime.fromisoformat(at) if isinstance(at, str) else at
    return int(moment.replace(tzinfo=dt.UTC).timestamp())
