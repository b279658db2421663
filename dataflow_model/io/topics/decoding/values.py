"""The values of messages in columns: JSON, or what a function makes of the bytes. Others are bad rows."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.errors import DataflowError, encodable, shown
from dataflow_model.io.json.json_bad_rows import bad_lines
from dataflow_model.io.json.json_objects import object_of, problem_of, text_of
from dataflow_model.io.json.json_parsing import parse_lines, problem_of_line
from dataflow_model.io.text.parsing import parse_rows
from dataflow_model.io.text.row_texts import RowTexts
from dataflow_model.plan.columns.element_columns import any_inside, fields_amiss, fitted_columns, lack_zone
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_NO_ZONE: Final = "an instant needs a time zone, as value.replace(tzinfo=datetime.UTC) has, for example"


class BadValueError(Exception):
    """A value that cannot be decoded; the message is the reason of its bad row."""


class ValueFormat(abc.ABC):
    """How the bytes of a value become fields; it is pickled with the source."""

    def check(self) -> None:  # noqa: B027 - most need nothing
        """Raise `SourceError` if what it needs cannot be had; runs on the driver when a run starts."""

    @abc.abstractmethod
    def columns_of(self, values: pa.Array, columns: pa.Schema) -> pa.Table:
        """Return values, none of which is null, in columns, with `BAD_FIELD` behind them if there are bad rows."""


def in_columns(values: pa.Array, form: ValueFormat, columns: pa.Schema) -> pa.Table:
    """Return the values of messages in columns, with `BAD_FIELD` if there are bad rows; a tombstone is a row of nulls.

    Args:
        values: the bytes; null for a tombstone.
        form: how they become fields.
        columns: the names and types of the fields.

    Example:
        >>> columns = pa.schema({"delay": pa.int64()})
        >>> table = in_columns(pa.array([b'{"delay": 4}', None, b"[5]"]), JsonValues(), columns)
        >>> table["delay"].to_pylist(), table["__bad__"].to_pylist()[2]["text"]
        ([4, None, None], '[5]')
    """
    known = values if not values.null_count else values.drop_null()
    table = form.columns_of(known, columns) if len(known) else columns.empty_table()
    if len(known) == len(values):
        return table
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    indices = pa.array(np.cumsum(~is_null) - 1, mask=is_null)
    return table.combine_chunks().take(indices)


@attrs.frozen
class JsonValues(ValueFormat):
    """Values that each are one JSON object; a missing field is null, and one that is not a column is ignored."""

    def columns_of(self, values: pa.Array, columns: pa.Schema) -> pa.Table:
        """Parse all values at once, as `ReadJson` does the lines of a file."""
        broken: dict[int, str] = {}
        lines = _lines(values, broken)
        good = np.delete(np.arange(len(values)), list(broken))
        table = columns.empty_table()
        if len(good):
            parts = parse_rows(
                lines,
                lambda data: parse_lines(data, columns),
                columns,
                lambda data, problem: problem_of_line(data, columns, problem),
                lambda texts: bad_lines(texts, columns, mixed=False),
            )
            table = pa.Table.from_batches(parts)
        if not broken:
            return table
        indices = np.full(len(values), -1)
        indices[good] = np.arange(len(good))
        return with_bad_rows(table.combine_chunks().take(pa.array(indices, mask=indices < 0)), values, broken)


@attrs.frozen
class FunctionValues(ValueFormat):
    """Values that a function turns into a dict of the fields.

    Attributes:
        function: takes the bytes. What it raises makes a bad row, but an error of this package ends the run.
        passes: other errors that do not make a bad row.
        is_exact: whether a dict that lacks a field, or has another one, is a bad row; else it is null, or ignored.
    """

    function: Callable[[bytes], Mapping[str, Any]]
    passes: tuple[type[Exception], ...] = ()
    is_exact: bool = True

    def columns_of(self, values: pa.Array, columns: pa.Schema) -> pa.Table:
        """Call the function for each value."""
        bad: dict[int, str] = {}
        rows = [self._fields(index, value, columns, bad) for index, value in enumerate(values.to_pylist())]
        fields = {name: [row.get(name) for row in rows] for name in columns.names}
        batches = list(fitted_columns(fields, len(rows), columns, bad))
        table = pa.Table.from_batches(batches).cast(columns)
        return with_bad_rows(table, values, bad) if bad else table

    def _fields(self, index: int, value: bytes, columns: pa.Schema, bad: dict[int, str]) -> Mapping[str, Any]:
        try:
            row: Any = self.function(value)
        except BadValueError as error:
            bad[index] = str(error)
            return {}
        except DataflowError:
            raise
        except self.passes:
            raise
        except Exception as error:  # noqa: BLE001 - of a function of the user's
            bad[index] = f"the function raised {type(error).__name__}: {error}"
            return {}
        if not isinstance(row, Mapping):
            bad[index] = f"the function must return a dict of the fields, got {shown(row)}"
            return {}
        amiss = fields_amiss(row.keys(), columns) if self.is_exact else None
        if amiss is not None:
            bad[index] = f"the function returned other fields: {amiss}"
            return {}
        for field in columns:
            if any_inside([row.get(field.name)], field.type, lack_zone):
                bad[index] = (
                    f"column {field.name!r} is {field.type} and cannot hold {shown(row[field.name])}: {_NO_ZONE}"
                )
                return {}
        return row


def with_bad_rows(table: pa.Table, values: pa.Array, reasons: Mapping[int, str]) -> pa.Table:
    """Return a table in which more rows are bad rows, with the reasons by index, and their values as text."""
    before: Sequence[Any] = [None] * len(values)
    at = bad_column_index(table.schema)
    if at is not None:
        before = table.column(at).to_pylist()
        table = table.remove_column(at)
    marks = [
        {"text": _text(values[index].as_py()), "reason": encodable(reasons[index])} if index in reasons else mark
        for index, mark in enumerate(before)
    ]
    return table.append_column(BAD_FIELD, pa.array(marks, BAD_FIELD.type))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _lines(values: pa.Array, broken: dict[int, str]) -> RowTexts:
    """Return values as lines, each with its end; those that have line breaks inside and are no objects are left out.

    Args:
        values: the values.
        broken: gets the indices of those that are left out, each with the reason.
    """
    lines = _with_ends(values)
    if lines.data.count(b"\n") == len(values) and b"\r" not in lines.data:
        return lines
    texts: list[bytes] = []
    for index, value in enumerate(values.to_pylist()):
        if b"\n" not in value and b"\r" not in value:
            texts.append(value)
            continue
        try:
            texts.append(text_of(object_of(value)).encode())
        except ValueError as error:
            broken[index] = problem_of(error)
    return _with_ends(pa.array(texts, pa.binary()))


def _with_ends(values: pa.Array) -> RowTexts:
    ended = pc.call_function("binary_join_element_wise", [values, pa.scalar(b""), pa.scalar(b"\n")])
    _, offsets, data = ended.buffers()
    bounds = np.frombuffer(offsets, np.int32)[ended.offset : ended.offset + len(ended) + 1].astype(np.int64)
    return RowTexts(0, b"" if data is None else data.to_pybytes(), bounds[:-1], bounds[1:])
