"""Functions on columns: elements become record batches, and results become columns again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import DataflowError, InvalidType
from dataflow_model.metrics.collecting import in_scratch
from dataflow_model.plan.columns.element_columns import columns_of_values, fitted_columns
from dataflow_model.plan.columns.rows import row_type
from dataflow_model.plan.functions.dofn import VectorizedFilterFn
from dataflow_model.runners.engine.functions.user_code import batch_error, listed, user_error
from dataflow_model.runners.engine.lanes.lanes import joined, taken
from dataflow_model.runners.engine.lanes.value_lanes import ColumnValues, RowValues, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.nodes import ParDo

_BATCHES: Final = (pa.RecordBatch, pa.Table, pa.Array, pa.ChunkedArray, np.ndarray)


@attrs.frozen
class OnColumns:
    """The results of a function for some elements.

    Attributes:
        values: the outputs.
        rows: for each output, the index of its element; `None` if every element has an output.
        failed: the indices of the elements that could not be processed, each with the exception.
    """

    values: Sequence[Any]
    rows: list[int] | None
    failed: list[tuple[int, Exception]]


def run_on_columns(node: ParDo, values: Sequence[Any]) -> OnColumns:
    """Call a function on columns for at least one element.

    Where dead letters are kept, a batch for which the function raises is halved until each failing row is in a batch
    of its own. That is allowed because an output depends only on its row, not on the rest of the batch.

    Raises:
        UserCodeError: if the function raises or an element does not have the columns, unless dead letters are kept; and
            for a result without exactly one output for each row.
    """
    table, misfits = _conformed(values, node)
    unrescued = [misfit for misfit in misfits if not node.rescues(misfit[1])]
    if unrescued:
        index, reason = unrescued[0]
        raise user_error(reason, node.label, values[index]) from reason
    bad = {index for index, _ in misfits}
    rows = [row for row in range(len(values)) if row not in bad] if bad else range(len(values))
    calls = _Calls(node, rows, values)
    start = 0
    for batch in table.combine_chunks().to_batches():
        calls.run(batch, start)
        start += batch.num_rows
    failed = sorted([*misfits, *calls.failed], key=lambda failure: failure[0])
    if isinstance(node.fn, VectorizedFilterFn):
        fitting = list(itertools.chain.from_iterable(calls.results))
        return OnColumns(taken(values, fitting), fitting, failed)
    answered = list(itertools.chain.from_iterable(calls.answered)) if failed else None
    return OnColumns(joined([], *calls.results), answered, failed)


class _Calls:
    """Calls of a function on batches.

    Args:
        node: the function's transform.
        rows: the index of each row of the batches among the elements.
        values: the elements.

    Attributes:
        results: the outputs for each batch; if the function is a filter, the indices of the elements that it keeps.
        answered: the indices of the elements of each batch.
        failed: the indices of the elements for which the function raised, each with the exception.
    """

    def __init__(self, node: ParDo, rows: Sequence[int], values: Sequence[Any]) -> None:
        self._node, self._rows, self._values = node, rows, values
        self.results: list[Any] = []
        self.answered: list[Sequence[int]] = []
        self.failed: list[tuple[int, Exception]] = []

    def run(self, batch: pa.RecordBatch, start: int) -> None:
        """Call the function for a batch whose first row is row `start`; halve the batch if the function raises."""
        node, count = self._node, batch.num_rows
        try:
            with in_scratch() as keep:  # rows for which the function is called again count once
                result = _result(node, batch)
                keep()
        except BaseException as error:
            first = self._rows[start]
            if not isinstance(error, Exception) or not node.rescues(error):
                raise batch_error(error, node.label, count, self._values[first]) from error
            if count == 1:
                self.failed.append((first, error))
                return
            half = count // 2
            self.run(batch.slice(0, half), start)
            self.run(batch.slice(half), start + half)
            return
        rows = self._rows[start : start + count]
        try:
            columns = _outputs(result, count, node.label)
            is_filter = isinstance(node.fn, VectorizedFilterFn)
            self.results.append([rows[index] for index in _true(columns)] if is_filter else columns)
        except DataflowError as error:  # no row is to blame
            raise batch_error(error, node.label, count, self._values[rows[0]], hint=None) from error
        self.answered.append(rows)


def _conformed(values: Sequence[Any], node: ParDo) -> tuple[pa.Table, list[tuple[int, Exception]]]:
    """Return the elements as the columns that the function receives, and the indices of those that do not fit."""
    columns, schema = columns_of(values), node.columns
    if schema is None:
        if columns is not None:
            return columns, []
        raise InvalidType(
            f"{node.label!r} works on columns, but the outputs of the step before it have no common type",
            hint="let that step return the same columns for each batch, or declare them: .with_output_types(T)",
        )
    if columns is not None:
        cast = _cast(columns, schema)
        if cast is not None:
            return cast, []
    elements = list(values)
    by_name, rows, shapeless = columns_of_values(elements, schema)
    if not {"key", "value"}.issuperset(schema.names):  # of records, a function receives only the declared fields
        by_name = {name: by_name[name] for name in schema.names if name in by_name}
    reasons: dict[int, str] = {}
    batches = list(fitted_columns(by_name, len(rows), schema, reasons))
    misfits = dict(shapeless) | {rows[row]: reason for row, reason in reasons.items()}
    if reasons:
        fits = np.ones(len(rows), np.bool_)
        fits[list(reasons)] = False
        starts = itertools.accumulate((batch.num_rows for batch in batches), initial=0)
        batches = [
            batch.filter(pa.array(fits[start : start + batch.num_rows]))
            for start, batch in zip(starts, batches, strict=False)
        ]
    hint = "declare the type of the elements with .with_output_types(T) on the step before"
    return pa.Table.from_batches(batches), [
        (index, InvalidType(f"the element does not have the columns of {node.label!r}: {reason}", hint=hint))
        for index, reason in sorted(misfits.items())
    ]


def _cast(columns: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Return the columns of a schema in its types; `None` if one is missing, or some value does not fit."""
    if not set(schema.names) <= set(columns.column_names):
        return None
    try:
        return pa.table([columns[field.name].cast(field.type) for field in schema], schema.names)
    except pa.ArrowException:
        return None


