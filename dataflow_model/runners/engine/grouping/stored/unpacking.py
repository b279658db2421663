"""The durable state of keys in bytes, unpacked into columns; see `packed_form`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.runners.engine.core.cells import COLUMNS
from dataflow_model.runners.engine.core.columns import column, column_of, leading
from dataflow_model.runners.engine.core.moving import divided, number_alike, to_rows
from dataflow_model.runners.engine.grouping.kernel_columns import KernelColumns
from dataflow_model.runners.engine.grouping.stored.packed_form import (
    CELL_COLUMNS,
    FURTHER,
    HEADER,
    IN_COLUMNS,
    STANDING_COLUMNS,
    CellForm,
    KeyObjects,
    Layout,
)
from dataflow_model.triggers import TreeState
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.core.cells import CellTable
    from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
    from dataflow_model.runners.engine.grouping.stored.joined import Joined
    from dataflow_model.runners.engine.grouping.stored.packed_form import Column

_RESTORED: Final = ("flags", "pending", "elements", "index", "on_time_index", "earliest", "latest", "standing")
"""The last of the `CELL_COLUMNS`, by their names in `CellTable`."""
_KIND: Final = 2
"""The column with the kind of a window, among those of cells and those of emitted values."""


@attrs.frozen
class _Form:
    """The form of packed keys.

    Attributes:
        cells, standing: the layout of the rows.
        codes: the type codes of kernels; `None` if accumulators are objects.
    """

    cells: Layout
    standing: Layout
    codes: bytes | None


@attrs.define
class _Alike:
    """Keys with the same bytes before their rows, and so with as many rows.

    Attributes:
        form: their form.
        has_objects: whether they have further objects.
        counts: the number of rows of cells, and of emitted values, of each.
        rows, standing_rows, rest: where parts begin in the bytes of a key: its rows, and its pickle.
        indices: which keys they are of those that are unpacked together.
    """

    form: _Form
    has_objects: bool
    counts: tuple[int, int]
    rows: int
    standing_rows: int
    rest: int
    indices: NDArray[np.int64]

    @classmethod
    def read(cls, form: CellForm, joined: Joined, indices: NDArray[np.int64], begin: int) -> _Alike:
        """Return a group of the keys at some indices, which are like the first; their states begin at `begin`."""
        stored = joined.entry(indices[0])
        _, flags, count, standing_count = HEADER.unpack_from(stored, begin)
        at = begin + HEADER.size
        codes = stored[at : at + form.kernels] if flags & IN_COLUMNS else None
        at += len(codes or b"")
        columns, standing_columns = form.counts(codes)
        standing_at = at + Layout.width(columns)
        rows = standing_at + Layout.width(standing_columns)
        of_rows = _Form(
            Layout.read(stored[at:standing_at], columns),
            Layout.read(stored[standing_at:rows], standing_columns),
            codes,
        )
        standing_rows = rows + count * of_rows.cells.row.itemsize
        rest = standing_rows + standing_count * of_rows.standing.row.itemsize
        return cls(of_rows, bool(flags & FURTHER), (count, standing_count), rows, standing_rows, rest, indices)


@attrs.frozen(eq=False)
class _Rows:
    """The cells of keys of one form, or their emitted values.

    Attributes:
        packed: the columns, one after the other.
        columns: views of them.
        counts: the number of rows of each key.
        bounds: where the rows of each key begin, and where those of the last one end.
    """

    packed: array[int]
    columns: list[Column]
    counts: Column
    bounds: list[int]

    @classmethod
    def read(cls, layout: Layout, stored: Joined, begins: Column, counts: Column) -> _Rows:
        """Return the rows of keys whose bytes begin at some offsets."""
        packed = layout.columns(stored.whole, begins, counts)
        columns = leading(packed, len(packed)).reshape(len(layout.codes), -1)
        return cls(packed, list(columns), counts, [0, *np.cumsum(counts).tolist()])


def unpack(core: CoreGrouping, stored: Joined, begin: int = 0, *, before: CellForm | None = None) -> None:
    """Create the cells of keys, which must have none yet.

    Args:
        core: the grouping.
        stored: packed states by encoded key, and bytes before them; a key that is `None` is encoded here.
        begin: the number of bytes before a state.
        before: the form of the states if the grouping had another trigger: of its trees, only whether they have
            finished is kept. `None` if it is the same.
    """
    groups_by_form: dict[_Form, list[_Alike]] = {}
    for group in _groups(before or CellForm.of(core.program, core.form), stored, begin):
        groups_by_form.setdefault(group.form, []).append(group)
    for form, groups in groups_by_form.items():
        _unpack_form(core, form, stored, groups, before)


def read_cells(form: CellForm, stored: Joined, begin: int) -> Iterator[tuple[NDArray[np.int64], list[Column]]]:
    """Yield the cells of keys in columns: the numbers of cells of some keys, and the first `CELL_COLUMNS` columns.

    Args:
        form: the form of the states.
        stored: packed states, and bytes before them.
        begin: the number of bytes before a state.
    """
    for group in _groups(form, stored, begin):
        rows = _read_rows(group.form, stored, [group])[0]
        yield rows.counts, rows.columns[:CELL_COLUMNS]


def _groups(form: CellForm, stored: Joined, begin: int) -> Iterator[_Alike]:
    """Yield keys with the same bytes before their rows; `begin` is the number of bytes before a state."""
    waiting = [np.arange(len(stored))]
    while waiting:
        indices = waiting.pop()
        length = _Alike.read(form, stored, indices, begin).rows - begin
        numbers = column(len(indices))
        count = number_alike(stored.whole, column_of(stored.begins[indices] + begin), length, numbers)
        numbered = leading(numbers, len(indices))
        ends = np.cumsum(np.bincount(numbered, minlength=count))
        for alike in np.split(indices[np.argsort(numbered, kind="stable")], ends[:-1]):
            group = _Alike.read(form, stored, alike, begin)
            if group.rows - begin > length:
                waiting.append(alike)  # only the first of the bytes before their rows have been compared
            else:
                yield group


def _numbered(core: CoreGrouping, stored: Joined, group: _Alike) -> tuple[list[int], dict[int, KeyObjects]]:
    """Return the numbers of a group's keys, and their contents that are not integers by the index in the group."""
    objects: dict[int, KeyObjects] = {}
    begins = stored.begins[group.indices] + group.rest
    pickles = divided(stored.whole, column_of(begins), column_of(stored.ends[group.indices]))
    known: list[Any] = core.keys.find_all(map(stored.keys.__getitem__, group.indices.tolist()))
    others = range(len(pickles)) if group.has_objects else core.keys.know_pickled(known, pickles)
    for other in others:
        key, *parts = load(pickles[other]) if group.has_objects else (load(pickles[other]),)
        if known[other] is None:
            known[other] = core.keys.number(key)
        core.keys.show_as(known[other], key)
        if parts:
            objects[other] = KeyObjects(*parts)
    return known, objects


