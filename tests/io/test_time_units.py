"""Event times that are whole numbers: their unit, and the numbers that would be in January 1970 without one."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.plan.columns.source_columns import instants
from dataflow_model.plan.columns.time_units import check_unit, in_micros
from dataflow_model.plan.rewrites.sampling import sample_of
from tests.support.pipelines import run, streaming

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.columns.time_units import TimeUnit

MOMENT = dt.datetime(2024, 3, 1, 17, 51, 52, 577_000, tzinfo=dt.UTC)
PER_SECOND: dict[Any, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNITS = pytest.mark.parametrize("unit", PER_SECOND)
KINDS = pytest.mark.parametrize("kind", ["csv", "json", "parquet", "table"])


def reader(folder: Path, kind: str, numbers: list[int | None], **options: Any) -> Any:
    table = pa.table({"at": pa.array(numbers, pa.int64()), "n": range(len(numbers))})
    path = folder / f"a.{kind}"
    options.setdefault("event_time", "at")
    match kind:
        case "csv":
            path.write_text("at,n\n" + "".join(f"{'' if at is None else at},{n}\n" for n, at in enumerate(numbers)))
            return dm.io.ReadCsv(path, **options)
        case "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
            return dm.io.ReadJson(path, **options)
        case "parquet":
            pq.write_table(table, path)
            return dm.io.ReadParquet(path, **options)
        case _:
            return dm.io.ReadTable(table, **options)


def times(read: Any) -> list[dt.datetime]:
    with dm.Pipeline() as p:
        rows, bad = p | read.with_exception_handling()
        _ = rows | "rows" >> dm.io.Collect(), bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    return [record.event_time.to_datetime() for record in p.result.collected("rows")]


@KINDS
@UNITS
def test_whole_numbers_are_event_times_in_the_given_unit(tmp_path: Path, kind: str, unit: TimeUnit) -> None:
    number = int(MOMENT.timestamp() * 1_000) * PER_SECOND[unit] // 1_000
    read = reader(tmp_path, kind, [number, None, number + PER_SECOND[unit]], event_time_unit=unit)
    first = MOMENT.replace(microsecond=0) if unit == "s" else MOMENT
    assert times(read) == [first, first + dt.timedelta(seconds=1)]


@KINDS
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_missing_event_time_unit_is_detected_and_named_in_the_hint(tmp_path: Path, kind: str, unit: TimeUnit) -> None:
    number = int(MOMENT.timestamp()) * PER_SECOND[unit]
    message = (
        rf"`event_time` column 'at' holds {number}, .* January 1970\nHint: pass event_time_unit='{unit}' for 2024-03"
    )
    with pytest.raises(dm.InvalidArgument, match=message):
        reader(tmp_path, kind, [number, None, number])
    with pytest.raises(dm.InvalidArgument, match=r"`processing_time` column 'at' .* January 1970"):
        reader(tmp_path, kind, [number], event_time="n", processing_time="at")
    assert times(reader(tmp_path, kind, [number], event_time_unit="us"))[0].year == 1970


@pytest.mark.parametrize(
    "numbers",
    [
        [1, 2, 3],
        [0, 3_600_000_000],
        [1_709_315_512_577_000],
        [-5],
        [None],
        [],
        [0, 60_000_000, 2**40],
        [1_000_000_000],
        [3_600_000_000],
    ],
)
def test_numbers_that_suggest_no_other_unit_are_microseconds(numbers: list[int | None]) -> None:
    check_unit(pa.array(numbers, pa.int64()), "at", "event_time")


def test_round_numbers_of_recent_years_are_recognised_as_seconds() -> None:
    for number, unit in ((1_700_000_000, "s"), (1_700_000_000_000, "ms")):
        with pytest.raises(dm.InvalidArgument, match=f"event_time_unit='{unit}'"):
            check_unit(pa.array([number]), "at", "event_time")


def test_some_unknown_times_do_not_hide_a_missing_unit() -> None:
    with pytest.raises(dm.InvalidArgument, match="event_time_unit='ms'"):
        check_unit(pa.array([0, *[1_709_315_512_577] * 50]), "at", "event_time")


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=5), st.sampled_from(list(PER_SECOND)))
def test_times_in_a_unit_are_converted_exactly_or_unknown(numbers: list[int | None], unit: TimeUnit) -> None:
    micros, known = instants(pa.array(numbers, pa.int64()), unit)
    for index, number in enumerate(numbers):
        exact = None if number is None else number * 10**6 // PER_SECOND[unit]
        is_known = known is None or bool(known[index])
        if number is not None and -(2**63) < number < 2**63 - 1 and exact is not None and abs(exact) < 2**63 - 10**6:
            assert is_known
        if is_known:
            assert int(micros[index]) == exact


def test_a_number_beyond_64_bits_of_microseconds_is_no_time() -> None:
    micros, known = in_micros(np.array([2**62, 5]), None, "s")
    assert known is not None
    assert (micros.tolist(), known.tolist()) == ([0, 5_000_000], [False, True])


@pytest.mark.parametrize("unit", ["m", 1, "S"])
def test_an_unknown_event_time_unit_is_rejected(tmp_path: Path, unit: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match="`event_time_unit` must be 's', 'ms', 'us' or 'ns', got"):
        reader(tmp_path, "csv", [1], event_time_unit=unit)


def test_a_unit_of_a_column_that_holds_no_whole_numbers_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at\n2013-01-01\n")
    with pytest.raises(
        dm.InvalidArgument, match=r"of a time column of whole numbers, but 'at' is date32.*\nHint: leave"
    ):
        dm.io.ReadCsv(tmp_path, event_time="at", event_time_unit="s")
    with pytest.raises(dm.InvalidArgument, match="of a time column of whole numbers, but there is none"):
        dm.io.ReadCsv(tmp_path, event_time=None, event_time_unit="s")


def test_the_replay_clock_has_the_same_unit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,seen\n100,1000\n101,\n102,1002\n103,1001\n")
    source = CsvSource(paths=tmp_path, event_time="at", processing_time="seen", event_time_unit="s").bound()
    assert source.clock_near("a.csv", 1) == 1_000_000_000
    with pytest.raises(dm.SourceError, match=r"goes backward from 1002 to 1001 at line 5"):
        list(source.read("a.csv", 0, None))
    [batch] = source.read("a.csv", 0, 3)
    clock = source.columns_of(batch).clock
    assert clock is not None
    assert clock.tolist() == [1_000_000_000, 1_000_000_000, 1_002_000_000]


def test_the_replay_clock_of_a_sample_is_converted_from_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("at,n\n1709315512,1\nx,2\n1709315514,3\n")
    columns = pa.schema({"at": pa.int64(), "n": pa.int64()})
    read = dm.io.ReadCsv(path, event_time="at", processing_time="at", event_time_unit="s", schema=columns)
    p = dm.Pipeline()
    rows, _ = p | "rows" >> read.with_exception_handling()
    node: Any = sample_of(p.plan(), rows.ref, 5)["rows"]
    assert node.source.as_columns.clock_near("rows.csv", 1) == 1_709_315_512_000_000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_the_times_of_a_dataframe_are_in_the_unit(spark: Any, tmp_path: Path, unit: TimeUnit) -> None:
    seconds = [int(MOMENT.timestamp()) + 60 * n for n in range(3)]
    numbers = [(second * PER_SECOND[unit], n) for n, second in enumerate(seconds)]
    frame = spark.createDataFrame(numbers, "at long, n long")

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadDataFrame(frame, event_time="at", processing_time="at", event_time_unit=unit)
        _ = p | "rows" >> read | dm.Map(lambda row: row.n) | "out" >> dm.io.Collect()

    for runner in (dm.SparkRunner(spark), streaming(spark, tmp_path / "checkpoint", shards=1)):
        records = run(runner, build).collected("out")
        assert sorted((record.value, int(record.event_time)) for record in records) == [
            (n, second * 10**6) for n, second in enumerate(seconds)
        ], runner
