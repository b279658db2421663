"""Values from the log in arrays: folds the accumulators of combiners that are computed from kernels."""

from __future__ import annotations

import functools
from array import array
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.columns.accumulators import means
from dataflow_model.runners.engine.core.columns import column, lengthened
from dataflow_model.runners.engine.core.operations import REPLACE
from dataflow_model.runners.engine.core.reductions import add_up, keep_best, note_touched, trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.combine import KernelForm
    from dataflow_model.runners.engine.core.machine import GroupingMachine

    Numbers = array[int] | array[float]

__all__ = ["KernelFold"]

_FIRST_CAPACITY: Final = 8
_BOUND: Final = 2.0**61
"""The bound of sums, with a margin for the error of computing it in floating point."""
_SIGNS: Final = {"min": -1, "max": 1}
_COUNTED: Final = frozenset({"count", "mean"})
_WHOLE, _FLOAT = "q", "d"


@attrs.define(eq=False)
class _Numbers:
    """The numbers that one kernel adds up or compares.

    Attributes:
        kernel: the name of the kernel.
        code: the type code of the numbers; `None` until the first number is known.
        by_slot: the sum, or the least or greatest value, of each slot.
        present: 1 for each slot that has a least or greatest value, otherwise 0.
        values: the numbers of a chunk by row.
        fired: by pane of a chunk that was fired, its sum, or its least or greatest value.
        largest: an upper bound of the total of all absolute sums.
    """

    kernel: str
    code: str | None = None
    by_slot: Numbers = attrs.field(factory=lambda: column(_FIRST_CAPACITY))
    present: array[int] = attrs.field(factory=lambda: column(_FIRST_CAPACITY))
    values: Numbers = attrs.field(factory=lambda: column(0))
    fired: Numbers = attrs.field(factory=lambda: column(0))
    largest: float = 0.0

    def has_room_for(self, added: NDArray[Any]) -> bool:
        """Return whether sums remain within their bound, in whatever windows these numbers are added.

        Merging and clearing sums does not increase their total. All numbers ever added are counted until the bound is
        reached; only then the total of the existing sums is computed again.
        """
        if self.code != _WHOLE or self.kernel in _SIGNS:
            return True
        total = float(np.abs(added.astype(np.float64)).sum())
        if self.largest + total >= _BOUND:
            self.largest = float(np.abs(_view(self.by_slot, len(self.by_slot)).astype(np.float64)).sum())
        self.largest += total
        return self.largest < _BOUND

    def fold(self, log: Any, begin: int) -> None:
        """Fold the operations of a log from `begin` on."""
        if self.kernel in _SIGNS:
            sign = _SIGNS[self.kernel]
            keep_best(log, begin, self.by_slot, self.present, self.values, self.fired, sign)
        else:
            add_up(log, begin, self.by_slot, self.values, self.fired)


