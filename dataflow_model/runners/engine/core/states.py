"""From the state of keys as Python objects, as earlier versions have stored it, to the columns of cells."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.runners.engine.core.cells import (
    HAD_ON_TIME,
    HAS_CLOSED,
    PENDING_ON_TIME,
    REOPENED,
    TIMED,
)
from dataflow_model.runners.engine.core.columns import leading, places_in_rows
from dataflow_model.runners.engine.core.operations import (
    DONE,
    MET,
    PANE_BY_TRIGGER,
    PANE_FIRST,
    PANE_LAST,
    SET,
)
from dataflow_model.runners.engine.core.pane_lanes import PANE_TIMINGS
from dataflow_model.runners.engine.core.program import ALL, ASK, BITS_A_WORD, COUNT, REPEAT_COUNT, WEIGH, TriggerProgram
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.triggers import TreeState
from dataflow_model.triggers.composites import CONDITIONS_MET
from dataflow_model.triggers.repetition import COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.cells import Cell, KeyState
    from dataflow_model.runners.engine.core.grouping import CoreGrouping
    from dataflow_model.values import PaneInfo

__all__ = ["TreeColumns", "restore", "slots_of"]

_NONE: Final = -1
_TAG: Final = ""
"""The names under which built-in triggers store their counts and deadlines."""
_FLAGS: Final = {timing: flags for flags, timing in PANE_TIMINGS.items()}


class TreeColumns:
    """Converts a `TreeState` to the columns of a cell for its trigger tree.

    Args:
        program: the program of the tree.
    """

    def __init__(self, program: TriggerProgram) -> None:
        self._program = program
        places = range(len(program.operation))
        self._words = program.words
        self._counting = [
            (place, program.counter[place], _TAG if program.operation[place] in {COUNT, WEIGH} else COMPLETIONS)
            for place in places
            if program.operation[place] in {COUNT, WEIGH, REPEAT_COUNT}
        ]
        self._users = frozenset(place for place in places if program.owner[place] >= 0)
        self._asking = [place for place in places if program.operation[place] == ASK]
        self._all = [
            (place, program.child[first : first + program.children[place]].tolist())
            for place, first in enumerate(program.first_child)
            if program.operation[place] == ALL
        ]

    def columns(self, tree: TreeState) -> tuple[list[int], list[int], list[int], dict[int, Any], TreeState]:
        """Return the columns of a tree state.

        Returns:
            the words of the three sets of places, the counters, the deadlines, the states of users' conditions by
            place, and what users' triggers keep.
        """
        program = self._program
        bits = [0] * (3 * self._words)
        for at in range(self._words):
            bits[DONE * self._words + at] = tree.finished >> BITS_A_WORD * at & (1 << BITS_A_WORD) - 1
        counters, deadlines = [0] * program.counters, [0] * program.deadlines
        for place, number, tag in self._counting:
            counters[number] = tree.store.get((place, tag), 0)
        for place in self._users.intersection(program.owner):
            first = program.deadline[place]
            deadlines[first : first + program.lines] = [int(MAX_TIMESTAMP)] * program.lines
        for (place, _), (domain, percentile, time) in tree.timers.items():
            owner = program.owner[place]
            self._put(bits, SET, place if owner < 0 else owner)
            if owner >= 0:
                at = program.deadline[owner] + program.line_of(domain, percentile)
                deadlines[at] = min(deadlines[at], int(time))
            elif program.deadline[place] >= 0:
                deadlines[program.deadline[place]] = int(time)
        for place, children in self._all:
            for number in tree.store.get((place, CONDITIONS_MET), ()):
                self._put(bits, MET, children[number])
        memory = {place: tree.store[place, _TAG] for place in self._asking if (place, _TAG) in tree.store}
        modal = {place for place, _ in self._all} if self._users else set[int]()
        kept = TreeState(
            {at: value for at, value in tree.store.items() if at[0] in self._users or (at[0] in modal and value)},
            {at: timer for at, timer in tree.timers.items() if at[0] in self._users},
        )
        return bits, counters, deadlines, memory, kept

    def _put(self, bits: list[int], of: int, place: int) -> None:
        bits[of * self._words + self._program.word[place]] |= self._program.mask[place]


def slots_of(core: CoreGrouping, numbers: Collection[int]) -> NDArray[np.intp]:
    """Return the slots of keys, by key and in order of time."""
    cells = core.machine.cells
    keys = leading(cells.key, cells.used)
    wanted = np.zeros(len(core.keys) + 1, np.bool_)  # a free slot has the key −1, the last one
    wanted[list(numbers)] = True
    slots = np.flatnonzero(wanted[keys])
    key, start, end = (leading(of, cells.used)[slots] for of in (cells.key, cells.start, cells.end))
    is_next = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (start[1:] > start[:-1]))
    return slots if is_next.all() else slots[np.lexsort([end, start, key])]


def restore(core: CoreGrouping, trees: TreeColumns, states: Mapping[int, KeyState]) -> None:
    """Create the cells of keys from their states, by number; the keys must have no cells yet.

    Args:
        core: the grouping.
        trees: the converter of trigger trees.
        states: the states by number, at least one; each has cells.
    """
    machine, cells = core.machine, core.machine.cells
    cells.admit_keys(len(core.keys))
    slots: list[int] = []
    restored: list[Cell] = []
    flags: list[int] = []
    for number, state in states.items():
        core.keys.show_as(number, state.key)
        for windows, is_reopened in ((state.cells, False), (state.reopened, True)):
            for window, cell in windows.items():
                kind = core.kind(window)
                slots.append(cells.open(number, int(window.start), int(window.end), ~kind if is_reopened else kind))
                restored.append(cell)
                flags.append(_flags_of(cell) | (REOPENED if is_reopened else 0))
    _fill(cells.flags, slots, flags)
    _fill(cells.pending, slots, [cell.pending for cell in restored])
    _fill(cells.elements, slots, [cell.held for cell in restored])
    _fill(cells.index, slots, [cell.index for cell in restored])
    _fill(cells.on_time_index, slots, [cell.on_time_index for cell in restored])
    _fill(cells.earliest, slots, [cell.earliest or 0 for cell in restored])
    _fill(cells.latest, slots, [cell.latest or 0 for cell in restored])
    bits, counters, deadlines, memories, kept = zip(*(trees.columns(cell.tree) for cell in restored), strict=True)
    rows = np.array(slots)
    for of, width, numbers in (
        (cells.bits, cells.stride, bits),
        (cells.counters, cells.counts, counters),
        (cells.deadlines, cells.waits, deadlines),
    ):
        np.asarray(of)[places_in_rows(rows, cells.width, width)] = np.array(numbers, np.int64).reshape(len(rows), width)
    for slot, memory in zip(slots, memories, strict=True):
        machine.trees.memory.update({(slot, place): remembered for place, remembered in memory.items()})
    if machine.trees.users is not None:
        for slot, state, cell in zip(slots, kept, restored, strict=True):
            machine.trees.users.restore(slot, state, cell.history)
    standing = _restore_standing(core, slots, restored)
    core.restore_values({slot: cell.accumulator for slot, cell in zip(slots, restored, strict=True)}, standing)
    machine.restore_all(array("q", slots))


def _restore_standing(core: CoreGrouping, slots: Sequence[int], restored: Sequence[Cell]) -> dict[int, Any]:
    """Create entries for the emitted values of cells; return the values by entry."""
    table = core.machine.standing
    values: dict[int, Any] = {}
    rows: list[tuple[int, ...]] = []
    firsts: list[int] = []
    for slot, cell in zip(slots, restored, strict=True):
        following = _NONE
        for standing in reversed(cell.standing):
            entry = table.open()
            values[entry] = standing.value
            window, info = standing.window, standing.info
            place = core.machine.cells.key[slot], int(window.start), int(window.end), core.kind(window)
            shown = standing.time, _pane_flags_of(info), info.index, info.on_time_index
            rows.append((following, *place, *shown))
            following = entry
        firsts.append(following)
    _fill(core.machine.cells.standing, slots, firsts)
    if rows:
        panes = table.panes
        bounds = panes.start, panes.end, panes.kind
        columns = table.following, panes.key, *bounds, panes.time, panes.flags, panes.index, panes.on_time_index
        for of, numbers in zip(columns, zip(*rows, strict=True), strict=True):
            _fill(of, list(values), numbers)
    return values


def _fill(of: Any, places: Sequence[int], numbers: Sequence[int]) -> None:
    """Write a number to each of some places of a column."""
    np.asarray(of)[places] = numbers


def _flags_of(cell: Cell) -> int:
    return (
        (PENDING_ON_TIME if cell.pending_on_time else 0)
        | (HAD_ON_TIME if cell.had_on_time else 0)
        | (HAS_CLOSED if cell.has_closed else 0)
        | (0 if cell.earliest is None else TIMED)
    )


def _pane_flags_of(info: PaneInfo) -> int:
    return (
        _FLAGS[info.timing]
        | (PANE_FIRST if info.is_first else 0)
        | (PANE_LAST if info.is_last else 0)
        | (0 if info.trigger is None else PANE_BY_TRIGGER)
    )
