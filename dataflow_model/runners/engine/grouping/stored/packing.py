"""The durable state of keys in bytes, packed from the columns of their cells; see `packed_form`."""

from __future__ import annotations

import collections
import functools
import itertools
from array import array
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from dataflow_model.runners.engine.core.cells import COLLECTED, COLUMNS, TIMED
from dataflow_model.runners.engine.core.columns import column, column_of, leading
from dataflow_model.runners.engine.core.moving import copy_parts, divided, from_rows
from dataflow_model.runners.engine.core.operations import GLOBAL_KIND, SET
from dataflow_model.runners.engine.core.program import ASK, USER
from dataflow_model.runners.engine.grouping.stored.packed_form import (
    FURTHER,
    HEADER,
    IN_COLUMNS,
    PACKED,
    KeyObjects,
    Layout,
)
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.core.program import TriggerProgram
    from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
    from dataflow_model.runners.engine.grouping.stored.packed_form import Column

_TAKEN: Final = (
    *("key", "start", "end", "kind", "flags", "pending", "elements"),
    *("index", "on_time_index", "earliest", "latest", "standing"),
)
_Parts: TypeAlias = "tuple[bytes, NDArray[np.int64]]"
"""Bytes with a part for each key, and where each part begins, and the last one ends."""


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


def pack(core: CoreGrouping, encoded: Mapping[int, bytes]) -> dict[bytes, bytes | None]:
    """Return the stored form of keys (see `StoredKey`), by encoded key; keys without cells are left out.

    Args:
        core: the grouping.
        encoded: the keys by number.
    """
    slots = slots_of(core, encoded)
    if not len(slots):
        return {}
    at = _CellColumns(core, slots)
    numbers = at("key")
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    bounds = [*begins.tolist(), len(slots)]
    of_cell, entries = _chains(core, at("standing"))
    standing_bounds = np.searchsorted(of_cell, bounds).tolist()
    cells = _cell_columns(core, at, np.bincount(of_cell, minlength=len(slots)))
    standing = _standing_columns(core, entries)
    flags, codes = 0, b""
    if core.kernels is not None:
        of_kernels = core.kernels.columns(slots, entries)
        flags, codes = IN_COLUMNS, of_kernels.codes.encode()
        cells += of_kernels.cells
        standing += of_kernels.standing
    layout, standing_layout = Layout.of(cells), Layout.of(standing)
    written = codes + layout.written() + standing_layout.written()
    objects = _objects(core, at, of_cell, entries, bounds) if _has_objects(core, at, entries) else {}

    @functools.cache
    def head(has_objects: bool, count: int, standing_count: int) -> bytes:
        return HEADER.pack(PACKED, flags | FURTHER if has_objects else flags, count, standing_count) + written

    keys = numbers[begins].tolist()
    counts, standing_counts = np.diff(bounds).tolist(), np.diff(standing_bounds).tolist()
    headers = map(head, map(objects.__contains__, range(len(keys))), counts, standing_counts)
    stored = _joined(
        [
            _heads(core, slots, begins),
            _apart(list(headers)),
            (layout.rows(cells, len(slots)), np.array(bounds) * layout.row.itemsize),
            (standing_layout.rows(standing, len(entries)), np.array(standing_bounds) * standing_layout.row.itemsize),
            _apart(_rest(core, keys, objects)),
        ]
    )
    return dict(zip(map(encoded.__getitem__, keys), stored, strict=True))


def _rest(core: CoreGrouping, keys: Sequence[int], objects: Mapping[int, KeyObjects]) -> list[bytes]:
    """Return the pickle of each key, see `packed_form`; `objects` are by the index of the key."""
    if not objects:
        return core.keys.all_pickled(keys)
    return [
        dump((core.keys.shown[number], *objects[index].parts())) if index in objects else core.keys.pickled(number)
        for index, number in enumerate(keys)
    ]


def _joined(sources: Sequence[_Parts]) -> list[bytes]:
    """Return for each key its part of each source, one after the other."""
    sizes: NDArray[np.int64] = np.sum([np.diff(bounds) for _, bounds in sources], axis=0)
    ends = np.cumsum(sizes)
    target, offsets = bytearray(int(ends[-1])), column_of(ends - sizes)
    for source, bounds in sources:
        copy_parts(source, column_of(bounds), target, offsets)
    return divided(bytes(target), column_of(ends - sizes), column_of(ends))


