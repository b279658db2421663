"""From the columns of cells to the state of keys as Python objects."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.runners.engine.cells import Cell, KeyState, Standing
from dataflow_model.runners.engine.core.cells import HAD_ON_TIME, HAS_CLOSED, PENDING_ON_TIME, REOPENED, TIMED
from dataflow_model.runners.engine.core.columns import leading, places_in_rows
from dataflow_model.runners.engine.core.grouping import CoreGrouping
from dataflow_model.runners.engine.core.joined import Joined
from dataflow_model.runners.engine.core.operations import CLOCK_LINE, DONE, LOW_LINE, MET, SET
from dataflow_model.runners.engine.core.packed_form import PACKED
from dataflow_model.runners.engine.core.pane_lanes import info_of_pane
from dataflow_model.runners.engine.core.program import BITS_A_WORD, TriggerProgram
from dataflow_model.runners.engine.core.states import TreeColumns, slots_of
from dataflow_model.runners.engine.core.unpacking import unpack
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.triggers import FiringMode, TimeDomain, TreeState
from dataflow_model.triggers.composites import CONDITIONS_MET
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.nodes import GroupByKeyAndWindow
    from dataflow_model.time import Instant
    from dataflow_model.values import PaneInfo, Window

_TAG: Final = ""


class ReadTreeColumns(TreeColumns):
    """Converts the columns of a cell for its trigger tree to a `TreeState` too.

    Default values are left out: a count of 0, an empty set of conditions. A tree state of the object engine may contain
    them, with the same meaning.

    Args:
        program: the program of the tree.
    """

    def __init__(self, program: TriggerProgram) -> None:
        super().__init__(program)
        lines = enumerate(program.line)
        self._timed = [(place, *self._clock(line)) for place, line in lines if line >= 0]

    def _clock(self, line: int) -> tuple[TimeDomain, float]:
        """Return the time domain and percentile of a line, in the form for timers."""
        if line == CLOCK_LINE:
            return TimeDomain.PROCESSING_TIME, LOW_WATERMARK
        return TimeDomain.EVENT_TIME, LOW_WATERMARK if line == LOW_LINE else self._program.percentiles[line - 2]

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


def states_of(core: CoreGrouping, trees: ReadTreeColumns, numbers: Collection[int]) -> dict[int, KeyState]:
    """Return the state of keys by their number; keys without cells are left out."""
    states: dict[int, KeyState] = {}
    for number, window, cell, is_reopened in _cells_of(core, trees, slots_of(core, numbers)):
        if number not in states:
            states[number] = KeyState(core.keys.shown[number])
        (states[number].reopened if is_reopened else states[number].cells)[window] = cell
    return states


def _cells_of(
    core: CoreGrouping, trees: ReadTreeColumns, slots: NDArray[np.intp]
) -> Iterator[tuple[int, Window, Cell, bool]]:
    """Yield for each slot the number of its key, its window, its state, and whether late data reopened the window."""
    cells = core.machine.cells

    def by_slot(of: Any) -> list[int]:
        values: list[int] = leading(of, cells.used)[slots].tolist()
        return values

    def rows_by_slot(of: Any, width: int) -> list[list[int]]:
        rows: list[list[int]] = np.asarray(of)[places_in_rows(slots, cells.width, width)].tolist()
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
    users = core.machine.trees.users
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
    """Return the state of a key from its bytes in either form, for the object engine.

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
    (unpacked,) = states_of(core, ReadTreeColumns(core.program), [0]).values()
    return unpacked