def _unpack_form(
    core: CoreGrouping, form: _Form, stored: Joined, groups: Sequence[_Alike], before: CellForm | None
) -> None:
    """Create the cells of keys of one form."""
    machine = core.machine
    keys, objects_of = _key_numbers(core, stored, groups)
    cells, standing = _read_rows(form, stored, groups)
    if before is not None:
        cells = _with_new_trees(cells, before.of_trees, CellForm.of(core.program, core.form).of_trees)
        for objects in objects_of.values():
            objects.memory, objects.states = {}, {}
    _renumber_windows(core, objects_of, (cells, standing))
    of_trees = _columns_of_trees(machine.cells)
    opened = _open_cells(core, keys, cells, of_trees)
    slots = leading(opened, len(opened))
    entries = _open_standing(core, keys, standing)
    _link(core, slots, cells.columns[CELL_COLUMNS - 1], entries)
    if form.codes is not None:
        assert core.form is not None  # noqa: S101 - it was read with one
        accumulators, outputs = cells.columns[CELL_COLUMNS + len(of_trees) :], standing.columns[STANDING_COLUMNS:]
        core.restore_columns(KernelColumns(core.form, form.codes.decode(), accumulators, outputs), slots, entries)
    if objects_of:
        _restore_objects(core, objects_of, slots.tolist(), cells.bounds, entries.tolist(), standing.bounds)
    machine.restore_all(opened)


def _key_numbers(
    core: CoreGrouping, stored: Joined, groups: Sequence[_Alike]
) -> tuple[NDArray[np.int64], dict[int, KeyObjects]]:
    """Return the numbers of the keys of groups, and their contents that are not integers by the index of the key."""
    objects_of: dict[int, KeyObjects] = {}
    numbers: list[int] = []
    for group in groups:
        of_group, objects = _numbered(core, stored, group)
        objects_of.update({len(numbers) + index: of_key for index, of_key in objects.items()})
        numbers += of_group
    core.machine.cells.admit_keys(len(core.keys))
    return np.array(numbers, np.int64), objects_of


def _read_rows(form: _Form, stored: Joined, groups: Sequence[_Alike]) -> tuple[_Rows, _Rows]:
    """Return the cells and the emitted values of the keys of groups."""
    firsts = stored.begins[np.concatenate([group.indices for group in groups])]
    keys_of_groups = [len(group.indices) for group in groups]
    counts, standing_counts, rows, standing_rows = np.repeat(
        np.array([(*group.counts, group.rows, group.standing_rows) for group in groups]).T, keys_of_groups, axis=1
    )
    return (
        _Rows.read(form.cells, stored, firsts + rows, counts),
        _Rows.read(form.standing, stored, firsts + standing_rows, standing_counts),
    )


