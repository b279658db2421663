"""Tables of other libraries as rows; none of the libraries is imported, a table brings its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.errors import InvalidType
from dataflow_model.plan.rows import rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rows_of_table"]


def rows_of_table(given: Any) -> Iterator[Any] | None:
    """Return the rows of a table as named tuples, the values of an Arrow array; `None` for anything else.

    A pandas index with a name is a column; one without is left out. NaN in a column of pandas is `None`.

    Raises:
        InvalidType: for a column that Arrow cannot hold, and for a DataFrame of Spark, which is not in memory.
        InvalidArgument: for two columns of one name.

    Example:
        >>> list(rows_of_table(pa.table({"carrier": ["UA", "AA"], "delay": [4, None]})))
        [Row(carrier='UA', delay=4), Row(carrier='AA', delay=None)]
        >>> rows_of_table([1, 2]) is None
        True
    """
    match _library_of(given):
        case "pandas":
            return _rows(_from_pandas(given))
        case "polars":
            return _rows(given.to_arrow())
        case "pyspark":
            raise InvalidType(
                "Create takes values of the program, got a Spark DataFrame",
                hint="read it with dm.io.ReadDataFrame(df, …)",
            )
        case _ if isinstance(given, pa.Table):
            return _rows(given)
        case _ if isinstance(given, pa.RecordBatch):
            return iter(rows_of(given))
        case _ if isinstance(given, pa.Array):
            return iter(values_of(given))
        case _ if isinstance(given, pa.ChunkedArray):
            return (value for chunk in given.chunks for value in values_of(chunk))
        case _:
            return None


def _library_of(given: Any) -> str | None:
    """Return the library of a DataFrame, by the names of its classes."""
    names = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(given).__mro__]
    return next((library for library, name in names if name == "DataFrame"), None)


def _rows(table: pa.Table) -> Iterator[Any]:
    return (row for batch in table.to_batches() for row in rows_of(batch))


def _from_pandas(frame: Any) -> pa.Table:
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    try:
        return pa.Table.from_pandas(frame.reset_index(level=named) if named else frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidType(
            f"Create cannot take the rows of this DataFrame: {error}",
            hint="make the values of each column one type, or pass dm.Create(list(frame.itertuples(index=False)))",
        ) from error
