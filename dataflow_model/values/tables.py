"""Results as a table that other libraries can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.display import MOST_ROWS, html_table
from dataflow_model.errors import InvalidType, PlanError, explain, shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_INSTEAD: Final = "use table.to_pandas(), table.to_polars() or table.arrow, which have the methods of their libraries"


@attrs.frozen(eq=False, repr=False)
class Table:
    """Collected records as columns, returned by `result.table(label)`.

    Any library that reads Arrow data accepts it, for example `pyarrow.table(table)`, `polars.DataFrame(table)` or
    DuckDB.

    Attributes:
        arrow: the columns as a `pyarrow.Table`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("UA", 4), ("AA", 2)]) | "delays" >> dm.io.Collect()
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> result.table("delays")
        Table(2 rows: key: string, value: int64)
        >>> result.table("delays").to_pandas()["value"].sum()
        np.int64(6)
    """

    arrow: pa.Table

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.arrow.schema)
        return f"Table({len(self)} row{'' if len(self) == 1 else 's'}: {columns})"

    def _repr_html_(self) -> str:
        names = [f"{field.name}\n{field.type}" for field in self.arrow.schema]
        first = self.arrow.slice(0, MOST_ROWS)
        rows = zip(*(column.to_pylist() for column in first.columns), strict=True)
        size = f"{len(self):,} row{'' if len(self) == 1 else 's'}, {len(names)} column{'' if len(names) == 1 else 's'}"
        return html_table("", names, rows, total=len(self), notes=[size])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the columns to another library without copying them (Arrow's PyCapsule interface)."""
        return self.arrow.__arrow_c_stream__(requested_schema)

    if not TYPE_CHECKING:  # for a type checker, each missing name is an error

        def __getattr__(self, name: str) -> Any:
            """Raise an error that says how to get a table with the methods of another library."""
            raise AttributeError(explain(f"'Table' has no attribute {name!r}", hint=_INSTEAD))

        def __getitem__(self, index: object) -> Any:
            raise InvalidType(f"a Table has no items, got table[{shown(index)}]", hint=_INSTEAD)

    def to_pandas(self) -> pd.DataFrame:
        """Return the records as a pandas DataFrame."""
        frame: pd.DataFrame = self.arrow.to_pandas()
        return frame

    def to_polars(self) -> Any:
        """Return the records as a Polars DataFrame.

        Raises:
            PlanError: if Polars is not installed.
        """
        try:
            import polars as pl  # type: ignore[import-not-found, unused-ignore]  # not a dependency
        except ImportError as error:
            raise PlanError(
                "a Polars DataFrame needs Polars, which is not installed", hint="run pip install polars"
            ) from error
        return pl.from_arrow(self.arrow)
