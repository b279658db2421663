"""Values from the log in arrays: folds the accumulators of combiners that are computed from kernels."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final, assert_never

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.plan.functions.kernels import Reduction
from dataflow_model.runners.engine.core.columns import column, leading, lengthened
from dataflow_model.runners.engine.core.operations import REPLACE
from dataflow_model.runners.engine.core.reductions import add_up, keep_best, note_touched, trace
from dataflow_model.runners.engine.grouping.kernel_columns import (
    FLOAT,
    NO_NUMBERS,
    WHOLE,
    KernelColumns,
    decoded,
    in_python,
    nothing_of,
)
from dataflow_model.runners.engine.lifted.accumulators import means

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.functions.combine import KernelForm
    from dataflow_model.plan.functions.kernels import Kernel
    from dataflow_model.runners.engine.core.machine import GroupingMachine

    Numbers = array[int] | array[float]

_FIRST_CAPACITY: Final = 8
_BOUND: Final = 2.0**61
"""The bound of sums, with a margin for the error of computing it in floating point."""


@attrs.define(eq=False)
class _Numbers:
    """The numbers that one kernel adds up or compares.

    Attributes:
        kernel: the kernel.
        reduction: how it reduces numbers.
        code: the type code of the numbers; `None` until the first number is known.
        by_slot: the sum, or the least or greatest value, of each slot.
        present: 1 for each slot that has a least or greatest value, otherwise 0.
        values: the numbers of a chunk by row.
        fired: by pane of a chunk that was fired, its sum, or its least or greatest value.
        largest: an upper bound of the total of all absolute sums.
    """

    kernel: Kernel
    reduction: Reduction
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
        if self.code != WHOLE or self.reduction is not Reduction.SUM:
            return True
        total = float(np.abs(added.astype(np.float64)).sum())
        if self.largest + total >= _BOUND:
            self.largest = float(np.abs(leading(self.by_slot, len(self.by_slot)).astype(np.float64)).sum())
        self.largest += total
        return self.largest < _BOUND

    def fold(self, log: Any, begin: int) -> None:
        """Fold the operations of a log from `begin` on."""
        match self.reduction:
            case Reduction.SUM:
                add_up(log, begin, self.by_slot, self.values, self.fired)
            case Reduction.MIN:
                keep_best(log, begin, self.by_slot, self.present, self.values, self.fired, -1)
            case Reduction.MAX:
                keep_best(log, begin, self.by_slot, self.present, self.values, self.fired, 1)
            case _:
                assert_never(self.reduction)


class KernelFold:
    """The accumulators of kernels by slot, and the emitted values by standing entry, in arrays.

    It holds integers of 64 bits, or floats, and folds exactly what the methods of the combiner would. Where it cannot,
    `take` and `restore` return `False`, and `accumulators` and `standing_values` return its contents as Python values.

    Args:
        form: the kernels.
        machine: the machine whose log is folded.
    """

    def __init__(self, form: KernelForm, machine: GroupingMachine) -> None:
        self._form = form
        self._machine = machine
        reductions = [(kernel, kernel.reduction) for kernel in form.kernels]
        self._numbers = [None if reduction is None else _Numbers(kernel, reduction) for kernel, reduction in reductions]
        self._adding = [numbers for numbers in self._numbers if numbers is not None]
        self._is_counted = form.counts
        self._counts = column(_FIRST_CAPACITY)
        self._touched = column(_FIRST_CAPACITY)
        self._is_touch_noted = form.compares
        self._standing = [array(FLOAT if kernel.divides else WHOLE) for kernel in form.kernels]
        self._standing_touched = column(0)
        self._value_indices = column(0)
        self.begin()

    def begin(self) -> None:
        """Begin a new log without elements."""
        self._folded = 0
        self._ones = self._fired_counts = self._fired_touched = self._sources = column(0)
        for numbers in self._adding:
            numbers.values = numbers.fired = array(numbers.code or WHOLE)

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
        if self._form.by_position:
            apart = _by_position(values, len(self._numbers))
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
            if not numbers.has_room_for(leading(taken, len(taken))[rows]):
                return False
        return True

    def fold(self) -> None:
        """Fold the operations since the last call."""
        machine, log, begin = self._machine, self._machine.log, self._folded
        self._admit()
        panes = machine.emission.panes.count
        if self._is_counted:
            self._fired_counts = _extended(self._fired_counts, panes)
            add_up(log, begin, self._counts, self._ones, self._fired_counts)
        for numbers in self._adding:
            numbers.fired = _extended(numbers.fired, panes)
            numbers.fold(log, begin)
        if self._is_touch_noted:
            self._fired_touched = _extended(self._fired_touched, panes)
            note_touched(log, begin, self._touched, self._fired_touched)
        if len(self._value_indices):
            untraced = begin if len(self._sources) else 0  # a trigger may have read a value before any value stood
            self._sources = _extended(self._sources, panes)
            trace(log, untraced, self._value_indices, self._sources)
        self._folded = log.count

    def values(self) -> list[Any] | NDArray[Any] | pa.StructArray:
        """Return the values of the panes of the log, which has been folded to its end; call this once for each log.

        They are an array of integers or floats; an array of structs if the output is a row; or a list if one of them is
        of another type, as the sum of no floats is.
        """
        panes = self._machine.emission.panes.count
        fired = [self._outputs(index, panes) for index in range(len(self._numbers))]
        touched = leading(self._fired_touched, panes) if self._is_touch_noted else None
        if len(self._value_indices):
            sources = leading(self._sources, panes)
            emitted = [
                _chosen(outputs, leading(standing, len(standing)), sources)
                for outputs, standing in zip(fired, self._standing, strict=True)
            ]
            was_touched = touched
            if touched is not None:
                touched = _chosen(touched, leading(self._standing_touched, len(self._standing_touched)), sources)
            self._replace(fired, was_touched)
        else:
            emitted = fired
        if touched is not None and not touched.all():
            return in_python(self._form, self._codes, emitted, touched)
        row = self._form.row
        if row is None:
            return emitted[0]
        names: tuple[str, ...] = getattr(row, "_fields", tuple(map(str, range(len(emitted)))))
        return pa.StructArray.from_arrays([pa.array(outputs) for outputs in emitted], names)

    # In Python ------------------------------------------------------------------------------------------------------

    def columns(self, slots: NDArray[Any], entries: NDArray[Any]) -> KernelColumns:
        """Return the stored form of slots and of standing entries."""
        self._admit()
        cells = [leading(self._counts, len(self._counts))[slots]] if self._is_counted else []
        for numbers in self._adding:
            cells.append(leading(numbers.by_slot, len(numbers.by_slot))[slots].view(np.int64))
            if numbers.kernel.compares:
                cells.append(leading(numbers.present, len(numbers.present))[slots])
        standing = [leading(outputs, len(outputs))[entries].view(np.int64) for outputs in self._standing]
        if self._is_touch_noted:
            cells.append(leading(self._touched, len(self._touched))[slots])
            standing.append(leading(self._standing_touched, len(self._standing_touched))[entries])
        return KernelColumns(self._form, self._codes, cells, standing)

    def restore_columns(self, columns: KernelColumns, slots: NDArray[np.int64], entries: NDArray[np.int64]) -> bool:
        """Restore a result of `columns` into other slots and entries; return whether the arrays can hold it."""
        for numbers, code in zip(self._numbers, columns.codes, strict=True):
            if numbers is not None and code != NO_NUMBERS and not self._takes(numbers, code):
                return False
        parts = iter(columns.cells)
        counts = next(parts) if self._is_counted else None
        parts_of: list[tuple[_Numbers, NDArray[Any], NDArray[np.int64] | None]] = []
        for numbers, code in zip(self._numbers, columns.codes, strict=True):
            if numbers is not None:
                by_slot = decoded(next(parts), code)
                parts_of.append((numbers, by_slot, next(parts) if numbers.kernel.compares else None))
                if not numbers.has_room_for(by_slot):
                    return False
        self._admit()
        if counts is not None:
            leading(self._counts, len(self._counts))[slots] = counts
        for numbers, by_slot, present in parts_of:
            leading(numbers.by_slot, len(numbers.by_slot))[slots] = by_slot
            if present is not None:
                leading(numbers.present, len(numbers.present))[slots] = present
        for outputs, bits, kernel, code in zip(
            self._standing, columns.standing, self._form.kernels, columns.codes, strict=False
        ):
            leading(outputs, len(outputs))[entries] = decoded(bits, FLOAT if kernel.divides else code)
        if self._is_touch_noted:  # without elements, if it is not noted there: see `_takes`
            are_noted = len(columns.standing) > len(self._standing)
            leading(self._touched, len(self._touched))[slots] = columns.cells[-1] if are_noted else 0
            if len(entries):
                touched = columns.standing[-1] if are_noted else 0
                leading(self._standing_touched, len(self._standing_touched))[entries] = touched
        return True

    @property
    def _codes(self) -> str:
        return "".join(NO_NUMBERS if numbers is None else numbers.code or NO_NUMBERS for numbers in self._numbers)

    def accumulators(self, slots: Sequence[int]) -> list[Any]:
        """Return the accumulators of slots, as the combiner has them."""
        return self.columns(np.array(slots, np.intp), np.empty(0, np.intp)).accumulators()

    def standing_values(self, entries: Sequence[int]) -> list[Any]:
        """Return the emitted values of standing entries."""
        return self.columns(np.empty(0, np.intp), np.array(entries, np.intp)).standing_values()

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
            pairs = kernel.divides
            totals.append([total for total, _ in part] if pairs else part)
            if kernel.counts:
                counts.append([count for _, count in part] if pairs else part)
        for kernel, numbers, part, output in zip(self._form.kernels, self._numbers, totals, outputs, strict=True):
            if numbers is not None and not self._holds(numbers, part if kernel.divides else [*part, *output]):
                return False
        self._admit()
        touched = [self._touches(*kernel) for kernel in zip(self._numbers, totals, strict=True)]
        # The mean of nothing is NaN, as that of some floats is.
        were_touched = [
            None if kernel.divides else self._touches(numbers, output)
            for kernel, numbers, output in zip(self._form.kernels, self._numbers, outputs, strict=True)
        ]
        if not (_are_equal(counts) and _are_equal(touched) and _are_equal(were_touched)):
            return False
        for numbers, part in zip(self._numbers, totals, strict=True):
            if numbers is not None:
                _fill(numbers.by_slot, slots, _without_none(part))
                if numbers.kernel.compares:
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
        nothing = nothing_of(numbers.kernel)
        known = _numbers_of([value for value in values if not _is_nothing(value, nothing)])
        if known is None or (known and not self._takes(numbers, known.typecode)):
            return False
        return numbers.has_room_for(leading(known, len(known)))

    def _touches(self, numbers: _Numbers | None, values: Sequence[Any]) -> list[bool] | None:
        """Return which accumulators or outputs are not of an empty input; `None` if the values do not show it."""
        if numbers is None or (not numbers.kernel.compares and numbers.code != FLOAT):
            return None
        nothing = nothing_of(numbers.kernel)
        return [not _is_nothing(value, nothing) for value in values]

    def _parts(self, rows: list[Any]) -> list[list[Any]]:
        """Return accumulators or outputs by kernel."""
        if self._form.row is None:
            return [rows]
        return [[row[index] for row in rows] for index in range(len(self._numbers))]

    # In arrays ------------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Make room for a number in each cell and standing entry."""
        slots, entries = self._machine.cells.used, self._machine.standing.panes.count
        for numbers in self._adding:
            numbers.by_slot = _extended(numbers.by_slot, slots)
            if numbers.kernel.compares:
                numbers.present = _extended(numbers.present, slots)
        if self._is_counted:
            self._counts = _extended(self._counts, slots)
        if self._is_touch_noted:
            self._touched = _extended(self._touched, slots)
        known = len(self._value_indices)
        if entries > known:
            self._standing = [_extended(standing, entries) for standing in self._standing]
            self._standing_touched = _extended(self._standing_touched, entries)
            self._value_indices = _extended(self._value_indices, entries)
            leading(self._value_indices, len(self._value_indices))[known:] = -1 - np.arange(
                known, len(self._value_indices)
            )

    def _takes(self, numbers: _Numbers, code: str) -> bool:
        """Return whether a kernel's numbers are of a type, or have none yet and are now of that one."""
        if numbers.code is None:
            numbers.code = code
            if code == FLOAT:  # all numbers so far are 0
                numbers.by_slot = array(code, numbers.by_slot)
                numbers.values = numbers.fired = array(code)
                index = self._numbers.index(numbers)
                self._standing[index] = array(code, self._standing[index])
                self._is_touch_noted = True
        return numbers.code == code

    def _outputs(self, index: int, panes: int) -> NDArray[Any]:
        """Return the outputs of one kernel, by pane that was fired."""
        numbers = self._numbers[index]
        counts = leading(self._fired_counts, panes) if self._is_counted else None
        if numbers is None:
            assert counts is not None  # noqa: S101 - what only counts has no numbers
            return counts
        fired = leading(numbers.fired, panes)
        if not numbers.kernel.divides:
            return fired
        assert counts is not None  # noqa: S101 - means are counted
        return means(fired, counts)

    def _replace(self, fired: Sequence[NDArray[Any]], touched: NDArray[np.int64] | None) -> None:
        """Keep the values of the standing entries that panes of the log have replaced."""
        log = self._machine.log
        replaced = leading(log.kind, log.count) == REPLACE
        if not replaced.any():
            return
        entries = np.unique(leading(log.slot, log.count)[replaced])
        indices = leading(self._value_indices, len(self._value_indices))
        panes = indices[entries]
        for standing, outputs in zip(self._standing, fired, strict=True):
            leading(standing, len(standing))[entries] = outputs[panes]
        leading(self._standing_touched, len(self._standing_touched))[entries] = 1 if touched is None else touched[panes]
        indices[entries] = -1 - entries


