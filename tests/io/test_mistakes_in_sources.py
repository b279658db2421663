"""Mistakes in sources of users: each is an error with the label, what is wrong and the way out, on every host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = pa.schema({"value": pa.int64()})


@attrs.frozen(kw_only=True, eq=False)
class Values(dm.io.ColumnSource):
    """Three rows, unless a mistake is made.

    Attributes:
        batch: what `read` yields; `None` for the rows.
        fails: the method that raises an exception.
    """

    batch: Any = None
    fails: str = ""
    columns: Any = SCHEMA
    event_time = None

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return self.columns

    def origins(self) -> list[dm.io.Origin]:
        """Return one origin of three rows."""
        self._may_fail("origins")
        return [dm.io.Origin("only", 3)]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        self._may_fail("read")
        rows = list(range(start, 3 if stop is None else stop))
        yield pa.record_batch({"value": rows}, schema=SCHEMA) if self.batch is None else self.batch

    def _may_fail(self, method: str) -> None:
        if self.fails == method:
            raise LookupError("no such table")


def build(p: dm.Pipeline, source: Values) -> None:
    _ = p | "meters" >> dm.Read(source) | dm.Map(lambda row: row.value) | "values" >> dm.io.Collect()


RUNNERS = [
    pytest.param(lambda _: dm.LocalRunner(), id="in process"),
    pytest.param(lambda _: dm.LocalRunner(workers=2), id="workers"),
    pytest.param(lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"), id="stream"),
]
MISTAKES = [
    ({"batch": {"value": 1}}, r"'meters' must yield batches of Arrow from read\(\), got {'value': 1} of type dict"),
    (
        {"batch": pa.table({"value": [1, 2, 3]})},
        r"(?s)'meters' must yield batches of Arrow from read\(\), got .* of type Table",
    ),
    (
        {"batch": pa.record_batch({"value": [1.5, 2.5, 3.5]})},
        r"'meters' read column 'value' as double, and its schema says int64",
    ),
    ({"batch": pa.record_batch({"values": [1, 2, 3]})}, r"'meters' read no column 'value', only values"),
    (
        {"batch": pa.record_batch({"value": [1, 2]})},
        r"'meters' (read 2 rows of only, which had at least 3 when it was listed|was asked for rows .* of only, but)",
    ),
    (
        {"fails": "origins"},
        r"(?s)LookupError: no such table\n  in: raise LookupError.*source: 'meters', in its origins\(\)",
    ),
    ({"fails": "read"}, r"(?s)LookupError: no such table\n  in: raise LookupError.*source: 'meters', in its read\(\)"),
]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("mistake", "problem"), MISTAKES)
def test_a_source_that_breaks_its_protocol_is_an_error_with_the_label(
    tmp_path: Path, runner: Callable[[Path], dm.LocalRunner], mistake: dict[str, Any], problem: str
) -> None:
    with pytest.raises(dm.DataflowError, match=problem) as raised:
        run(runner(tmp_path), lambda p: build(p, Values(**mistake)))
    assert "Hint: " in str(raised.value)


@pytest.mark.parametrize(("mistake", "problem"), MISTAKES[2:3] + MISTAKES[5:])
def test_a_source_that_breaks_its_protocol_is_an_error_with_the_label_on_spark(
    spark: SparkSession, mistake: dict[str, Any], problem: str
) -> None:
    with pytest.raises(dm.DataflowError, match=problem):
        run(dm.SparkRunner(spark), lambda p: build(p, Values(**mistake)))


@pytest.mark.parametrize("columns", [{"value": int}, None])
def test_a_schema_that_is_none_is_found_when_the_pipeline_is_built(columns: Any) -> None:
    with pytest.raises(dm.InvalidType, match=r"the schema of 'meters' must be a schema of Arrow, got .*\nHint: "):
        build(dm.Pipeline(), Values(columns=columns))


@attrs.frozen(kw_only=True, eq=False)
class Timed(Values):
    """A source with event times in a column that it does not have."""

    event_time: str | None = "at"  # type: ignore[assignment]


def test_a_column_of_times_that_does_not_exist_is_found_when_the_pipeline_is_built() -> None:
    with pytest.raises(dm.InvalidArgument, match="`event_time` names the column 'at', which does not exist"):
        build(dm.Pipeline(), Timed())


@pytest.mark.parametrize("option", ["poll_interval", "retry_for"])
@pytest.mark.parametrize(("value", "problem"), [("-1 s", "must not be negative"), ("soon", "'soon' is not a duration")])
def test_a_duration_that_is_none_is_found_when_the_pipeline_is_built(option: str, value: str, problem: str) -> None:
    source: Any = type("Mistaken", (Values,), {option: value})()
    with pytest.raises(dm.InvalidArgument, match=problem):
        build(dm.Pipeline(), source)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_source_without_mistakes_is_read(tmp_path: Path, runner: Callable[[Path], dm.LocalRunner]) -> None:
    result = run(runner(tmp_path), lambda p: build(p, Values()))
    assert sorted(record.value for record in result.collected("values")) == [0, 1, 2]
