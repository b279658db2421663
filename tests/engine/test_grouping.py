"""The grouping engine by itself: durable state, the output watermark, and what it may emit when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, WatermarkStep
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, Watermarks
from dataflow_model.testing import strategies
from tests.support.reference.grouping import GroupingEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

Event = tuple[str, tuple[Any, ...]]
LATE = st.sampled_from(dm.LateData)
ANY_STRATEGY = strategies.windowing_strategies(late_data=LATE)


def new_engine(strategy: WindowingStrategy) -> GroupingEngine:
    """Return an engine without state."""
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=dm.Sum())
    return GroupingEngine(node)


def events_of(script: TestStream, strategy: WindowingStrategy) -> Iterator[Event]:
    """Yield the calls that a script amounts to: the method's name and its arguments."""
    number = 0
    for step in script.steps:
        match step:
            case AddStep():
                for (key, value), at in step.elements:
                    number += 1
                    windows = strategy.window_fn.assign(at, (key, value))
                    yield "element", (key, value, int(at), windows, (0, number))
            case WatermarkStep():
                yield "advance_watermarks", (Watermarks(int(step.watermark)),)
            case ClockStep():
                yield "advance_clock", (int(step.processing_time),)
    yield "leave_instant", ()
    yield "advance_watermarks", (MAX_WATERMARKS,)


@attrs.define
class Shard:
    """An engine, what is durable of its state, and what it has given."""

    strategy: WindowingStrategy
    engine: GroupingEngine = attrs.field(init=False)
    stored: dict[bytes, Any] = attrs.field(factory=dict)
    given: list[Any] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.engine = new_engine(self.strategy)

    def take(self, event: Event) -> list[tuple[Any, Any, int, dm.PaneInfo]]:
        """Run an event; return its panes: (key, value), window, event time, info."""
        name, arguments = event
        getattr(self.engine, name)(*arguments)
        output = self.engine.take_output()
        self.given += [attrs.astuple(output, recurse=False), self.engine.output_watermarks().low]
        windows = [window for (window,) in output.windows]
        return list(zip(output.values, windows, output.times, output.panes, strict=True))

    def make_durable(self) -> None:
        """Write what has changed since the last time."""
        for encoded, entry in self.engine.state.take_touched().items():
            if entry is None:
                self.stored.pop(encoded, None)
            else:
                self.stored[encoded] = entry

    def restart(self) -> None:
        """Go on in another engine with what is durable."""
        self.make_durable()
        before, self.engine = self.engine, new_engine(self.strategy)
        self.engine.apply(dict(self.stored))
        self.engine.set_clocks(**before.clocks())


@given(st.data(), strategies.test_streams(keys=("a", "b", "c")), ANY_STRATEGY)
def test_an_engine_that_is_restarted_anywhere_gives_the_same_panes(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy
) -> None:
    whole, cut = Shard(strategy), Shard(strategy)
    what: dict[str, Callable[[], None]] = {"go on": lambda: None, "write": cut.make_durable, "restart": cut.restart}
    for event in events_of(script, strategy):
        whole.take(event)
        cut.take(event)
        what[data.draw(st.sampled_from(sorted(what)))]()
    assert cut.given == whole.given


@given(strategies.test_streams(), ANY_STRATEGY)
def test_no_state_remains_at_the_end_of_the_input(script: TestStream, strategy: WindowingStrategy) -> None:
    shard = Shard(strategy)
    for event in events_of(script, strategy):
        shard.take(event)
        shard.make_durable()
    assert shard.stored == {}
    assert shard.engine.live_windows() == 0


@given(strategies.test_streams(), ANY_STRATEGY)
def test_the_output_watermark_is_never_ahead_of_the_input(script: TestStream, strategy: WindowingStrategy) -> None:
    shard = Shard(strategy)
    for event in events_of(script, strategy):
        shard.take(event)
        assert shard.engine.output_watermarks().low <= shard.engine.watermark
    assert shard.engine.output_watermarks().low == dm.MAX_TIMESTAMP


@given(strategies.test_streams(), ANY_STRATEGY)
def test_an_early_or_on_time_pane_is_not_late_downstream(script: TestStream, strategy: WindowingStrategy) -> None:
    shard = Shard(strategy)
    known = int(dm.MIN_TIMESTAMP)  # downstream
    for event in events_of(script, strategy):
        known = max(known, shard.engine.output_watermarks().low)
        for _, _, time, info in shard.take(event):
            assert info.timing is dm.PaneTiming.LATE or time >= known


@given(strategies.test_streams(), strategies.windowing_strategies())
def test_an_expired_window_emits_nothing(script: TestStream, strategy: WindowingStrategy) -> None:
    shard = Shard(strategy)
    for event in events_of(script, strategy):
        before = shard.engine.watermark
        for _, window, _, info in shard.take(event):
            expiry = min(int(window.end) + int(strategy.allowed_lateness), int(dm.MAX_TIMESTAMP))
            assert before < expiry
            assert info.is_last or shard.engine.watermark < expiry


@given(strategies.test_streams(), ANY_STRATEGY)
def test_the_next_timer_is_never_due_before_the_current_clock(script: TestStream, strategy: WindowingStrategy) -> None:
    shard = Shard(strategy)
    for event in events_of(script, strategy):
        shard.take(event)
        due = shard.engine.next_due(dm.TimeDomain.PROCESSING_TIME)
        assert due is None or due >= shard.engine.clock