def _numbers_of(values: Sequence[Any] | NDArray[Any]) -> Numbers | None:
    """Return values as an array, if all are Python ints of 64 bits, or all are floats."""
    if isinstance(values, np.ndarray):
        if values.dtype not in (np.int64, np.float64):
            return None
        numbers: Numbers = array(WHOLE if values.dtype == np.int64 else FLOAT)
        numbers.frombytes(np.ascontiguousarray(values).view(np.uint8).data)
        return numbers
    kinds = set(map(type, values))
    if kinds == {float}:
        return array(FLOAT, values)
    if not kinds <= {int}:
        return None
    try:
        return array(WHOLE, values)
    except OverflowError:
        return None


def _by_position(values: Sequence[Any] | NDArray[Any], count: int) -> list[Sequence[Any]] | None:
    """Return the inputs of each kernel, if all values are tuples of `count` inputs."""
    if isinstance(values, np.ndarray) or set(map(type, values)) != {tuple} or set(map(len, values)) != {count}:
        return None
    return list(zip(*values, strict=True))


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
    """Return the values at the indices that `reductions.trace` has noted."""
    is_standing = sources < 0
    if not is_standing.any():
        return fired[sources]
    chosen = fired[np.where(is_standing, 0, sources)]
    chosen[is_standing] = standing[-1 - sources[is_standing]]
    return chosen


def _extended(values: Any, length: int) -> Any:
    """Return a column with room for `length` numbers."""
    return values if len(values) >= length else lengthened(values, max(length, 2 * len(values)))


def _fill(values: Any, indices: Sequence[int], numbers: Sequence[Any]) -> None:
    if indices:
        leading(values, len(values))[indices] = numbers
