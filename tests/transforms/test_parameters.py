"""Parameters that the runner fills by their defaults, as Beam's `DoFn.TimestampParam`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from pathlib import Path


def outputs(transform: dm.PTransform, *values: Any) -> list[Any]:
    with dm.Pipeline() as p:
        _ = p | dm.Create(values) | dm.Window.into(dm.FixedWindows(10)) | transform | "out" >> dm.io.Collect()
    assert p.result is not None
    return [record.value for record in p.result.collected("out")]


FIRST_TEN = dm.IntervalWindow(dm.event_time(0), dm.event_time(10))
AT_SIX = dm.TimestampedValue(("a", 1), 6)


class Described(dm.DoFn):
    """Tells what it is told."""

    def process(
        self,
        pair: Any = dm.DoFn.ElementParam,
        at: Any = dm.DoFn.TimestampParam,
        where: Any = dm.DoFn.WindowParam,
        which: Any = dm.DoFn.PaneInfoParam,
        of: Any = dm.DoFn.KeyParam,
    ) -> Any:
        yield pair, at, where, which.timing, of


def test_a_default_value_determines_what_a_parameter_receives() -> None:
    assert outputs(dm.ParDo(Described()), AT_SIX) == [
        (("a", 1), dm.event_time(6), FIRST_TEN, dm.PaneTiming.UNKNOWN, "a")
    ]


def test_plain_functions_may_use_the_default_values_of_dofn_parameters() -> None:
    assert outputs(dm.Map(lambda x, at=dm.DoFn.TimestampParam: (x[0], at)), AT_SIX) == [("a", dm.event_time(6))]
    assert outputs(dm.Filter(lambda _, timestamp=dm.DoFn.TimestampParam: timestamp > dm.event_time(7)), AT_SIX) == []


def test_positional_arguments_skip_the_parameters_that_are_filled() -> None:
    def scaled(pair: Any, at: Any = dm.DoFn.TimestampParam, factor: int = 1, offset: int = 0) -> Any:
        return pair[1] * factor + offset, at

    assert outputs(dm.Map(scaled, 10, 5), AT_SIX) == [(15, dm.event_time(6))]
    assert outputs(dm.Map(scaled, offset=3), AT_SIX) == [(4, dm.event_time(6))]


def test_a_side_input_may_follow_a_parameter_that_is_filled() -> None:
    def named(pair: Any, at: Any = dm.DoFn.TimestampParam, names: Any = dm.DoFn.SideInputParam) -> Any:
        return names[pair[0]], at

    with dm.Pipeline() as p:
        names = p | "names" >> dm.Create([("a", "Ann")])
        _ = p | dm.Create([AT_SIX]) | dm.Map(named, dm.AsDict(names)) | "out" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value for record in p.result.collected("out")] == [("Ann", dm.event_time(6))]


def test_a_parameter_passed_by_name_is_not_filled() -> None:
    assert outputs(dm.Map(lambda x, at=dm.DoFn.TimestampParam: at, at="mine"), AT_SIX) == ["mine"]


class Reminders(dm.DoFn):
    """Counts the elements of a key, and says how many there were when its window ends."""

    COUNT = dm.ValueStateSpec[int](default=0)
    OVER = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(
        self,
        pair: Any,
        seen: Any = dm.DoFn.StateParam(COUNT),
        over: Any = dm.DoFn.TimerParam(OVER),
        window: Any = dm.DoFn.WindowParam,
    ) -> Any:
        seen.write(seen.read() + 1)
        over.set(window.end, tag="end")

    @dm.on_timer(OVER)
    def tell(
        self,
        who: Any = dm.DoFn.KeyParam,
        seen: Any = dm.DoFn.StateParam(COUNT),
        tag: Any = dm.DoFn.DynamicTimerTagParam,
        at: Any = dm.DoFn.TimestampParam,
    ) -> Any:
        yield who, seen.read(), tag, at


TOLD = [("a", 2, "end", FIRST_TEN.max_timestamp), ("b", 1, "end", FIRST_TEN.max_timestamp)]


def test_states_and_timers_are_requested_by_their_specs() -> None:
    assert outputs(dm.ParDo(Reminders()), AT_SIX, dm.TimestampedValue(("b", 1), 7), AT_SIX) == TOLD


@on_hosts("process")
def test_a_stream_fills_parameters_by_their_default_values(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    script = TestStream().add(1, 6, key="a").add(1, 7, key="b").watermark(8).add(2, 9, key="a")
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    windowed = p | script | dm.Window.into(dm.FixedWindows(10))
    _ = windowed | dm.ParDo(Reminders()) | "out" >> dm.io.Collect()
    _ = windowed | dm.Map(lambda _, at=dm.DoFn.TimestampParam: at) | "times" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish(60)
    assert [record.value for record in result.collected("out")] == TOLD
    assert sorted(int(record.value) // 10**6 for record in result.collected("times")) == [6, 7, 9]


def test_a_spec_that_the_class_does_not_declare_is_refused() -> None:
    elsewhere = dm.ValueStateSpec[int](default=0)

    class Lost(dm.DoFn):
        COUNT = dm.ValueStateSpec[int](default=0)

        def process(self, pair: Any, seen: Any = dm.DoFn.StateParam(elsewhere)) -> Any:
            yield seen.read()

    with pytest.raises(dm.InvalidArgument, match=r"asks with 'seen' for .*(.|\n)*Hint: make the spec an attribute"):
        dm.ParDo(Lost())


def test_a_function_must_take_the_element_as_its_first_parameter() -> None:
    with pytest.raises(dm.InvalidArgument, match="must take the element as its first parameter"):
        dm.Map(lambda at=dm.DoFn.TimestampParam, x=dm.DoFn.ElementParam: x)
    with pytest.raises(dm.InvalidArgument, match="must take the element as its first parameter"):
        dm.Map(lambda at=dm.DoFn.TimestampParam: at)  # type: ignore[misc] # a lambda that takes no element


def test_parameters_of_timer_callbacks_are_refused_elsewhere() -> None:
    with pytest.raises(dm.InvalidArgument, match="has an unknown parameter 'tag' for 'timer_tag'"):
        dm.Map(lambda x, tag=dm.DoFn.DynamicTimerTagParam: tag)


def test_a_missing_argument_for_a_side_input_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="has an unknown parameter 'names'"):
        dm.Map(lambda x, names=dm.DoFn.SideInputParam: names)


class SpecOfTheInstance(dm.DoFn):
    def __init__(self) -> None:
        self.count = dm.ValueStateSpec(default=0)

    def process(self, pair: Any, count: Any) -> Any:
        yield count.read()


class ClassOfASpec(dm.DoFn):
    count = dm.BagStateSpec

    def process(self, pair: Any, count: Any) -> Any:
        yield count.read()


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            SpecOfTheInstance(),
            r"'count' of SpecOfTheInstance .*\nHint: declare it in the class, .*: count = dm.ValueStateSpec\(…\)",
        ),
        (ClassOfASpec(), r"'count' of ClassOfASpec .*\nHint: call it: count = dm.BagStateSpec\(\)"),
    ],
)
def test_a_spec_that_the_class_does_not_declare_is_refused_with_where_it_belongs(fn: Any, message: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match=message):
        _ = dm.Pipeline() | dm.Create([("a", 1)]) | dm.ParDo(fn)
