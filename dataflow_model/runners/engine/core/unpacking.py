"""The durable state of keys in bytes, unpacked into columns; see `packed_form`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.runners.engine.core.cells import COLUMNS
from dataflow_model.runners.engine.core.columns import column, column_of, leading
from dataflow_model.runners.engine.core.kernel_fold import KernelColumns
from dataflow_model.runners.engine.core.moving import divided, number_alike, to_rows
from dataflow_model.runners.engine.core.packed_form import (
    CELL_COLUMNS,
    FURTHER,
    HEADER,
    IN_COLUMNS,
    KeyObjects,
    Layout,
    column_counts,
)
from dataflow_model.triggers import TreeState
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.core.grouping import CoreGrouping
    from dataflow_model.runners.engine.core.joined import Joined
    from dataflow_model.runners.engine.core.packed_form import Column

__all__ = ["unpack"]

_RESTORED: Final = ("flags", "pending", "elements", "index", "on_time_index", "earliest", "latest", "standing")
"""The last of the `CELL_COLUMNS`, by their names in `CellTable`."""


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
        places: which keys they are of those that are unpacked together.
    """

    form: _Form
    has_objects: bool
    counts: tuple[int, int]
    rows: int
    standing_rows: int
    rest: int
    places: NDArray[np.int64]

    @classmethod
    def read(cls, core: CoreGrouping, joined: Joined, places: NDArray[np.int64], begin: int) -> _Alike:
        """Return a group of the keys at some places, which are like the first; their states begin at `begin`."""
        stored = joined.entry(places[0])
        _, flags, count, standing_count = HEADER.unpack_from(stored, begin)
        kernels = 0 if core.form is None else len(core.form.kernels)
        at = begin + HEADER.size
        codes = stored[at : at + kernels] if flags & IN_COLUMNS else None
        at += len(codes or b"")
        columns, standing_columns = column_counts(core, codes)
        standing_at = at + Layout.width(columns)
        rows = standing_at + Layout.width(standing_columns)
        form = _Form(
            Layout.read(stored[at:standing_at], columns),
            Layout.read(stored[standing_at:rows], standing_columns),
            codes,
        )
        standing_rows = rows + count * form.cells.row.itemsize
        rest = standing_rows + standing_count * form.standing.row.itemsize
        return cls(form, bool(flags & FURTHER), (count, standing_count), rows, standing_rows, rest, places)


def unpack(core: CoreGrouping, stored: Joined, begin: int = 0) -> None:
    """Create the cells of keys, which must have none yet.

    Args:
        core: the grouping.
        stored: packed states by encoded key, and bytes before them; a key that is `None` is encoded here.
        begin: the number of bytes before a state.
    """
    groups_by_form: dict[_Form, list[_Alike]] = {}
    for group in _groups(core, stored, begin):
        groups_by_form.setdefault(group.form, []).append(group)
    for form, groups in groups_by_form.items():
        _unpack_form(core, form, stored, groups)


def _groups(core: CoreGrouping, stored: Joined, begin: int) -> Iterator[_Alike]:
    """Yield keys with the same bytes before their rows; `begin` is the number of bytes before a state."""
    waiting = [np.arange(len(stored))]
    while waiting:
        places = waiting.pop()
        length = _Alike.read(core, stored, places, begin).rows - begin
        numbers = column(len(places))
        count = number_alike(stored.whole, column_of(stored.begins[places] + begin), length, numbers)
        numbered = leading(numbers, len(places))
        ends = np.cumsum(np.bincount(numbered, minlength=count))
        for alike in np.split(places[np.argsort(numbered, kind="stable")], ends[:-1]):
            group = _Alike.read(core, stored, alike, begin)
            if group.rows - begin > length:
                waiting.append(alike)  # only the first of the bytes before their rows have been compared
            else:
                yield group


def _numbered(core: CoreGrouping, stored: Joined, group: _Alike) -> tuple[list[int], dict[int, KeyObjects]]:
    """Return the numbers of a group's keys, and their contents that are not integers by the place in the group."""
    objects: dict[int, KeyObjects] = {}
    begins = stored.begins[group.places] + group.rest
    pickles = divided(stored.whole, column_of(begins), column_of(stored.ends[group.places]))
    known: list[Any] = core.keys.find_all(map(stored.keys.__getitem__, group.places.tolist()))
    others = range(len(pickles)) if group.has_objects else core.keys.know_pickled(known, pickles)
    for other in others:
        key, *parts = load(pickles[other]) if group.has_objects else (load(pickles[other]),)
        if known[other] is None:
            known[other] = core.keys.number(key)
        core.keys.show_as(known[other], key)
        if parts:
            objects[other] = KeyObjects(*parts)
    return known, objects


