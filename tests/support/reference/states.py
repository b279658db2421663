"""The state of keys from columns of cells to Python objects, and back."""

from __future__ import annotations

import itertools
import operator
from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.runners.engine.core.cells import HAD_ON_TIME, HAS_CLOSED, PENDING_ON_TIME, REOPENED, TIMED
from dataflow_model.runners.engine.core.columns import indices_in_rows, leading
from dataflow_model.runners.engine.core.operations import (
    CLOCK_DOMAIN,
    DONE,
    LOW_DOMAIN,
    MET,
    PANE_BY_TRIGGER,
    PANE_FIRST,
    PANE_LAST,
    SET,
)
from dataflow_model.runners.engine.core.program import ALL, ASK, BITS_A_WORD, COUNT, REPEAT_COUNT, WEIGH, TriggerProgram
from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
from dataflow_model.runners.engine.grouping.pane_lanes import PANE_TIMINGS, info_of_pane
from dataflow_model.runners.engine.grouping.stored.joined import Joined
from dataflow_model.runners.engine.grouping.stored.packed_form import PACKED
from dataflow_model.runners.engine.grouping.stored.packing import pack, slots_of
from dataflow_model.runners.engine.grouping.stored.unpacking import unpack
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.time import MAX_TIMESTAMP, EventTime, ProcessingTime
from dataflow_model.triggers import FiringMode, TimeDomain, TreeState
from dataflow_model.triggers.composites import CONDITIONS_MET
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.triggers.repetition import COMPLETIONS
from dataflow_model.values.pickles import load
from tests.support.reference.key_states import Cell, KeyState, Standing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.time import Instant
    from dataflow_model.values import PaneInfo, Window

_NONE: Final = -1
_TAG: Final = ""
"""The names under which built-in triggers store their counts and deadlines."""
_FLAGS: Final = {timing: flags for flags, timing in PANE_TIMINGS.items()}


class TreeColumns:
    """Converts a `TreeState` to the columns of a cell for its trigger tree, and back.

    Default values are left out: a count of 0, an empty set of conditions. A tree state of the reference engine may
    contain them, with the same meaning.

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
        domains = enumerate(program.domain)
        self._timed = [(place, *self._clock(domain)) for place, domain in domains if domain >= 0]

    def _clock(self, domain: int) -> tuple[TimeDomain, float]:
        """Return the time domain and percentile of a numbered one, in the form for timers."""
        if domain == CLOCK_DOMAIN:
            return TimeDomain.PROCESSING_TIME, LOW_WATERMARK
        return TimeDomain.EVENT_TIME, LOW_WATERMARK if domain == LOW_DOMAIN else self._program.percentiles[domain - 2]

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
            deadlines[first : first + program.domains] = [int(MAX_TIMESTAMP)] * program.domains
        for (place, _), (domain, percentile, time) in tree.timers.items():
            owner = program.owner[place]
            self._put(bits, SET, place if owner < 0 else owner)
            if owner >= 0:
                at = program.deadline[owner] + program.domain_index(domain, percentile)
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

    def state(
        self,
        bits: Sequence[int],
        counters: Sequence[int],
        deadlines: Sequence[int],
        end: int,
        memory: Mapping[int, Any],
        kept: TreeState | None,
    ) -> TreeState:
        """Return a tree state.

        Args:
            bits: the words of the cell's three sets of places.
            counters: the counters of the cell.
            deadlines: the deadlines of the cell.
            end: the end of the window.
            memory: the states of users' conditions, by place.
            kept: the state of users' triggers.
        """
        program = self._program
        store: dict[tuple[int, str], Any] = {(place, _TAG): state for place, state in memory.items()}
        for place, number, tag in self._counting:
            if counters[number]:
                store[place, tag] = counters[number]
        timers: dict[tuple[int, str], tuple[TimeDomain, float, Instant]] = {}
        for place, domain, percentile in self._timed:
            if not self._has(bits, SET, place):
                continue
            time = end
            if program.deadline[place] >= 0:
                time = store[place, _TAG] = deadlines[program.deadline[place]]
            due = EventTime(time) if domain is TimeDomain.EVENT_TIME else ProcessingTime(time)
            timers[place, _TAG] = domain, percentile, due
        if kept is not None:
            store |= kept.store
            timers |= kept.timers
        for place, children in () if self._users else self._all:  # beside users' triggers, modes are kept too
            met = {number: FiringMode.DEFAULT for number, child in enumerate(children) if self._has(bits, MET, child)}
            if met:
                store[place, CONDITIONS_MET] = met
        done = bits[DONE * self._words : (DONE + 1) * self._words]
        return TreeState(store, timers, sum(word << BITS_A_WORD * at for at, word in enumerate(done)))

    def memory(self, of_cells: Mapping[tuple[int, int], Any], slot: int) -> dict[int, Any]:
        """Return the states of the users' conditions of one cell, by place."""
        return {place: of_cells[slot, place] for place in self._asking if (slot, place) in of_cells}

    def _has(self, bits: Sequence[int], of: int, place: int) -> bool:
        return bool(bits[of * self._words + self._program.word[place]] & self._program.mask[place])


def states_of(core: CoreGrouping, trees: TreeColumns, numbers: Collection[int]) -> dict[int, KeyState]:
    """Return the state of keys by their number; keys without cells are left out."""
    states: dict[int, KeyState] = {}
    for number, window, cell, is_reopened in _cells_of(core, trees, slots_of(core, numbers)):
        if number not in states:
            states[number] = KeyState(core.keys.shown[number])
        (states[number].reopened if is_reopened else states[number].cells)[window] = cell
    return states


