"""Types of Parquet columns that differ between files: which type is decided, and what fits it without loss."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.plan.columns.nested import leaves

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_DIGITS: Final = 76
"""The digits of the wider one of Arrow's two usual decimals, which has twice as many as the other."""


def settled(schema: pa.Schema) -> pa.Schema:
    """Return columns as they are decided: null may be anywhere, and dictionaries may have any number of values.

    Example:
        >>> settled(pa.schema([pa.field("carrier", pa.dictionary(pa.int8(), pa.string()), nullable=False)]))
        carrier: dictionary<values=string, indices=int32, ordered=0>
    """
    return pa.schema([pa.field(field.name, _settled(field.type), metadata=field.metadata) for field in schema])


def _settled(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    if not pa.types.is_nested(kind):
        return kind
    return _inside(kind, lambda field: field.with_type(_settled(field.type)).with_nullable(nullable=True))


def _inside(kind: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return a type with the fields of a struct, the items of a list and the values of a map changed."""
    if pa.types.is_struct(kind):
        return pa.struct([change(field) for field in kind])
    if pa.types.is_map(kind):
        key = change(kind.key_field).with_nullable(nullable=False)
        return pa.map_(key, change(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(change(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(change(kind.value_field))
    return pa.list_(change(kind.value_field)) if pa.types.is_list(kind) else kind


# ------------------------------------------------------------------------------------------------- which type


def widened(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type that holds all values of both; the first one if there is none of the same kind.

    A type of nulls only becomes the other one. Whole numbers and fractions stay apart, since a wider column of
    fractions would change the values of the other file.

    Example:
        >>> widened(pa.int32(), pa.int64()), widened(pa.null(), pa.string()), widened(pa.int64(), pa.float64())
        (DataType(int64), DataType(string), DataType(int64))
    """
    if kind == other:
        return kind
    if pa.types.is_null(kind):
        return other
    if pa.types.is_integer(kind) and pa.types.is_integer(other):
        signed = (pa.int16(), pa.int32(), pa.int64())
        return next((each for each in (kind, other, *signed) if _holds(each, kind) and _holds(each, other)), kind)
    if pa.types.is_floating(kind) and pa.types.is_floating(other):
        return max(kind, other, key=lambda each: each.bit_width)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(other):
        scale = max(kind.scale, other.scale)
        digits = scale + max(kind.precision - kind.scale, other.precision - other.scale)
        if kind == (wide := _decimal(digits, scale)) or wide is None:
            return kind
        return other if other == wide else wide
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        return _inside(kind, lambda field: field.with_type(_widened_field(field, other)))
    if _is_list(kind) and _is_list(other):
        if pa.types.is_fixed_size_list(kind) and getattr(other, "list_size", None) != kind.list_size:
            return widened(pa.list_(kind.value_field), other)
        return _inside(kind, lambda field: field.with_type(widened(field.type, other.value_type)))
    if pa.types.is_map(kind) and pa.types.is_map(other):
        key, item = widened(kind.key_type, other.key_type), widened(kind.item_type, other.item_type)
        return pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item), kind.keys_sorted)
    return kind


def _is_signed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind))


