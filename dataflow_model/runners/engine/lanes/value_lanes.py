"""Lanes of values: the rows of a source, pairs, and plain values, as columns."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, overload

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.plan.columns.rows import rows_of, values_of
from dataflow_model.runners.engine.core.moving import pairs_apart
from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lanes.ipc import from_ipc, to_narrow_ipc
from dataflow_model.runners.engine.lanes.lanes import Lane
from dataflow_model.values import are_alike
from dataflow_model.values.keys import encode_alike, encode_rows
from dataflow_model.values.records import by_position, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


class RowValues(Lane[Any]):
    """Rows of a source, which become named tuples when they are read.

    Attributes:
        table: the rows.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._rows: list[Any] | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def items(self) -> Iterator[Any]:
        """Return an iterator over the rows."""
        return iter(self._made())

    def item(self, row: int) -> Any:
        """Return a row."""
        return self._made()[row]

    def sliced(self, start: int, stop: int) -> RowValues:
        """Return the rows `[start, stop)`."""
        return RowValues(self.table.slice(start, stop - start))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> RowValues:
        """Return the rows with these indices."""
        return RowValues(self.table.take(pa.array(np.asarray(rows, np.int64))))

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> RowValues | None:
        """Return the rows of all; `None` if their columns differ."""
        tables = [lane.table for lane in lanes]
        if all(table.schema.equals(tables[0].schema) for table in tables):
            return RowValues(pa.concat_tables(tables))
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked_rows, (to_narrow_ipc(self.table),)

    def _made(self) -> list[Any]:
        if self._rows is None:
            batches = [rows_of(batch) for batch in self.table.to_batches()]
            self._rows = batches[0] if len(batches) == 1 else list(itertools.chain.from_iterable(batches))
        return self._rows


