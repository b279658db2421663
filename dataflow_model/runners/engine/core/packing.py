"""The durable state of keys in bytes: packed from the columns of their cells, and unpacked into columns.

The bytes of a key are a header, then its cells, then the values that it has emitted and not retracted, as rows of
integers, then a pickle of the key and of everything that is not an integer. A column takes 0, 1, 4 or 8 bytes of each
row, as many as its values need; the keys that are packed together have the same layout.
"""

from __future__ import annotations

import collections
import functools
import itertools
import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from dataflow_model.runners.engine.cells import WHATEVER_COMES, KeyState
from dataflow_model.runners.engine.core.cells import COLLECTED, REOPENED, TIMED
from dataflow_model.runners.engine.core.columns import column, column_of, taken
from dataflow_model.runners.engine.core.grouping import CoreGrouping
from dataflow_model.runners.engine.core.kernel_fold import KernelColumns
from dataflow_model.runners.engine.core.operations import GLOBAL_KIND, LOW_LINE, SET
from dataflow_model.runners.engine.core.program import ASK, USER
from dataflow_model.runners.engine.core.rules import EARLIEST, LATEST
from dataflow_model.runners.engine.core.states import TreeColumns, slots_of, states_of
from dataflow_model.runners.engine.key_store import StoredKey
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.triggers import TreeState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.core.program import Program
    from dataflow_model.runners.engine.queues import Dues
    from dataflow_model.values import PaneInfo, Window

__all__ = ["is_packed", "key_state", "pack", "unpack"]

_Column: TypeAlias = "NDArray[np.int64]"

_PACKED: Final = 1
"""The first byte of a packed key; a pickle starts with 0x80."""
_HEADER: Final = struct.Struct("<BBII")
"""`_PACKED`, the flags below, and the number of rows of each kind."""
_IN_COLUMNS: Final = 1
"""The type codes of kernels follow, and the last columns are those of `KernelColumns`; otherwise accumulators are in
the pickle."""
_FURTHER: Final = 2
"""The pickle is a tuple of the key and the attributes of its `_Objects`, instead of the key alone."""

_FORMATS: Final = (None, "<i1", "<i4", "<i8")
"""The format of a column in rows, by its code."""
_CODE_BITS: Final = 2
_BOUNDS: Final = ((1, -(2**7), 2**7), (2, -(2**31), 2**31))
_CELL_COLUMNS: Final = 11
_STANDING_COLUMNS: Final = 7
_NEVER: Final = int(MAX_TIMESTAMP)


@attrs.define
class _Objects:
    """What the cells of a key have that is not an integer, by the number of the cell or the emitted value.

    Attributes:
        accumulators: the accumulators that are not empty, unless they are in columns.
        standing: the values that were emitted and not retracted, unless they are in columns.
        memory: the states of users' conditions, by the number of the cell and the place in the tree.
        states, histories: what users' triggers keep, and the panes so far if they read them.
        windows: the windows of users' classes, by their kind.
    """

    accumulators: dict[int, Any] = attrs.field(factory=dict)
    standing: dict[int, Any] = attrs.field(factory=dict)
    memory: dict[tuple[int, int], Any] = attrs.field(factory=dict)
    states: dict[int, TreeState] = attrs.field(factory=dict)
    histories: dict[int, tuple[PaneInfo, ...]] = attrs.field(factory=dict)
    windows: dict[int, Window] = attrs.field(factory=dict)

    def parts(self) -> tuple[dict[Any, Any], ...]:
        """Return the attributes, so that a pickle does not name this class."""
        return self.accumulators, self.standing, self.memory, self.states, self.histories, self.windows


# Rows of integers ----------------------------------------------------------------------------------------------------


