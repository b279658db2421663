"""Functions that give something else each time, behind a retracting grouping: what is taken back is what was given."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.logical.fingerprint import fingerprint
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.runners.engine.bounded.execution import Execution
from dataflow_model.runners.engine.functions.uncombining import key_of_value
from dataflow_model.runners.engine.machines.memoising import MemoMachine
from dataflow_model.testing import TestStream
from tests.support.retractions.accounts import net, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


EACH = dm.Repeatedly(dm.AfterCount(1))
HOURLY = dm.Window.into(dm.FixedWindows("1 hour")).on_time("fire_if_non_empty")
RETRACTING = HOURLY.trigger(EACH).accumulating_and_retracting()
TWICE = TestStream().add(1, 0, key="a").add(2, 0, key="a")


def sums_of(p: dm.Pipeline, script: TestStream, windowing: Any = RETRACTING) -> Any:
    """Return sums that change with every element."""
    return p | "script" >> script | "windows" >> windowing | "sums" >> dm.Sum.per_key()


def drawing() -> Callable[[Any], Any]:
    """Return a function that never gives the same twice: the element, with a number of its own."""
    numbers = itertools.count()
    return lambda element: (element, next(numbers))


def shown(build: Callable[[dm.Pipeline], Any]) -> list[tuple[bool, Any]]:
    """Return (is retraction, value) of what a sink has received."""

    def with_sink(p: dm.Pipeline) -> None:
        _ = build(p) | "out" >> dm.io.Collect()

    return [(record.is_retraction, record.value) for record in run(with_sink).collected("out")]


# What is taken back.


def test_a_memoised_function_retracts_the_outputs_that_it_emitted() -> None:
    actual = shown(lambda p: sums_of(p, TWICE) | dm.Map(drawing()).retractable("memoised"))
    assert actual == [(False, (("a", 1), 0)), (True, (("a", 1), 0)), (False, (("a", 3), 1))]


def test_a_class_of_dofns_may_declare_that_it_is_memoised() -> None:
    class Draw(dm.DoFn):
        retractable = "memoised"

        def __init__(self) -> None:
            self.draw = drawing()

        def process(self, element: Any) -> Iterator[Any]:
            yield self.draw(element)

    assert shown(lambda p: sums_of(p, TWICE) | dm.ParDo(Draw()))[1] == (True, (("a", 1), 0))


def test_a_memoised_function_is_not_called_again_and_never_sees_a_retraction() -> None:
    asked: list[tuple[Any, bool]] = []

    def ask(pair: Any, is_retraction: bool) -> Any:
        asked.append((pair, is_retraction))
        return pair

    assert [back for back, _ in shown(lambda p: sums_of(p, TWICE) | dm.Map(ask).retractable("memoised"))] == [
        False,
        True,
        False,
    ]
    assert asked == [(("a", 1), False), (("a", 3), False)]


def test_several_outputs_or_none_are_retracted_as_they_were_emitted() -> None:
    counts = itertools.cycle([2, 0, 1])
    numbers = itertools.count()

    def drawn(pair: Any) -> list[Any]:
        return [(pair[1], next(numbers)) for _ in range(next(counts))]

    script = TestStream().add(1, 0, key="a").add(1, 0, key="a").add(1, 0, key="a").add(1, 0, key="a")
    actual = shown(lambda p: sums_of(p, script) | dm.FlatMap(drawn).retractable("memoised"))
    assert actual == [
        (False, (1, 0)), (False, (1, 1)),
        (True, (1, 0)), (True, (1, 1)),
        (False, (3, 2)),
        (True, (3, 2)), (False, (4, 3)), (False, (4, 4)),
    ]  # fmt: skip


def test_an_element_that_a_random_filter_passed_is_always_retracted() -> None:
    chance = itertools.cycle([True, False])
    actual = shown(lambda p: sums_of(p, TWICE) | dm.Filter(lambda _: next(chance)).retractable("memoised"))
    assert actual == [(False, ("a", 1)), (True, ("a", 1))]


def test_tagged_outputs_event_times_and_dead_letters_are_memoised() -> None:
    calls = itertools.count()

    def do(pair: Any) -> Any:
        number = next(calls)
        if number == 1:
            raise ValueError(f"call {number}")
        yield dm.TimestampedValue(number, dm.event_time(4_000 + number))
        yield dm.TaggedOutput("odd", (pair[0], number))

    script = TestStream().add(1, 0, key="a").add(2, 0, key="a").add(4, 0, key="a")

    def build(p: dm.Pipeline) -> None:
        function = dm.FlatMap(do).with_outputs("odd", main="all").with_exception_handling()
        good, dead = sums_of(p, script) | "do" >> function.retractable("memoised")
        for label, collection in {"all": good["all"], "odd": good.odd, "dead": dead}.items():
            _ = collection | label >> dm.io.Collect()

    result = run(build)
    values_by_sink = {
        label: [(record.is_retraction, record.value) for record in result.collected(label)] for label in ("all", "odd")
    }
    assert values_by_sink == {
        "all": [(False, 0), (True, 0), (False, 2)],
        "odd": [(False, ("a", 0)), (True, ("a", 0)), (False, ("a", 2))],
    }
    times = [int(record.event_time) // 1_000_000 for record in result.collected("all")]
    assert times == [4_000, 4_000, 4_002]
    letters = [(record.is_retraction, record.value.element, record.value.reason) for record in result.collected("dead")]
    assert letters == [(False, ("a", 3), "ValueError: call 1"), (True, ("a", 3), "ValueError: call 1")]


def test_equal_values_have_separate_memoised_outputs() -> None:
    script = TestStream().add(1, 0, key="a").add(1, 0, key="b").add(2, 0, key="a").add(4, 0, key="b")
    actual = shown(lambda p: sums_of(p, script) | dm.Values() | dm.Map(drawing()).retractable("memoised"))
    # The two ones are interchangeable: the one that came last is the first to be taken back.
    assert actual == [
        (False, (1, 0)), (False, (1, 1)),
        (True, (1, 1)), (False, (3, 2)),
        (True, (1, 0)), (False, (5, 3)),
    ]  # fmt: skip


@attrs.define
class Tray:
    """A value that cannot be a key."""

    things: list[Any]


@pytest.mark.parametrize("wrap", [set, lambda values: {"all": [*values]}, lambda values: Tray([*values])])
def test_memoised_outputs_are_found_for_values_that_cannot_be_keys(wrap: Callable[[Any], Any]) -> None:
    script = TestStream().add("x", 0, key="a").add("yy", 0, key="a").add("z", 0, key="a")

    def build(p: dm.Pipeline) -> Any:
        lists = p | script | RETRACTING | dm.ToList.per_key() | dm.MapTuple(lambda _, values: wrap(values))
        return lists | "draw" >> dm.Map(drawing()).retractable("memoised")

    actual = shown(build)
    assert [(back, number) for back, (_, number) in actual] == [
        (False, 0),
        (True, 0),
        (False, 1),
        (True, 1),
        (False, 2),
    ]


def test_the_memoisation_key_of_a_value_is_short_and_depends_on_its_content() -> None:
    assert key_of_value("x", {8, 0}) == key_of_value("x", {0, 8})
    assert key_of_value("x", 1) != key_of_value("x", 1.0)
    assert len(key_of_value("x", "long" * 1_000)) <= 64
    assert key_of_value("x", "long" * 1_000) != key_of_value("x", "long" * 1_001)


def test_a_value_that_cannot_be_pickled_is_named_with_the_transform() -> None:
    def build(p: dm.Pipeline) -> None:
        locks = sums_of(p, TWICE) | dm.Map(lambda pair: lambda: pair)
        _ = locks | "draw" >> dm.Map(drawing()).retractable("memoised")

    with pytest.raises(dm.UserCodeError, match="transform: 'draw'"):
        run(build)


def test_memoised_functions_may_follow_each_other() -> None:
    def build(p: dm.Pipeline) -> Any:
        once = sums_of(p, TWICE) | "once" >> dm.Map(drawing()).retractable("memoised")
        return once | "twice" >> dm.Map(drawing()).retractable("memoised")

    first = ((("a", 1), 0), 0)
    assert shown(build) == [(False, first), (True, first), (False, ((("a", 3), 1), 1))]


def test_the_percentile_of_the_watermark_is_available_before_and_after_a_memoised_function() -> None:
    def tell(pair: Any, watermark_percentile: float | None) -> Any:
        return pair, watermark_percentile

    def build(p: dm.Pipeline) -> Any:
        percentiles = sums_of(p, TWICE) | "tell" >> dm.Map(tell).retractable("memoised")
        return percentiles | "again" >> dm.Map(tell)

    first = ((("a", 1), 1), 1)
    assert shown(build) == [(False, first), (True, first), (False, ((("a", 3), 1), 1))]


# How long outputs are kept.


def kept_by(build: Callable[[dm.Pipeline], Any], label: str) -> int:
    """Return for how many values something is kept when the script is over, but the watermark not at its end."""
    p = dm.Pipeline(runner=dm.LocalRunner())
    build(p)
    execution = Execution.of(p.plan(), 0, most=1)
    most = 0
    (engine,) = [shard.machines[label] for shard in execution._shards if label in shard.machines]
    assert isinstance(engine, MemoMachine)
    for _ in execution.run():
        most = max(most, len(engine.state.keys))
    assert not engine.state.keys
    return most


def test_memoised_outputs_are_kept_until_the_window_expires_and_no_longer() -> None:
    windowing = RETRACTING.allowed_lateness("1 hour")
    script = TestStream().add(1, 0, key="a").watermark(7_199).add(2, 0, key="a").watermark(7_200)

    def build(p: dm.Pipeline, script: TestStream) -> None:
        _ = sums_of(p, script, windowing) | "draw" >> dm.Map(drawing()).retractable("memoised") | dm.io.Collect()

    assert kept_by(lambda p: build(p, script), "draw") == 1
    tail = script.add(5, 8_000, key="b")  # another window: what was kept of the first is gone
    assert kept_by(lambda p: build(p, tail), "draw") == 1
    assert kept_by(lambda p: build(p, TestStream().add(1, 0, key="a").add(5, 8_000, key="b")), "draw") == 2


def test_memoised_outputs_in_the_global_window_are_kept_to_the_end() -> None:
    windowing = dm.Window.into(dm.GlobalWindows()).trigger(EACH).on_time("fire_if_non_empty")
    script = TestStream().add(1, 0, key="a").watermark(10**9).add(2, 10**9, key="a")

    def build(p: dm.Pipeline) -> Any:
        sums = sums_of(p, script, windowing.accumulating_and_retracting())
        return sums | "draw" >> dm.Map(drawing()).retractable("memoised")

    assert [back for back, _ in shown(build)] == [False, True, False]


@attrs.frozen
class FirstMinute(dm.WindowFn):
    """The first minute of an element's hour."""

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[dm.IntervalWindow]:
        [hour] = dm.FixedWindows("1 hour").assign(event_time, element)
        return (dm.IntervalWindow(hour.start, hour.start + dm.duration("1 minute")),)


