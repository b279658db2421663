"""One grouping as a machine: whatever is done to its bundles, state and shards, its panes are those of a plain run."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import dataflow_model as dm
from dataflow_model.runners.engine.lanes.bundle import Update
from dataflow_model.testing import assert_panes, strategies
from dataflow_model.triggers import TriggerMachine
from tests.support.laws.drawing import BUSY, ENDLESS, windowing_strategies
from tests.support.laws.shards import Element, Shards, staged

SECOND = 1_000_000
KEYS = st.sampled_from("abc")
STEPS = st.integers(0, 12)


class Grouping(RuleBasedStateMachine):
    """Two runs of the same events: `plain` takes each as an instant of its own, on one shard that lives throughout."""

    @initialize(
        strategy=windowing_strategies(
            trees=st.one_of(BUSY, BUSY, ENDLESS, strategies.triggers()),
            lateness=st.sampled_from([0, 5, 15, 40, 1_000]),
            late_data=st.sampled_from(dm.LateData),
        ),
        takes_back=st.booleans(),
        shards=st.integers(1, 3),
        on_objects=st.booleans(),
    )
    def begin(self, strategy: Any, takes_back: bool, shards: int, on_objects: bool) -> None:
        # Windows that a value has joined cannot be parted again: a plan that would have to is refused.
        self.takes_back = takes_back and not strategy.merges
        self.strategy = strategy
        chain = staged(strategy, takes_back=self.takes_back)
        self.plain, self.moved = Shards(chain, 1), Shards(chain, shards, on_objects=on_objects)
        self.names = sorted(TriggerMachine(strategy.trigger).signals)
        self.clock = 0
        self.watermark = int(dm.MIN_TIMESTAMP)
        self.percentiles = [self.watermark] * len(self.plain.awaited)
        self.elements: list[Element] = []  # those that stand
        self.waiting: list[Element] = []  # in the bundle that the moved run has yet to see
        self.number = 0

    # The events

    @rule(entries=st.lists(st.tuples(KEYS, st.integers(-15, 25)), min_size=1, max_size=5))
    def add(self, entries: list[tuple[str, int]]) -> None:
        for key, ahead in entries:
            self._add(key, ahead)

    @rule(key=KEYS, ahead=st.integers(0, 12), count=st.integers(1, 6))
    def add_what_belongs_together(self, key: str, ahead: int, count: int) -> None:
        for number in range(count):
            self._add(key, ahead + number)

    @precondition(lambda self: self.takes_back and self.elements)
    @rule(data=st.data(), replaced=st.booleans())
    def take_back(self, data: st.DataObject, replaced: bool) -> None:
        old = self.elements.pop(data.draw(st.integers(0, len(self.elements) - 1), label="which"))
        emission = ("upstream", self.number)
        rows = [attrs.evolve(old, number=self._next(), update=Update(emission, is_retraction=True))]
        if replaced:
            number = self._next()
            update = Update(emission, is_retraction=False)
            new = attrs.evolve(old, value=1 << number, number=number, update=update)
            self.elements.append(attrs.evolve(new, update=None))
            rows.append(new)
        self._show(rows)

    @rule(by=STEPS, data=st.data())
    def advance_watermark(self, by: int, data: st.DataObject) -> None:
        before = max(self.watermark, 0)
        self.watermark = before + by * SECOND
        ahead = data.draw(st.lists(STEPS, min_size=len(self.percentiles), max_size=len(self.percentiles)))
        high = self.watermark
        for index in reversed(range(len(self.percentiles))):  # the lower the percentile, the further ahead
            high = max(self.percentiles[index], high + ahead[index] * SECOND)
            self.percentiles[index] = high
        self.flush()
        for shards in (self.plain, self.moved):
            self._instant(shards)

    @rule(by=STEPS)
    def advance_clock(self, by: int) -> None:
        self.flush()
        self.clock += by * SECOND
        for shards in (self.plain, self.moved):
            self._instant(shards)

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def signal(self, data: st.DataObject) -> None:
        self.flush()
        name = data.draw(st.sampled_from(self.names))
        for shards in (self.plain, self.moved):
            self._instant(shards, signals=[name])

    # What must make no difference

    @rule()
    def flush(self) -> None:
        """End the bundle."""
        if self.waiting:
            self._instant(self.moved, self.waiting)
            self.waiting = []

    @rule()
    def snapshot_and_restore(self) -> None:
        self.flush()
        self.moved.move(len(self.moved._shards))

    @rule(count=st.integers(1, 4))
    def reshard(self, count: int) -> None:
        self.flush()
        self.moved.move(count)

    @rule()
    def leave_and_open_the_same_instant(self) -> None:
        """Tell all clocks once more."""
        self.flush()
        self._instant(self.moved)

    # The laws

    @invariant()
    def the_panes_are_those_of_the_plain_run(self) -> None:
        if not self.waiting:
            assert_panes(self.moved.panes, self.plain.panes)
            assert self.moved.counters == self.plain.counters

    @invariant()
    def values_and_retractions_balance(self) -> None:
        """Law 6, pane by pane: a retraction takes back just what stands, and no window has two values at a time."""
        if not self.strategy.retracting:
            assert not any(pane.is_retraction for pane in self.plain.panes)
            return
        standing: dict[Any, dm.Pane] = {}
        for pane in self.plain.panes:
            cell = (pane.key, pane.window)
            if pane.is_retraction:
                assert _content(standing.pop(cell)) == _content(pane)
            elif not self._is_reopened(pane):
                assert cell not in standing
                standing[cell] = pane

    @invariant()
    def the_panes_of_a_window_are_in_sequence(self) -> None:
        """Law 7, but for windows that late data have opened again."""
        by_window: defaultdict[Any, list[dm.PaneInfo]] = defaultdict(list)
        for pane in self.plain.panes:
            if not pane.is_retraction and not self._is_reopened(pane):
                by_window[pane.key, pane.window].append(pane.info)
        for infos in by_window.values():
            assert [info.index for info in infos] == list(range(len(infos)))
            assert [info.is_first for info in infos] == [number == 0 for number in range(len(infos))]
            assert not any(info.is_last for info in infos[:-1])
            timings = [info.timing.name for info in infos]
            assert timings == sorted(timings, key=["EARLY", "ON_TIME", "LATE"].index)
            assert Counter(timings)["ON_TIME"] <= 1

    def teardown(self) -> None:
        """End the input: what is still open goes out, on both sides the same."""
        if not hasattr(self, "plain"):
            return
        self.flush()
        for shards in (self.plain, self.moved):
            self._instant(shards, closes=True)
        self.watermark = int(dm.MAX_TIMESTAMP)
        self.percentiles = [self.watermark] * len(self.percentiles)
        for shards in (self.plain, self.moved):
            self._instant(shards, closes=True)
        self.the_panes_are_those_of_the_plain_run()
        self.values_and_retractions_balance()
        self.the_panes_of_a_window_are_in_sequence()

    # Inside

    def _next(self) -> int:
        self.number += 1
        return self.number - 1

    def _add(self, key: str, ahead: int) -> None:
        at = max(0, max(0, self.watermark) + ahead * SECOND)
        value = 1 << self.number
        windows = tuple(self.strategy.window_fn.assign(dm.EventTime(at), (key, value)))
        element = Element(key, value, at, windows, self._next())
        self.elements.append(element)
        self._show([element])

    def _show(self, rows: list[Element]) -> None:
        self._instant(self.plain, rows)
        self.waiting += rows

    def _instant(self, shards: Shards, elements: list[Element] | None = None, **more: Any) -> None:
        shards.instant(self.clock, self.watermark, self.percentiles, elements or [], **more)

    def _is_reopened(self, pane: dm.Pane) -> bool:
        reopens = self.strategy.late_data is dm.LateData.DUPLICATE_WINDOW
        return reopens and pane.info.trigger is None and pane.info.index == 0 and pane.info.is_last


def _content(pane: dm.Pane) -> Any:
    """Return what a retraction repeats."""
    return pane.key, pane.window, pane.value, pane.timestamp, pane.info


TestGrouping = Grouping.TestCase
TestGrouping.settings = settings(max_examples=settings().max_examples, stateful_step_count=40)


class GroupingAtLength(Grouping):
    """The same, drawn more often."""


TestGroupingAtLength = pytest.mark.slow(GroupingAtLength.TestCase)
TestGroupingAtLength.settings = settings(max_examples=500, stateful_step_count=40)