class KernelFold:
    """The accumulators of kernels by slot, and the emitted values by standing entry, in arrays.

    It holds integers of 64 bits, or floats, and folds exactly what the methods of the combiner would. Where it cannot,
    `take` and `restore` say so, and `accumulators` and `standing_values` give what it holds as Python values.

    Args:
        form: the kernels.
        machine: the machine whose log is folded.
    """

    def __init__(self, form: KernelForm, machine: GroupingMachine) -> None:
        self._form = form
        self._machine = machine
        self._numbers = [None if kernel == "count" else _Numbers(kernel) for kernel in form.kernels]
        self._adding = [numbers for numbers in self._numbers if numbers is not None]
        self._is_counted = not _COUNTED.isdisjoint(form.kernels)
        self._counts = column(_FIRST_CAPACITY)
        self._touched = column(_FIRST_CAPACITY)
        self._is_touch_noted = not _SIGNS.keys().isdisjoint(form.kernels)
        self._standing = [array(_FLOAT if kernel == "mean" else _WHOLE) for kernel in form.kernels]
        self._standing_touched = column(0)
        self._places = column(0)
        self.begin()

    def begin(self) -> None:
        """Begin a new log without elements."""
        self._folded = 0
        self._ones = self._fired_counts = self._fired_touched = self._sources = column(0)
        for numbers in self._adding:
            numbers.values = numbers.fired = array(numbers.code or _WHOLE)

    def take(self, values: Sequence[Any] | NDArray[Any], rows: NDArray[np.int64]) -> bool:
        """Begin a new log; return whether the arrays can hold what it may add.

        Args:
            values: the elements by row.
            rows: the row of each element in each of its windows.
        """
        self.begin()
        if self._is_counted:
            self._ones = column(len(values), 1)
        if not self._adding or not len(values):
            return True
        given: Sequence[Sequence[Any] | NDArray[Any]] = [values] * len(self._numbers)
        if self._form.by_place:
            apart = _by_place(values, len(self._numbers))
            if apart is None:
                return False
            given = apart
        known: dict[int, Numbers | None] = {}
        for numbers, inputs in zip(self._numbers, given, strict=True):
            if numbers is None:
                continue
            if id(inputs) not in known:
                known[id(inputs)] = _numbers_of(inputs)
            taken = known[id(inputs)]
            if taken is None or not self._takes(numbers, taken.typecode):
                return False
            numbers.values = taken
            if not numbers.has_room_for(_view(taken, len(taken))[rows]):
                return False
        return True

    def fold(self) -> None:
        """Fold the operations since the last call."""
        machine, log, begin = self._machine, self._machine.log, self._folded
        self._admit()
        panes = machine.panes.count
        if self._is_counted:
            self._fired_counts = _extended(self._fired_counts, panes)
            add_up(log, begin, self._counts, self._ones, self._fired_counts)
        for numbers in self._adding:
            numbers.fired = _extended(numbers.fired, panes)
            numbers.fold(log, begin)
        if self._is_touch_noted:
            self._fired_touched = _extended(self._fired_touched, panes)
            note_touched(log, begin, self._touched, self._fired_touched)
        if len(self._places):
            self._sources = _extended(self._sources, panes)
            trace(log, begin, self._places, self._sources)
        self._folded = log.count

    def values(self) -> list[Any] | NDArray[Any] | pa.StructArray:
        """Return the values of the panes of the log, which has been folded to its end; call this once for each log.

        They are an array of integers or floats; an array of structs if the output is a row; or a list if one of them is
        of another type, as the sum of no floats is.
        """
        panes = self._machine.panes.count
        fired = [self._outputs(place, panes) for place in range(len(self._numbers))]
        touched = _view(self._fired_touched, panes) if self._is_touch_noted else None
        if len(self._places):
            sources = _view(self._sources, panes)
            emitted = [
                _chosen(outputs, _view(standing, len(standing)), sources)
                for outputs, standing in zip(fired, self._standing, strict=True)
            ]
            was_touched = touched
            if touched is not None:
                touched = _chosen(touched, _view(self._standing_touched, len(self._standing_touched)), sources)
            self._replace(fired, was_touched)
        else:
            emitted = fired
        if touched is not None and not touched.all():
            return self._in_python(emitted, touched)
        row = self._form.row
        if row is None:
            return emitted[0]
        names: tuple[str, ...] = getattr(row, "_fields", tuple(map(str, range(len(emitted)))))
        return pa.StructArray.from_arrays([pa.array(outputs) for outputs in emitted], names)

    # In Python ------------------------------------------------------------------------------------------------------

    def accumulators(self, slots: Sequence[int]) -> list[Any]:
        """Return the accumulators of slots, as the combiner has them."""
        self._admit()
        counts = _view(self._counts, len(self._counts))[slots].tolist() if self._is_counted else []
        touched = _view(self._touched, len(self._touched))[slots] if self._is_touch_noted else None
        parts: list[list[Any]] = []
        for kernel, numbers in zip(self._form.kernels, self._numbers, strict=True):
            if numbers is None:
                parts.append(counts)
                continue
            by_slot = _view(numbers.by_slot, len(numbers.by_slot))[slots]
            part = _with_nothing(by_slot, touched, kernel, numbers.code)
            parts.append(list(zip(part, counts, strict=True)) if kernel == "mean" else part)
        return parts[0] if self._form.row is None else list(zip(*parts, strict=True))

    def standing_values(self, entries: Sequence[int]) -> list[Any]:
        """Return the emitted values of standing entries."""
        self._admit()
        standing = [_view(numbers, len(numbers))[entries] for numbers in self._standing]
        touched = _view(self._standing_touched, len(self._standing_touched))[entries]
        return self._in_python(standing, touched if self._is_touch_noted else None)

    def everything(self) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return all accumulators by slot, and all emitted values by standing entry."""
        slots, entries = range(self._machine.cells.used), range(self._machine.standing.panes.count)
        accumulators = zip(slots, self.accumulators(slots), strict=True)
        return dict(accumulators), dict(zip(entries, self.standing_values(entries), strict=True))

    def restore(self, accumulators: Mapping[int, Any], standing: Mapping[int, Any]) -> bool:
        """Restore accumulators and emitted values from durable state; return whether the arrays can hold them."""
        slots, entries = list(accumulators), list(standing)
        parts, outputs = self._parts(list(accumulators.values())), self._parts(list(standing.values()))
        counts: list[list[int]] = []
        totals: list[list[Any]] = []
        for kernel, part in zip(self._form.kernels, parts, strict=True):
            pairs = kernel == "mean"
            totals.append([total for total, _ in part] if pairs else part)
            if kernel in _COUNTED:
                counts.append([count for _, count in part] if pairs else part)
        for kernel, numbers, part, output in zip(self._form.kernels, self._numbers, totals, outputs, strict=True):
            if numbers is not None and not self._holds(numbers, part if kernel == "mean" else [*part, *output]):
                return False
        self._admit()
        touched = [self._touches(*kernel) for kernel in zip(self._numbers, totals, strict=True)]
        # The mean of nothing is NaN, as that of some floats is.
        were_touched = [
            None if kernel == "mean" else self._touches(numbers, output)
            for kernel, numbers, output in zip(self._form.kernels, self._numbers, outputs, strict=True)
        ]
        if not (_are_equal(counts) and _are_equal(touched) and _are_equal(were_touched)):
            return False
        for numbers, part in zip(self._numbers, totals, strict=True):
            if numbers is not None:
                _fill(numbers.by_slot, slots, _without_none(part))
                if numbers.kernel in _SIGNS:
                    _fill(numbers.present, slots, [number is not None for number in part])
        for numbers_of_standing, output in zip(self._standing, outputs, strict=True):
            _fill(numbers_of_standing, entries, _without_none(output))
        if counts:
            _fill(self._counts, slots, counts[0])
        if self._is_touch_noted:
            _fill(self._touched, slots, _first(touched, len(slots)))
            _fill(self._standing_touched, entries, _first(were_touched, len(entries)))
        return True

    def _holds(self, numbers: _Numbers, values: Sequence[Any]) -> bool:
        """Return whether a kernel's arrays can hold accumulators or outputs."""
        nothing = _nothing_of(numbers.kernel)
        known = _numbers_of([value for value in values if not _is_nothing(value, nothing)])
        if known is None or (known and not self._takes(numbers, known.typecode)):
            return False
        return numbers.has_room_for(_view(known, len(known)))

    def _touches(self, numbers: _Numbers | None, values: Sequence[Any]) -> list[bool] | None:
        """Return which accumulators or outputs are not those of nothing; `None` if the values do not tell."""
        if numbers is None or (numbers.kernel not in _SIGNS and numbers.code != _FLOAT):
            return None
        nothing = _nothing_of(numbers.kernel)
        return [not _is_nothing(value, nothing) for value in values]

    def _parts(self, rows: list[Any]) -> list[list[Any]]:
        """Return accumulators or outputs by kernel."""
        if self._form.row is None:
            return [rows]
        return [[row[place] for row in rows] for place in range(len(self._numbers))]

    # In arrays ------------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Make room for a number in each cell and standing entry."""
        slots, entries = self._machine.cells.used, self._machine.standing.panes.count
        for numbers in self._adding:
            numbers.by_slot = _extended(numbers.by_slot, slots)
            if numbers.kernel in _SIGNS:
                numbers.present = _extended(numbers.present, slots)
        if self._is_counted:
            self._counts = _extended(self._counts, slots)
        if self._is_touch_noted:
            self._touched = _extended(self._touched, slots)
        known = len(self._places)
        if entries > known:
            self._standing = [_extended(standing, entries) for standing in self._standing]
            self._standing_touched = _extended(self._standing_touched, entries)
            self._places = _extended(self._places, entries)
            _view(self._places, len(self._places))[known:] = -1 - np.arange(known, len(self._places))

    def _takes(self, numbers: _Numbers, code: str) -> bool:
        """Return whether a kernel's numbers are of a type, or have none yet and are now of that one."""
        if numbers.code is None:
            numbers.code = code
            if code == _FLOAT:  # all numbers so far are 0
                numbers.by_slot = array(code, numbers.by_slot)
                numbers.values = numbers.fired = array(code)
                place = self._numbers.index(numbers)
                self._standing[place] = array(code, self._standing[place])
                self._is_touch_noted = True
        return numbers.code == code

    def _outputs(self, place: int, panes: int) -> NDArray[Any]:
        """Return the outputs of one kernel, by pane that was fired."""
        numbers = self._numbers[place]
        counts = _view(self._fired_counts, panes) if self._is_counted else None
        if numbers is None:
            assert counts is not None  # noqa: S101 - only "count" has no numbers
            return counts
        fired = _view(numbers.fired, panes)
        if numbers.kernel != "mean":
            return fired
        assert counts is not None  # noqa: S101 - means are counted
        return means(fired, counts)

    def _replace(self, fired: Sequence[NDArray[Any]], touched: NDArray[np.int64] | None) -> None:
        """Keep the values of the standing entries that panes of the log have replaced."""
        log = self._machine.log
        replaced = _view(log.kind, log.count) == REPLACE
        if not replaced.any():
            return
        entries = np.unique(_view(log.slot, log.count)[replaced])
        places = _view(self._places, len(self._places))
        panes = places[entries]
        for standing, outputs in zip(self._standing, fired, strict=True):
            _view(standing, len(standing))[entries] = outputs[panes]
        _view(self._standing_touched, len(self._standing_touched))[entries] = 1 if touched is None else touched[panes]
        places[entries] = -1 - entries

    def _in_python(self, columns: Sequence[NDArray[Any]], touched: NDArray[np.int64] | None) -> list[Any]:
        """Return outputs as Python values, with what kernels output for nothing."""
        parts = [
            _with_nothing(outputs, touched, kernel, None if numbers is None or kernel == "mean" else numbers.code)
            for kernel, numbers, outputs in zip(self._form.kernels, self._numbers, columns, strict=True)
        ]
        row = self._form.row
        if row is None:
            return parts[0]
        return list(map(functools.partial(tuple.__new__, row), zip(*parts, strict=True)))


