"""Tables of other libraries as rows; none of the libraries is imported here, since the table's own is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.errors import InvalidType
from dataflow_model.plan.columns.rows import check_names, rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows_of_table(source: Any) -> Iterator[Any] | None:
    """Return the rows of a table as named tuples, or the values of an Arrow array or series; otherwise `None`.

    Raises:
        InvalidType: for a column that Arrow cannot hold, and for a DataFrame that is not in memory.
        InvalidArgument: for two columns of one name.

    Example:
        >>> list(rows_of_table(pa.table({"carrier": ["UA", "AA"], "delay": [4, None]})))
        [Row(carrier='UA', delay=4), Row(carrier='AA', delay=None)]
        >>> rows_of_table([1, 2]) is None
        True
    """
    table = arrow_table(source, "Create")
    if table is not None:
        return (row for batch in table.to_batches() for row in rows_of(batch))
    if isinstance(source, pa.Array):
        return iter(values_of(source))
    if hasattr(source, "__arrow_c_stream__"):
        return (value for chunk in pa.chunked_array(source).chunks for value in values_of(chunk))
    return None


def arrow_table(source: Any, name: str) -> pa.Table | None:
    """Return a table of another library as an Arrow table; `None` for a value that is not a table.

    A pandas index with a name is a column; one without is left out. NaN in a column of pandas is null.

    Args:
        source: a DataFrame of pandas or Polars, a table or batches of Arrow, or anything with its PyCapsule interface.
        name: the transform that takes it, for errors.

    Raises:
        InvalidType: for a column that Arrow cannot hold, and for a DataFrame that is not in memory.
    """
    match _library_of(source):
        case "pandas":
            return _from_pandas(source, name)
        case "polars" if hasattr(source, "collect"):
            raise InvalidType(f"{name} takes data in memory, got a LazyFrame", hint=f"write {name}(frame.collect())")
        case "polars":
            table: pa.Table = source.to_arrow()
            return table
        case "pyspark":
            raise InvalidType(
                f"{name} takes values of the program, got a Spark DataFrame",
                hint="read it with dm.io.ReadDataFrame(df, …)",
            )
        case _ if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source])
        case _ if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.ChunkedArray):
            try:
                return pa.table(source)
            except (pa.ArrowException, TypeError, ValueError):  # a series
                return None
        case _:
            return None


def _library_of(source: Any) -> str | None:
    """Return the library of a DataFrame, by the names of its classes."""
    names = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__]
    return next((library for library, name in names if name in {"DataFrame", "LazyFrame"}), None)


def _from_pandas(frame: Any, name: str) -> pa.Table:
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    names = [str(name) for name in (*(frame.index.names[level] for level in named), *frame.columns)]
    check_names(names, "rename the columns, or the index, so that each name is there once")
    try:
        return pa.Table.from_pandas(frame.reset_index(level=named) if named else frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeError) as error:
        raise InvalidType(
            f"{name} cannot take the rows of this DataFrame: {error}",
            hint="make the values of each column one type, or pass dm.Create(list(frame.itertuples(index=False)))",
        ) from error
