"""DataFrames as sources; what is checked needs the DataFrame's schema only, so no Spark session runs here."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from pyspark.sql.types import DoubleType, LongType, StructType, TimestampType

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io import ReadDataFrame
from dataflow_model.plan.endpoints.program_sources import DataFrameSource
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.transforms.pipelines.pipeline import Pipeline


@attrs.frozen
class Frame:
    schema: StructType
    isStreaming: bool = True  # noqa: N815 - Spark's name


FRAME = Frame(
    StructType()
    .add("at", TimestampType())
    .add("offset", LongType())
    .add("fare", DoubleType())
    .add("place", StructType().add("row", LongType()))
)


def test_a_dataframe_becomes_a_source_of_typed_rows() -> None:
    rows = Pipeline() | ReadDataFrame(FRAME, event_time="at", origin="at", sequence="offset")
    assert rows.element_type._fields == ("at", "offset", "fare", "place")
    node = rows.pipeline.plan().nodes[0]
    assert isinstance(node, Read)
    source = node.source
    assert isinstance(source, DataFrameSource)
    assert not source.is_bounded
    assert (source.origin, source.sequence) == ("at", "offset")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_time": "when"}, "`event_time` names the column 'when', which does not exist"),
        ({"event_time": "fare"}, "'fare' has type double, which cannot hold instants"),
        ({"event_time": "at", "origin": "topic"}, "`origin` names the column 'topic'"),
        ({"event_time": "at", "sequence": "place"}, "`sequence` column 'place' has type struct<row: int64>, whose"),
        (
            {"event_time": "at", "processing_time": "at"},
            "a replay clock on a streaming DataFrame needs",
        ),
    ],
)
def test_columns_that_a_dataframe_lacks_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ReadDataFrame(FRAME, **options)


def test_a_value_that_is_not_a_dataframe_is_refused() -> None:
    with pytest.raises(InvalidType, match="ReadDataFrame takes a Spark DataFrame, got list"):
        ReadDataFrame([1], event_time="at")
