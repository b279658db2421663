"""Stateful functions that take back what they have emitted: how they say so, and what is behind them."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.logical.fingerprint import fingerprint
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.testing import TestStream
from tests.support.retractions.accounts import Account, net

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EACH = dm.Repeatedly(dm.AfterCount(1))
EVERYWHERE = dm.Window.into(dm.GlobalWindows()).trigger(EACH).accumulating_and_retracting()


class Newest(dm.DoFn):
    """The newest pair of each key, in place of the one before it."""

    retracts = True
    newest = dm.ValueStateSpec[Any](default=None)

    def process(self, pair: Any, newest: dm.ValueState[Any]) -> Iterator[Any]:
        if newest.read() is not None:
            yield dm.Retract((pair[0], newest.read()))
        newest.write(pair[1])
        yield pair


class Undeclared(Newest):
    retracts = False


class Open(dm.DoFn):
    """Each order as open, at its own time, until its payment arrives or ten seconds have passed."""

    retracts = True
    late_data_horizon = dm.duration("1 minute")
    since = dm.ValueStateSpec[Any](default=None)
    given_up = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, pair: Any, timestamp: dm.EventTime, since: Any, given_up: dm.Timer) -> Iterator[Any]:
        key, what = pair
        if what == "order":
            since.write(timestamp)
            given_up.set_after("10 seconds")
            yield key, "open"
        elif since.read() is not None:
            yield from self._closed(key, since, "paid")
            given_up.clear()

    @dm.on_timer(given_up)
    def give_up(self, key: Any, since: Any) -> Iterator[Any]:
        yield from self._closed(key, since, "given up")

    def _closed(self, key: Any, since: Any, how: str) -> Iterator[Any]:
        yield dm.TimestampedValue(dm.Retract((key, "open")), since.read())
        yield dm.TaggedOutput("closed", (key, how))
        since.clear()


def signed(records: Any) -> list[str]:
    return [f"{'-' if record.is_retraction else '+'}{record.value}" for record in records]


def result_of(build: Any) -> Any:
    with dm.Pipeline() as p:
        build(p)
    return p.result


RATINGS = TestStream().add(3, 5, key="a").add(4, 6, key="b").add(7, 7, key="a").watermark(8).add(1, 9, key="a")


def test_a_collected_retraction_is_a_record_of_the_retracted_value() -> None:
    records = result_of(lambda p: p | RATINGS | dm.ParDo(Newest()) | "raw" >> dm.io.Collect()).collected("raw")
    assert signed(records) == ["+('a', 3)", "+('b', 4)", "-('a', 3)", "+('a', 7)", "-('a', 7)", "+('a', 1)"]


def test_a_grouping_takes_a_retraction_and_the_value_after_it_as_one_update() -> None:
    def build(p: dm.Pipeline) -> None:
        newest = p | RATINGS | dm.ParDo(Newest()) | EVERYWHERE
        _ = newest | dm.Values() | dm.Sum.globally() | "sums" >> dm.io.Collect()
        _ = newest | "most" >> dm.Max.per_key() | "maxima" >> dm.io.Collect()

    result = result_of(build)
    assert signed(result.collected("sums")) == ["+3", "-3", "+7", "-7", "+11", "-11", "+5"]
    assert net(result.collected("maxima")) == [("a", 1), ("b", 4)]


def test_timers_and_tagged_outputs_take_back_values_at_their_own_times() -> None:
    script = TestStream().bundle([("order", 1), ("order", 2)], key="x").add("order", 3, key="y")
    script = script.add("paid", 8, key="y").watermark(30)

    def build(p: dm.Pipeline) -> None:
        waiting, closed = p | script | dm.ParDo(Open()).with_outputs("closed")
        _ = waiting | "open" >> dm.io.Collect()
        _ = closed | "closed" >> dm.io.Collect()
        minutes = dm.Window.into(dm.FixedWindows("1 minute")).trigger(EACH).accumulating_and_retracting()
        _ = waiting | dm.Values() | minutes | dm.Count.per_element() | "counts" >> dm.io.Collect()

    result = result_of(build)
    assert Account().book(result.collected("open")).values() == [("x", "open")], "ordered twice, given up once"
    assert sorted(record.value for record in result.collected("closed")) == [("x", "given up"), ("y", "paid")]
    assert net(result.collected("counts")) == [("open", 1)]


def test_what_is_emitted_when_a_window_expires_can_be_a_retraction() -> None:
    class UntilTheEnd(dm.DoFn):
        retracts = True
        late_data_horizon = dm.duration("1 minute")
        emitted = dm.BagStateSpec[Any]()

        def process(self, pair: Any, timestamp: dm.EventTime, emitted: dm.BagState[Any]) -> Iterator[Any]:
            emitted.add((pair, timestamp))
            yield dm.TaggedOutput("running", pair)

        def on_window_expiry(self, emitted: dm.BagState[Any]) -> Iterator[Any]:
            for pair, at in emitted.read():
                yield dm.TaggedOutput("running", dm.TimestampedValue(dm.Retract(pair), at))

    def build(p: dm.Pipeline) -> None:
        minutes = p | RATINGS | dm.Window.into(dm.FixedWindows("1 minute"))
        _, running = minutes | dm.ParDo(UntilTheEnd()).with_outputs("running")
        _ = running | "running" >> dm.io.Collect()
        _ = running | dm.Sum.per_key() | "sums" >> dm.io.Collect()

    result = result_of(build)
    assert len(result.collected("running")) == 8
    assert not net(result.collected("running"))
    assert not any(record.value[1] for record in result.collected("sums"))


def test_a_memoised_function_after_a_retracting_one_takes_back_the_outputs_that_it_returned() -> None:
    drawn = iter(range(100))

    def build(p: dm.Pipeline) -> None:
        at_once = p | RATINGS | dm.Map(lambda pair: pair) | dm.WithTimestamps(lambda _: 5, late_data_horizon="1 hour")
        numbered = at_once | dm.ParDo(Newest()) | dm.Map(lambda pair: (*pair, next(drawn))).retractable("memoised")
        _ = numbered | "numbered" >> dm.io.Collect()

    standing = net(result_of(build).collected("numbered"))
    assert [value[:2] for value in standing] == [("a", 1), ("b", 4)]


def test_an_element_that_fails_takes_nothing_back() -> None:
    class Failing(Newest):
        def process(self, pair: Any, newest: dm.ValueState[Any]) -> Iterator[Any]:
            yield from super().process(pair, newest)
            if pair[1] == 7:
                raise ValueError("seven")

    def build(p: dm.Pipeline) -> None:
        newest, failed = p | RATINGS | dm.ParDo(Failing()).with_exception_handling()
        _ = newest | "newest" >> dm.io.Collect()
        _ = failed | dm.Map(lambda letter: letter.element) | "failed" >> dm.io.Collect()

    result = result_of(build)
    assert signed(result.collected("newest")) == ["+('a', 3)", "+('b', 4)", "-('a', 3)", "+('a', 1)"]
    assert [record.value for record in result.collected("failed")] == [("a", 7)]


def test_a_function_that_asks_for_retractions_sees_those_of_the_function_before_it() -> None:
    class Net(dm.DoFn):
        total = dm.ValueStateSpec[int](default=0)

        def process(self, pair: Any, total: dm.ValueState[int], is_retraction: bool) -> Iterator[Any]:
            total.write(total.read() + (-pair[1] if is_retraction else pair[1]))
            yield pair[0], total.read()

    def build(p: dm.Pipeline) -> None:
        newest = p | RATINGS | "newest" >> dm.ParDo(Newest())
        _ = newest | "net" >> dm.ParDo(Net()) | "net totals" >> dm.io.Collect()

    values = [record.value for record in result_of(build).collected("net totals")]
    assert values == [("a", 3), ("b", 4), ("a", 0), ("a", 7), ("a", 0), ("a", 1)]


def test_a_changing_side_input_loses_retracted_values() -> None:
    def build(p: dm.Pipeline) -> None:
        newest = p | "ratings" >> RATINGS | dm.ParDo(Newest())
        asked = p | "asked" >> TestStream().add("now", 9, key="q")
        seen = asked | dm.Map(lambda pair, all_of: (pair[0], sorted(all_of)), dm.AsIter(newest))
        _ = seen | "seen" >> dm.io.Collect()

    (record,) = result_of(build).collected("seen")
    assert record.value == ("q", [("a", 1), ("b", 4)])


# Sinks ----------------------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    order: str
    state: str


ORDERS = TestStream().add("order", 1, key="x").add("order", 3, key="y").add("paid", 8, key="y").watermark(9)


def orders(p: dm.Pipeline, script: TestStream = ORDERS) -> dm.PCollection[Order]:
    waiting, _ = p | script | dm.ParDo(Open()).with_outputs("closed")
    return waiting | "orders" >> dm.Map(lambda pair: Order(*pair)).with_output_types(Order)


def test_a_row_of_a_table_is_deleted_when_its_value_is_taken_back(tmp_path: Path) -> None:
    table = dm.io.WriteTable(f"sqlite:///{tmp_path}/orders.db", table="orders", keys="order")
    result_of(lambda p: orders(p, ORDERS.add("order", 30, key="z")) | table)
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db")) as connection:
        assert connection.execute('select "order", state from orders').fetchall() == []
    kept = dm.io.WriteTable(f"sqlite:///{tmp_path}/kept.db", table="kept", keys="key")
    result_of(
        lambda p: p | RATINGS | dm.ParDo(Newest()) | dm.Map(lambda pair: pair).with_output_types(tuple[str, int]) | kept
    )
    with contextlib.closing(sqlite3.connect(tmp_path / "kept.db")) as connection:
        assert sorted(connection.execute("select key, value from kept")) == [("a", 1), ("b", 4)]


def test_a_line_of_json_that_takes_a_value_back_is_marked(tmp_path: Path) -> None:
    result_of(lambda p: orders(p) | dm.io.WriteJson(tmp_path / "out"))
    rows = [
        json.loads(line)
        for file in sorted((tmp_path / "out").glob("*.json*"))
        for line in file.read_text().splitlines()
    ]
    assert sorted((row["order"], row["is_retraction"]) for row in rows) == [
        ("x", False),
        ("x", True),
        ("y", False),
        ("y", True),
    ]


@pytest.mark.parametrize(
    ("sink", "way_out"),
    [
        (dm.io.WriteText, "use dm.io.WriteCsv or dm.io.WriteJson"),
        (lambda _: dm.io.ForeachBundle(print), "pass whole_records=True"),
    ],
)
def test_a_sink_that_cannot_show_retractions_is_rejected(tmp_path: Path, sink: Any, way_out: str) -> None:
    p = dm.Pipeline()
    _ = p | RATINGS | "newest" >> dm.ParDo(Newest()) | dm.Map(str) | "sink" >> sink(tmp_path / "out")
    with pytest.raises(
        dm.PlanError, match=r"'sink' writes the outputs of 'newest', which takes them back, and .*"
    ) as error:
        p.run()
    assert way_out in str(error.value)


def test_an_upserted_table_without_windows_is_rejected_after_a_retracting_function_in_windows(tmp_path: Path) -> None:
    p = dm.Pipeline()
    table = dm.io.WriteTable(f"sqlite:///{tmp_path}/a.db", table="a", keys="key")
    newest = p | RATINGS | dm.Window.into(dm.FixedWindows(5)) | "newest" >> dm.ParDo(Newest())
    _ = newest | dm.Map(lambda pair: pair).with_output_types(tuple[str, int]) | "sink" >> table
    with pytest.raises(dm.PlanError, match=r"'sink' writes the outputs of 'newest'.*does not have the windows"):
        p.run()


# What is rejected -----------------------------------------------------------------------------------------------------


def plan_error(build: Any) -> str:
    p = dm.Pipeline()
    build(p)
    with pytest.raises(dm.PlanError) as error:
        check(p.plan())
    return str(error.value)


def newest_of(p: dm.Pipeline) -> Any:
    late = dm.Window.into(dm.FixedWindows("1 minute")).allowed_lateness("1 hour")
    return p | RATINGS | late | "newest" >> dm.ParDo(Newest())


def test_a_grouping_with_less_allowed_lateness_than_the_retracting_function_before_it_is_rejected() -> None:
    less = "less" >> dm.Window.into(dm.FixedWindows("1 minute")).allowed_lateness("1 minute")
    message = plan_error(lambda p: newest_of(p) | less | "sums" >> dm.Sum.per_key())
    assert "'sums' allows 1 minute of lateness, but 'newest' before it emits retractions for 1 hour" in message


def test_a_grouping_that_merges_windows_is_rejected_after_a_retracting_function() -> None:
    sessions = "sessions" >> dm.Window.into(dm.Sessions(5)).allowed_lateness("1 hour")
    assert "'newest' emits retractions" in plan_error(lambda p: newest_of(p) | sessions | dm.Sum.per_key())


def test_a_discarding_grouping_that_cannot_subtract_is_rejected_after_a_retracting_function() -> None:
    assert "cannot subtract" in plan_error(lambda p: newest_of(p) | dm.Max.per_key())


def test_deduplicate_is_rejected_after_a_retracting_function() -> None:
    message = plan_error(lambda p: newest_of(p) | dm.Deduplicate(lambda pair: pair, horizon="1 hour"))
    assert "'newest' emits retractions, which it would drop as duplicates" in message


def test_a_stateful_function_that_does_not_ask_for_retractions_is_rejected_after_a_retracting_one() -> None:
    message = plan_error(lambda p: newest_of(p) | "again" >> dm.ParDo(Undeclared()))
    assert "'again' is stateful, and 'newest' before it emits retractions" in message
    assert "Hint: add the parameter `is_retraction` to `process`" in message
    assert "or put a grouping with .accumulating() between the two" in message


@pytest.mark.parametrize("transform", [dm.Join(within="1 minute"), dm.Join.as_of()])
def test_the_hint_for_a_join_after_a_retracting_function_does_not_ask_for_changes_of_its_code(transform: Any) -> None:
    def build(p: dm.Pipeline) -> None:
        newest = newest_of(p)
        _ = (newest, newest) | transform

    assert "Hint: put a grouping with .accumulating() between the two" in plan_error(build)


def test_a_join_is_applied_after_a_retracting_function_with_an_accumulating_grouping_between_them() -> None:
    accumulating = dm.Window.into(dm.GlobalWindows()).trigger(dm.AfterWatermark()).accumulating()
    with dm.Pipeline() as p:
        newest = newest_of(p) | "accumulating" >> accumulating | dm.Latest.per_key()
        _ = (newest, newest) | dm.Join(within="1 minute") | "pairs" >> dm.io.Collect()
    assert p.result is not None
    assert p.result.collected("pairs")


def test_the_dead_letters_of_a_function_that_takes_back_are_never_taken_back() -> None:
    p = dm.Pipeline()
    values, failed = p | RATINGS | dm.ParDo(Newest()).with_exception_handling()
    retracted = retracted_collections(p.plan())
    assert values.ref in retracted
    assert failed.ref not in retracted


def test_a_class_that_retracts_without_declaring_it_fails_with_an_error_that_names_the_declaration() -> None:
    with pytest.raises(dm.UserCodeError, match="does not declare that it retracts") as error:
        result_of(lambda p: p | RATINGS | dm.ParDo(Undeclared()) | dm.io.Collect())
    assert "write retracts = True in the class Undeclared" in str(error.value)


@pytest.mark.parametrize(
    "function",
    [
        dm.Map(dm.Retract),
        dm.FlatMap(lambda pair: [dm.Retract(pair)]),
        dm.FlatMap(lambda pair: [pair, dm.Retract(pair)]),
    ],
)
def test_a_function_without_state_cannot_take_back(function: Any) -> None:
    with pytest.raises(
        (dm.UserCodeError, dm.InvalidType), match="has no state, so it cannot take back what it has emitted"
    ):
        result_of(lambda p: p | RATINGS | function | dm.io.Collect())


def test_a_class_without_state_that_declares_it_is_rejected_when_built() -> None:
    class Stateless(dm.DoFn):
        retracts = True

        def process(self, pair: Any) -> Iterator[Any]:
            yield dm.Retract(pair)

    with pytest.raises(dm.InvalidArgument, match="Stateless declares retracts = True, but it has no state"):
        dm.ParDo(Stateless())


@pytest.mark.parametrize("wrapped", [dm.Retract(1), dm.TaggedOutput("a", 1), dm.TimestampedValue(1, 5)])
def test_retract_must_be_inside_of_the_other_wrappers(wrapped: Any) -> None:
    with pytest.raises(dm.InvalidType, match="the value of a Retract cannot be the"):
        dm.Retract(wrapped)


def test_a_retraction_further_back_than_declared_fails() -> None:
    class Back(Newest):
        def process(self, pair: Any, newest: dm.ValueState[Any]) -> Iterator[Any]:
            for output in super().process(pair, newest):
                yield dm.TimestampedValue(output, 1)

    with pytest.raises(dm.UserCodeError, match="moves an event time backward") as error:
        result_of(lambda p: p | RATINGS | dm.ParDo(Back()) | dm.io.Collect())
    assert "late_data_horizon" in str(error.value)


def test_a_class_that_declares_retractions_has_another_fingerprint() -> None:
    def line(fn: dm.DoFn) -> str:
        p = dm.Pipeline()
        _ = p | RATINGS | "newest" >> dm.ParDo(fn)
        return fingerprint(p.plan())["newest"]

    assert "outputs that may be taken back" in line(Newest())
    assert "taken back" not in line(Undeclared())


def test_retract_is_not_an_element_type() -> None:
    class Typed(dm.DoFn):
        retracts = True
        newest = dm.ValueStateSpec[Any](default=None)

        def process(self, pair: tuple[str, int], newest: Any) -> list[tuple[str, int] | dm.Retract[Any]]:
            del newest
            return [pair]

    assert (dm.Pipeline() | RATINGS | dm.ParDo(Typed())).element_type == tuple[str, int]