def _numbers_of(values: Sequence[Any] | NDArray[Any]) -> Numbers | None:
    """Return values as an array, if all are Python ints of 64 bits, or all are floats."""
    if isinstance(values, np.ndarray):
        if values.dtype not in (np.int64, np.float64):
            return None
        numbers: Numbers = array(_WHOLE if values.dtype == np.int64 else _FLOAT)
        numbers.frombytes(np.ascontiguousarray(values).view(np.uint8).data)
        return numbers
    kinds = set(map(type, values))
    if kinds == {float}:
        return array(_FLOAT, values)
    if not kinds <= {int}:
        return None
    try:
        return array(_WHOLE, values)
    except OverflowError:
        return None


def _by_place(values: Sequence[Any] | NDArray[Any], count: int) -> list[Sequence[Any]] | None:
    """Return the inputs by place, if all values are tuples of `count` inputs."""
    if isinstance(values, np.ndarray) or set(map(type, values)) != {tuple} or set(map(len, values)) != {count}:
        return None
    return list(zip(*values, strict=True))


def _with_nothing(numbers: NDArray[Any], touched: NDArray[np.int64] | None, kernel: str, code: str | None) -> list[Any]:
    """Return numbers as Python values, with the value of nothing where there has been no element."""
    values: list[Any] = numbers.tolist()
    if touched is not None and (kernel in _SIGNS or code == _FLOAT):
        nothing = _nothing_of(kernel)
        for place in np.flatnonzero(touched == 0).tolist():
            values[place] = nothing
    return values