def _result(node: ParDo, batch: pa.RecordBatch) -> Any:
    """Return the function's results for a batch; a generator is exhausted here, where its errors are caught."""
    results: Any = node.fn.process_batch(batch, *node.args, **node.kwargs)
    return list(results) if isinstance(results, Iterator) else results


def _outputs(returned: Any, count: int, label: str) -> RowValues | ColumnValues:
    """Return a function's results for a batch of `count` rows as columns."""
    if isinstance(returned, _BATCHES):
        raise InvalidType(
            f"process_batch of {label!r} must yield its batch, but returned it", hint="write `yield`, not `return`"
        )
    batches = listed(returned, label, "let process_batch yield one batch")
    if len(batches) != 1:
        raise InvalidType(
            f"the function yielded {len(batches)} batches for a batch of {count} rows",
            hint="let process_batch yield one batch, with one row for each row that it was given",
        )
    result = _in_arrow(batches[0])
    if not isinstance(result, pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray):
        raise InvalidType(
            f"the function returned {type(result).__name__} for a batch of {count} rows",
            hint="return a pyarrow.RecordBatch or Table for rows, or one array of Arrow or NumPy for plain values",
        )
    if len(result) != count:
        raise InvalidType(
            f"the function returned {len(result)} outputs for a batch of {count} rows",
            hint="give one output for each row; use Filter(…, vectorized=True) to drop rows, and FlatMap for several",
        )
    if isinstance(result, pa.RecordBatch | pa.Table):
        row_type(result.schema)  # which raises for two columns of one name
        return RowValues(pa.Table.from_batches([result]) if isinstance(result, pa.RecordBatch) else result)
    if pa.types.is_struct(result.type):
        raise InvalidType(
            f"the function returned an array of {result.type} for a batch of {count} rows",
            hint="return rows: pa.RecordBatch.from_struct_array(array)",
        )
    return ColumnValues(result if isinstance(result, pa.ChunkedArray) else pa.chunked_array([result]))


def _in_arrow(result: Any) -> Any:
    """Return an array of NumPy as one of Arrow if it has one dimension, and anything else as it is."""
    if not isinstance(result, np.ndarray) or result.ndim != 1:
        return result
    try:
        return pa.array(result)
    except pa.ArrowException as error:
        raise InvalidType(
            f"Arrow cannot hold the values of {result!r}: {error}",
            hint="return an array of numbers, texts or instants",
        ) from error


def _true(mask: RowValues | ColumnValues) -> list[int]:
    """Return the indices at which a mask is true; null is not."""
    if not isinstance(mask, ColumnValues) or not pa.types.is_boolean(mask.column.type):
        kind = mask.column.type if isinstance(mask, ColumnValues) else "rows"
        raise InvalidType(
            f"the function returned {kind} to filter by", hint="return an array of booleans: which rows to keep"
        )
    indices: list[int] = np.flatnonzero(mask.column.fill_null(fill_value=False).to_numpy()).tolist()
    return indices
