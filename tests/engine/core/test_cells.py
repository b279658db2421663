"""The memory of cells: it is released once the input has ended and all cells are closed."""

from __future__ import annotations

import dataflow_model as dm
from dataflow_model.plan.logical.strategy import WindowingStrategy
from dataflow_model.runners.engine.core.cells import CellTable
from dataflow_model.runners.engine.core.machine import GroupingMachine
from dataflow_model.runners.engine.core.operations import INTERVAL_KIND, LOW_DOMAIN
from dataflow_model.runners.engine.core.program import compile_tree
from dataflow_model.runners.engine.core.rules import Rules

MINUS_INFINITY, INFINITY = int(dm.MIN_TIMESTAMP), int(dm.MAX_TIMESTAMP)


def opened(table: CellTable, cells: int) -> list[int]:
    slots = [int(table.open(number % 7, number, number + 1, 0)) for number in range(cells)]
    assert [table.find(number % 7, number, number + 1, 0) for number in range(cells)] == slots
    return slots


def test_a_table_that_was_shrunk_has_room_for_as_many_cells_as_before() -> None:
    table = CellTable(words=1, counters=1, deadlines=1, domains=1, never=INFINITY, linked=False)
    table.admit_keys(7)
    first = table.capacity
    for cells in (1_000, 10, 3_000):
        for slot in opened(table, cells):
            table.close(slot)
        table.shrink()
        assert (table.capacity, len(table.rows)) == (first, first * table.width)
        assert table.find(0, 0, 1, 0) == -1
        assert list(table.keys_freed[: table.freed_count]) == [number % 7 for number in range(cells)]
        table.recycle()
        assert (table.live, table.free_count, table.freed_count) == (0, 0, 0)


def test_cells_give_their_memory_back_at_the_end_of_the_input_and_no_sooner() -> None:
    strategy = WindowingStrategy(dm.FixedWindows(dm.Duration(micros=10)), dm.AfterWatermark(early=dm.AfterCount(2)))
    machine = GroupingMachine(compile_tree(strategy.trigger), Rules.of(strategy), MINUS_INFINITY, INFINITY)
    first = machine.cells.capacity
    machine.cells.admit_keys(1_000)
    for key in range(1_000):
        machine.element(key, key, 0, 10, INTERVAL_KIND, 5, 0)
    grown = machine.cells.capacity
    machine.shrink()
    assert machine.cells.capacity == grown
    machine.advance_watermark(10)
    machine.shrink()
    assert (machine.cells.live, machine.cells.capacity) == (0, grown)
    machine.advance_watermark(INFINITY)
    machine.shrink()
    assert machine.cells.capacity == first
    assert machine.emission.panes.count == 1_000
    assert machine.schedule.first_due(LOW_DOMAIN) == machine.schedule.held() == INFINITY