def _apart(parts: Sequence[bytes]) -> _Parts:
    """Return parts as one, with their bounds."""
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(list(map(len, parts)), out=bounds[1:])
    return b"".join(parts), bounds


def _heads(core: CoreGrouping, slots: NDArray[np.intp], begins: NDArray[np.intp]) -> _Parts:
    """Return the bytes that stored keys begin with, see `StoredKey`; `begins` are the indices of their first cells."""
    count, width = len(begins), core.program.domains + 1
    written, were_set = column(count * width), column(count * width)
    core.machine.schedule.write_dues(
        column_of(slots), column_of(begins), core.machine.minus_infinity, written, were_set
    )
    dues, are_set = (np.frombuffer(of, np.int64).reshape(count, width) for of in (written, were_set))
    heads = np.empty(count, [("count", "u1"), ("are_set", "?", (width,)), ("dues", "<i8", (width,))])
    heads["count"], heads["are_set"], heads["dues"] = width, are_set, np.where(are_set, dues, 0)
    return heads.tobytes(), np.arange(count + 1) * heads.itemsize


class _CellColumns:
    """The columns of cells at some slots.

    Attributes:
        slots: the slots.
        bits, counters, deadlines: the columns with several numbers for each cell; a row for each cell.
    """

    def __init__(self, core: CoreGrouping, slots: NDArray[np.intp]) -> None:
        cells = core.machine.cells
        self.slots = slots
        further = (
            range(cells.first_bit, cells.first_counter),
            range(cells.first_counter, cells.first_queued),
            range(cells.first_deadline, cells.width),
        )
        indices = [*map(COLUMNS.__getitem__, _TAKEN), *itertools.chain(*further)]
        columns = column(len(indices) * len(slots))
        from_rows(cells.rows, cells.width, column_of(slots), array("q", indices), columns)
        taken = np.frombuffer(columns, np.int64).reshape(len(indices), len(slots))
        self._by_name = dict(zip(_TAKEN, taken, strict=False))
        cuts = itertools.accumulate(map(len, further), initial=len(_TAKEN))
        self.bits, self.counters, self.deadlines = (taken[begin:end].T for begin, end in itertools.pairwise(cuts))

    def __call__(self, name: str) -> Column:
        """Return a column by its name in `CellTable`."""
        return self._by_name[name]


def _chains(core: CoreGrouping, current: Column) -> tuple[NDArray[np.intp], Column]:
    """Return the values that cells have emitted and not retracted: the number of the cell, and the entry.

    They are in the order of the cells, then of their windows' starts.

    Args:
        core: the grouping.
        current: the first entry of each cell.
    """
    table = core.machine.standing
    following, starts = leading(table.following, table.panes.count), leading(table.panes.start, table.panes.count)
    numbers = np.flatnonzero(current >= 0)
    current = current[numbers]
    of_cell, entries = [numbers], [current]
    while len(current):
        current = following[current]
        numbers, current = numbers[current >= 0], current[current >= 0]
        of_cell.append(numbers)
        entries.append(current)
    cell, entry = np.concatenate(of_cell), np.concatenate(entries)
    order = np.lexsort((starts[entry], cell))
    return cell[order], entry[order]


def _cell_columns(core: CoreGrouping, at: _CellColumns, standing: Column) -> list[Column]:
    """Return the columns of cells; times are relative to the start of the window, modulo 2**64."""
    program = core.program
    start, flags = at("start"), at("flags") & ~COLLECTED
    timed = flags & TIMED != 0
    bits, deadlines = at.bits, at.deadlines.copy("K")
    for place, first in enumerate(program.deadline):
        if first >= 0:  # the deadline of a timer that is not set has no meaning
            width = program.domains if program.operation[place] == USER else 1
            deadlines[~_has_timer(program, bits, place), first : first + width] = 0
    return [
        start,
        at("end") - start,
        at("kind"),
        flags,
        at("pending"),
        at("elements"),
        at("index"),
        at("on_time_index") + 1,
        np.where(timed, at("earliest") - start, 0),
        np.where(timed, at("latest") - start, 0),
        standing,
        *bits.T,
        *at.counters.T,
        *deadlines.T,
    ]


