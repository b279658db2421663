"""A source of a user's has every capability of the built-in ones: it declares how it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from tests.support.micro_batches import Streamed
from tests.support.pipelines import run, streaming

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.watermarks.estimators import Arrival
    from dataflow_model.time import DurationLike

COLUMNS = pa.schema({"at": pa.int64(), "seen": pa.int64(), "sensor": pa.string(), "value": pa.int64()})


@attrs.frozen(kw_only=True, eq=False)
class Sensors(ColumnSource):
    """Readings of sensors, one every microsecond.

    Attributes:
        there: how many readings of each sensor there are by now.
        read_columns: what is read; `None` for all.
    """

    is_typed: ClassVar[bool] = True
    there: dict[str, int]
    event_time: str | Arrival | None = "at"
    processing_time: str | None = None
    is_bounded: bool = True
    poll_interval: DurationLike | None = None
    read_columns: tuple[str, ...] | None = None

    def origins(self) -> list[Origin]:
        return [Origin(name, rows) for name, rows in sorted(self.there.items())]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        rows = [
            {"at": number, "seen": number, "sensor": origin, "value": number}
            for number in range(start, self.there[origin] if stop is None else stop)
        ]
        yield pa.RecordBatch.from_pylist(rows, COLUMNS).select(self.schema().names)

    def schema(self) -> pa.Schema:
        wanted = {"at", "seen", *(COLUMNS.names if self.read_columns is None else self.read_columns)}
        return pa.schema([field for field in COLUMNS if field.name in wanted])

    def project(self, columns: Collection[str]) -> Sensors:
        return attrs.evolve(self, read_columns=tuple(columns))


class Uncounted(Sensors):
    """Sensors that do not know how many readings there are."""

    def origins(self) -> list[Origin]:
        return [Origin(name, None) for name in sorted(self.there)]


@attrs.frozen(kw_only=True, eq=False)
class Listed(Sensors):
    """Sensors that list what they should not."""

    listing: list[Any] = attrs.field(factory=list)

    def origins(self) -> list[Origin]:
        return self.listing


class Unending(Sensors):
    """Sensors that give a reading more than was asked for."""

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        yield from super().read(origin, start, None if stop is None else stop + 1)


class Forgetful(Sensors):
    """Sensors that give a reading less than was asked for."""

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        yield from super().read(origin, start, None if stop is None else stop - 1)


def sums(p: dm.Pipeline, source: Sensors) -> None:
    rows = p | dm.Read(source) | dm.Window.into(dm.FixedWindows("10 microseconds"))
    _ = rows | dm.WithKeys("sensor", value="value") | dm.Sum.per_key() | "sums" >> dm.io.Collect()


def values(records: list[Any]) -> list[tuple[str, int]]:
    return sorted(record.value for record in records)


def test_a_users_bounded_source_is_read_in_process_with_a_clock_or_without() -> None:
    for clock in (None, "seen"):
        with dm.Pipeline(runner=dm.LocalRunner()) as p:
            sums(p, Sensors(there={"a": 12, "b": 3}, processing_time=clock))
        assert p.result is not None
        assert values(p.result.collected("sums")) == [("a", 21), ("a", 45), ("b", 3)]


def test_a_users_unbounded_source_is_followed_as_it_grows(tmp_path: Path) -> None:
    there = {"a": 12}
    streamed = Streamed(lambda p: sums(p, Sensors(there=there, is_bounded=False)), tmp_path)
    source = streamed.program.staged.sources[0].source.as_columns
    assert isinstance(source, Sensors)
    streamed.step()
    streamed.step()
    assert values(streamed.collected("sums")) == [("a", 45)]
    source.there.update({"a": 25, "b": 23})
    streamed.step()
    streamed.step()
    assert values(streamed.collected("sums")) == [("a", 45), ("a", 145), ("b", 145)]
    streamed.step(drain=True)
    assert values(streamed.collected("sums")) == [("a", 45), ("a", 110), ("a", 145), ("b", 63), ("b", 145)]


def check_uncounted(runner: dm.LocalRunner | dm.SparkRunner) -> None:
    result = run(runner, lambda p: sums(p, Uncounted(there={"a": 12, "b": 0, "c": 3})))
    assert values(result.collected("sums")) == [("a", 21), ("a", 45), ("c", 3)]


def test_origins_of_unknown_size_are_read_to_their_ends_in_process(tmp_path: Path) -> None:
    for runner in (dm.LocalRunner(), dm.LocalRunner(workers=2), dm.LocalRunner(checkpoint=str(tmp_path))):
        check_uncounted(runner)
    assert Uncounted(there={"a": 12}).row_count() is None
    assert Sensors(there={"a": 12, "b": 3}).row_count() == 15


def test_origins_of_unknown_size_are_read_to_their_ends_by_a_job_on_spark(spark: SparkSession) -> None:
    check_uncounted(dm.SparkRunner(spark, mode="batch"))


@pytest.mark.slow
def test_origins_of_unknown_size_are_read_to_their_ends_by_a_stream_on_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    check_uncounted(streaming(spark, tmp_path / "checkpoint"))


def test_an_origin_of_unknown_size_that_is_followed_is_refused_by_name(tmp_path: Path) -> None:
    runner = dm.LocalRunner(checkpoint=str(tmp_path))
    with pytest.raises(
        dm.SourceError, match=r"the origin 'a' of an unbounded source has no number of rows\nHint: list"
    ):
        run(runner, lambda p: sums(p, Uncounted(there={"a": 12}, is_bounded=False)))


@pytest.mark.parametrize(
    ("runner", "is_bounded"),
    [
        pytest.param(lambda _: dm.LocalRunner(), True, id="in process"),
        pytest.param(lambda _: dm.LocalRunner(workers=2), True, id="workers"),
        pytest.param(lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"), True, id="stream"),
        pytest.param(lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"), False, id="followed"),
    ],
)
@pytest.mark.parametrize(
    ("listing", "problem"),
    [
        ([Origin("a", 5), Origin("a", 5)], "Listed lists two origins named 'a'"),
        ([Origin("a", -1)], "the number of rows of the origin 'a' must not be -1"),
        ([Origin("a", 5.0)], "the number of rows of the origin 'a' must not be 5.0"),  # type: ignore[arg-type]
        ([Origin(7, 5)], "Listed must list origins whose names are text, got Origin"),  # type: ignore[arg-type]
        (["a"], "Listed must list origins whose names are text, got 'a'"),
    ],
)
def test_a_value_that_is_not_a_list_of_origins_is_rejected(
    tmp_path: Path, runner: Callable[[Path], dm.LocalRunner], is_bounded: bool, listing: list[Any], problem: str
) -> None:
    source = Listed(there={"a": 12}, is_bounded=is_bounded, listing=listing)
    with pytest.raises(dm.DataflowError, match=f"{problem}.*\nHint: "):
        run(runner(tmp_path), lambda p: sums(p, source))


@pytest.mark.parametrize(
    "runner",
    [
        pytest.param(lambda _: dm.LocalRunner(workers=2), id="workers"),
        pytest.param(lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"), id="stream"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Unending, "'Read' was asked for rows 0 to .* of [ab], but read rows 0 to "),
        (Forgetful, "'Read' read .* rows of [ab], which had at least .* when it was listed"),
    ],
)
def test_a_source_that_reads_other_rows_than_it_was_asked_for_stops_the_run(
    tmp_path: Path, runner: Callable[[Path], dm.LocalRunner], kind: type[Sensors], problem: str
) -> None:
    with pytest.raises(dm.DataflowError, match=f"{problem}.*\nHint: "):
        run(runner(tmp_path), lambda p: sums(p, kind(there={"a": 12, "b": 12})))


@attrs.frozen(kw_only=True, eq=False)
class Paged(Sensors):
    """A source whose origins have a cursor."""

    cursor: Any

    def origins(self) -> list[Origin]:
        return [origin._replace(cursor=self.cursor) for origin in super().origins()]


@pytest.mark.parametrize("cursor", [{1: 2}, object(), float("inf"), [b"x"]])
def test_a_cursor_that_is_no_json_value_is_an_error_when_it_is_listed(tmp_path: Path, cursor: Any) -> None:
    source = Paged(there={"a": 2}, is_bounded=False, cursor=cursor)
    with pytest.raises(dm.SourceError, match=r"the cursor of a, which '.*' lists, must be a JSON value, got"):
        run(dm.LocalRunner(checkpoint=tmp_path), lambda p: sums(p, source))
