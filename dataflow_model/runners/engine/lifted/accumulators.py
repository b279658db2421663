"""Accumulators as columns: what a kernel can process, how groups are reduced, and how outputs are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.plan.functions.kernels import Kernel, Reduction

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

COLUMNS: Final = ("key", "window_start", "window_end", "accumulator", "count")
"""The columns of a table of partials, in order.

`window_end` is omitted if the caller passes none, and `accumulator` for a kernel that only counts. `count` is the
number of elements.
"""
_EXACT_IN_FLOAT: Final = 2**53
_LARGEST: Final = 2**63 - 1
_HALF: Final = np.int64(32)
_LOW: Final = np.int64(0xFFFFFFFF)

Column = Any
"""An int64 or float64 NumPy array."""


def supports(key_type: pa.DataType, value_type: pa.DataType | None, kernel: Kernel) -> bool:
    """Return whether a kernel accepts columns of these types; `COUNT` ignores `value_type`.

    Keys can be integers, booleans, floats, strings, binary, dates, timestamps to the microsecond and decimals, plain or
    dictionary-encoded. Values can be integers within int64, and floats.

    Example:
        >>> supports(pa.string(), pa.int64(), Kernel.SUM), supports(pa.string(), pa.string(), Kernel.MAX)
        (True, False)
    """
    if pa.types.is_dictionary(key_type):
        key_type = key_type.value_type
    if not _is_key(key_type):
        return False
    return kernel.reduction is None or (value_type is not None and _is_number(value_type))


def fits(keys: pa.Array | pa.ChunkedArray, values: pa.Array | pa.ChunkedArray | None, kernel: Kernel) -> bool:
    """Return whether a kernel can process these columns, given their types and values.

    It cannot process a null value (Python cannot add `None`), NaN as a key (which has no encoding), or NaN as a value
    of `MIN` and `MAX` (where Python's result depends on the order). Null keys are accepted, and any value by `COUNT`.

    Example:
        >>> fits(pa.array([1, 2]), pa.array([5, None]), Kernel.SUM)
        False
    """
    if not supports(keys.type, None if values is None else values.type, kernel):
        return False
    if _has_nan(keys):
        return False
    if kernel.reduction is None:
        return True
    return values is not None and not values.null_count and not (kernel.compares and _has_nan(values))


def finish(table: pa.Table, kernel: Kernel) -> pa.Array:
    """Return the output for each row of partials, equal to that of the combiner's `extract_output`.

    Example:
        >>> finish(pa.table({"accumulator": [5, 9], "count": [2, 3]}), Kernel.MEAN).to_pylist()
        [2.5, 3.0]
    """
    if kernel.reduction is None:
        return table["count"].combine_chunks()
    if not kernel.divides:
        return table["accumulator"].combine_chunks()
    return pa.array(means(column(table, "accumulator"), column(table, "count")))


def means(sums: Column, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return sums divided by counts as Python divides them; NaN where the count is 0.

    Example:
        >>> means(np.array([5, 0]), np.array([2, 0])).tolist()
        [2.5, nan]
    """
    with np.errstate(all="ignore"):
        quotients = np.where(counts == 0, np.nan, sums / counts)
    if sums.dtype == np.int64 and len(sums) and _magnitude(sums) > _EXACT_IN_FLOAT:
        # Python divides integers exactly and rounds once; NumPy would round the sum first.
        for row in np.flatnonzero(((sums > _EXACT_IN_FLOAT) | (sums < -_EXACT_IN_FLOAT)) & (counts != 0)):
            quotients[row] = int(sums[row]) / int(counts[row])
    return quotients


def number_column(values: pa.Array | pa.ChunkedArray) -> Column:
    """Return numbers as int64 or float64, the types of accumulators."""
    wide = pa.float64() if pa.types.is_floating(values.type) else pa.int64()
    return values.cast(wide).to_numpy()


def column(table: pa.Table, name: str) -> Column:
    """Return a column of a table of partials."""
    return table[name].to_numpy()


def scatter(reduction: Reduction, values: Column, groups: NDArray[np.int64], size: int) -> Column:
    """Reduce `values` by the number of their group, in any order; each of the `size` groups has at least one row.

    Raises:
        OverflowError: if a sum of integers exceeds 64 bits.
    """

    def reduce(operation: np.ufunc, column: Column) -> Column:
        reduced = np.empty(size, column.dtype)
        if operation is np.add:
            reduced.fill(0)
        else:
            reduced[groups] = column  # any value of a group is a neutral initial value
        operation.at(reduced, groups, column)
        return reduced

    return _reduce(reduction, values, reduce)


def reduce_runs(reduction: Reduction, values: Column, starts: NDArray[np.int64]) -> Column:
    """Reduce runs of adjacent rows; `starts` are the positions at which runs start, the first of them 0.

    Raises:
        OverflowError: if a sum of integers exceeds 64 bits.
    """
    return _reduce(reduction, values, lambda operation, column: operation.reduceat(column, starts))


def _reduce(reduction: Reduction, values: Column, reduce: Callable[[np.ufunc, Column], Column]) -> Column:
    match reduction:
        case Reduction.MIN:
            return reduce(np.minimum, values)
        case Reduction.MAX:
            return reduce(np.maximum, values)
        case Reduction.SUM:
            return _sums(values, reduce)
        case _:
            assert_never(reduction)


def _sums(values: Column, reduce: Callable[[np.ufunc, Column], Column]) -> Column:
    if values.dtype != np.int64:
        with np.errstate(all="ignore"):  # +∞ and −∞ add up to NaN in Python too, without a warning
            return reduce(np.add, values)
    if not len(values) or _magnitude(values) * len(values) <= _LARGEST:
        return reduce(np.add, values)
    # The halves cannot overflow; the carry of the low half is added to the high half.
    low = reduce(np.add, values & _LOW)
    high = reduce(np.add, values >> _HALF) + (low >> _HALF)
    if int(high.max()) >= 2**31 or int(high.min()) < -(2**31):
        raise OverflowError("a sum of integers exceeds 64 bits")
    return (high << _HALF) | (low & _LOW)


def _magnitude(values: NDArray[np.int64]) -> int:
    return max(int(values.max()), -int(values.min()))


def _is_key(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_timestamp(kind):
        return bool(kind.unit != "ns")  # datetime has no nanoseconds, so that two keys would become one
    return any(
        bool(test(kind))
        for test in (
            types.is_integer, types.is_boolean, types.is_float32, types.is_float64, types.is_string,
            types.is_large_string, types.is_binary, types.is_large_binary, types.is_date32, types.is_decimal,
        )
    )  # fmt: skip


def _is_number(kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return not pa.types.is_uint64(kind)
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _has_nan(array: pa.Array | pa.ChunkedArray) -> bool:
    if pa.types.is_dictionary(array.type):
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return any(_has_nan(chunk.dictionary) for chunk in chunks)
    if not pa.types.is_floating(array.type):
        return False
    return bool(pc.call_function("any", [pc.call_function("is_nan", [array])]).as_py())