def _with_new_trees(rows: _Rows, before: int, now: int) -> _Rows:
    """Return the rows of cells with other trigger trees, of which only whether they have finished is kept.

    Args:
        rows: the rows.
        before: the number of columns of their trees.
        now: that of the new trees.
    """
    own, rest = rows.columns[:CELL_COLUMNS], rows.columns[CELL_COLUMNS + before :]
    finished = rows.columns[CELL_COLUMNS] & 1  # the first set has the places that have finished, the root first
    nothing = np.zeros_like(finished)
    columns = [*own, finished, *[nothing] * (now - 1), *rest]
    packed = column_of(np.concatenate(columns))
    return _Rows(packed, list(leading(packed, len(packed)).reshape(len(columns), -1)), rows.counts, rows.bounds)


def _renumber_windows(core: CoreGrouping, objects_of: Mapping[int, KeyObjects], tables: Iterable[_Rows]) -> None:
    """Replace the kinds of windows of users' classes in rows."""
    for index, objects in objects_of.items():
        numbers = {kind: core.kind(window) for kind, window in objects.windows.items()}
        for rows in tables if numbers else ():
            kinds = rows.columns[_KIND]
            for row in range(rows.bounds[index], rows.bounds[index + 1]):
                kind = int(kinds[row])
                known = numbers.get(~kind if kind < 0 else kind)
                if known is not None:
                    kinds[row] = ~known if kind < 0 else known


def _columns_of_trees(cells: CellTable) -> list[int]:
    """Return the indices in a row of a table of the bits, counters and deadlines of trigger trees."""
    return [*range(cells.first_bit, cells.first_queued), *range(cells.first_deadline, cells.width)]


def _open_cells(core: CoreGrouping, keys: NDArray[np.int64], rows: _Rows, of_trees: Sequence[int]) -> array[int]:
    """Return the slots of new cells, which are filled with everything but accumulators.

    Args:
        core: the grouping.
        keys: the numbers of the keys.
        rows: the cells; the times in them become absolute.
        of_trees: see `_columns_of_trees`.
    """
    cells = core.machine.cells
    start, length, kind, *_, on_time_index, earliest, latest, _ = rows.columns[:CELL_COLUMNS]
    opened = column(len(start))
    key = np.repeat(keys, rows.counts)
    cells.open_all(column_of(key), column_of(start), column_of(start + length), column_of(kind), opened)
    on_time_index -= 1
    earliest += start
    latest += start
    indices_in_row = array("q", [*map(COLUMNS.__getitem__, _RESTORED), *of_trees])
    first, end = CELL_COLUMNS - len(_RESTORED), CELL_COLUMNS + len(of_trees)
    of_rows: Any = memoryview(rows.packed)[first * len(start) : end * len(start)]
    to_rows(cells.rows, cells.width, opened, indices_in_row, of_rows)
    return opened


def _open_standing(core: CoreGrouping, keys: NDArray[np.int64], rows: _Rows) -> Column:
    """Return new entries for emitted values, which are filled with everything but the values."""
    table = core.machine.standing
    start, length, kind, time, flags, index, on_time_index = rows.columns[:STANDING_COLUMNS]
    opened = column(len(start))
    table.open_all(opened)
    entries = leading(opened, len(start))
    indices, panes = _as_slice(entries), table.panes
    _put(panes.key, indices, np.repeat(keys, rows.counts))
    _put(panes.start, indices, start)
    _put(panes.end, indices, start + length)
    _put(panes.kind, indices, kind)
    _put(panes.time, indices, time + start)
    _put(panes.flags, indices, flags)
    _put(panes.index, indices, index)
    _put(panes.on_time_index, indices, on_time_index - 1)
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
    """Restore what is not an integer, by the index of the key; the bounds are those of its cells and entries."""
    accumulators: dict[int, Any] = {}
    standing: dict[int, Any] = {}
    trees = core.machine.trees
    for index, objects in objects_of.items():
        first, first_entry = bounds[index], standing_bounds[index]
        accumulators.update({slots[first + at]: value for at, value in objects.accumulators.items()})
        standing.update({entries[first_entry + at]: value for at, value in objects.standing.items()})
        trees.memory.update({(slots[first + at], of): state for (at, of), state in objects.memory.items()})
        if core.users is not None:
            for at in objects.states.keys() | objects.histories.keys():
                state = objects.states.get(at) or TreeState()
                core.users.restore(slots[first + at], state, objects.histories.get(at, ()))
    if accumulators or standing:
        core.restore_values(accumulators, standing)


def _as_slice(indices: Column) -> Column | slice:
    """Return indices as a slice if they are consecutive, as in new columns, because that is faster."""
    if len(indices) and indices[-1] - indices[0] == len(indices) - 1 and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _put(of: Any, indices: Column | slice, values: Column) -> None:
    np.asarray(of)[indices] = values