@attrs.frozen
class _Layout:
    """The form of rows: the code of each column."""

    codes: tuple[int, ...]

    @classmethod
    def of(cls, columns: Iterable[_Column]) -> _Layout:
        """Return the smallest layout for the values of columns."""
        return cls(tuple(map(_code_of, columns)))

    @classmethod
    def read(cls, packed: bytes, count: int) -> _Layout:
        """Read the layout of `count` columns."""
        return _read_layout(packed, count)

    @staticmethod
    def width(count: int) -> int:
        """Return the number of bytes that the layout of `count` columns takes."""
        return (count * _CODE_BITS + 7) // 8

    def written(self) -> bytes:
        """Return the layout as bytes."""
        codes = sum(code << _CODE_BITS * at for at, code in enumerate(self.codes))
        return codes.to_bytes(self.width(len(self.codes)), "little")

    @property
    def row(self) -> np.dtype[Any]:
        """The form of a row."""
        return _row_type(self.codes)

    def rows(self, columns: Iterable[_Column], count: int) -> bytes:
        """Return columns of `count` values as rows."""
        rows = np.empty(count, self.row)
        for at, (code, values) in enumerate(zip(self.codes, columns, strict=True)):
            if code:
                rows[str(at)] = values
        return rows.tobytes()

    def columns(self, rows: bytes, count: int) -> list[_Column]:
        """Return the columns of `count` rows."""
        if not self.row.itemsize:
            return [np.zeros(count, np.int64) for _ in self.codes]
        table = np.frombuffer(rows, self.row)
        return [
            table[str(at)].astype(np.int64) if code else np.zeros(count, np.int64) for at, code in enumerate(self.codes)
        ]


def _code_of(values: _Column) -> int:
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if least == most == 0:
        return 0
    return next((code for code, low, high in _BOUNDS if low <= least and most < high), len(_FORMATS) - 1)


@functools.lru_cache(maxsize=1_000)
def _row_type(codes: tuple[int, ...]) -> np.dtype[Any]:
    return np.dtype([(str(at), _FORMATS[code]) for at, code in enumerate(codes) if code])


@functools.lru_cache(maxsize=1_000)
def _read_layout(packed: bytes, count: int) -> _Layout:
    codes = int.from_bytes(packed, "little")
    return _Layout(tuple(codes >> _CODE_BITS * at & (1 << _CODE_BITS) - 1 for at in range(count)))


def _counts(core: CoreGrouping, codes: bytes | None) -> tuple[int, int]:
    """Return the number of columns of cells and of emitted values; `codes` are those of kernels, if there are any."""
    program = core.program
    accumulators, outputs = 0, 0
    if codes is not None:
        assert core.form is not None, "its accumulators are in columns of kernels"  # noqa: S101 - the plan is the same
        accumulators, outputs = KernelColumns.counts(core.form, codes.decode())
    sets = 3 * program.words
    return _CELL_COLUMNS + sets + program.counters + program.deadlines + accumulators, _STANDING_COLUMNS + outputs


# From columns --------------------------------------------------------------------------------------------------------