def _nothing_of(kernel: str) -> int | None:
    """Return the accumulator of nothing; that of a mean, without its count."""
    return None if kernel in _SIGNS else 0


def _is_nothing(number: Any, nothing: int | None) -> bool:
    return number is nothing or (type(number) is int and number == nothing)


def _are_equal(votes: Sequence[list[Any] | None]) -> bool:
    given = [vote for vote in votes if vote is not None]
    return all(vote == given[0] for vote in given)


def _first(votes: Sequence[list[bool] | None], count: int) -> list[bool]:
    return next((vote for vote in votes if vote is not None), [True] * count)


def _without_none(numbers: Sequence[Any]) -> list[Any]:
    return [0 if number is None else number for number in numbers]


def _chosen(fired: NDArray[Any], standing: NDArray[Any], sources: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values at some places, as `reductions.trace` notes them."""
    is_standing = sources < 0
    if not is_standing.any():
        return fired[sources]
    chosen = fired[np.where(is_standing, 0, sources)]
    chosen[is_standing] = standing[-1 - sources[is_standing]]
    return chosen


def _extended(values: Any, length: int) -> Any:
    """Return a column with room for `length` numbers."""
    return values if len(values) >= length else lengthened(values, max(length, 2 * len(values)))


def _fill(values: Any, places: Sequence[int], numbers: Sequence[Any]) -> None:
    if places:
        _view(values, len(values))[places] = numbers


def _view(values: Any, count: int) -> NDArray[Any]:
    """Return the first `count` numbers of a column as an array that shares its memory."""
    code = values.typecode if isinstance(values, array) else _WHOLE
    return np.frombuffer(values, code)[:count] if count else np.empty(0, code)
