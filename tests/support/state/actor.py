"""A stateful DoFn that does what its elements say, and scripts of such elements.

An element is a pair of a key and a tuple of actions; see `Actor.process`. A timer's tag says what its function does:
`"stop"` nothing more, `"again"` sets a timer three seconds on, `"back"` one in the past, `"both"` one of the other
domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep
from dataflow_model.testing import TestStream
from dataflow_model.testing import strategies as drawn

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy


class Actor(dm.DoFn):
    """Does what its elements say, and tells all that it sees."""

    bag = dm.BagStateSpec[int]()
    total = dm.CombiningStateSpec(dm.Sum())
    last = dm.ValueStateSpec[int](default=-1)
    seen = dm.SetStateSpec[int]()
    notes = dm.MapStateSpec[int, int]()
    event = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)
    clock = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)

    def process(
        self,
        pair: Any,
        *,
        bag: dm.BagState[int],
        total: dm.CombiningState[int, int],
        last: dm.ValueState[int],
        seen: dm.SetState[int],
        notes: dm.MapState[int, int],
        event: dm.Timer,
        clock: dm.Timer,
        timestamp: dm.EventTime,
    ) -> Any:
        for action, *rest in pair[1]:
            match action:
                case "keep":
                    bag.add(rest[0])
                    total.add(rest[0])
                    last.write(rest[0])
                    seen.add(rest[0] % 3)
                    notes.put(rest[0] % 2, rest[0])
                case "wipe":
                    for held in (bag, total, last, seen, notes):
                        held.clear()
                case "event":
                    hold = None if rest[2] is None else timestamp + dm.duration(rest[2])
                    event.set(timestamp + dm.duration(rest[0]), tag=rest[1], output_timestamp=hold)
                case "clock":
                    clock.set_after(rest[0], tag=rest[1])
                case "clear":
                    (event if rest[0] == "event" else clock).clear(rest[1])
        yield "element", timestamp, _told(bag, total, last, seen, notes)

    @dm.on_timer(event)
    def at_event(
        self,
        fire_timestamp: dm.EventTime,
        timer_tag: str,
        timestamp: dm.EventTime,
        bag: dm.BagState[int],
        event: dm.Timer,
        clock: dm.Timer,
    ) -> Any:
        match timer_tag:
            case "again":
                bag.add(len(bag))
                event.set_after(3, tag="back")
            case "back":
                event.set(fire_timestamp - dm.duration(5), tag="stop")
            case "both":
                clock.set_after(2, tag="stop")
        yield "event", fire_timestamp, timer_tag, timestamp, tuple(bag.read())

    @dm.on_timer(clock)
    def at_clock(
        self,
        fire_timestamp: dm.ProcessingTime,
        timer_tag: str,
        timestamp: dm.EventTime,
        bag: dm.BagState[int],
        event: dm.Timer,
        clock: dm.Timer,
    ) -> Any:
        match timer_tag:
            case "again":
                bag.add(len(bag))
                clock.set_after(3, tag="back")
            case "back":
                clock.set(fire_timestamp - dm.duration(5), tag="stop")
            case "both":
                event.set(timestamp - dm.duration(2), tag="stop")
        yield "clock", fire_timestamp, timer_tag, timestamp, tuple(bag.read())


class Mourner(Actor):
    """The same, and tells what is left at the end of a window."""

    def on_window_expiry(self, key: str, bag: dm.BagState[int], timestamp: dm.EventTime) -> Any:
        yield "expiry", key, timestamp, tuple(bag.read())


class Sorter(Actor):
    """The same, on elements in event-time order."""

    requires_time_sorted_input = True


def _told(bag: Any, total: Any, last: Any, seen: Any, notes: Any) -> tuple[Any, ...]:
    return tuple(bag.read()), total.read(), last.read(), tuple(seen.read()), tuple(notes.items())


# Scripts --------------------------------------------------------------------------------------------------------------

_TAGS = st.sampled_from(["stop", "again", "back", "both"])
_ACTIONS = st.one_of(
    st.tuples(st.just("keep"), st.integers(0, 9)),
    st.tuples(st.just("wipe")),
    st.tuples(st.just("event"), st.integers(-3, 4), _TAGS, st.none()),
    st.integers(0, 4).flatmap(lambda delay: st.tuples(st.just("event"), st.just(delay), _TAGS, st.integers(0, delay))),
    st.tuples(st.just("clock"), st.integers(0, 9), _TAGS),
    st.tuples(st.just("clear"), st.sampled_from(["event", "clock"]), _TAGS),
)


def scripts(max_steps: int = 15, actions: st.SearchStrategy[Any] = _ACTIONS) -> st.SearchStrategy[TestStream]:
    """Draw scripts of pairs of a key and actions; the numbers of a drawn script choose among drawn actions."""
    several = st.lists(st.lists(actions, max_size=4).map(tuple), min_size=1, max_size=12)
    return st.builds(_acting, drawn.test_streams(max_steps=max_steps), several)


def _acting(script: TestStream, actions: list[Any]) -> TestStream:
    steps: list[Any] = []
    for step in script.steps:
        if isinstance(step, AddStep):
            elements = [((key, actions[value.bit_length() % len(actions)]), at) for (key, value), at in step.elements]
            steps.append(AddStep(tuple(elements)))
        else:
            steps.append(step)
    return TestStream(steps)


def strategies() -> st.SearchStrategy[WindowingStrategy]:
    """Draw windowing strategies whose windows do not merge; timers may go ten seconds beyond any element's window."""
    return drawn.windowing_strategies(
        fns=drawn.window_fns(merging=False), trees=st.just(dm.DefaultTrigger()), lateness=st.sampled_from([10, 15, 40])
    )


def run(script: TestStream, strategy: WindowingStrategy, fn: dm.DoFn, runner: Any = None) -> Any:
    """Run a DoFn over a script and return the result; its outputs are in the sink `out`."""
    pipeline = dm.Pipeline(runner=runner or dm.LocalRunner())
    build(pipeline, script, strategy, fn)
    result = pipeline.run(until="drained")
    result.wait_until_finish()
    return result


def build(pipeline: dm.Pipeline, script: TestStream, strategy: WindowingStrategy, fn: dm.DoFn, name: str = "") -> None:
    """Add a DoFn over a script to a pipeline."""
    placed = pipeline | f"script{name}" >> script | f"windows{name}" >> dm.Window.into(strategy)
    _ = placed | f"act{name}" >> dm.ParDo(fn) | f"out{name}" >> dm.io.Collect()