def _cells_of(
    core: CoreGrouping, trees: TreeColumns, slots: NDArray[np.intp]
) -> Iterator[tuple[int, Window, Cell, bool]]:
    """Yield for each slot the number of its key, its window, its state, and whether late data reopened the window."""
    cells = core.machine.cells

    def by_slot(of: Any) -> list[int]:
        values: list[int] = leading(of, cells.used)[slots].tolist()
        return values

    def rows_by_slot(of: Any, width: int) -> list[list[int]]:
        rows: list[list[int]] = np.asarray(of)[indices_in_rows(slots, cells.width, width)].tolist()
        return rows

    columns = zip(
        slots.tolist(),
        *map(by_slot, (cells.key, cells.start, cells.end, cells.kind, cells.flags)),
        *map(by_slot, (cells.pending, cells.elements, cells.index, cells.on_time_index, cells.earliest, cells.latest)),
        rows_by_slot(cells.bits, cells.stride),
        rows_by_slot(cells.counters, cells.counts),
        rows_by_slot(cells.deadlines, cells.waits),
        core.accumulators(slots.tolist()),
        _standing_of(core, by_slot(cells.standing)),
        strict=True,
    )
    users = core.users
    kept: Mapping[int, TreeState] = {} if users is None else users.states
    histories: Mapping[int, tuple[PaneInfo, ...]] = {} if users is None else users.histories
    for slot, key, start, end, kind, flags, *numbers, bits, counters, deadlines, accumulator, standing in columns:
        pending, held, index, on_time_index, earliest, latest = numbers
        is_reopened, is_timed = bool(flags & REOPENED), bool(flags & TIMED)
        cell = Cell(
            accumulator,
            trees.state(bits, counters, deadlines, end, trees.memory(core.machine.trees.memory, slot), kept.get(slot)),
            pending=pending,
            pending_on_time=bool(flags & PENDING_ON_TIME),
            index=index,
            on_time_index=on_time_index,
            had_on_time=bool(flags & HAD_ON_TIME),
            has_closed=bool(flags & HAS_CLOSED),
            earliest=earliest if is_timed else None,
            latest=latest if is_timed else None,
            held=held,
            standing=standing,
            history=histories.get(slot, ()),
        )
        yield key, core.window(start, end, ~kind if is_reopened else kind), cell, is_reopened


def _standing_of(core: CoreGrouping, firsts: Sequence[int]) -> list[tuple[Standing, ...]]:
    """Return the emitted values of each cell, by window; `firsts` are the first entries of the cells."""
    table = core.machine.standing
    following = leading(table.following, table.panes.count)
    chains: list[list[int]] = []
    for first in firsts:
        chains.append([])
        entry = first
        while entry >= 0:
            chains[-1].append(entry)
            entry = int(following[entry])
    entries = [entry for chain in chains for entry in chain]
    panes = table.panes
    columns = (panes.start, panes.end, panes.kind, panes.time, panes.flags, panes.index, panes.on_time_index)
    rows = zip(
        core.standing_values(entries), *(leading(of, panes.count)[entries].tolist() for of in columns), strict=True
    )
    standing = iter(
        [
            Standing(
                core.window(start, end, kind), value, time, info_of_pane(flags, index, on_time_index, core.trigger)
            )
            for value, start, end, kind, time, flags, index, on_time_index in rows
        ]
    )
    return [tuple(sorted(itertools.islice(standing, len(chain)), key=_by_start)) for chain in chains]


_by_start = operator.attrgetter("window.start")


def key_state(node: GroupByKeyAndWindow, state: bytes, *, takes_back: bool) -> KeyState:
    """Return the state of a key from its bytes in either form, for the reference engine.

    Args:
        node: the grouping.
        state: the bytes.
        takes_back: whether the input of the grouping may contain retractions.
    """
    if state[0] != PACKED:
        pickled: KeyState = load(state)
        return pickled
    core = CoreGrouping(node, takes_back=takes_back)
    unpack(core, Joined.of([None], state, [len(state)]))
    (unpacked,) = states_of(core, TreeColumns(core.program), [0]).values()
    return unpacked


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
        np.asarray(of)[indices_in_rows(rows, cells.width, width)] = np.array(numbers, np.int64).reshape(
            len(rows), width
        )
    for slot, memory in zip(slots, memories, strict=True):
        machine.trees.memory.update({(slot, place): remembered for place, remembered in memory.items()})
    if core.users is not None:
        for slot, state, cell in zip(slots, kept, restored, strict=True):
            core.users.restore(slot, state, cell.history)
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


def packed_entry(node: GroupByKeyAndWindow, encoded: bytes, entry: bytes, *, takes_back: bool) -> bytes:
    """Return the stored form of a key as the core writes it.

    Args:
        node: the grouping.
        encoded: the encoded key.
        entry: the stored form, of the core or of the reference engine.
        takes_back: whether the input of the grouping may contain retractions.
    """
    state = StoredKey.unpacked(entry).state
    if state[0] == PACKED:
        return entry
    core = CoreGrouping(node, takes_back=takes_back)
    key: KeyState = load(state)
    number = core.keys.number(key.key)
    restore(core, TreeColumns(core.program), {number: key})
    packed = pack(core, {number: encoded})[encoded]
    assert packed is not None
    return packed