def pack(core: CoreGrouping, encoded: Mapping[int, bytes], freeze: Callable[[Any], bytes]) -> dict[bytes, StoredKey]:
    """Return what is stored of keys, by encoded key; keys without cells are left out.

    Args:
        core: the grouping.
        encoded: the keys by number.
        freeze: pickles what is not an integer.
    """
    slots = slots_of(core, encoded)
    if not len(slots):
        return {}
    numbers = _by_slot(core, slots, core.machine.cells.key)
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    bounds = [*begins.tolist(), len(slots)]
    of_cell, entries = _chains(core, slots)
    standing_bounds = np.searchsorted(of_cell, bounds).tolist()
    cells = _cell_columns(core, slots, np.bincount(of_cell, minlength=len(slots)))
    standing = _standing_columns(core, entries)
    flags, codes = 0, b""
    if core.kernels is not None:
        of_kernels = core.kernels.columns(slots, entries)
        flags, codes = _IN_COLUMNS, of_kernels.codes.encode()
        cells += of_kernels.cells
        standing += of_kernels.standing
    layout, standing_layout = _Layout.of(cells), _Layout.of(standing)
    rows, standing_rows = layout.rows(cells, len(slots)), standing_layout.rows(standing, len(entries))
    size, standing_size = layout.row.itemsize, standing_layout.row.itemsize
    written = codes + layout.written() + standing_layout.written()
    objects = _objects(core, slots, of_cell, entries, bounds) if _has_objects(core, slots, entries) else {}
    dues = _dues(core, slots, begins, of_cell, entries)
    packed: dict[bytes, StoredKey] = {}
    for at, number in enumerate(numbers[begins].tolist()):
        begin, end = bounds[at], bounds[at + 1]
        first, last = standing_bounds[at], standing_bounds[at + 1]
        key, further = core.keys.shown[number], objects.get(at)
        header = _HEADER.pack(_PACKED, flags | (0 if further is None else _FURTHER), end - begin, last - first)
        state = b"".join(
            (
                header,
                written,
                rows[begin * size : end * size],
                standing_rows[first * standing_size : last * standing_size],
                freeze(key if further is None else (key, *further.parts())),
            )
        )
        *waits, hold = dues[at]
        packed[encoded[number]] = StoredKey(state, tuple(waits), hold)
    return packed


def _by_slot(core: CoreGrouping, slots: NDArray[np.intp], of: Any, width: int | None = None) -> _Column:
    """Return a column of cells at some slots; a row of `width` numbers for each, if that is given."""
    used = core.machine.cells.used
    return taken(of, used)[slots] if width is None else taken(of, used * width).reshape(used, width)[slots]


def _chains(core: CoreGrouping, slots: NDArray[np.intp]) -> tuple[NDArray[np.intp], _Column]:
    """Return the values that cells have emitted and not retracted: the number of the cell, and the entry.

    They are in the order of the cells, then of their windows' starts.
    """
    table = core.machine.standing
    following, starts = taken(table.following, table.panes.count), taken(table.panes.start, table.panes.count)
    current = _by_slot(core, slots, core.machine.cells.standing)
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


def _cell_columns(core: CoreGrouping, slots: NDArray[np.intp], standing: _Column) -> list[_Column]:
    """Return the columns of cells; times are relative to the start of the window, modulo 2**64."""
    cells, program = core.machine.cells, core.program
    by_slot = functools.partial(_by_slot, core, slots)
    start, flags = by_slot(cells.start), by_slot(cells.flags) & ~COLLECTED
    timed = flags & TIMED != 0
    bits, deadlines = by_slot(cells.bits, cells.stride), by_slot(cells.deadlines, cells.waits)
    for place, first in enumerate(program.deadline):
        if first >= 0:  # the deadline of a timer that is not set has no meaning
            width = program.lines if program.operation[place] == USER else 1
            deadlines[~_has(program, bits, place), first : first + width] = 0
    return [
        start,
        by_slot(cells.end) - start,
        by_slot(cells.kind),
        flags,
        by_slot(cells.pending),
        by_slot(cells.held),
        by_slot(cells.index),
        by_slot(cells.on_time_index) + 1,
        np.where(timed, by_slot(cells.earliest) - start, 0),
        np.where(timed, by_slot(cells.latest) - start, 0),
        standing,
        *bits.T,
        *by_slot(cells.counters, cells.counts).T,
        *deadlines.T,
    ]


def _standing_columns(core: CoreGrouping, entries: _Column) -> list[_Column]:
    panes = core.machine.standing.panes

    def by_entry(of: Any) -> _Column:
        return taken(of, panes.count)[entries]

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


def _has(program: Program, bits: _Column, place: int) -> NDArray[np.bool_]:
    """Return which cells have the timer of a place set."""
    has: NDArray[np.bool_] = bits[:, SET * program.words + program.word[place]] & program.mask[place] != 0
    return has