def _unpack_form(core: CoreGrouping, form: _Form, stored: Joined, groups: Sequence[_Alike]) -> None:
    """Create the cells of keys of one form."""
    machine = core.machine
    objects_of: dict[int, KeyObjects] = {}
    numbers: list[int] = []
    for group in groups:
        of_group, objects = _numbered(core, stored, group)
        objects_of.update({len(numbers) + place: of_key for place, of_key in objects.items()})
        numbers += of_group
    machine.cells.admit_keys(len(core.keys))
    keys = np.array(numbers, np.int64)
    firsts = stored.begins[np.concatenate([group.places for group in groups])]
    keys_of_groups = [len(group.places) for group in groups]
    counts, standing_counts, rows, standing_rows = np.repeat(
        np.array([(*group.counts, group.rows, group.standing_rows) for group in groups]).T, keys_of_groups, axis=1
    )
    in_columns = form.cells.columns(stored.whole, firsts + rows, counts)
    columns = _divided(in_columns, form.cells)
    in_standing_columns = form.standing.columns(stored.whole, firsts + standing_rows, standing_counts)
    standing_columns = _divided(in_standing_columns, form.standing)
    start, length, kind, *_, on_time_index, earliest, latest, standing = columns[:CELL_COLUMNS]
    entry_start, entry_length, entry_kind, time, flags_of_panes, indexes, on_time_indexes, *outputs = standing_columns
    bounds, standing_bounds = ([0, *np.cumsum(of).tolist()] for of in (counts, standing_counts))
    _renumber_windows(core, objects_of, ((kind, bounds), (entry_kind, standing_bounds)))
    cells = machine.cells
    opened = column(len(start))
    cells.open_all(
        column_of(np.repeat(keys, counts)), column_of(start), column_of(start + length), column_of(kind), opened
    )
    slots = leading(opened, len(start))
    entries = _open_standing(core, np.repeat(keys, standing_counts), entry_start, entry_length, entry_kind)
    panes = machine.standing.panes
    of_entries = _as_places(entries)
    _put(panes.time, of_entries, time + entry_start)
    _put(panes.flags, of_entries, flags_of_panes)
    _put(panes.index, of_entries, indexes)
    _put(panes.on_time_index, of_entries, on_time_indexes - 1)
    on_time_index -= 1
    earliest += start
    latest += start
    further = *range(cells.first_bit, cells.first_queued), *range(cells.first_deadline, cells.width)
    places_in_row = array("q", [*map(COLUMNS.__getitem__, _RESTORED), *further])
    first, end = CELL_COLUMNS - len(_RESTORED), CELL_COLUMNS + len(further)
    of_rows: Any = memoryview(in_columns)[first * len(slots) : end * len(slots)]
    to_rows(cells.rows, cells.width, opened, places_in_row, of_rows)
    _link(core, slots, standing, entries)
    if form.codes is not None:
        assert core.form is not None  # noqa: S101 - it was read with one
        of_kernels = KernelColumns(core.form, form.codes.decode(), columns[end:], outputs)
        core.restore_columns(of_kernels, slots, entries)
    if objects_of:
        _restore_objects(core, objects_of, slots.tolist(), bounds, entries.tolist(), standing_bounds)
    machine.restore_all(opened)


def _divided(columns: array[int], layout: Layout) -> list[Column]:
    """Return views of columns that follow each other."""
    values = np.frombuffer(columns, np.int64) if len(columns) else np.empty(0, np.int64)
    return list(values.reshape(len(layout.codes), -1))


def _renumber_windows(
    core: CoreGrouping, objects_of: Mapping[int, KeyObjects], columns: Iterable[tuple[Column, Sequence[int]]]
) -> None:
    """Replace the kinds of windows of users' classes in columns, each with the bounds of the keys' rows in it."""
    for place, objects in objects_of.items():
        numbers = {kind: core.kind(window) for kind, window in objects.windows.items()}
        for kinds, bounds in columns if numbers else ():
            for row in range(bounds[place], bounds[place + 1]):
                kind = int(kinds[row])
                known = numbers.get(~kind if kind < 0 else kind)
                if known is not None:
                    kinds[row] = ~known if kind < 0 else known


def _open_standing(core: CoreGrouping, key: Column, start: Column, length: Column, kind: Column) -> Column:
    """Return new entries for emitted values of windows."""
    table = core.machine.standing
    opened = column(len(key))
    table.open_all(opened)
    entries = leading(opened, len(key))
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
    np.asarray(of)[places] = values
