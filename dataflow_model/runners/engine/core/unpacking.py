"""The durable state of keys in bytes, unpacked into columns; see `packed_form`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dataflow_model.runners.engine.core.columns import column, column_of, taken
from dataflow_model.runners.engine.core.grouping import CoreGrouping
from dataflow_model.runners.engine.core.kernel_fold import KernelColumns
from dataflow_model.runners.engine.core.packed_form import (
    FURTHER,
    HEADER,
    IN_COLUMNS,
    PACKED,
    KeyObjects,
    Layout,
    column_counts,
)
from dataflow_model.runners.engine.core.states import TreeColumns, states_of
from dataflow_model.triggers import TreeState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.cells import KeyState
    from dataflow_model.runners.engine.core.packed_form import Column

__all__ = ["is_packed", "key_state", "unpack"]


def is_packed(state: bytes) -> bool:
    """Return whether the bytes of a key are packed; otherwise they are a pickled `KeyState`."""
    return state[0] == PACKED


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

    cells: Layout
    standing: Layout
    codes: bytes | None
    numbers: list[int] = attrs.field(factory=list)
    counts: list[int] = attrs.field(factory=list)
    standing_counts: list[int] = attrs.field(factory=list)
    rows: list[bytes] = attrs.field(factory=list)
    standing_rows: list[bytes] = attrs.field(factory=list)
    objects: dict[int, KeyObjects] = attrs.field(factory=dict)

    @classmethod
    def read(cls, core: CoreGrouping, written: bytes, codes: bytes | None) -> _Form:
        """Read the layouts behind the type codes of kernels."""
        count, standing_count = column_counts(core, codes)
        begin = len(codes or b"")
        end = begin + Layout.width(count)
        return cls(Layout.read(written[begin:end], count), Layout.read(written[end:], standing_count), codes)


@attrs.define
class _Forms:
    """The forms of packed keys.

    Attributes:
        forms: the forms so far, by the type codes of kernels and the layouts.
    """

    _core: CoreGrouping
    forms: dict[tuple[bytes | None, bytes], _Form] = attrs.field(factory=dict)
    _parts: dict[bytes, tuple[_Form, int, int, int, int, int, int]] = attrs.field(factory=dict)
    """What `of` returns, by all bytes before the rows, which are the same for many keys."""
    _width: int = 0
    """The number of these bytes of the last key."""

    def of(self, state: bytes) -> tuple[_Form, int, int, int, int, int, int]:
        """Return the form of a key, whether it has further objects, the numbers of its rows, and where parts begin.

        The parts are its rows, its standing rows and its pickle.
        """
        return self._parts.get(state[: self._width]) or self._read(state)

    def _read(self, state: bytes) -> tuple[_Form, int, int, int, int, int, int]:
        _, flags, count, standing_count = HEADER.unpack_from(state)
        kernels = 0 if self._core.form is None else len(self._core.form.kernels)
        codes = state[HEADER.size : HEADER.size + kernels] if flags & IN_COLUMNS else None
        rows_at = HEADER.size + len(codes or b"") + sum(map(Layout.width, column_counts(self._core, codes)))
        written = state[HEADER.size : rows_at]
        form = self.forms.get((codes, written))
        if form is None:
            form = self.forms[codes, written] = _Form.read(self._core, written, codes)
        standing_at = rows_at + count * form.cells.row.itemsize
        rest_at = standing_at + standing_count * form.standing.row.itemsize
        parts = form, flags & FURTHER, count, standing_count, rows_at, standing_at, rest_at
        self._width = rows_at
        self._parts[state[:rows_at]] = parts
        return parts


def unpack(core: CoreGrouping, states: Mapping[bytes | None, bytes], thaw: Callable[[bytes], Any]) -> None:
    """Create the cells of keys, which must have none yet.

    Args:
        core: the grouping.
        states: packed states by encoded key; a key that is `None` is encoded here.
        thaw: loads what `freeze` has pickled.
    """
    forms = _Forms(core)
    for encoded, state in states.items():
        form, further, count, standing_count, rows_at, standing_at, rest_at = forms.of(state)
        number = None if encoded is None else core.keys.find(encoded)
        if number is None or further or not core.keys.know_pickled(number, state[rest_at:]):
            thawed = thaw(state[rest_at:])
            key, *parts = thawed if further else (thawed,)
            if number is None:
                number = core.keys.number(key)
            core.keys.show_as(number, key)
            if parts:
                form.objects[len(form.numbers)] = KeyObjects(*parts)
        form.numbers.append(number)
        form.counts.append(count)
        form.standing_counts.append(standing_count)
        form.rows.append(state[rows_at:standing_at])
        form.standing_rows.append(state[standing_at:rest_at])
    core.machine.cells.admit_keys(len(core.keys))
    for form in forms.forms.values():
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
    of_entries = _as_places(entries)
    _put(panes.time, of_entries, time + entry_start)
    _put(panes.flags, of_entries, flags_of_panes)
    _put(panes.index, of_entries, indexes)
    _put(panes.on_time_index, of_entries, on_time_indexes - 1)
    places = _as_places(slots)
    _put(cells.flags, places, flags)
    _put(cells.pending, places, pending)
    _put(cells.held, places, held)
    _put(cells.index, places, index)
    _put(cells.on_time_index, places, on_time_index - 1)
    _put(cells.earliest, places, earliest + start)
    _put(cells.latest, places, latest + start)
    sets, counters, deadlines = itertools.accumulate((cells.stride, cells.counts, cells.waits))
    _put_rows(cells.bits, places, others[:sets])
    _put_rows(cells.counters, places, others[sets:counters])
    _put_rows(cells.deadlines, places, others[counters:deadlines])
    _link(core, slots, standing, entries)
    if group.codes is not None:
        assert core.form is not None  # noqa: S101 - it was read with one
        of_kernels = KernelColumns(core.form, group.codes.decode(), others[deadlines:], outputs)
        core.restore_columns(of_kernels, slots, entries)
    _restore_objects(core, group.objects, slots.tolist(), bounds, entries.tolist(), standing_bounds)
    machine.restore_all(opened)


def _renumber(kinds: Column, numbers: Mapping[int, int]) -> None:
    """Replace the kinds of windows of users' classes in place."""
    for place, kind in enumerate(kinds.tolist()):
        known = numbers.get(~kind if kind < 0 else kind)
        if known is not None:
            kinds[place] = ~known if kind < 0 else known


def _open_standing(core: CoreGrouping, key: Column, start: Column, length: Column, kind: Column) -> Column:
    """Return new entries for emitted values of windows."""
    table = core.machine.standing
    opened = column(len(key))
    table.open_all(opened)
    entries = taken(opened, len(key))
    places = _as_places(entries)
    _put(table.panes.key, places, key)
    _put(table.panes.start, places, start)
    _put(table.panes.end, places, start + length)
    _put(table.panes.kind, places, kind)
    return entries


def _link(core: CoreGrouping, slots: Column, counts: Column, entries: Column) -> None:
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
    objects_of: Mapping[int, KeyObjects],
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


def _as_places(places: Column) -> Column | slice:
    """Return places as a slice if they are consecutive, as in new columns, because that is faster."""
    if len(places) and places[-1] - places[0] == len(places) - 1 and (np.diff(places) == 1).all():
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


def _put(of: Any, places: Column | slice, values: Column) -> None:
    np.frombuffer(of, np.int64)[places] = values


def _put_rows(of: Any, places: Column | slice, columns: Sequence[Column]) -> None:
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
    unpack(core, {None: state}, thaw)
    (unpacked,) = states_of(core, TreeColumns(core.program), [0]).values()
    return unpacked