def _kinds(core: CoreGrouping, slots: NDArray[np.intp], entries: _Column) -> tuple[_Column, _Column]:
    """Return the kinds of the windows of cells and of emitted values."""
    kinds = _by_slot(core, slots, core.machine.cells.kind)
    panes = core.machine.standing.panes
    return np.where(kinds < 0, ~kinds, kinds), taken(panes.kind, panes.count)[entries]


def _has_objects(core: CoreGrouping, slots: NDArray[np.intp], entries: _Column) -> bool:
    trees = core.machine.trees
    if core.kernels is None or trees.memory or trees.users is not None:
        return True
    return any(len(kinds) and kinds.max() > GLOBAL_KIND for kinds in _kinds(core, slots, entries))


def _objects(
    core: CoreGrouping, slots: NDArray[np.intp], of_cell: NDArray[np.intp], entries: _Column, bounds: Sequence[int]
) -> dict[int, _Objects]:
    """Return what is not an integer, by the number of the key among those that are packed."""
    objects: collections.defaultdict[int, _Objects] = collections.defaultdict(_Objects)
    key_of_cell = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)).tolist()
    key_of_entry = [key_of_cell[cell] for cell in of_cell.tolist()]
    firsts = np.searchsorted(of_cell, bounds).tolist()
    numbered = list(zip(slots.tolist(), key_of_cell, itertools.count(), strict=False))
    cells = [(slot, key, place - bounds[key]) for slot, key, place in numbered]
    if core.kernels is None:
        accumulators = core.fold.accumulators()
        for slot, key, number in cells:
            if slot in accumulators:
                objects[key].accumulators[number] = accumulators[slot]
        values = zip(key_of_entry, core.standing_values(entries.tolist()), strict=True)
        for place, (key, value) in enumerate(values):
            objects[key].standing[place - firsts[key]] = value
    _add_states(core, objects, cells)
    kinds, entry_kinds = _kinds(core, slots, entries)
    _add_windows(core, objects, key_of_cell, core.machine.cells, slots, kinds)
    _add_windows(core, objects, key_of_entry, core.machine.standing.panes, entries, entry_kinds)
    return dict(objects)


def _add_states(core: CoreGrouping, objects: Mapping[int, _Objects], cells: Iterable[tuple[int, int, int]]) -> None:
    """Add what users' triggers and conditions keep; `cells` are slots, with the number of the key and of the cell."""
    users, memory = core.machine.trees.users, core.machine.trees.memory
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
    core: CoreGrouping, objects: Mapping[int, _Objects], keys: Sequence[int], table: Any, rows: Any, kinds: _Column
) -> None:
    """Add the windows of users' classes in rows of a table; `keys` and `kinds` are by row."""
    for place in np.flatnonzero(kinds > GLOBAL_KIND).tolist():
        kind, row = int(kinds[place]), int(rows[place])
        objects[keys[place]].windows[kind] = core.window(table.start[row], table.end[row], kind)