def _holds(wide: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a type of whole numbers holds all numbers of another one."""
    if _is_signed(wide) == _is_signed(kind):
        return bool(wide.bit_width >= kind.bit_width)
    return _is_signed(wide) and bool(wide.bit_width > kind.bit_width)


def _decimal(digits: int, scale: int) -> pa.DataType | None:
    if digits > _MOST_DIGITS:
        return None
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS // 2 else pa.decimal256(digits, scale)


def _widened_field(field: pa.Field, struct: pa.StructType) -> pa.DataType:
    index = struct.get_field_index(field.name)
    return field.type if index < 0 else widened(field.type, struct.field(index).type)


def can_hold(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types are of the same kind, so that values of the other one may fit.

    Example:
        >>> can_hold(pa.int64(), pa.float64()), can_hold(pa.int64(), pa.string())
        (True, False)
    """
    if kind == other or pa.types.is_null(kind) or pa.types.is_null(other):
        return True
    kind, other = _plain(kind), _plain(other)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        return bool((kind.tz is None) == (other.tz is None))
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        pairs = [(field.type, other.field(field.name).type) for field in kind if other.get_field_index(field.name) >= 0]
        return bool(pairs) and all(can_hold(one, another) for one, another in pairs)
    if _is_list(kind) and _is_list(other):
        return can_hold(kind.value_type, other.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return can_hold(kind.key_type, other.key_type) and can_hold(kind.item_type, other.item_type)
    tests = (_is_number, _is_text, pa.types.is_time, pa.types.is_date, pa.types.is_duration)
    return bool(kind == other) or any(test(kind) and test(other) for test in tests)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text or bytes: some writers do not mark text as such."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in (*tests, pa.types.is_fixed_size_binary))


def _is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


# ------------------------------------------------------------------------------------------------- what fits


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column with another type, for which `can_hold` is true.

    Raises:
        pa.ArrowException: if a value does not fit it without loss, or text is not UTF-8.
        ValueError: likewise.
    """
    column = _fitted(column, kind)
    if not _has_text(kind):
        return column
    if pa.types.is_dictionary(kind):
        try:
            _check_text(column.dictionary)
        except pa.ArrowInvalid:  # it may hold text that none of these rows has
            column = column.dictionary_decode()
            _check_text(column)
            column = column.dictionary_encode().cast(kind)
        return column
    for leaf in leaves(column):
        _check_text(leaf.dictionary_decode() if pa.types.is_dictionary(leaf.type) else leaf)
    return column


def _check_text(column: pa.Array) -> None:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column.validate(full=True)


@functools.lru_cache(maxsize=1024)
def _has_text(kind: pa.DataType) -> bool:
    kind = _plain(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True
    if pa.types.is_map(kind):
        return _has_text(kind.key_type) or _has_text(kind.item_type)
    return any(_has_text(kind.field(index).type) for index in range(kind.num_fields))


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_null(kind):
        if column.null_count < len(column):
            raise ValueError("there is a value")
        return pa.nulls(len(column))
    if pa.types.is_dictionary(column.type):
        return _fitted(column.dictionary_decode(), kind)
    if pa.types.is_dictionary(kind):
        return _fitted(column, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        return _fitted_struct(column, kind)
    if pa.types.is_map(kind):
        first, offsets = _offsets(column)
        last = first + offsets[-1].as_py()
        keys = _fitted(column.keys[first:last], kind.key_type)
        items = _fitted(column.items[first:last], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=column.is_null())
    if _is_list(kind):
        plain = column if pa.types.is_list(column.type) else column.cast(pa.list_(column.type.value_field))
        first, offsets = _offsets(plain)
        items = _fitted(plain.values[first : first + offsets[-1].as_py()], kind.value_type)
        lists = pa.ListArray.from_arrays(offsets, items, type=pa.list_(kind.value_field), mask=plain.is_null())
        return lists if lists.type == kind else lists.cast(kind)
    return _fitted_number(column, kind) if _is_number(kind) else column.cast(kind)


def _fitted_struct(column: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    inner = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    children = [
        _fitted(inner[field.name], field.type) if field.name in inner else pa.nulls(len(column), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def _offsets(column: Any) -> tuple[int, pa.Array]:
    """Return the index of the first item of lists or maps, and the indices of all relative to it."""
    offsets = column.offsets
    return offsets[0].as_py(), pc.call_function("subtract", [offsets, offsets[0]])


def _fitted_number(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_integer(column.type) and pa.types.is_decimal(kind):
        return column.cast(pa.decimal128(20, 0)).cast(kind)
    if not (pa.types.is_floating(column.type) or pa.types.is_floating(kind)):
        return column.cast(kind)
    if pa.types.is_decimal(column.type) and pa.types.is_float16(kind):
        return _fitted_number(_fitted_number(column, pa.float64()), kind)
    numbers = column.cast(kind, safe=not pa.types.is_floating(kind))
    wide = numbers.cast(pa.float32()) if pa.types.is_float16(kind) else numbers
    back = wide.cast(column.type, safe=not pa.types.is_floating(column.type))
    same = pc.call_function("equal", [back, column])
    if pa.types.is_floating(column.type) and pa.types.is_floating(kind):
        same = pc.call_function("or", [same, pc.call_function("is_nan", [column])])
    is_lossless = pc.call_function("all", [same]).as_py() is not False
    if is_lossless and (pa.types.is_integer(column.type) or pa.types.is_integer(kind)):
        # The greatest whole number becomes one that is too large by one, and some processors turn that back.
        most, other = (pc.call_function("max", [each]).as_py() for each in (column, wide))
        is_lossless = most == other
    if not is_lossless:
        raise ValueError(f"a number does not fit {kind}")
    return numbers
