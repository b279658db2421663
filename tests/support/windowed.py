"""Functions whose outputs have event times, windows and panes of their own, and plans with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.plan.endpoints.message_sinks import CollectSink
from dataflow_model.plan.endpoints.program_sources import ElementsSource
from dataflow_model.plan.functions.windowed import BundleFn, InputColumns, OutputColumns, WindowedOutput
from dataflow_model.plan.logical.graph import Plan
from dataflow_model.plan.logical.nodes import MAIN, Node, ParDo, Read, Ref, Write
from dataflow_model.values import interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SECOND = 1_000_000
EARLY = dm.PaneInfo(is_first=True, is_last=False, timing=dm.PaneTiming.EARLY, index=0, on_time_index=-1)
LATE = dm.PaneInfo(is_first=False, is_last=True, timing=dm.PaneTiming.LATE, index=3, on_time_index=2)


def placed(number: int) -> tuple[int, tuple[dm.AnyWindow, ...], dm.PaneInfo]:
    """Return the event time, the windows and the pane of what is emitted for a number."""
    start = number * SECOND
    windows = (interval(start, start + SECOND), interval(start, start + 2 * SECOND))
    return start, windows[: 1 + number % 2], EARLY if number % 2 else LATE


class Placing(BundleFn):
    """Emits each number into the windows of `placed`, and every even one also into the second output."""

    def run(
        self, elements: InputColumns, sides: Sequence[Callable[[dm.AnyWindow], Any]]
    ) -> Mapping[str, OutputColumns]:
        added = sum(sides[0](elements.windows[0][0])) if sides else 0
        rows = list(range(len(elements.values)))
        even = [row for row in rows if elements.values[row] % 2 == 0]
        return {tag: self._outputs(elements, of_tag, added) for tag, of_tag in ((MAIN, rows), ("even", even))}

    @staticmethod
    def _outputs(elements: InputColumns, rows: list[int], added: int) -> OutputColumns:
        values = [elements.values[row] for row in rows]
        times, windows, panes = zip(*map(placed, values), strict=True) if values else ((), (), ())
        return OutputColumns([value + added for value in values], rows, times, windows, panes)


class Counting(dm.DoFn):
    """A stateful function that emits into the windows of `placed`: for elements, from a timer and at the end."""

    seen = dm.ValueStateSpec[int](default=0)
    flush = dm.TimerSpec()

    def process(self, pair: tuple[str, int], seen: dm.ValueState[int], flush: dm.Timer) -> Iterator[Any]:
        seen.write(seen.read() + 1)
        flush.set(dm.event_time(50))
        yield _windowed(pair[1])

    @dm.on_timer(flush)
    def at_flush(self, seen: dm.ValueState[int]) -> Iterator[Any]:
        yield dm.TaggedOutput("flushed", _windowed(seen.read()))

    def finish_bundle(self) -> Iterator[Any]:
        yield dm.TaggedOutput("ended", _windowed(7))


def _windowed(number: int) -> WindowedOutput:
    return WindowedOutput(number, *placed(number))


def plan_of(*nodes: Node, sinks: Mapping[str, Ref]) -> Plan:
    """Return a plan with sinks that collect some collections."""
    writes = (Write(label=label, input=ref, sink=CollectSink()) for label, ref in sinks.items())
    return Plan((*nodes, *writes))


def numbers(*values: Any, label: str = "numbers") -> Read:
    """Return the source of some elements."""
    return Read(label=label, source=ElementsSource(values, tuple(dm.event_time(0) for _ in values)))


def par_do(label: str, ref: Ref, fn: dm.DoFn, **options: Any) -> ParDo:
    """Return the node of a function."""
    return ParDo(label=label, input=ref, fn=fn, **options)