def re_windowed(p: dm.Pipeline, script: TestStream) -> Any:
    """Return sums of hours in windows of a minute, which expire before the hours do."""
    small = dm.Window.into(FirstMinute()).trigger(EACH).accumulating_and_retracting()
    return sums_of(p, script) | "minutes" >> small | "draw" >> dm.Map(drawing()).retractable("memoised")


def test_a_retraction_that_arrives_too_late_is_counted_with_its_replacement() -> None:
    script = TestStream().add(1, 30, key="a").watermark(600).add(2, 650, key="a")

    def build(p: dm.Pipeline) -> None:
        _ = re_windowed(p, script) | "out" >> dm.io.Collect()

    result = run(build)
    assert [record.value for record in result.collected("out")] == [(("a", 1), 0)]
    counted = result.metrics()["draw"]
    assert (counted["dropped_retractions"], counted["dropped_because_late"]) == (1, 1)


def test_memoised_outputs_are_kept_as_long_as_the_grouping_before_may_retract() -> None:
    script = TestStream().add(1, 0, key="a").watermark(7_199).add(2, 0, key="a")
    at_once = HOURLY.trigger(EACH).allowed_lateness(0).accumulating_and_retracting()

    def build(p: dm.Pipeline) -> Any:
        sums = sums_of(p, script, RETRACTING.allowed_lateness("1 hour"))
        return sums | "at once" >> at_once | "draw" >> dm.Map(drawing()).retractable("memoised")

    assert [back for back, _ in shown(build)] == [False, True, False]