def _dues(
    core: CoreGrouping, slots: NDArray[np.intp], begins: NDArray[np.intp], of_cell: NDArray[np.intp], entries: _Column
) -> list[Dues]:
    """Return the next deadlines of each key, by line, and its hold of the watermark; `begins` are its first cells."""
    machine, program = core.machine, core.program
    cells, panes = machine.cells, machine.standing.panes
    by_slot = functools.partial(_by_slot, core, slots)
    end, flags = by_slot(cells.end), by_slot(cells.flags)
    is_reopened = flags & REOPENED != 0
    bits, deadlines = by_slot(cells.bits, cells.stride), by_slot(cells.deadlines, cells.waits)
    lateness = machine.lateness
    least = [np.full(len(slots), _NEVER) for _ in range(program.lines)]
    waits = [np.zeros(len(slots), np.bool_) for _ in least]
    least[LOW_LINE], waits[LOW_LINE] = np.where(end > _NEVER - lateness, _NEVER, end + lateness), ~waits[LOW_LINE]
    for place, operation in enumerate(program.operation):
        first = program.deadline[place]
        if operation == USER:
            lines = [(line, deadlines[:, first + line]) for line in range(program.lines)]
        elif program.line[place] >= 0:
            lines = [(program.line[place], end if first < 0 else deadlines[:, first])]
        else:
            continue
        is_set = _has(program, bits, place) & ~is_reopened
        for line, time in lines:
            here = is_set & (time < _NEVER) if operation == USER else is_set
            least[line] = np.where(here, np.minimum(least[line], time), least[line])
            waits[line] = waits[line] | here
    least[LOW_LINE] = np.where(is_reopened, WHATEVER_COMES, least[LOW_LINE])
    held = _output_times(core, slots)
    np.minimum.at(held, of_cell, taken(panes.time, panes.count)[entries])
    least.append(held)
    waits.append((by_slot(cells.pending) > 0) & ~is_reopened)
    lines_by_key = [
        _with_gaps(np.minimum.reduceat(np.where(wait, due, _NEVER), begins), np.logical_or.reduceat(wait, begins))
        for due, wait in zip(least, waits, strict=True)
    ]
    return list(zip(*lines_by_key, strict=True))


def _output_times(core: CoreGrouping, slots: NDArray[np.intp]) -> _Column:
    """Return the event time of the next pane of each cell, as `GroupingMachine.output_time`."""
    cells = core.machine.cells
    by_slot = functools.partial(_by_slot, core, slots)
    last = by_slot(cells.end) - 1
    by_rule = {EARLIEST: cells.earliest, LATEST: cells.latest}.get(core.machine.times)
    if by_rule is None:
        return last
    is_timed = by_slot(cells.flags) & TIMED != 0
    return np.where(is_timed, np.minimum(by_slot(by_rule), last), last)


def _with_gaps(values: _Column, there: NDArray[np.bool_]) -> list[int | None]:
    """Return values as a list, with `None` where there is none."""
    listed: list[int | None] = values.tolist()
    for place in np.flatnonzero(~there).tolist():
        listed[place] = None
    return listed


# Back to columns -----------------------------------------------------------------------------------------------------


def is_packed(state: bytes) -> bool:
    """Return whether the bytes of a key are packed; otherwise they are a pickled `KeyState`."""
    return state[0] == _PACKED


@attrs.define
class _Form:
    """Packed keys of the same form.

    Attributes:
        cells, standing: the layout of the rows.
        codes: the type codes of kernels; `None` if accumulators are objects.
        numbers: the number of each key.
        counts, standing_counts: the number of rows of each key.
        rows, standing_rows: the rows of each key.
        objects: what is not an integer, by the place of the key.
    """

    cells: _Layout
    standing: _Layout
    codes: bytes | None
    numbers: list[int] = attrs.field(factory=list)
    counts: list[int] = attrs.field(factory=list)
    standing_counts: list[int] = attrs.field(factory=list)
    rows: list[bytes] = attrs.field(factory=list)
    standing_rows: list[bytes] = attrs.field(factory=list)
    objects: dict[int, _Objects] = attrs.field(factory=dict)

    @classmethod
    def read(cls, core: CoreGrouping, written: bytes, codes: bytes | None) -> _Form:
        """Read the layouts behind the type codes of kernels."""
        count, standing_count = _counts(core, codes)
        begin = len(codes or b"")
        end = begin + _Layout.width(count)
        return cls(_Layout.read(written[begin:end], count), _Layout.read(written[end:], standing_count), codes)


