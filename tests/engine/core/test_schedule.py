"""The schedule of a grouping: outdated entries do not pile up, and nothing that is due at the end of time is missed."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import dataflow_model as dm
from dataflow_model.plan.logical.strategy import WindowingStrategy
from dataflow_model.runners.engine.core.columns import column
from dataflow_model.runners.engine.core.machine import GroupingMachine
from dataflow_model.runners.engine.core.operations import FIRE, GLOBAL_KIND, INTERVAL_KIND, LOW_DOMAIN
from dataflow_model.runners.engine.core.program import compile_tree
from dataflow_model.runners.engine.core.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUS_INFINITY, INFINITY = int(dm.MIN_TIMESTAMP), int(dm.MAX_TIMESTAMP)
MOST_OUTDATED = 17
"""What a queue may hold besides four entries for each open cell."""


def machine_of(strategy: WindowingStrategy) -> GroupingMachine:
    machine = GroupingMachine(compile_tree(strategy.trigger), Rules.of(strategy), MINUS_INFINITY, INFINITY)
    machine.cells.admit_keys(2_000)
    return machine


def columns_of(rows: Sequence[tuple[int, int, int, int]]) -> list[array[int]]:
    """Return the columns of elements, given as key, start and end of the window, and kind."""
    keys, starts, ends, kinds = (array("q", column) for column in zip(*rows, strict=True))
    return [keys, starts, ends, kinds, starts, array("q", range(len(rows))), array("q", [0] * len(rows))]


def test_outdated_entries_of_a_growing_session_do_not_accumulate_in_the_queues() -> None:
    strategy = WindowingStrategy(dm.Sessions(dm.Duration(micros=10)), dm.AfterWatermark(early=dm.AfterEventTime(3)))
    machine = machine_of(strategy)
    for time in range(5_000):
        machine.element(time, 0, time, time + 10, INTERVAL_KIND, time, 0)
        machine.recycle()
    assert machine.cells.live == 1
    for queue in (*machine.schedule.queues, machine.schedule.holds):
        assert queue.size <= MOST_OUTDATED + 4
    assert machine.schedule.first_due(LOW_DOMAIN) == 5_009
    assert machine.schedule.held() == 5_008


def test_running_key_by_key_leaves_neither_entries_nor_holds_in_the_queues() -> None:
    machine = machine_of(WindowingStrategy(dm.FixedWindows(dm.Duration(micros=10)), dm.DefaultTrigger()))
    rows = [(key, start, start + 10, INTERVAL_KIND) for key in range(2_000) for start in range(0, 100, 10)]
    keys, starts, *_ = columns = columns_of(rows)
    begins = array("q", [int(at == 0 or keys[at] != keys[at - 1]) for at in range(len(rows))])
    machine.run_by_key(columns, column(0), [starts, begins, array("q", range(1, len(rows) + 1))], (), True)
    assert machine.emission.panes.count == len(rows)
    assert machine.cells.live == 0
    assert all(queue.size <= MOST_OUTDATED for queue in machine.schedule.queues)
    assert machine.schedule.holds.size == 0


def test_windows_without_a_deadline_are_collected_at_the_end_of_time_beside_others() -> None:
    machine = machine_of(WindowingStrategy(dm.GlobalWindows(), dm.DefaultTrigger()))
    for key in range(100):
        end, kind = (INFINITY, GLOBAL_KIND) if key % 2 else (key + 1, INTERVAL_KIND)
        machine.element(key, key, 0, end, kind, 0, 0)
    machine.advance_watermark(50)
    fired = [slot for kind, slot in zip(machine.log.kind, machine.log.slot, strict=True) if kind == FIRE]
    assert len(fired) == 25
    machine.advance_watermark(INFINITY)
    assert machine.emission.panes.count == 100
    assert machine.cells.live == 0
