"""What stands when values are taken back: sinks' records folded by hand, instant by instant."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.runner import PipelineResult, Runner
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

Placed = tuple[Any, Any, Any]
"""A key, a window, and a value."""


@attrs.define
class Account:
    """Values less retractions; a retraction must find the very record that it takes back."""

    standing: list[Record] = attrs.field(factory=list)

    def book(self, records: Iterable[Record]) -> Account:
        for record in records:
            if not record.is_retraction:
                self.standing.append(record)
                continue
            taken = [index for index, before in enumerate(self.standing) if _same(before, record)]
            assert taken, f"{record} takes back what does not stand"
            del self.standing[taken[0]]
        return self

    def values(self) -> list[Any]:
        return [record.value for record in self.standing]

    def by_window(self) -> dict[tuple[Any, Any], Any]:
        """Return the value of each key and window, of which there is one."""
        entries = {(record.value[0], record.window): record.value[1] for record in self.standing}
        assert len(entries) == len(self.standing), f"a window has several values: {self.standing}"
        return entries


def _same(before: Record, record: Record) -> bool:
    return (before.value, before.window, before.event_time, before.pane) == (
        record.value,
        record.window,
        record.event_time,
        record.pane,
    )


def net(records: Iterable[Record]) -> list[Any]:
    """Return the values that stand in the end, in an order that compares."""
    return sorted(Account().book(records).values(), key=repr)


def instants(*sinks: Sequence[Record]) -> Iterator[tuple[Account, ...]]:
    """Yield what stands in each sink after each instant in which one of them received something."""
    accounts = tuple(Account() for _ in sinks)
    entries = [(record.order[:2], number, record) for number, records in enumerate(sinks) for record in records]
    for _, entries_then in itertools.groupby(sorted(entries, key=lambda entry: entry[0]), key=lambda entry: entry[0]):
        for _, number, record in entries_then:
            accounts[number].book([record])
        yield accounts


def run(build: Callable[[dm.Pipeline], Any], runner: Runner | None = None) -> PipelineResult:
    """Build a pipeline and run it to its end."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner() if runner is None else runner)
    build(pipeline)
    result = pipeline.run(until="drained")
    result.wait_until_finish()
    return result


def retracting(strategy: WindowingStrategy, **changes: Any) -> WindowingStrategy:
    """Return a strategy that takes its panes back."""
    mode = dm.AccumulationMode.ACCUMULATE_ALWAYS
    return attrs.evolve(strategy, accumulation_mode=mode, retracting=True, **changes)


def elements_of(script: TestStream) -> list[tuple[Any, Any, dm.EventTime]]:
    """Return key, value and event time of each element."""
    steps = [step for step in script.steps if isinstance(step, AddStep)]
    return [(*pair, at) for step in steps for pair, at in step.elements]


def batch(elements: Iterable[tuple[Any, Any, dm.EventTime]], fn: dm.WindowFn) -> list[tuple[Any, Any, list[Any]]]:
    """Group by key and window by hand, all data in hand at once: keys, windows and their values."""
    placed: dict[Any, list[tuple[Any, Any]]] = {}
    for key, value, at in elements:
        placed.setdefault(key, []).extend((window, value) for window in fn.assign(at, (key, value)))
    groups: dict[tuple[Any, Any], list[Any]] = {}
    for key, placed_values in placed.items():
        windows = sorted({window for window, _ in placed_values}, key=lambda window: (window.start, window.end))
        homes = {window: window for window in windows}
        for members, merged in fn.merge(windows) if fn.is_merging else ():
            homes |= dict.fromkeys(members, merged)
        for window, value in placed_values:
            groups.setdefault((key, homes[window]), []).append(value)
    return [(key, window, values) for (key, window), values in groups.items()]


def ticking(script: TestStream) -> TestStream:
    """Return the script with each event as a step of its own, and two new values of the clock after each.

    What waits for the end of a tick fires as the clock leaves it: at the first of them in the first grouping, at the
    second in what the first has sent on.
    """
    clock, ticked = 0, type(script)()
    for _, step in events_of(script.steps):
        if isinstance(step, ClockStep):
            clock = max(clock, int(step.processing_time))
        else:
            ticked = type(script)((*ticked.steps, step))
        for _ in range(2):
            clock += 1
            ticked = ticked.processing_time(dm.ProcessingTime(clock))
    return ticked


def ends_of_ticks(script: TestStream) -> list[int]:
    """Return the numbers of the steps at which everything that waited for a tick's end has fired."""
    return [
        index
        for index, (step, following) in enumerate(zip(script.steps, (*script.steps, None)[1:], strict=True))
        if isinstance(step, ClockStep) and not isinstance(following, ClockStep)
    ]


def until(records: Iterable[Record], step: int) -> Account:
    """Return what stands after a step of the script."""
    return Account().book(record for record in records if record.order[1] <= step)