def unpack(core: CoreGrouping, states: Collection[tuple[bytes | None, bytes]], thaw: Callable[[bytes], Any]) -> None:
    """Create the cells of keys, which must have none yet.

    Args:
        core: the grouping.
        states: encoded keys and their packed states; a key that is `None` is encoded here.
        thaw: loads what `freeze` has pickled.
    """
    forms: dict[tuple[bytes | None, bytes], _Form] = {}
    widths: dict[bytes | None, int] = {}
    codes_width = 0 if core.form is None else len(core.form.kernels)
    for encoded, state in states:
        _, flags, count, standing_count = _HEADER.unpack_from(state)
        codes = state[_HEADER.size : _HEADER.size + codes_width] if flags & _IN_COLUMNS else None
        if codes not in widths:
            widths[codes] = len(codes or b"") + sum(map(_Layout.width, _counts(core, codes)))
        rows_at = _HEADER.size + widths[codes]
        written = state[_HEADER.size : rows_at]
        form = forms.get((codes, written))
        if form is None:
            form = forms[codes, written] = _Form.read(core, written, codes)
        standing_at = rows_at + count * form.cells.row.itemsize
        rest_at = standing_at + standing_count * form.standing.row.itemsize
        thawed = thaw(state[rest_at:])
        key, *parts = thawed if flags & _FURTHER else (thawed,)
        number = None if encoded is None else core.keys.find(encoded)
        if number is None:
            number = core.keys.number(key)
        core.keys.show_as(number, key)
        if parts:
            form.objects[len(form.numbers)] = _Objects(*parts)
        form.numbers.append(number)
        form.counts.append(count)
        form.standing_counts.append(standing_count)
        form.rows.append(state[rows_at:standing_at])
        form.standing_rows.append(state[standing_at:rest_at])
    core.machine.cells.admit_keys(len(core.keys))
    for form in forms.values():
        _unpack_form(core, form)


def _unpack_form(core: CoreGrouping, group: _Form) -> None:
    """Create the cells of keys of one form."""
    machine = core.machine
    numbers, counts, standing_counts = (
        np.array(of, np.int64) for of in (group.numbers, group.counts, group.standing_counts)
    )
    columns = group.cells.columns(b"".join(group.rows), int(counts.sum()))
    standing_columns = group.standing.columns(b"".join(group.standing_rows), int(standing_counts.sum()))
    start, length, kind, flags, pending, held, index, on_time_index, earliest, latest, standing, *others = columns
    entry_start, entry_length, entry_kind, time, flags_of_panes, indexes, on_time_indexes, *outputs = standing_columns
    bounds, standing_bounds = ([0, *np.cumsum(of).tolist()] for of in (counts, standing_counts))
    for place, objects in group.objects.items():
        if objects.windows:
            kinds = {kind: core.kind(window) for kind, window in objects.windows.items()}
            _renumber(kind[bounds[place] : bounds[place + 1]], kinds)
            _renumber(entry_kind[standing_bounds[place] : standing_bounds[place + 1]], kinds)
    cells = machine.cells
    opened = column(len(start))
    cells.open_all(
        column_of(np.repeat(numbers, counts)), column_of(start), column_of(start + length), column_of(kind), opened
    )
    slots = taken(opened, len(start))
    entries = _open_standing(core, np.repeat(numbers, standing_counts), entry_start, entry_length, entry_kind)
    panes = machine.standing.panes
    _put(panes.time, entries, time + entry_start)
    _put(panes.flags, entries, flags_of_panes)
    _put(panes.index, entries, indexes)
    _put(panes.on_time_index, entries, on_time_indexes - 1)
    _put(cells.flags, slots, flags)
    _put(cells.pending, slots, pending)
    _put(cells.held, slots, held)
    _put(cells.index, slots, index)
    _put(cells.on_time_index, slots, on_time_index - 1)
    _put(cells.earliest, slots, earliest + start)
    _put(cells.latest, slots, latest + start)
    sets, counters, deadlines = itertools.accumulate((cells.stride, cells.counts, cells.waits))
    _put_rows(cells.bits, slots, others[:sets])
    _put_rows(cells.counters, slots, others[sets:counters])
    _put_rows(cells.deadlines, slots, others[counters:deadlines])
    _link(core, slots, standing, entries)
    if group.codes is not None:
        assert core.form is not None  # noqa: S101 - it was read with one
        of_kernels = KernelColumns(core.form, group.codes.decode(), others[deadlines:], outputs)
        core.restore_columns(of_kernels, slots, entries)
    _restore_objects(core, group.objects, slots.tolist(), bounds, entries.tolist(), standing_bounds)
    machine.restore_all(opened)


