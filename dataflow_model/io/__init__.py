"""Sources and sinks: files, tables, DataFrames, databases, Kafka, functions and lists.

Begin with `read` and `write`, the transforms that users call. `listing` finds files, `files` reads them, in the formats
of `text`, `csv`, `json` and `parquet`; `sinks` writes files, `tables` databases.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dataflow_model.io.again import ReadAgain
from dataflow_model.io.dataframes import ReadDataFrame
from dataflow_model.io.events import source
from dataflow_model.io.generated import GenerateSequence, PeriodicImpulse
from dataflow_model.io.read import ReadCsv, ReadJson, ReadParquet, ReadText
from dataflow_model.io.table_source import ReadTable
from dataflow_model.io.then import Then
from dataflow_model.io.topics.read import ReadKafka
from dataflow_model.io.topics.write import WriteKafka
from dataflow_model.io.write import (
    Collect,
    ForeachBundle,
    ToDataFrame,
    WriteCsv,
    WriteJson,
    WriteParquet,
    WriteTable,
    WriteText,
)
from dataflow_model.plan.columns.type_schemas import schema_from_type
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Changes, Origin, OriginPosition
from dataflow_model.plan.names.spellings import unknown

__all__ = [
    "Changes",
    "Collect",
    "ColumnSource",
    "ForeachBundle",
    "GenerateSequence",
    "Origin",
    "OriginPosition",
    "PeriodicImpulse",
    "ReadAgain",
    "ReadCsv",
    "ReadDataFrame",
    "ReadJson",
    "ReadKafka",
    "ReadParquet",
    "ReadTable",
    "ReadText",
    "Then",
    "ToDataFrame",
    "WriteCsv",
    "WriteJson",
    "WriteKafka",
    "WriteParquet",
    "WriteTable",
    "WriteText",
    "schema_from_type",
    "source",
]

if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> NoReturn:
        """Raise the error for a name that is missing, with our spelling of a well-known one."""
        raise unknown(__name__, name, sys.modules[__name__])
