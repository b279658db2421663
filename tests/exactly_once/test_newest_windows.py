"""A table without the window among its keys keeps the newest window of each key, on every host and database."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.io.tables.table_sinks import TableSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.testing import TestStream
from dataflow_model.values import NO_FIRING
from tests.support.exactly_once.databases import execute, rows
from tests.support.exactly_once.tables import PAIRS
from tests.support.hosts import on_hosts, runner_on
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOUR = 3600
LATE = dm.Window.into(dm.FixedWindows("1 hour")).trigger(dm.AfterWatermark(late=dm.AfterCount(1)))
SCRIPT = (
    TestStream()
    .add(5, 10, key="u")
    .add(4, 20, key="v")
    .watermark(HOUR)
    .add(7, HOUR + 10, key="u")
    .watermark(2 * HOUR)
    .add(1, 20, key="u")  # late, for the older window
    .add(2, 30, key="v")  # late, for the only one
    .watermark(3 * HOUR)
)


def sums_into(url: str, windowing: dm.WindowInto, **options: Any) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        sums = p | SCRIPT | windowing.allowed_lateness("1 day") | dm.Sum.per_key()
        _ = sums | dm.io.WriteTable(url, table="newest", keys="key", schema=PAIRS, **options)

    return build


def held(url: str) -> dict[str, int]:
    return {row["key"]: row["value"] for row in rows(url, "newest")}


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
@pytest.mark.parametrize("windowing", [LATE.accumulating(), LATE.accumulating_and_retracting()])
def test_a_late_pane_of_an_older_window_does_not_overwrite_the_newest_window(
    host: str, windowing: dm.WindowInto, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    run(runner_on(host, request, tmp_path / "checkpoint"), sums_into(url, windowing, panes=True))
    assert held(url) == {"u": 7, "v": 6}


@on_hosts("local", "process", slow=("batch", "streaming"))
def test_the_row_emitted_last_is_kept_with_upsert_replace(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    runner = runner_on(host, request, tmp_path / "checkpoint")
    run(runner, sums_into(url, LATE.accumulating(), panes=True, upsert="replace"))
    in_event_time_order = host == "batch"  # where nothing is late
    assert held(url) == {"u": 7 if in_event_time_order else 6, "v": 6}


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_combinations_that_give_wrong_rows_are_rejected_on_every_host(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    runner = runner_on(host, request, tmp_path / "checkpoint")
    with pytest.raises(dm.PlanError, match=r"hold the last increment(.|\n)*Hint: use \.accumulating"):
        run(runner, sums_into(url, LATE, panes=True))
    with pytest.raises(dm.PlanError, match=r"the table does not have the windows(.|\n)*Hint: pass panes=True"):
        run(runner, sums_into(url, LATE.accumulating()))


def test_another_value_of_upsert_is_rejected() -> None:
    with pytest.raises(dm.InvalidArgument, match="`upsert` must be 'replace' or None, got 'add'"):
        dm.io.WriteTable("sqlite:///a.db", table="a", keys="key", upsert="add")  # type: ignore[arg-type]


def test_a_window_that_a_function_writes_into_its_output_may_be_in_the_keys(tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        sums = p | SCRIPT | LATE.allowed_lateness("1 day").accumulating() | dm.Sum.per_key()
        named = sums | dm.Map(lambda pair, window: {"key": pair[0], "hour": str(window.start), "value": pair[1]})
        _ = named | dm.io.WriteTable(f"sqlite:///{tmp_path}/a.db", table="newest", keys=("key", "hour"))
    values = [(row["key"], row["value"]) for row in rows(f"sqlite:///{tmp_path}/a.db", "newest")]
    assert sorted(values) == [("u", 6), ("u", 7), ("v", 6)]


@pytest.mark.parametrize("mode", ["discarding", "accumulating"])
def test_windows_assigned_to_panes_are_not_those_of_the_grouping(mode: str, tmp_path: Path) -> None:
    p = dm.Pipeline()
    each = dm.Window.into(dm.FixedWindows("1 minute")).trigger(dm.Repeatedly(dm.AfterCount(1)))
    sums = p | SCRIPT | getattr(each, mode)() | dm.Sum.per_key() | "hourly" >> dm.Window.into(dm.FixedWindows("1 hour"))
    _ = sums | dm.io.WriteTable(f"sqlite:///{tmp_path}/a.db", table="a", keys=("key", "window_start"), panes=True)
    with pytest.raises(dm.PlanError):
        p.run()


def test_panes_of_the_local_runner_in_micro_batches_are_accepted_since_they_accumulate(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    rounds = dm.LocalRunner(mode="microbatch", interval="1 minute")
    run(rounds, sums_into(url, LATE.discarding(), panes=True))  # rounds accumulate
    assert held(url) == {"u": 7, "v": 6}


# The statements.

MOVES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=6)


def pane(position: int, key: str, hour: int, value: int, *, is_retraction: bool) -> Record:
    window = dm.IntervalWindow(dm.EventTime(hour * HOUR * 10**6), dm.EventTime((hour + 1) * HOUR * 10**6))
    return Record((key, value), window.start, window, NO_FIRING, is_retraction, order=(position,))


def check_moves(sink: TableSink, commits: list[list[tuple[str, int, int, bool]]]) -> None:
    """Commit panes, each retracted before it is replaced, and compare with the newest window that has not been."""
    expected: dict[str, tuple[int, int]] = {}
    for number, moves in enumerate(commits):
        writer = sink.open(f"run-{number}", "0")
        writer.write([pane(index, *move[:3], is_retraction=move[3]) for index, move in enumerate(moves)])
        sink.commit(f"run-{number}", [writer.close()])
        last = {(key, hour): None if back else value for key, hour, value, back in moves}
        for (key, hour), value in last.items():
            if value is None and expected.get(key, (None,))[0] == hour:
                del expected[key]
        for (key, hour), value in sorted(last.items()):
            if value is not None and expected.get(key, (-1, 0))[0] <= hour:
                expected[key] = (hour, value)
    actual = {row["key"]: row["value"] for row in rows(sink.url, "newest")}
    assert actual == {key: value for key, (_, value) in expected.items()}


@share_of_examples(0.3)
@given(st.lists(MOVES, max_size=4))
def test_a_row_is_replaced_and_deleted_only_by_its_own_and_newer_windows(
    commits: list[list[tuple[str, int, int, bool]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = TableSink(url=f"sqlite:///{folder}/a.db", table="newest", keys="key", schema=PAIRS, panes=True)
        sink.check()
        check_moves(sink, commits)


def test_upserts_by_window_have_the_same_effect_on_every_database(database: str) -> None:
    sink = TableSink(url=database, table="newest", keys="key", schema=PAIRS, panes=True)
    sink.check()
    older, newer = ("a", 0, 1, False), ("a", 1, 2, False)
    taken_back = [("a", 0, 1, True)]
    check_moves(sink, [[older], [newer], [older], taken_back, [("a", 1, 2, True), ("a", 1, 5, False)]])
    assert held(database) == {"a": 5}


def test_a_row_of_another_program_without_a_window_is_replaced(database: str) -> None:
    sink = TableSink(url=database, table="newest", keys="key", schema=PAIRS, panes=True)
    sink.check()
    execute(database, "INSERT INTO newest (key, value) VALUES ('a', 0)")
    writer = sink.open("run-0", "0")
    writer.write([pane(0, "a", 0, 1, is_retraction=False)])
    sink.commit("run-0", [writer.close()])
    assert held(database) == {"a": 1}


def test_the_option_upsert_is_part_of_the_destination_only_if_it_is_passed() -> None:
    sink = TableSink(url="sqlite:///a.db", table="a", keys="key", schema=pa.schema({"key": pa.string()}))
    assert "upsert" not in sink.destination()
    assert TableSink(url="sqlite:///a.db", table="a", keys="key", upsert="replace").destination()["upsert"] == "replace"