class Pairs(Lane["tuple[Any, Any]"]):
    """Pairs of a key and a value, each of them a column.

    Attributes:
        keys, values: the columns.
        row: the type of the values, if they are tuples whose parts are the fields of the structs in `values`.
        key_row: the same of the keys.
    """

    def __init__(
        self,
        keys: pa.ChunkedArray,
        values: pa.ChunkedArray,
        row: type[tuple[Any, ...]] | None = None,
        key_row: type[tuple[Any, ...]] | None = None,
    ) -> None:
        self.keys, self.values, self.row, self.key_row = keys, values, row, key_row

    def __reduce__(self) -> tuple[Any, ...]:
        keys = _parts(self.keys, self.key_row)
        columns = [*keys, *_parts(self.values, self.row)]
        table = pa.table(columns, names=list(map(str, range(len(columns)))))
        fields = tuple(None if row is None else fields_of(row) for row in (self.row, self.key_row))
        return _unpacked_pairs, (to_narrow_ipc(table), len(keys), self.row, self.key_row, *fields)

    def __len__(self) -> int:
        return len(self.keys)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return an iterator over the pairs."""
        return zip(list_of(self.keys, self.key_row), list_of(self.values, self.row), strict=True)

    def item(self, row: int) -> tuple[Any, Any]:
        """Return a pair."""
        [pair] = self.sliced(row, row + 1)
        return pair

    def sliced(self, start: int, stop: int) -> Pairs:
        """Return the pairs `[start, stop)`."""
        count = stop - start
        return Pairs(self.keys.slice(start, count), self.values.slice(start, count), self.row, self.key_row)

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Pairs:
        """Return the pairs at these rows."""
        indices = pa.array(np.asarray(rows, np.int64))
        return Pairs(self.keys.take(indices), self.values.take(indices), self.row, self.key_row)

    def keys_are_alike(self) -> bool:
        """Return whether all keys are alike; see `dataflow_model.values.are_alike`.

        Example:
            >>> numbers = pa.chunked_array([[4, 6]])
            >>> [Pairs(pa.chunked_array([keys]), numbers).keys_are_alike() for keys in (["a", "b"], ["a", None])]
            [True, False]
        """
        return all(map(_holds_alike_keys, _parts(self.keys, self.key_row)))

    def coded_keys(self) -> Coded:
        """Return the keys, which have to be alike, as codes: indices among the different ones.

        Example:
            >>> Pairs(pa.chunked_array([["b", "a", "b"]]), pa.chunked_array([[1, 2, 3]])).coded_keys()
            Coded(values=['b', 'a'], codes=array([0, 1, 0]))
        """
        if self.key_row is None:
            return Coded.of(self.keys)
        parts, codes = self._coded_parts()
        columns = ([values[code] for code in codes_of_part] for values, codes_of_part in parts)
        return Coded(list(map(functools.partial(tuple.__new__, self.key_row), zip(*columns, strict=True))), codes)

    def encoded_keys(self) -> Coded:
        """Return the same, encoded.

        Example:
            >>> Pairs(pa.chunked_array([["b", "a", "b"]]), pa.chunked_array([[1, 2, 3]])).encoded_keys()
            Coded(values=[b'sb', b'sa'], codes=array([0, 1, 0]))
        """
        if self.key_row is None:
            coded = Coded.of(self.keys)
            return Coded(encode_alike(coded.values), coded.codes)
        parts, codes = self._coded_parts()
        return Coded(encode_rows(self.key_row, parts), codes)

    def _coded_parts(self) -> tuple[list[tuple[list[Any], list[int]]], NDArray[np.int64]]:
        """Return the different keys, each of which is a tuple, and the code of each pair's key: its index among them.

        The former are returned as the different values of each part, and the code of each key's part among them.
        """
        first, *others = map(Coded.of, self.keys.flatten())
        values, of_parts, codes = [first.values], [np.arange(len(first.values))], first.codes
        for part in others:
            codes, together = codes_of(pa.array(codes * len(part.values) + part.codes))
            before, last = np.divmod(together.to_numpy(), max(1, len(part.values)))
            of_parts = [*(of_part[before] for of_part in of_parts), last]
            values.append(part.values)
        return [(of, of_part.tolist()) for of, of_part in zip(values, of_parts, strict=True)], codes

    def keys_and_codes(self) -> tuple[list[Any], NDArray[np.int64]]:
        """Return the different keys, which have to be alike, and the code of each pair's key: its index among them."""
        coded = self.coded_keys()
        return coded.values, coded.codes

    def integers_or_keys(self) -> NDArray[Any] | Coded:
        """Return the keys, which have to be alike, as an array if all are 64-bit integers."""
        return np.asarray(self.keys.to_numpy()) if _holds_integers(self.keys) else self.coded_keys()

    def numbers_or_values(self) -> NDArray[Any] | list[Any]:
        """Return the values, as an array if all are 64-bit integers, or all are floats."""
        kind = self.values.type
        if _holds_integers(self.values):
            return np.asarray(self.values.to_numpy(), np.int64)
        if not self.values.null_count and (pa.types.is_float32(kind) or pa.types.is_float64(kind)):
            return np.asarray(self.values.to_numpy(), np.float64)
        return list_of(self.values, self.row)

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> Pairs | None:
        """Return the pairs of all; `None` if their types differ."""
        row, key_row = lanes[0].row, lanes[0].key_row
        keys, values = _chunked([lane.keys for lane in lanes]), _chunked([lane.values for lane in lanes])
        if keys is None or values is None or any(lane.row is not row or lane.key_row is not key_row for lane in lanes):
            return None
        return Pairs(keys, values, row, key_row)


@attrs.frozen(eq=False)
class Coded(Sequence[Any]):
    """Values as codes: indices among the different ones.

    Attributes:
        values: the different values.
        codes: the index of each value among them.
    """

    values: list[Any]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Coded:
        """Return the values of a column, none of which is null."""
        codes, distinct = codes_of(column)
        return cls(values_of(distinct), codes)

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        codes = self.codes[row]
        return [self.values[code] for code in codes] if isinstance(row, slice) else self.values[codes]