def _renumber(kinds: _Column, numbers: Mapping[int, int]) -> None:
    """Replace the kinds of windows of users' classes in place."""
    for place, kind in enumerate(kinds.tolist()):
        known = numbers.get(~kind if kind < 0 else kind)
        if known is not None:
            kinds[place] = ~known if kind < 0 else known


def _open_standing(core: CoreGrouping, key: _Column, start: _Column, length: _Column, kind: _Column) -> _Column:
    """Return new entries for emitted values of windows."""
    table = core.machine.standing
    opened = column(len(key))
    table.open_all(opened)
    entries = taken(opened, len(key))
    _put(table.panes.key, entries, key)
    _put(table.panes.start, entries, start)
    _put(table.panes.end, entries, start + length)
    _put(table.panes.kind, entries, kind)
    return entries


def _link(core: CoreGrouping, slots: _Column, counts: _Column, entries: _Column) -> None:
    """Give each cell its entries of emitted values, in order."""
    ends = np.cumsum(counts)
    following = np.append(entries[1:], -1)
    following[ends[counts > 0] - 1] = -1
    firsts = np.full(len(slots), -1)
    firsts[counts > 0] = entries[(ends - counts)[counts > 0]]
    _put(core.machine.standing.following, entries, following[: len(entries)])
    _put(core.machine.cells.standing, slots, firsts)


def _restore_objects(
    core: CoreGrouping,
    objects_of: Mapping[int, _Objects],
    slots: Sequence[int],
    bounds: Sequence[int],
    entries: Sequence[int],
    standing_bounds: Sequence[int],
) -> None:
    """Restore what is not an integer, by the place of the key; the bounds are those of its cells and entries."""
    accumulators: dict[int, Any] = {}
    standing: dict[int, Any] = {}
    trees = core.machine.trees
    for place, objects in objects_of.items():
        first, first_entry = bounds[place], standing_bounds[place]
        accumulators.update({slots[first + at]: value for at, value in objects.accumulators.items()})
        standing.update({entries[first_entry + at]: value for at, value in objects.standing.items()})
        trees.memory.update({(slots[first + at], of): state for (at, of), state in objects.memory.items()})
        if trees.users is not None:
            for at in objects.states.keys() | objects.histories.keys():
                state = objects.states.get(at) or TreeState()
                trees.users.restore(slots[first + at], state, objects.histories.get(at, ()))
    if accumulators or standing:
        core.restore_values(accumulators, standing)


def _put(of: Any, places: _Column, values: _Column) -> None:
    np.frombuffer(of, np.int64)[places] = values


def _put_rows(of: Any, places: _Column, columns: Sequence[_Column]) -> None:
    if columns:
        width = len(columns)
        np.frombuffer(of, np.int64).reshape(-1, width)[places] = np.stack(columns, axis=1)


def key_state(node: GroupByKeyAndWindow, thaw: Callable[[bytes], Any], state: bytes, *, takes_back: bool) -> KeyState:
    """Return the state of a key from its bytes in either form, for the object engine.

    Args:
        node: the grouping.
        thaw: loads pickled bytes.
        state: the bytes.
        takes_back: whether the input of the grouping may contain retractions.
    """
    if not is_packed(state):
        pickled: KeyState = thaw(state)
        return pickled
    core = CoreGrouping(node, takes_back=takes_back)
    unpack(core, [(None, state)], thaw)
    (unpacked,) = states_of(core, TreeColumns(core.program), [0]).values()
    return unpacked
