"""The form of packed keys: the bytes of a key are a header, then rows of integers, then a pickle.

The rows are those of its cells, then those of the values that it has emitted and not retracted. A column takes 0, 1, 4
or 8 bytes of each row, as many as its values need; the keys that are packed together have the same layout. The pickle
contains the key and everything that is not an integer.
"""

from __future__ import annotations

import functools
import struct
from array import array
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from dataflow_model.runners.engine.core.columns import column, column_of
from dataflow_model.runners.engine.core.moving import read_packed
from dataflow_model.runners.engine.grouping.kernel_columns import FLOAT, NO_NUMBERS, KernelColumns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from dataflow_model.plan.functions.combine import KernelForm
    from dataflow_model.runners.engine.core.program import TriggerProgram
    from dataflow_model.triggers import TreeState
    from dataflow_model.values import PaneInfo, Window

Column: TypeAlias = "NDArray[np.int64]"

PACKED: Final = 1
"""The first byte of a packed key; a pickle starts with 0x80."""
HEADER: Final = struct.Struct("<BBII")
"""`PACKED`, the flags below, and the number of rows of each kind."""
IN_COLUMNS: Final = 1
"""The type codes of kernels follow, and the last columns are those of `KernelColumns`; otherwise accumulators are in
the pickle."""
FURTHER: Final = 2
"""The pickle is a tuple of the key and the attributes of its `KeyObjects`, instead of the key alone."""

_FORMATS: Final = (None, "<i1", "<i4", "<i8")
"""The format of a column in rows, by its code."""
_SIZES: Final = (0, 1, 4, 8)
_CODE_BITS: Final = 2
_BOUNDS: Final = ((1, -(2**7), 2**7), (2, -(2**31), 2**31))
CELL_COLUMNS: Final = 11
"""The number of columns of cells before the bits, counters and deadlines of their trigger trees."""
_BIT_SETS: Final = 3
STANDING_COLUMNS: Final = 7
"""The number of columns of emitted values before those of kernels."""


@attrs.define
class KeyObjects:
    """The contents of a key's cells that are not integers, by the number of the cell or the emitted value.

    Attributes:
        accumulators: the accumulators that are not empty, unless they are in columns.
        standing: the values that were emitted and not retracted, unless they are in columns.
        memory: the states of users' conditions, by the number of the cell and the place in the tree.
        states, histories: the state of users' triggers, and the panes so far if they read them.
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
class Layout:
    """The form of rows: the code of each column."""

    codes: tuple[int, ...]

    @classmethod
    def of(cls, columns: Iterable[Column]) -> Layout:
        """Return the smallest layout for the values of columns."""
        return cls(tuple(map(_code_of, columns)))

    @classmethod
    def read(cls, packed: bytes, count: int) -> Layout:
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

    def rows(self, columns: Iterable[Column], count: int) -> bytes:
        """Return columns of `count` values as rows."""
        rows = np.empty(count, self.row)
        for at, (code, values) in enumerate(zip(self.codes, columns, strict=True)):
            if code:
                rows[str(at)] = values
        return rows.tobytes()

    def columns(self, packed: bytes, begins: Column, counts: Column) -> array[int]:
        """Return the columns of rows, one after the other.

        Args:
            packed: the bytes.
            begins: where the rows of each key begin.
            counts: how many rows each key has.
        """
        columns = column(int(counts.sum()) * len(self.codes))
        sizes = array("q", [_SIZES[code] for code in self.codes])
        read_packed(packed, column_of(begins), column_of(counts), sizes, columns)
        return columns


def _code_of(values: Column) -> int:
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if least == most == 0:
        return 0
    return next((code for code, low, high in _BOUNDS if low <= least and most < high), len(_FORMATS) - 1)


@functools.lru_cache(maxsize=1_000)
def _row_type(codes: tuple[int, ...]) -> np.dtype[Any]:
    return np.dtype([(str(at), _FORMATS[code]) for at, code in enumerate(codes) if code])


@functools.lru_cache(maxsize=1_000)
def _read_layout(packed: bytes, count: int) -> Layout:
    codes = int.from_bytes(packed, "little")
    return Layout(tuple(codes >> _CODE_BITS * at & (1 << _CODE_BITS) - 1 for at in range(count)))


# The form of a grouping's state --------------------------------------------------------------------------------------


@attrs.frozen
class CellForm:
    """How many columns the rows of a grouping have: they can be read by one with another trigger.

    Attributes:
        words, counters, deadlines: those of the trigger; see `TriggerProgram`.
        kernels: the number of kernels of the combiner; 0 if accumulators are objects.
        numbers: the number of columns of their accumulators, without the one that notes whether there was an element.
        compares: whether that one is always there, and not only beside floats.
    """

    words: int
    counters: int
    deadlines: int
    kernels: int = 0
    numbers: int = 0
    compares: bool = False

    @classmethod
    def of(cls, program: TriggerProgram, form: KernelForm | None) -> CellForm:
        """Return the form of the state of a grouping.

        Args:
            program: its trigger.
            form: how its combiner is computed from kernels; `None` if it is not.
        """
        trees = program.words, program.counters, program.deadlines
        if form is None:
            return cls(*trees)
        numbers, _ = KernelColumns.counts(form, NO_NUMBERS * len(form.kernels))
        return cls(*trees, len(form.kernels), numbers - form.compares, form.compares)

    @property
    def of_trees(self) -> int:
        """The number of columns of trigger trees: three sets of places, counters and deadlines."""
        return _BIT_SETS * self.words + self.counters + self.deadlines

    def counts(self, codes: bytes | None) -> tuple[int, int]:
        """Return the number of columns of cells and of emitted values.

        Args:
            codes: the type codes of the kernels; `None` if accumulators are objects.
        """
        own, standing = CELL_COLUMNS + self.of_trees, STANDING_COLUMNS
        if codes is None:
            return own, standing
        touched = self.compares or FLOAT in codes.decode()
        return own + self.numbers + touched, standing + self.kernels + touched