class ColumnValues(Lane[Any]):
    """Plain values in a column, which become Python values when they are read.

    Attributes:
        column: the values.

    Example:
        >>> ColumnValues(pa.chunked_array([[3, None]])).taken([1, 0])
        [None, 3]
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked_column, (to_narrow_ipc(pa.table({"value": self.column})),)

    def __len__(self) -> int:
        return len(self.column)

    def items(self) -> Iterator[Any]:
        """Return an iterator over the values."""
        return iter(_values(self.column))

    def item(self, row: int) -> Any:
        """Return a value."""
        [value] = self.sliced(row, row + 1)
        return value

    def sliced(self, start: int, stop: int) -> ColumnValues:
        """Return the values `[start, stop)`."""
        return ColumnValues(self.column.slice(start, stop - start))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> ColumnValues:
        """Return the values at these rows."""
        return ColumnValues(self.column.take(pa.array(np.asarray(rows, np.int64))))

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> ColumnValues | None:
        """Return the values of all; `None` if their types differ."""
        column = _chunked([lane.column for lane in lanes])
        return None if column is None else ColumnValues(column)


def columns_of(values: Sequence[Any]) -> pa.Table | None:
    """Return elements as columns, with the column names of sinks; `None` if they are Python objects.

    Example:
        >>> columns_of(ColumnValues(pa.chunked_array([[3, 5]]))).to_pydict(), columns_of([3, 5])
        ({'value': [3, 5]}, None)
    """
    if isinstance(values, RowValues):
        return values.table
    if isinstance(values, ColumnValues):
        return pa.table({"value": values.column})
    if isinstance(values, Pairs) and values.key_row is None:
        if not pa.types.is_struct(values.values.type):
            return pa.table({"key": values.keys, "value": values.values})
        fields: tuple[str, ...] = getattr(values.row, "_fields", ())
        if fields and "key" not in fields:  # other structs have columns of their own
            return pa.table({"key": values.keys, **dict(zip(fields, values.values.flatten(), strict=True))})
    return None


def in_columns(pairs: Sequence[Any]) -> Sequence[Any]:
    """Return pairs in columns if keys and values each fit a column; otherwise the pairs themselves.

    A column holds values of one plain type, or tuples of such columns.

    Example:
        >>> isinstance(in_columns([("a", 1), ("b", 2)]), Pairs), in_columns([("a", 1), ("b", 2.5)])
        (True, [('a', 1), ('b', 2.5)])
        >>> in_columns([(("a", 1), 2.5)])
        [(('a', 1), 2.5)]
    """
    if isinstance(pairs, Lane) or not pairs:
        return pairs
    parts = pairs_apart(pairs if isinstance(pairs, list) else list(pairs))
    if parts is None:
        return pairs
    keys, values = map(_column, parts)
    return pairs if keys is None or values is None else Pairs(keys[0], values[0], values[1], keys[1])


def keys_in_columns(keys: Sequence[Any]) -> Pairs | None:
    """Return keys in columns, each with `None`; `None` unless they fit a column, and are alike."""
    column = _column(keys) if are_alike(keys) else None
    pairs = None if column is None else Pairs(column[0], pa.chunked_array([pa.nulls(len(keys))]), None, column[1])
    return pairs if pairs is not None and pairs.keys_are_alike() else None


_PLAIN: Final[Mapping[type[Any], pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    type(None): pa.null(),
}


def split(pairs: Sequence[Any], parts: Sequence[int] | NDArray[np.int64]) -> Sequence[Any]:
    """Return pairs with the pair of key and part in place of each key.

    Example:
        >>> split([("a", 1), ("b", 2.5)], [3, 0])
        [(('a', 3), 1), (('b', 0), 2.5)]
    """
    if isinstance(pairs, Pairs) and pairs.key_row is None:
        keys = _struct([pairs.keys, pa.chunked_array([pa.array(parts, pa.int64())])])
        return Pairs(keys, pairs.values, pairs.row, tuple)
    numbers = parts.tolist() if isinstance(parts, np.ndarray) else parts
    return [((key, part), value) for (key, value), part in zip(pairs, numbers, strict=True)]


def _column(items: Sequence[Any]) -> tuple[pa.ChunkedArray, type[tuple[Any, ...]] | None] | None:
    """Return values of one type in a column, with the type if they are tuples; `None` if they do not fit one."""
    kind = type(items[0])
    if not issubclass(kind, tuple):
        column = _plain_column(items, kind)
        return None if column is None else (column, None)
    if not items[0] or kind.__dictoffset__ or len(set(map(len, items))) > 1:
        return None
    fields = []
    for index in range(len(items[0])):
        parts = list(map(operator.itemgetter(index), items))
        kind_of_part, *others = set(map(type, parts))
        field = None if others else _plain_column(parts, kind_of_part)
        if field is None:
            return None
        fields.append(field)
    return _struct(fields), kind


def _struct(fields: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    names = list(map(str, range(len(fields))))
    return pa.chunked_array([pa.StructArray.from_arrays([field.combine_chunks() for field in fields], names)])


def _parts(column: pa.ChunkedArray, row: type[tuple[Any, ...]] | None) -> list[pa.ChunkedArray]:
    """Return the columns of which a column consists."""
    return [column] if row is None else column.flatten()


def _holds_alike_keys(column: pa.ChunkedArray) -> bool:
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return not column.null_count and any(is_kind(column.type) for is_kind in tests)


def _holds_integers(column: pa.ChunkedArray) -> bool:
    return pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type) and not column.null_count


def _plain_column(items: Sequence[Any], kind: type[Any]) -> pa.ChunkedArray | None:
    """Return values of one type as a column; `None` if it is not a plain type, or if they are too large for it."""
    if kind not in _PLAIN:
        return None
    try:
        return pa.chunked_array([pa.array(items, _PLAIN[kind])])
    except (OverflowError, ValueError):  # an integer of more than 64 bits, or text that UTF-8 cannot encode
        return None


def list_of(column: pa.ChunkedArray, row: type[tuple[Any, ...]] | None = None) -> list[Any]:
    """Return a column's values as Python values.

    Args:
        column: the values.
        row: the type of the values, if they are rows whose fields are those of the structs.

    Example:
        >>> list_of(pa.chunked_array([[{"a": 1, "b": 2.5}]]), tuple)
        [(1, 2.5)]
    """
    if row is None:
        return _values(column)
    fields = [_values(field) for field in column.flatten()]
    return list(map(functools.partial(tuple.__new__, row), zip(*fields, strict=True)))


def _chunked(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray | None:
    """Return the values of several columns as one column; `None` if their types differ."""
    kind = columns[0].type
    if any(column.type != kind for column in columns):
        return None
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], kind)


def _values(column: pa.ChunkedArray) -> list[Any]:
    values = [values_of(chunk) for chunk in column.chunks]
    return values[0] if len(values) == 1 else list(itertools.chain.from_iterable(values))


def _unpacked_rows(content: bytes) -> RowValues:
    """Restore rows from their pickle."""
    return RowValues(from_ipc(content))


def _unpacked_column(content: bytes) -> ColumnValues:
    """Restore a column from its pickle."""
    return ColumnValues(from_ipc(content).column(0))


def _unpacked_pairs(
    content: bytes,
    key_parts: int,
    row: type[tuple[Any, ...]] | None,
    key_row: type[tuple[Any, ...]] | None,
    fields: tuple[str, ...] | None = None,
    key_fields: tuple[str, ...] | None = None,
) -> Sequence[Any]:
    """Restore pairs from their pickle; as a list, if a class of theirs has other fields now."""
    columns = from_ipc(content).columns
    of_keys, of_values = columns[:key_parts], columns[key_parts:]
    pairs = Pairs(
        of_keys[0] if key_row is None else _struct(of_keys),
        of_values[0] if row is None else _struct(of_values),
        row,
        key_row,
    )
    if _are_fields_of(row, fields) and _are_fields_of(key_row, key_fields):
        return pairs
    keys, values = _restored(pairs.keys, key_row, key_fields), _restored(pairs.values, row, fields)
    return list(zip(keys, values, strict=True))


def _are_fields_of(row: type[tuple[Any, ...]] | None, stored: tuple[str, ...] | None) -> bool:
    return row is None or stored is None or fields_of(row) == stored


def _restored(
    column: pa.ChunkedArray, row: type[tuple[Any, ...]] | None, stored: tuple[str, ...] | None
) -> Sequence[Any]:
    """Return the values of a column, whose fields had these names when they were stored."""
    if row is None or stored is None:
        return list_of(column, row)
    return list(map(by_position(row, " ".join(stored)), list_of(column, tuple)))
