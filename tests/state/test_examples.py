"""Stateful DoFns by example: what each kind of state and timer does, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, NotYetSupported, PlanError, UserCodeError
from dataflow_model.plan.logical.fingerprint import fingerprint
from dataflow_model.runners.engine.machines import stateful
from dataflow_model.testing import TestStream
from tests.support.state.examples import CLOCK, EVENT, result_of, values

TENS = dm.Window.into(dm.FixedWindows(10))


class Count(dm.DoFn):
    """Numbers the elements of each key and window."""

    count = dm.ValueStateSpec[int](default=0)

    def process(self, pair: Any, count: dm.ValueState[int]) -> Any:
        count.write(count.read() + 1)
        yield pair[0], count.read()


class AtTheEnd(dm.DoFn):
    """Gives the values of a window as it ends."""

    values = dm.BagStateSpec[Any]()
    end = dm.TimerSpec(EVENT)

    def process(self, pair: Any, values: dm.BagState[Any], end: dm.Timer, window: dm.IntervalWindow) -> None:
        values.add(pair[1])
        end.set(window.end)

    @dm.on_timer(end)
    def at_end(self, key: Any, values: dm.BagState[Any]) -> Any:
        yield key, values.read()
        values.clear()


# State ----------------------------------------------------------------------------------------------------------------


def test_state_belongs_to_a_key_and_a_window() -> None:
    script = TestStream().add("x", 1, key="a").add("y", 2, key="b").add("z", 3, key="a").add("u", 11, key="a")
    assert values(result_of(TENS, dm.ParDo(Count()), script=script)) == [("a", 1), ("b", 1), ("a", 2), ("a", 1)]


def test_an_element_in_several_windows_is_processed_in_each() -> None:
    sliding = dm.Window.into(dm.SlidingWindows(20, 10))
    script = TestStream().add("x", 5, key="a").add("y", 15, key="a")
    records = result_of(sliding, dm.ParDo(Count()), script=script).collected("out")
    assert sorted((int(record.window.start) // 1_000_000, record.value[1]) for record in records) == [
        (-10, 1),
        (0, 1),
        (0, 2),
        (10, 1),
    ]


def test_cleared_state_is_empty_for_the_next_element_of_the_bundle() -> None:
    class InPairs(dm.DoFn):
        first = dm.ValueStateSpec[Any](default=None)

        def process(self, pair: Any, first: dm.ValueState[Any]) -> Any:
            if first.read() is None:
                first.write(pair[1])
            else:
                yield pair[0], first.read(), pair[1]
                first.clear()

    pairs = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5), ("a", 6)]
    script = TestStream().bundle([(pair, 1) for pair in pairs])
    expected = [("a", 1, 3), ("b", 2, 5), ("a", 4, 6)]
    assert values(result_of(dm.ParDo(InPairs()), script=script)) == expected


def test_an_element_has_its_pane_in_every_window_even_after_an_overdue_timer() -> None:
    class Late(dm.DoFn):
        due = dm.TimerSpec(EVENT)

        def process(self, pair: Any, due: dm.Timer, timestamp: dm.EventTime, pane: dm.PaneInfo) -> Any:
            due.set(timestamp)
            yield pane.timing.name

        @dm.on_timer(due)
        def overdue(self) -> Any:
            yield "overdue"

    tens, sliding = (
        dm.Window.into(fn).allowed_lateness(100) for fn in (dm.FixedWindows(10), dm.SlidingWindows(20, 10))
    )
    script = TestStream().watermark(50).add(1, 5, key="a")
    result = result_of(tens, dm.Count.per_key(), "sliding" >> sliding, dm.ParDo(Late()), script=script)
    assert values(result) == ["LATE", "overdue", "LATE", "overdue"]


def test_changing_a_default_value_of_state_in_place_does_not_affect_other_keys() -> None:
    class Careless(dm.DoFn):
        seen = dm.ValueStateSpec[list[int]](default=[])

        def process(self, pair: Any, seen: dm.ValueState[list[int]]) -> Any:
            seen.read().append(1)
            yield len(seen.read())

    script = TestStream().add("x", 1, key="a").add("y", 1, key="b")
    assert values(result_of(dm.ParDo(Careless()), script=script)) == [0, 0]


def test_sets_and_maps_are_read_in_the_order_of_insertion() -> None:
    class Both(dm.DoFn):
        names = dm.SetStateSpec[str]()
        latest = dm.MapStateSpec[str, int]()

        def process(self, pair: Any, names: dm.SetState[str], latest: dm.MapState[str, int]) -> Any:
            name, number = pair[1]
            if name in names:
                names.remove("gone")
                latest.remove("gone")
            names.add(name)
            latest.put(name, number)
            yield names.read(), latest.items(), latest.get("?", "none"), len(names), list(latest)

    script = TestStream().bundle([(("b", 1), 1), (("gone", 2), 1), (("a", 3), 1), (("b", 4), 1)], key="k")
    assert values(result_of(dm.ParDo(Both()), script=script))[-1] == (
        ["b", "a"],
        [("b", 4), ("a", 3)],
        "none",
        2,
        ["b", "a"],
    )


def test_elements_of_an_expired_window_are_dropped_and_counted() -> None:
    script = TestStream().add("x", 1, key="a").watermark(14).add("y", 2, key="a").watermark(15).add("z", 3, key="a")
    result = result_of(TENS.allowed_lateness(5), dm.ParDo(Count()), script=script)
    assert values(result) == [("a", 1), ("a", 2)]
    assert result.metrics()["ParDo"] == {"elements_in": 3, "dropped_because_late": 1}


def test_state_and_timers_are_cleared_when_their_window_expires() -> None:
    class Slow(dm.DoFn):
        held = dm.ValueStateSpec[int]()
        late = dm.TimerSpec(CLOCK)

        def process(self, pair: Any, held: dm.ValueState[int], late: dm.Timer) -> None:
            held.write(1)
            late.set_after("1 hour")

        @dm.on_timer(late)
        def never(self) -> Any:
            yield "fired"

    script = TestStream().add("x", 1, key="a").watermark(10).processing_time(7_200)
    assert values(result_of(TENS, dm.ParDo(Slow()), script=script)) == []


def test_output_at_the_end_of_a_window_is_emitted_before_it_expires_and_is_on_time_downstream() -> None:
    class Rest(dm.DoFn):
        total = dm.CombiningStateSpec(dm.Sum())

        def process(self, pair: Any, total: dm.CombiningState[int, int]) -> None:
            total.add(pair[1])

        def on_window_expiry(self, key: str, total: dm.CombiningState[int, int]) -> Any:
            yield key, total.read()

    script = TestStream().add(1, 1, key="a").watermark(12).add(2, 3, key="a").watermark(14).processing_time(5)
    script = script.watermark(15)
    result = result_of(TENS.allowed_lateness(5), "rest" >> dm.ParDo(Rest()), "again" >> dm.Sum.per_key(), script=script)
    (record,) = result.collected("out")
    assert (record.value, record.pane.timing) == (("a", 3), dm.PaneTiming.ON_TIME)
    assert int(record.processing_time) == 5_000_000


def test_an_element_that_fails_changes_no_state_and_becomes_a_dead_letter() -> None:
    class Picky(Count):
        def process(self, pair: Any, count: dm.ValueState[int]) -> Any:
            count.write(count.read() + 1)
            yield pair[0], 10 // pair[1], count.read()

    with dm.Pipeline() as p:
        good, bad = (
            p
            | dm.Create([("a", 5), ("a", 0), ("a", 2)])
            | dm.ParDo(Picky()).with_outputs("unused").with_exception_handling()
        )
        _ = good["main"] | "out" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value for record in p.result.collected("out")] == [("a", 2, 1), ("a", 5, 2)]
    assert [record.value.element for record in p.result.collected("bad")] == [("a", 0)]


# Timers ---------------------------------------------------------------------------------------------------------------


def test_an_event_time_timer_fires_when_the_watermark_passes_it_with_output_in_its_window() -> None:
    script = TestStream().add("x", 1, key="a").add("y", 4, key="a").watermark(9).processing_time(3).watermark(11)
    (record,) = result_of(TENS, dm.ParDo(AtTheEnd()), script=script).collected("out")
    assert (record.value, int(record.event_time), int(record.processing_time)) == (
        ("a", ["x", "y"]),
        10_000_000 - 1,
        3_000_000,
    )


def test_an_event_time_timer_behind_the_watermark_fires_right_after_the_element_that_sets_it() -> None:
    script = TestStream().watermark(12).bundle([("x", 1), ("y", 2)], key="a")
    result = result_of(TENS.allowed_lateness(5), dm.ParDo(AtTheEnd()), script=script)
    assert values(result) == [("a", ["x"]), ("a", ["y"])]


class Tagged(dm.DoFn):
    """Sets and clears timers as its elements say: `("set", tag, seconds)` or `("clear", tag)`."""

    event = dm.TimerSpec(EVENT)
    clock = dm.TimerSpec(CLOCK)

    def process(self, pair: Any, event: dm.Timer, clock: dm.Timer) -> None:
        domain, what, tag, *at = pair[1]
        timer = event if domain == "event" else clock
        if what == "set":
            timer.set(at[0], tag=tag)
        else:
            timer.clear(tag)

    @dm.on_timer(event)
    def at_event(self, timer_tag: str, fire_timestamp: dm.EventTime) -> Any:
        yield "event", timer_tag, int(fire_timestamp) // 1_000_000

    @dm.on_timer("clock")
    def at_clock(self, timer_tag: str, fire_timestamp: dm.ProcessingTime) -> Any:
        yield "clock", timer_tag, int(fire_timestamp) // 1_000_000


def orders(*values: Any, at: float = 1) -> TestStream:
    """Return a script of orders to `Tagged`, all to one key."""
    return TestStream().bundle([(value, at) for value in values], key="k")


def test_each_tag_has_a_timer_that_can_be_moved_and_cleared() -> None:
    script = orders(
        ("event", "set", "b", 7), ("event", "set", "a", 5), ("event", "set", "c", 6), ("event", "set", "b", 3),
        ("event", "clear", "c"), ("event", "clear", "?"),
    )  # fmt: skip
    assert values(result_of(dm.ParDo(Tagged()), script=script.watermark(20))) == [("event", "b", 3), ("event", "a", 5)]


def test_event_time_timers_fire_before_processing_time_timers_of_the_same_instant() -> None:
    script = orders(("clock", "set", "x", 5), ("event", "set", "y", 5)).processing_time(5).watermark(5)
    assert values(result_of(dm.ParDo(Tagged()), script=script)) == [("event", "y", 5), ("clock", "x", 5)]


def test_a_processing_time_timer_fires_before_elements_that_arrive_after_its_time() -> None:
    script = orders(("clock", "set", "x", 5)).processing_time(9)
    script = TestStream([*script.steps, *orders(("event", "set", "y", 0)).steps]).watermark(8)
    (first, second) = result_of(dm.ParDo(Tagged()), script=script).collected("out")
    assert (first.value, int(first.processing_time)) == (("clock", "x", 5), 5_000_000)
    assert (second.value, int(second.processing_time)) == (("event", "y", 0), 9_000_000)


def test_a_processing_time_timer_holds_the_watermark_at_the_element_that_set_it() -> None:
    class Wait(dm.DoFn):
        value = dm.ValueStateSpec[Any]()
        later = dm.TimerSpec(CLOCK)

        def process(self, pair: Any, value: dm.ValueState[Any], later: dm.Timer) -> None:
            value.write(pair[1])
            later.set_after(5)

        @dm.on_timer(later)
        def give(self, key: str, value: dm.ValueState[Any]) -> Any:
            yield key, value.read()

    script = TestStream().add(1, 3, key="a").watermark(9).processing_time(4).watermark(30).processing_time(6)
    script = script.watermark(40)
    result = result_of(dm.ParDo(Wait()), "windows" >> TENS, "sums" >> dm.Sum.per_key(), script=script)
    (record,) = result.collected("out")
    assert (record.value, record.pane.timing, int(record.event_time)) == (("a", 1), dm.PaneTiming.ON_TIME, 9_999_999)


def test_a_timer_may_hold_the_watermark_at_its_output_timestamp() -> None:
    class Hold(dm.DoFn):
        later = dm.TimerSpec(EVENT)

        def process(self, pair: Any, later: dm.Timer, timestamp: dm.EventTime) -> None:
            later.set_after(8, output_timestamp=timestamp + dm.duration(2))

        @dm.on_timer(later)
        def give(self, key: str, timestamp: dm.EventTime) -> Any:
            yield key, int(timestamp) // 1_000_000

    script = TestStream().add(1, 1, key="a").watermark(9)
    (record,) = result_of(dm.ParDo(Hold()), script=script).collected("out")
    assert (record.value, int(record.event_time)) == (("a", 3), 3_000_000)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (("event", "set", "x", 11), r"would never fire: the state of the window .* is cleared at 1970-01-01T00:00:10Z"),
        (("clock", "set", 5, 11), "a timer's tag must be text, got 5"),
        (("clock", "set", "x", dm.event_time(3)), "expected a processing time, got the event time"),
    ],
)
def test_a_timer_that_could_not_fire_is_refused_with_the_transform(order: Any, said: str) -> None:
    with pytest.raises(UserCodeError, match=rf"(?s){said}.*transform: 'tagged'"):
        result_of(TENS, "tagged" >> dm.ParDo(Tagged()), script=orders(order))


class AtNine(dm.DoFn):
    later = dm.TimerSpec(EVENT)

    def __init__(self, output_timestamp: int) -> None:
        self.at = output_timestamp

    def process(self, pair: Any, later: dm.Timer) -> None:
        later.set(9, tag="nine", output_timestamp=self.at)

    @dm.on_timer(later)
    def give(self) -> Any:
        yield "?"


@pytest.mark.parametrize(
    ("at", "said"),
    [(0, "not be before 1970-01-01T00:00:01Z, got .*late_data_horizon"), (10, "not be after 1970-01-01T00:00:09Z")],
)
def test_an_output_timestamp_before_its_cause_or_after_its_timer_is_refused(at: int, said: str) -> None:
    with pytest.raises(UserCodeError, match=f"(?s)timer 'nine' must {said}"):
        result_of(dm.ParDo(AtNine(at)), script=TestStream().add("x", 1, key="a"))


def test_an_output_timestamp_may_be_before_its_cause_within_the_declared_horizon() -> None:
    class Bounded(AtNine):
        late_data_horizon = dm.duration(1)

    assert values(result_of(dm.ParDo(Bounded(0)), script=TestStream().add("x", 1, key="a"))) == ["?"]


def test_an_exception_of_a_timer_callback_is_reported_with_timer_and_key() -> None:
    class Fails(AtTheEnd):
        end = dm.TimerSpec(EVENT)

        @dm.on_timer(end)
        def at_end(self, key: Any) -> Any:  # type: ignore[override]
            raise ZeroDivisionError

    with pytest.raises(
        UserCodeError, match=r"(?s)ZeroDivisionError.*raise ZeroDivisionError.*'ParDo'.*timer 'end'.*'a'"
    ):
        result_of(TENS, dm.ParDo(Fails()), script=TestStream().add("x", 1, key="a"))


# Sorted input ---------------------------------------------------------------------------------------------------------


class Sorted(dm.DoFn):
    """Tells elements in the order in which it sees them, and a timer at five seconds."""

    requires_time_sorted_input: ClassVar[bool] = True
    five = dm.TimerSpec(EVENT)

    def process(self, pair: Any, five: dm.Timer) -> Any:
        five.set(5)
        yield pair[1]

    @dm.on_timer(five)
    def at_five(self) -> Any:
        yield "five"


def test_sorted_input_waits_for_the_watermark_and_has_elements_before_timers_of_the_same_time() -> None:
    script = TestStream().bundle([("c", 5), ("a", 1), ("d", 6), ("b", 5)], key="k").watermark(5).processing_time(2)
    result = result_of(dm.ParDo(Sorted()), script=script.watermark(6))
    assert [(record.value, int(record.processing_time)) for record in result.collected("out")] == [
        ("a", 0),
        ("c", 2_000_000),
        ("b", 2_000_000),
        ("five", 2_000_000),
        ("d", 2_000_000),
        ("five", 2_000_000),
    ]


def test_sorted_input_waits_for_the_allowed_lateness_and_drops_later_elements() -> None:
    script = TestStream().add("b", 4, key="k").watermark(6).add("a", 1, key="k").watermark(8)
    script = script.add("at the edge", 3, key="k").add("too late", 2, key="k")
    lenient = dm.Window.into(dm.GlobalWindows()).allowed_lateness(5)
    result = result_of(lenient, "sorted" >> dm.ParDo(Sorted()), script=script)
    assert [value for value in values(result) if value != "five"] == ["a", "at the edge", "b"]
    assert result.metrics()["sorted"]["dropped_because_late"] == 1


def test_waiting_elements_hold_the_watermark() -> None:
    class InOrder(dm.DoFn):
        requires_time_sorted_input = True

        def process(self, pair: Any) -> Any:
            yield pair

    script = TestStream().add(1, 4, key="k").watermark(12).add(2, 3, key="k").watermark(15).watermark(16)
    lenient = dm.Window.into(dm.FixedWindows(10)).allowed_lateness(10)
    again = "no lateness" >> dm.Window.into(dm.FixedWindows(10)).allowed_lateness(0)
    result = result_of(lenient, dm.ParDo(InOrder()), again, dm.GroupByKey(), script=script)
    (record,) = result.collected("out")
    assert (record.value, record.pane.timing) == (("k", [2, 1]), dm.PaneTiming.ON_TIME)


# Where it may stand ---------------------------------------------------------------------------------------------------


def test_state_in_sessions_is_refused_unless_a_grouping_has_merged_them() -> None:
    sessions = dm.Window.into(dm.Sessions(5))
    script = TestStream().add("x", 1, key="a").add("y", 3, key="a").add("z", 30, key="a")
    with pytest.raises(InvalidArgument, match=r"(?s)'ParDo' keeps state by window.*Sessions.*Hint: group first"):
        result_of(sessions, dm.ParDo(Count()), script=script)
    grouped = result_of(sessions, dm.GroupByKey(), dm.ParDo(Count()), script=script)
    assert values(grouped) == [("a", 1), ("a", 1)]


def test_a_stateful_function_refuses_elements_that_are_not_pairs() -> None:
    with pytest.raises(InvalidType, match="keeps state by key"):
        _ = dm.Pipeline() | dm.Create([1]) | dm.ParDo(Count())
    with pytest.raises(InvalidType, match=r"'ParDo' takes \(key, value\) pairs, got 'x'"):
        result_of(dm.ParDo(Count()), script=TestStream().add("x", 1))


def test_state_after_a_retracting_grouping_is_refused_unless_the_function_handles_retractions() -> None:
    class Aware(dm.DoFn):
        total = dm.CombiningStateSpec(dm.Sum())

        def process(self, pair: Any, total: dm.CombiningState[int, int], is_retraction: bool) -> Any:
            total.add(-pair[1] if is_retraction else pair[1])
            yield total.read()

    script = TestStream().add(1, 1, key="a").add(2, 2, key="a")
    each = TENS.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    with pytest.raises(PlanError, match=r"is stateful, and 'Sum\.PerKey' before it emits retractions"):
        result_of(each, dm.Sum.per_key(), dm.ParDo(Count()), script=script)
    assert values(result_of(each, dm.Sum.per_key(), dm.ParDo(Aware()), script=script)) == [1, 0, 3]


def test_a_stateful_function_may_have_static_but_not_changing_side_inputs() -> None:
    class Scaled(Count):
        def process(self, pair: Any, by: int, count: dm.ValueState[int]) -> Any:  # type: ignore[override]
            count.write(count.read() + by)
            yield count.read()

    with dm.Pipeline() as p:
        by = p | "by" >> dm.Create([10])
        numbers = p | "numbers" >> dm.Create([("a", 1), ("a", 2)])
        _ = numbers | dm.ParDo(Scaled(), dm.AsSingleton(by)) | "out" >> dm.io.Collect()
    assert values(p.result) == [10, 20]
    q = dm.Pipeline()
    by = q | "by" >> TestStream().add(10, 1)
    _ = q | "numbers" >> dm.Create([("a", 1)]) | dm.ParDo(Scaled(), dm.AsSingleton(by)) | dm.io.Collect()
    with pytest.raises(NotYetSupported, match="its side input changes"):
        q.run()


def test_tagged_outputs_of_a_stateful_function_reach_the_transforms_after_them() -> None:
    class Split(Count):
        def process(self, pair: Any, count: dm.ValueState[int]) -> Any:
            count.write(count.read() + 1)
            yield pair[1] if count.read() == 1 else dm.TaggedOutput("again", pair[1])

    with dm.Pipeline() as p:
        outputs = p | dm.Create([("a", 1), ("a", 2), ("b", 3)]) | dm.ParDo(Split()).with_outputs("again")
        _ = outputs["main"] | "plus" >> dm.Map(lambda value: value + 100) | "out" >> dm.io.Collect()
        _ = outputs["again"] | "minus" >> dm.Map(lambda value: -value) | "rest" >> dm.io.Collect()
    assert p.result is not None
    assert values(p.result) == [101, 103]
    assert [record.value for record in p.result.collected("rest")] == [-2]


def test_a_stateful_function_has_the_life_cycle_of_a_dofn() -> None:
    calls: list[str] = []

    class Living(Count):
        def setup(self) -> None:
            calls.append("setup")

        def start_bundle(self) -> None:
            calls.append("start")

        def finish_bundle(self) -> None:
            calls.append("finish")

        def teardown(self) -> None:
            calls.append("teardown")

    result_of(dm.ParDo(Living()), script=TestStream().add("y", 2, key="a").add("z", 3, key="a"))
    assert calls == ["setup", "start", "finish", "start", "finish", "teardown"]


def test_names_and_types_of_state_are_in_the_fingerprint_and_the_plan_in_words() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.ParDo(AtTheEnd())
    assert fingerprint(p.plan())["ParDo"] == "stateful ParDo of Create.main with end: event-time timer, values: bag"
    assert "ParDo: AtTheEnd; by key and window, with end: event-time timer, values: bag" in p.explain()


# Declarations ---------------------------------------------------------------------------------------------------------


def test_a_parameter_that_is_not_a_declared_state_is_refused_at_construction() -> None:
    class Misspelt(Count):
        def process(self, pair: Any, cuont: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            yield pair

    with pytest.raises(InvalidArgument, match=r"has an unknown parameter 'cuont'\nHint: .* one of \['count', 'is_retr"):
        dm.ParDo(Misspelt())


def test_a_timer_at_the_expiry_of_its_window_is_refused_at_construction() -> None:
    class Late(AtTheEnd):
        def on_window_expiry(self, end: dm.Timer) -> None:
            end.set(0)

    with pytest.raises(InvalidArgument, match="takes the timer 'end', which would never fire"):
        dm.ParDo(Late())


def test_callbacks_of_unknown_timers_repeated_callbacks_and_reserved_names_are_refused() -> None:
    class Unknown(dm.DoFn):
        @dm.on_timer("flush")
        def flush(self) -> None:
            """Do nothing."""

    class Twice(AtTheEnd):
        @dm.on_timer("end")
        def too(self) -> None:
            """Do nothing."""

    class Taken(dm.DoFn):
        key = dm.ValueStateSpec[int]()

    for kind, said in ((Unknown, "is not a timer of the class"), (Twice, "runs both"), (Taken, "declares 'key'")):
        with pytest.raises(InvalidArgument, match=said):
            dm.ParDo(kind())
    with pytest.raises(InvalidType, match="on_timer takes a TimerSpec"):
        dm.on_timer(3)  # type: ignore[arg-type]


# GroupIntoBatches -----------------------------------------------------------------------------------------------------


def test_batches_are_emitted_when_full_and_the_rest_at_the_end_of_the_window() -> None:
    script = TestStream().bundle([(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)], key="a").watermark(10).add(6, 6, key="a")
    result = result_of(TENS.allowed_lateness(5), dm.GroupIntoBatches(2), script=script)
    assert values(result) == [("a", [1, 2]), ("a", [3, 4]), ("a", [5]), ("a", [6])]


def test_batches_are_bounded_by_bytes_and_by_age() -> None:
    script = TestStream().add("xxx", 1, key="a").add("y" * 100, 2, key="a").add("z", 3, key="a").processing_time(6)
    result = result_of(dm.GroupIntoBatches(max_bytes=50, max_age=5), script=script.add("u", 3, key="a"))
    assert [(record.value[1], int(record.processing_time)) for record in result.collected("out")] == [
        (["xxx", "y" * 100], 0),
        (["z"], 5_000_000),
        (["u"], 6_000_000),
    ]


@pytest.mark.parametrize("bounds", [{}, {"size": 0}, {"max_bytes": -1}, {"max_age": 0}])
def test_batches_without_a_bound_or_with_one_that_is_not_positive_are_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=r"at least one bound|must be positive"):
        dm.GroupIntoBatches(**bounds)


# What never ends, and what must not change --------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 10])
def test_a_timer_that_is_set_again_after_the_end_of_the_input_is_refused(
    delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stateful, "_MOST_REPEATED", 1_000)

    class Ticks(dm.DoFn):
        tick = dm.TimerSpec(EVENT)

        def process(self, pair: Any, tick: dm.Timer) -> None:
            tick.set_after(delay)

        @dm.on_timer(tick)
        def ticks(self, tick: dm.Timer) -> None:
            tick.set_after(delay)

    with pytest.raises(UserCodeError, match=r"timer 'tick' of the key 'a' 1,000 times .*never end\nHint: set it again"):
        result_of(dm.ParDo(Ticks()), script=TestStream().add("x", 1, key="a"))


@pytest.mark.parametrize("domain", [CLOCK, EVENT])
def test_a_negative_delay_of_a_timer_is_an_error(domain: Any) -> None:
    class Back(dm.DoFn):
        tick = dm.TimerSpec(domain)

        def process(self, pair: Any, tick: dm.Timer) -> None:
            tick.set_after("-5 s")

        @dm.on_timer(tick)
        def ticks(self) -> None:
            """Do nothing."""

    with pytest.raises(UserCodeError, match=r"`delay` must not be negative, got '-5 s'[\s\S]*Hint: pass 0"):
        result_of(dm.ParDo(Back()), script=TestStream().add("x", 1, key="a"))


def test_a_processing_time_timer_that_is_set_again_at_its_own_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "_MOST_REPEATED", 1_000)

    class Ticks(dm.DoFn):
        tick = dm.TimerSpec(CLOCK)

        def process(self, pair: Any, tick: dm.Timer) -> None:
            tick.set_after(5)

        @dm.on_timer(tick)
        def ticks(self, tick: dm.Timer) -> None:
            tick.set_after(0)

    script = TestStream().add("x", 1, key="a").processing_time(10)
    with pytest.raises(UserCodeError, match="1,000 times at 1970-01-01T00:00:05Z, and would never end"):
        result_of(dm.ParDo(Ticks()), script=script)


def test_many_timers_of_one_time_and_timers_over_many_ticks_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful, "_MOST_REPEATED", 50)

    class Ticks(dm.DoFn):
        tick = dm.TimerSpec(EVENT)

        def process(self, pair: Any, tick: dm.Timer) -> None:
            for tag in range(100):
                tick.set(5, tag=str(tag))

        @dm.on_timer(tick)
        def ticks(self, tick: dm.Timer, timer_tag: str, fire_timestamp: dm.EventTime) -> Any:
            yield timer_tag
            if int(fire_timestamp) < 200_000_000 and timer_tag == "0":
                tick.set_after(1, tag="0")

    script = TestStream().add("x", 1, key="a").watermark(300)
    assert len(values(result_of(dm.ParDo(Ticks()), script=script))) == 100 + 195


def test_the_output_of_a_timer_cannot_be_at_infinity() -> None:
    class Ends(dm.DoFn):
        end = dm.TimerSpec(CLOCK)

        def process(self, pair: Any, end: dm.Timer) -> None:
            end.set_after(5, output_timestamp=dm.MAX_TIMESTAMP)

        @dm.on_timer(end)
        def ends(self) -> Any:
            yield "end"

    with pytest.raises(UserCodeError, match=r"output timestamp of the timer 'end' cannot be \+∞"):
        result_of(dm.ParDo(Ends()), script=TestStream().add("x", 1, key="a"))


class AsTheyAre(dm.CombineFn[Any, list[Any], list[Any]]):
    """Emits its accumulator, which it changes in place."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> list[Any]:
        return [element for accumulator in accumulators for element in accumulator]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


def test_an_accumulator_that_is_emitted_does_not_change_afterwards() -> None:
    class Reads(dm.DoFn):
        seen = dm.CombiningStateSpec(AsTheyAre())

        def process(self, pair: Any, seen: dm.CombiningState[Any, Any]) -> Any:
            seen.add(pair[1])
            yield seen.read()

    script = TestStream().bundle([("x", 1), ("y", 2)], key="a")
    assert values(result_of(dm.ParDo(Reads()), script=script)) == [["x"], ["x", "y"]]
    every = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
    combined = values(result_of(every, dm.CombinePerKey(AsTheyAre()), script=script))
    assert combined == [("a", ["x"]), ("a", ["x", "y"])]
    together = dm.CombinePerKey(dm.Together(all=AsTheyAre(), count=dm.Count()))
    assert values(result_of(every, together, script=script)) == [("a", (["x"], 1)), ("a", (["x", "y"], 2))]
