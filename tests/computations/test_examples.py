"""Computations and topologies by example: what a callback sees, what it may do, and what is refused."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import attrs
import numpy as np
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.computations.scribe import run

SECOND = dm.duration("1 second")


def outputs(computation: dm.Computation, script: TestStream, runner: Any = None) -> list[Any]:
    """Run a computation over pairs, by their first part, and return the values that it gave to `out`, with seconds."""
    topology = dm.Topology()
    topology.inject("in", script)
    topology.add(computation, subscribe={"in": lambda pair: pair[0]}, produces=["out"])
    topology.sink("out", dm.io.Collect())
    return [(*record.value, seconds(record.event_time)) for record in run(topology, runner).collected("out")]


def seconds(time: Any) -> float:
    return int(time) / 1_000_000


class Telling(dm.Computation):
    """Has a short way to say something at the event time of what is processed."""

    coder: dm.Coder | None = dm.PickleCoder()

    def tell(self, value: Any, timestamp: dm.EventTime, stream: str = "out") -> None:
        self.produce(dm.StreamRecord(self.key, value, timestamp), stream)


# What a callback sees -------------------------------------------------------------------------------------------------


def test_a_late_record_arrives_and_is_flagged() -> None:
    class Flags(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell((record.value[1], record.is_late, seconds(self.low_watermark())), record.timestamp)

    script = TestStream().watermark(5).add(("k", "at it"), 5).add(("k", "late"), 4).watermark(9).add(("k", "too"), 8)
    assert outputs(Flags(), script) == [
        ("k", ("at it", False, 5), 5),
        ("k", ("late", True, 5), 4),
        ("k", ("too", True, 9), 8),
    ]


def test_each_key_has_its_own_state_which_is_none_at_first() -> None:
    class Last(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell(self.state.read(), record.timestamp)
            self.state.write(record.value[1])
            if record.value[1] == "wipe":
                self.state.clear()

    script = TestStream()
    for at, (key, word) in enumerate([("a", 1), ("b", 2), ("a", "wipe"), ("a", 4), ("b", 5)]):
        script = script.add((key, word), at)
    assert [value for _, value, _ in outputs(Last(), script)] == [None, None, 1, None, 2]


def test_state_without_a_coder_is_bytes() -> None:
    class Raw(Telling):
        coder = None

        def process_record(self, record: dm.StreamRecord) -> None:
            before = self.state.read()
            self.state.write(record.value[1] if before is None else before + record.value[1])
            self.tell(self.state.read(), record.timestamp)

    script = TestStream().add(("k", b"x"), 1).add(("k", b"y"), 2)
    assert [value for _, value, _ in outputs(Raw(), script)] == [b"x", b"xy"]
    with pytest.raises(
        dm.UserCodeError, match=r"the state of Raw must be bytes, got 7 of type int(.|\n)*Hint: set coder = dm.Pi"
    ):
        outputs(Raw(), TestStream().add(("k", 7), 1))


def test_timers_fire_in_order_of_time_whatever_the_order_in_which_they_were_set() -> None:
    class Alarms(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            for delay in (7, 3, 5):
                self.set_timer(f"after {delay}", record.timestamp + dm.duration(delay))
            self.set_timer("after 7", dm.duration(1))  # moves it
            self.clear_timer("after 5")

        def process_timer(self, timer: dm.FiredTimer) -> None:
            self.tell((timer.tag, seconds(timer.time), seconds(self.low_watermark())), timer.timestamp)

    script = TestStream().add(("k", 0), 10).watermark(12).watermark(20)
    assert outputs(Alarms(), script) == [("k", ("after 7", 11, 12), 11), ("k", ("after 3", 13, 20), 13)]


def test_output_of_a_processing_time_timer_has_the_timestamp_of_the_record_that_set_it() -> None:
    class Reminder(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            self.set_timer("soon", datetime.timedelta(seconds=5), dm.TimeDomain.PROCESSING_TIME)

        def process_timer(self, timer: dm.FiredTimer) -> None:
            self.tell((timer.domain, seconds(timer.time)), timer.timestamp)

    script = TestStream().processing_time(100).add(("k", 0), 3).watermark(50).processing_time(106)
    assert outputs(Reminder(), script) == [("k", (dm.TimeDomain.PROCESSING_TIME, 105), 3)]


def test_a_computation_can_read_the_percentile_of_the_watermark_that_it_names() -> None:
    asked: list[Any] = [100, 90, np.int64(90)]

    class Asks(Telling):
        percentiles = (90,)

        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell([seconds(self.low_watermark(percentile)) for percentile in asked], record.timestamp)

    script = TestStream().watermark(5).watermark(8, percentile=90).add(("k", 0), 10)
    assert outputs(Asks(), script) == [("k", [5, 8, 8], 10)]


def test_the_callbacks_of_a_key_never_overlap() -> None:
    class Busy(Telling):
        lock = threading.Lock()

        def process_record(self, record: dm.StreamRecord) -> None:
            assert self.lock.acquire(blocking=False)
            self.set_timer("now", record.timestamp)
            self.lock.release()

        def process_timer(self, timer: dm.FiredTimer) -> None:
            assert self.lock.acquire(blocking=False)
            self.tell("fired", timer.timestamp)
            self.lock.release()

    script = TestStream().watermark(5).bundle([(("k", 0), 1), (("k", 0), 2)])
    assert len(outputs(Busy(), script)) == 2


def test_setup_is_called_in_each_run_of_the_same_computation() -> None:
    class Loads(Telling):
        def setup(self) -> None:
            self.threshold = 5

        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell(record.value[1] > self.threshold, record.timestamp)

    given = Loads()
    for _ in range(2):
        assert [over for _, over, _ in outputs(given, TestStream().add(("k", 7), 1))] == [True]
    assert not vars(given)


def test_a_computation_may_be_a_frozen_class() -> None:
    @attrs.frozen
    class Above(Telling):
        threshold: int

        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell(record.value[1] > self.threshold, record.timestamp)

    assert [over for _, over, _ in outputs(Above(5), TestStream().add(("k", 7), 1))] == [True]


def test_a_computation_may_name_its_percentiles_in_its_constructor() -> None:
    class Asks(Telling):
        def __init__(self, percentile: float) -> None:
            self.percentiles = (percentile,)

        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell(seconds(self.low_watermark(*self.percentiles)), record.timestamp)

    script = TestStream().watermark(5).watermark(8, percentile=90).add(("k", 0), 10)
    assert [low for _, low, _ in outputs(Asks(90), script)] == [8]
    assert [low for _, low, _ in outputs(Asks(95), script)] == [5]


# Time -----------------------------------------------------------------------------------------------------------------


class Buffer(Telling):
    """Keeps records back until `flush`, and then gives them where they stood."""

    holds = True

    def process_record(self, record: dm.StreamRecord) -> None:
        held = self.state.read() or []
        if record.value[1] == "flush":
            for value, at in held:
                self.tell(value, at)
            self.state.clear()
            return
        held.append((record.value[1], record.timestamp))
        self.state.write(held, timestamp=min(at for _, at in held) if self.holds else None)


class Judge(Telling):
    """Tells whether what comes is late."""

    def process_record(self, record: dm.StreamRecord) -> None:
        self.tell((record.value, record.is_late), record.timestamp, "judged")


@pytest.mark.parametrize("held", [True, False])
def test_the_timestamp_of_state_holds_the_watermark_back_for_records_produced_from_it(held: bool) -> None:
    script = TestStream().add(("k", "a"), 7).add(("k", "b"), 3).watermark(20).add(("k", "flush"), 30)
    topology = dm.Topology()
    topology.inject("in", script)
    topology.add(Buffer() if held else Relay(), subscribe={"in": lambda pair: pair[0]}, produces=["out"])
    topology.add(Judge(), subscribe={"out": None}, produces=["judged"])
    topology.sink("judged", dm.io.Collect())
    judged = [(*record.value[1], seconds(record.event_time)) for record in run(topology).collected("judged")]
    assert judged == ([("a", False, 7), ("b", False, 3)] if held else [("flush", False, 30)])


class Relay(Buffer):
    """Keeps records back without a timestamp, and gives what it may."""

    holds = False

    def process_record(self, record: dm.StreamRecord) -> None:
        if record.value[1] == "flush":
            self.tell("flush", record.timestamp)
        else:
            super().process_record(record)


def test_producing_a_record_with_a_timestamp_before_that_of_its_input_is_refused() -> None:
    class Back(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            self.tell("too early", record.timestamp - SECOND)

    with pytest.raises(dm.UserCodeError, match=r"a production may not precede its input(.|\n)*Hint: write the state"):
        outputs(Back(), TestStream().add(("k", 0), 5))


def test_a_timer_may_not_produce_records_before_its_own_timestamp() -> None:
    class Back(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            self.set_timer("t", record.timestamp + SECOND)

        def process_timer(self, timer: dm.FiredTimer) -> None:
            self.tell("too early", timer.timestamp - SECOND)

    with pytest.raises(dm.UserCodeError, match="from input at 1970-01-01T00:00:06Z"):
        outputs(Back(), TestStream().add(("k", 0), 5).watermark(7))


def test_state_without_a_timestamp_does_not_let_records_be_produced_in_the_past() -> None:
    class Unheld(Buffer):
        holds = False

    script = TestStream().add(("k", "a"), 7).watermark(20).add(("k", "flush"), 30)
    with pytest.raises(dm.UserCodeError, match="a production may not precede its input"):
        outputs(Unheld(), script)
    assert outputs(Buffer(), script) == [("k", "a", 7)]


# Streams --------------------------------------------------------------------------------------------------------------


class Copy(dm.Computation):
    """Gives each record with its stream and key to `out`."""

    def process_record(self, record: dm.StreamRecord) -> None:
        self.produce(dm.StreamRecord(record.key, (record.stream, record.value), record.timestamp), "out")


def test_two_computations_may_key_the_same_stream_differently() -> None:
    class Count(Telling):
        def process_record(self, record: dm.StreamRecord) -> None:
            self.state.write((self.state.read() or 0) + 1)
            self.tell(self.state.read(), record.timestamp, type(self).__name__)

    class Users(Count):
        pass

    class Pages(Count):
        pass

    topology = dm.Topology()
    topology.inject("visits", dm.Create([("Ann", "/"), ("Ann", "/help"), ("Bob", "/")]))
    topology.add(Users(), subscribe={"visits": lambda visit: visit[0]}, produces=["Users"])
    topology.add(Pages(), subscribe={"visits": lambda visit: visit[1]}, produces=["Pages"])
    for stream in ("Users", "Pages"):
        topology.sink(stream, dm.io.Collect(), label=f"of {stream}")
    with pytest.raises(dm.InvalidArgument, match="already has a part named 'Users'; its parts are"):
        topology.sink("Users", dm.io.Collect(), label="Users")
    result = run(topology)
    assert [record.value for record in result.collected("of Users")] == [("Ann", 1), ("Ann", 2), ("Bob", 1)]
    assert [record.value for record in result.collected("of Pages")] == [("/", 1), ("/help", 1), ("/", 2)]


def test_several_injectors_and_computations_feed_one_stream() -> None:
    topology = dm.Topology()
    topology.add(Copy(), subscribe={"words": len}, produces=["out"], label="second")
    topology.inject("words", "east" >> dm.Create(["to"]))
    topology.inject("words", dm.Create(["be"]))
    topology.inject("out", dm.Create(["injected"]), label="more")
    topology.add(Copy(), subscribe={"words": lambda word: word[0]}, produces=["out"], label="first")
    topology.sink("out", dm.io.Collect())
    values = [record.value for record in run(topology).collected("out")]
    assert sorted(values, key=str) == sorted(
        [(None, "injected"), *((key, ("words", word)) for word in ("to", "be") for key in (len(word), word[0]))],
        key=str,
    )


def test_a_stream_may_have_any_name() -> None:
    topology = dm.Topology()
    topology.inject("main", dm.Create([1]))
    topology.add(Copy(), subscribe={"main": abs}, produces=["out"])
    topology.sink("out", dm.io.Collect(), label="a")
    topology.sink("main", dm.io.Collect(), label="b")
    assert [record.value for record in run(topology).collected("a")] == [(1, ("main", 1))]


def test_records_injected_in_windows_lose_their_windows() -> None:
    class Sums(dm.PTransform):
        input_kind = "pipeline"

        def expand(self, pcoll: Any) -> Any:
            timed = dm.Create([dm.TimestampedValue(("k", number), number) for number in range(4)])
            return pcoll | timed | dm.Window.into(dm.FixedWindows(2)) | dm.Sum.per_key()

    topology = dm.Topology()
    topology.inject("sums", Sums())
    topology.add(Copy(), subscribe={"sums": lambda pair: pair[0]}, produces=["out"])
    topology.sink("out", dm.io.Collect())
    records = run(topology).collected("out")
    assert [(record.value[1][1][1], record.window) for record in records] == [
        (1, dm.GLOBAL_WINDOW),
        (5, dm.GLOBAL_WINDOW),
    ]


def test_a_source_with_several_outputs_is_refused() -> None:
    class Two(dm.PTransform):
        input_kind = "pipeline"

        def expand(self, pcoll: Any) -> Any:
            return pcoll | "a" >> dm.Create([1]), pcoll | "b" >> dm.Create([2])

    topology = dm.Topology()
    topology.inject("in", Two())
    with pytest.raises(dm.InvalidType, match=r"'Inject.in' returns \(PCollection.*but a stream takes one collection"):
        topology.pipeline()


def test_a_stream_of_a_topology_can_be_the_input_of_other_transforms() -> None:
    class CountAll(dm.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | dm.Count.globally() | "counts" >> dm.io.Collect()

    topology = dm.Topology()
    topology.inject("words", dm.Create(["to", "be"]))
    topology.sink("words", CountAll(), label="all")
    assert [record.value for record in run(topology).collected("all/counts")] == [2]


# What is refused ------------------------------------------------------------------------------------------------------


def wired(*subscriptions: tuple[str, dict[str, Any], list[str]]) -> dm.Topology:
    topology = dm.Topology("wired")
    topology.inject("in", dm.Create([1]))
    for label, subscribe, produces in subscriptions:
        topology.add(Copy(), subscribe=subscribe, produces=produces, label=label)
    return topology


def test_a_cycle_of_computations_is_refused_with_the_names_of_all_streams() -> None:
    topology = wired(("a", {"in": abs, "z": abs}, ["x"]), ("b", {"x": abs}, ["y"]), ("c", {"y": abs, "in": abs}, ["z"]))
    with pytest.raises(dm.PlanError) as error:
        topology.pipeline()
    assert str(error.value) == (
        "the streams form a cycle: a -x-> b -y-> c -z-> a; the streams of 'wired' are:\n"
        "  'in': written by 'Inject.in', read by 'a', 'c'\n"
        "  'x': written by 'a', read by 'b'\n"
        "  'y': written by 'b', read by 'c'\n"
        "  'z': written by 'c', read by 'a'\n"
        "Hint: combine computations that exchange records into one, or write a stream to a sink and inject it again"
    )


def test_a_computation_that_feeds_itself_is_refused() -> None:
    with pytest.raises(dm.PlanError, match="form a cycle: a -x-> a;"):
        wired(("a", {"in": abs, "x": abs}, ["x"])).pipeline()


def test_a_stream_that_nothing_produces_is_refused_with_the_names_of_all_streams() -> None:
    with pytest.raises(
        dm.PlanError, match=r"'a' reads the stream 'inn', which nothing writes;(.|\n)*did you mean 'in'\?"
    ):
        wired(("a", {"inn": abs}, [])).pipeline()
    topology = wired(("a", {"in": abs}, ["out"]))
    topology.sink("elsewhere", dm.io.Collect())
    with pytest.raises(
        dm.PlanError, match=r"'elsewhere': written by nothing, read by 'elsewhere'\nHint: use topology.inject"
    ):
        topology.draw()


def test_reading_a_stream_by_its_keys_is_refused_if_its_records_have_none() -> None:
    with pytest.raises(
        dm.PlanError, match=r"reads the stream 'in' by the keys of its records, but the records that 'Inject.in' inj"
    ):
        wired(("a", {"in": None}, [])).pipeline()


def test_an_empty_topology_is_refused() -> None:
    with pytest.raises(dm.PlanError, match="the topology 'none' has no injector"):
        dm.Topology("none").pipeline()


def test_a_name_can_be_used_only_once_in_a_topology() -> None:
    topology = wired(("a", {"in": abs}, []))
    with pytest.raises(dm.InvalidArgument, match=r"already has a part named 'a'; its parts are 'Inject.in', 'a'"):
        topology.add(Copy(), subscribe={"in": abs}, label="a")
    with pytest.raises(dm.InvalidArgument, match=r"already has a part named 'Inject.in'"):
        topology.inject("in", dm.Create([1]))
    with pytest.raises(dm.InvalidArgument, match=r"`produces` of Copy names a stream twice: \['x', 'x'\]"):
        topology.add(Copy(), subscribe={"in": abs}, produces=["x", "x"])


def test_none_is_refused_with_what_a_topology_expects() -> None:
    topology: Any = dm.Topology()
    with pytest.raises(dm.InvalidType, match="`produces` must be a list of streams, got None"):
        topology.add(Copy(), subscribe={"in": abs}, produces=None)
    with pytest.raises(dm.InvalidType, match="a topology is built into a pipeline, got None"):
        topology.build(None)


@pytest.mark.parametrize(
    ("subscribe", "message"),
    [
        ({}, "must subscribe to at least one stream"),
        ("in", "must be a dict by stream, got 'in'"),
        ({"in": "name"}, "needs a key extractor for 'in', got 'name'"),
        ({"": abs}, "the name of a stream must not be empty, got ''"),
        ({5: abs}, "the name of a stream must be text, got 5"),
    ],
)
def test_subscriptions_that_make_no_sense_are_refused(subscribe: Any, message: str) -> None:
    with pytest.raises((dm.InvalidType, dm.InvalidArgument), match=message):
        dm.Topology().add(Copy(), subscribe=subscribe)


def test_a_sink_in_place_of_a_source_is_refused_and_the_other_way_round() -> None:
    topology = dm.Topology()
    with pytest.raises(dm.InvalidType, match="the stream 'x' needs a source, got <Collect"):
        topology.inject("x", dm.io.Collect())
    with pytest.raises(dm.InvalidType, match="the stream 'x' needs a sink, got <Create"):
        topology.sink("x", dm.Create([1]))
    with pytest.raises(dm.InvalidArgument, match="`form` must be 'mermaid' or 'svg', got 'png'"):
        wired().draw("png")


def test_computations_that_cannot_run_are_refused() -> None:
    class Nothing(dm.Computation):
        pass

    class Uncoded(Copy):
        coder = dm.PickleCoder  # type: ignore[assignment]

    class Beyond(Copy):
        percentiles = (100,)

    class UsedUp(Copy):
        percentiles = iter((90,))  # type: ignore[assignment]

    topology: Any = dm.Topology()
    for computation, message in (
        (Copy, "got the class Copy"),
        (Telling.tell, "expected a Computation, got <function"),
        (Nothing(), "Nothing must have process_record"),
        (Uncoded(), "`coder` of Uncoded must have encode and decode"),
        (UsedUp(), "`percentiles` of UsedUp must be a collection, got <tuple_iterator"),
        (Beyond(), "`percentiles` of Beyond must lie between 0 and 100, got 100"),
    ):
        with pytest.raises((dm.InvalidType, dm.InvalidArgument), match=message):
            topology.add(computation, subscribe={"in": abs})


def test_the_error_for_a_computation_with_the_label_of_a_transform_shows_where_to_pass_a_label() -> None:
    with pytest.raises(dm.InvalidType, match=r"cannot be its label\nHint: write topology.add\(Copy\(…\), .*label='x'"):
        "x" >> Copy()  # type: ignore[operator] # the point


class Wrong(dm.Computation):
    """Does something wrong, by the value of the record."""

    def process_record(self, record: dm.StreamRecord) -> Any:
        match record.value[1]:
            case "stream":
                self.produce(dm.StreamRecord(1, 2, record.timestamp), "elsewhere")
            case "record":
                self.produce((1, 2), "out")  # type: ignore[arg-type]
            case "timer":
                self.set_timer("t", record.timestamp)
            case "percentile":
                self.low_watermark(95)
            case "number":
                self.low_watermark("95")  # type: ignore[arg-type]
            case "domain":
                self.clear_timer("t", "wall")  # type: ignore[arg-type]
            case "returned":
                return [1]
            case "outside":
                type(self)().state.read()
        return None


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("stream", "'Wrong' produces to 'elsewhere', but only these streams are declared for it: 'out'"),
        ("record", r"`produce` takes a StreamRecord, got \(1, 2\)"),
        ("timer", "Wrong sets the timer 't', but nothing runs when it fires"),
        (
            "percentile",
            r"asks for percentile 95 of the watermark, which it does not declare(.|\n)*percentiles = \(95,\)",
        ),
        ("number", "a percentile of the watermark must be a number, got '95'"),
        ("domain", "a timer's domain must be a TimeDomain, got 'wall'"),
        ("returned", r"a callback of 'Wrong' must return None, got \[1\]"),
        ("outside", "`state` of Wrong belongs to a key, but no key is being processed"),
    ],
)
def test_a_forbidden_call_in_a_callback_is_reported_with_the_label_of_the_computation(what: str, message: str) -> None:
    with pytest.raises(dm.UserCodeError, match=message) as error:
        outputs(Wrong(), TestStream().add(("k", what), 1))
    assert "transform: 'Wrong'" in str(error.value)