def _standing_columns(core: CoreGrouping, entries: Column) -> list[Column]:
    panes = core.machine.standing.panes

    def by_entry(of: Any) -> Column:
        return leading(of, panes.count)[entries]

    start = by_entry(panes.start)
    return [
        start,
        by_entry(panes.end) - start,
        by_entry(panes.kind),
        by_entry(panes.time) - start,
        by_entry(panes.flags),
        by_entry(panes.index),
        by_entry(panes.on_time_index) + 1,
    ]


def _has_timer(program: TriggerProgram, bits: Column, place: int) -> NDArray[np.bool_]:
    """Return in which cells the timer of a place is set."""
    has_timer: NDArray[np.bool_] = bits[:, SET * program.words + program.word[place]] & program.mask[place] != 0
    return has_timer


def _kinds(core: CoreGrouping, at: _CellColumns, entries: Column) -> tuple[Column, Column]:
    """Return the kinds of the windows of cells and of emitted values."""
    kinds = at("kind")
    panes = core.machine.standing.panes
    return np.where(kinds < 0, ~kinds, kinds), leading(panes.kind, panes.count)[entries]


def _has_objects(core: CoreGrouping, at: _CellColumns, entries: Column) -> bool:
    trees = core.machine.trees
    if core.kernels is None or trees.memory or trees.users is not None:
        return True
    return any(len(kinds) and kinds.max() > GLOBAL_KIND for kinds in _kinds(core, at, entries))


def _objects(
    core: CoreGrouping, at: _CellColumns, of_cell: NDArray[np.intp], entries: Column, bounds: Sequence[int]
) -> dict[int, KeyObjects]:
    """Return the contents that are not integers, by the number of the key among those that are packed."""
    objects: collections.defaultdict[int, KeyObjects] = collections.defaultdict(KeyObjects)
    key_of_cell = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)).tolist()
    key_of_entry = [key_of_cell[cell] for cell in of_cell.tolist()]
    firsts = np.searchsorted(of_cell, bounds).tolist()
    numbered = list(zip(at.slots.tolist(), key_of_cell, itertools.count(), strict=False))
    cells = [(slot, key, index - bounds[key]) for slot, key, index in numbered]
    if core.kernels is None:
        accumulators = core.fold.accumulators()
        for slot, key, number in cells:
            if slot in accumulators:
                objects[key].accumulators[number] = accumulators[slot]
        values = zip(key_of_entry, core.standing_values(entries.tolist()), strict=True)
        for index, (key, value) in enumerate(values):
            objects[key].standing[index - firsts[key]] = value
    _add_states(core, objects, cells)
    kinds, entry_kinds = _kinds(core, at, entries)
    _add_windows(core, objects, key_of_cell, core.machine.cells, at.slots, kinds)
    _add_windows(core, objects, key_of_entry, core.machine.standing.panes, entries, entry_kinds)
    return dict(objects)


def _add_states(core: CoreGrouping, objects: Mapping[int, KeyObjects], cells: Iterable[tuple[int, int, int]]) -> None:
    """Add what users' triggers and conditions keep; `cells` are slots, with the number of the key and of the cell."""
    users, memory = core.users, core.machine.trees.memory
    asking = [place for place, operation in enumerate(core.program.operation) if operation == ASK]
    for slot, key, number in cells:
        if users is not None and slot in users.states:
            objects[key].states[number] = users.states[slot]
        if users is not None and slot in users.histories:
            objects[key].histories[number] = users.histories[slot]
        for place in asking:
            if (slot, place) in memory:
                objects[key].memory[number, place] = memory[slot, place]


def _add_windows(
    core: CoreGrouping, objects: Mapping[int, KeyObjects], keys: Sequence[int], table: Any, rows: Any, kinds: Column
) -> None:
    """Add the windows of users' classes in rows of a table; `keys` and `kinds` are by row."""
    for index in np.flatnonzero(kinds > GLOBAL_KIND).tolist():
        kind, row = int(kinds[index]), int(rows[index])
        objects[keys[index]].windows[kind] = core.window(table.start[row], table.end[row], kind)