def test_an_element_in_several_windows_is_processed_once_and_kept_until_the_last_expires() -> None:
    script = TestStream().add(1, 70, key="a").watermark(125).add(2, 130, key="a")
    sliding = dm.Window.into(dm.SlidingWindows("2 minutes", "1 minute")).trigger(EACH).accumulating_and_retracting()

    def build(p: dm.Pipeline) -> None:
        sums = sums_of(p, script, RETRACTING.timestamp_combiner("earliest"))
        drawn = sums | "sliding" >> sliding | "draw" >> dm.Map(drawing()).retractable("memoised")
        _ = drawn | "out" >> dm.io.Collect()

    records = run(build).collected("out")
    changes = [(record.is_retraction, int(record.window.start) // 60_000_000, record.value[1]) for record in records]
    assert changes == [
        (False, 0, 0), (False, 1, 0),
        (True, 0, 0), (True, 1, 0),
        (False, 1, 1), (False, 2, 1),
    ]  # fmt: skip


def test_a_value_that_replaces_nothing_passes_even_if_its_window_has_expired() -> None:
    script = TestStream().watermark(600).add(1, 30, key="a").add(2, 30, key="a")

    def build(p: dm.Pipeline) -> None:
        _ = re_windowed(p, script) | "out" >> dm.io.Collect()

    result = run(build)
    assert [record.value for record in result.collected("out")] == [(("a", 1), 0)]
    assert result.metrics()["draw"]["dropped_retractions"] == 1


# What a plan says of it, and refuses.


def planned(function: Any, windowing: Any = RETRACTING) -> dm.Pipeline:
    """Return a pipeline with a function behind sums."""
    p = dm.Pipeline()
    _ = sums_of(p, TWICE, windowing) | "draw" >> function | "out" >> dm.io.Collect()
    return p


def test_memoised_outputs_are_kept_in_a_stage_of_their_own() -> None:
    plan = planned(dm.Map(drawing()).retractable("memoised")).plan()
    stages = cut_into_stages(plan).stages
    assert [[node.label for node in stage] for stage in stages] == [["sums"], ["draw"]]
    assert "  draw: Map(lambda); outputs kept by input value, for retractions" in explain(plan).splitlines()
    assert fingerprint(plan)["draw"] == "memoised ParDo of sums.main"


def test_a_memoised_function_is_fused_like_others_if_nothing_is_retracted() -> None:
    kept, plain = dm.Map(drawing()).retractable("memoised"), dm.Map(drawing())
    accumulating = HOURLY.trigger(EACH).accumulating()
    plans = [planned(function, accumulating).plan() for function in (kept, plain)]
    assert len({len(cut_into_stages(plan).stages) for plan in plans}) == 1
    assert explain(plans[0]) == explain(plans[1])
    assert fingerprint(plans[0]) == fingerprint(plans[1])


@pytest.mark.parametrize("how", ["memoized", None, 1, "True"])
def test_an_unknown_value_of_retractable_is_refused(how: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match=rf"must be True, False or 'memoised', got {how!r}"):
        dm.Map(str).retractable(how)
    kind = type("Odd", (dm.DoFn,), {"retractable": how, "process": lambda self, element: [element]})
    with pytest.raises(dm.InvalidArgument, match=rf"`retractable` of Odd must be (.*), got {how!r}"):
        dm.ParDo(kind())


def test_every_transform_may_declare_that_it_must_not_run_on_retractions() -> None:
    p = planned(dm.Map(print).retractable(False))
    with pytest.raises(dm.PlanError, match=r"'draw' is declared not retractable(.|\n)*retractable=\"memoised\""):
        check(p.plan())
    check(planned(dm.Map(print).retractable(True)).plan())


def test_a_stateful_function_cannot_be_memoised() -> None:
    class Counting(dm.DoFn):
        retractable = "memoised"
        total = dm.CombiningStateSpec(dm.Sum())

        def process(self, pair: Any, total: Any, is_retraction: bool) -> Any:
            del is_retraction
            total.add(pair[1])
            yield pair

    with pytest.raises(dm.PlanError, match=r"'draw' is stateful(.|\n)*'sums'(.|\n)*Hint: leave `retractable` at True"):
        check(planned(dm.ParDo(Counting())).plan())


def test_a_memoised_function_may_have_static_but_not_changing_side_inputs() -> None:
    p = dm.Pipeline()
    sums = sums_of(p, TWICE)
    fixed = p | "fixed" >> dm.Create([10])
    scaled = dm.Map(lambda pair, by: (pair[0], pair[1] * by), dm.AsSingleton(fixed)).retractable("memoised")
    _ = sums | "scaled" >> scaled | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert net(result.collected("out")) == [("a", 30)]
    changing = p | "changing" >> TestStream().add(3, 0)
    _ = sums | "shaky" >> dm.Map(lambda pair, by: (pair, by), dm.AsSingleton(changing)).retractable("memoised")
    with pytest.raises(dm.NotYetSupported, match=r"'shaky' keeps its outputs(.|\n)*'sums'(.|\n)*Hint: look the side"):
        check(p.plan())


def test_a_memoised_function_must_not_emit_in_finish_bundle() -> None:
    class Closing(dm.DoFn):
        retractable = "memoised"

        def process(self, element: Any) -> Any:
            yield element

        def finish_bundle(self) -> Any:
            return ["end"]

    with pytest.raises(dm.PlanError, match="'draw' emits outputs at the end of a bundle"):
        check(planned(dm.ParDo(Closing())).plan())
