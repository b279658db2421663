"""Bad input, in a stream in process and on Spark: errors say where, what and how to go on."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run, start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

EVERYWHERE = on_hosts("process", "batch", slow=("streaming",))
IN_PROCESS = on_hosts("process", slow=("batch", "streaming"))
STREAMS = on_hosts("process", slow=("streaming",))
STREAM_OF_SPARK = on_hosts("process", "streaming")
"""A checkpoint is opened before Spark has anything to do."""

BY_ZERO = "division by zero" if sys.version_info >= (3, 14) else "integer division or modulo by zero"
WAY_OUT = r"Hint: [^\n]*(\nSpark's own error, with its stack: \S+)?"


@pytest.fixture
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Return what makes the runner of a host, for as many rows in a micro-batch."""
    return lambda host, rows=1_000: runner_on(host, request, tmp_path / "checkpoint", max_rows_per_batch=rows)


def write(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def row(number: int, **other: Any) -> dict[str, Any]:
    return {"at": number, "seen": number, "carrier": "UA", "delay": number, **other}


def departures(folder: Path) -> dm.io.ReadParquet:
    return dm.io.ReadParquet(folder, event_time="at", processing_time="seen")


def summing(folder: Path, pair: Callable[[Any], Any]) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(folder)
        _ = rows | "pair" >> dm.Map(pair) | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()

    return build


def carrier_and_delay(row: Any) -> Any:
    return row.carrier, row.delay


def values(result: Any, label: str = "kept") -> list[Any]:
    return [record.value for record in result.collected(label)]


# Files.


@EVERYWHERE
def test_a_corrupt_file_is_named(runner: Callable[..., Any], tmp_path: Path, host: str) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    (tmp_path / "rows" / "b.parquet").write_text("this is no Parquet")
    with pytest.raises(
        dm.SourceError, match=r"(?s)^[^\n]*b\.parquet is not a readable Parquet file: .*\nHint: rewrite or remove"
    ):
        run(runner(host), summing(tmp_path / "rows", carrier_and_delay))


@STREAMS
def test_rows_before_a_damaged_file_are_committed_and_the_rest_once_it_is_repaired(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at")
        _ = rows | "delays" >> dm.Map(lambda row: row.delay) | "kept" >> dm.io.Collect()

    write(tmp_path / "rows" / "a.parquet", row(1), row(2))
    many = pa.table({name: list(range(20_000)) for name in ("at", "seen", "delay")})
    many = many.add_column(2, "carrier", pa.array(["UA"] * 20_000))
    pq.write_table(many, tmp_path / "rows" / "b.parquet", write_page_checksum=True)
    whole = (tmp_path / "rows" / "b.parquet").read_bytes()
    damaged = bytearray(whole)
    damaged[60:4_000] = bytes(3_940)
    (tmp_path / "rows" / "b.parquet").write_bytes(damaged)
    result = start(runner(host, rows=2), build)
    with pytest.raises(dm.SourceError, match=r"^.*b\.parquet cannot be read at row 0 or after"):
        result.wait_until_finish()
    assert result.state is dm.RunnerState.FAILED
    assert values(result) == [1, 2]

    (tmp_path / "rows" / "b.parquet").write_bytes(whole)
    mended = run(runner(host, rows=50_000), build)
    assert values(mended) == [1, 2, *range(20_000)]


@IN_PROCESS
def test_a_row_without_event_time_stops_the_run_with_file_row_and_way_out(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1), row(2, at=None), row(3))
    with pytest.raises(
        dm.SourceError,
        match=r"(?s)^'departures' cannot read row 1 of a\.parquet: column 'at' is null: the row has no event.*Hint: ",
    ):
        run(runner(host), summing(tmp_path / "rows", carrier_and_delay))


@IN_PROCESS
def test_rows_without_event_time_or_of_another_type_go_to_the_dead_letters(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows, dead = p | "departures" >> departures(tmp_path / "rows").with_exception_handling()
        _ = rows | "pair" >> dm.Map(carrier_and_delay) | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()
        _ = dead | "dead" >> dm.io.Collect()

    bad = {3: "soon", 6: None, 9: "later"}
    rows = [row(number, at=bad.get(number, f"2013-01-01T00:00:0{number}Z")) for number in range(1, 10)]
    write(tmp_path / "rows" / "a.parquet", *rows)
    result = run(runner(host, rows=4), build)
    assert values(result) == [("UA", 1 + 2 + 4 + 5 + 7 + 8)]
    dead = values(result, "dead")
    assert [letter.element["delay"] for letter in dead] == [3, 6, 9]
    assert (
        dead[0].reason
        == "a.parquet, row 2: column 'at' holds 'soon', which is not an instant: the row has no event time"
    )
    assert dead[1].reason == "a.parquet, row 5: column 'at' is null: the row has no event time"
    assert {letter.label for letter in dead} == {"departures"}


def test_a_file_of_other_types_is_named_before_anything_is_read(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    write(tmp_path / "rows" / "b.parquet", row(2, delay="late"))
    with pytest.raises(
        dm.SourceError, match=r"b\.parquet does not have the expected schema: .*'delay' is string, not int64"
    ):
        run(dm.SparkRunner(spark), summing(tmp_path / "rows", carrier_and_delay))


def test_an_unknown_column_is_refused_with_the_existing_ones(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    with pytest.raises(
        dm.InvalidArgument, match=r"(?s)`event_time` names the column 'when', which does not exist.*carrier"
    ):
        _ = dm.Pipeline(runner=dm.SparkRunner(spark)) | dm.io.ReadParquet(tmp_path / "rows", event_time="when")


@IN_PROCESS
def test_a_missing_field_of_a_row_is_reported_as_an_error_of_the_users_code(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    with pytest.raises(dm.UserCodeError, match=r"^AttributeError: .*'gate'\n.*row\.gate"):
        run(runner(host), summing(tmp_path / "rows", lambda row: (row.gate, row.delay)))


# The user's own code.


class Divide(dm.DoFn):
    def process(self, element: Any) -> Any:
        yield "UA", 60 // element.delay


@EVERYWHERE
def test_an_exception_of_a_dofn_is_reported_with_its_line_label_and_element(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(tmp_path / "rows")
        _ = rows | "per hour" >> dm.ParDo(Divide()) | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()

    write(tmp_path / "rows" / "a.parquet", row(1), row(2, delay=0), row(3))
    with pytest.raises(dm.UserCodeError) as raised:
        run(runner(host), build)
    first, *others = str(raised.value).splitlines()
    assert first == f"ZeroDivisionError: {BY_ZERO}"
    assert others[0].startswith('  in: yield "UA", 60 // element.delay')
    assert others[1] == "  transform: 'per hour'"
    assert others[2].startswith("  element: Row(at=2")
    assert others[3].startswith("Hint: add .with_exception_handling()")
    assert len(others) == 4


@EVERYWHERE
def test_only_elements_for_which_a_dofn_raises_become_dead_letters(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(tmp_path / "rows")
        good, dead = rows | "per hour" >> dm.ParDo(Divide()).with_exception_handling()
        _ = good | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()
        _ = dead | "dead" >> dm.io.Collect()
        grouped = rows | "pair" >> dm.Map(carrier_and_delay) | "counts" >> dm.Count.per_key()
        raising = grouped | "after the grouping" >> dm.Map(lambda pair: 1 // (pair[1] - 4)).with_exception_handling()
        _ = raising[1] | "dead behind" >> dm.io.Collect()

    write(tmp_path / "rows" / "a.parquet", row(1), row(2, delay=0), row(3), row(4, delay=0))
    result = run(runner(host, rows=2), build)
    assert values(result) == [("UA", 80)]
    dead = values(result, "dead")
    assert [(letter.label, letter.element.at) for letter in dead] == [("per hour", 2), ("per hour", 4)]
    assert {letter.reason for letter in dead} == {f"ZeroDivisionError: {BY_ZERO}"}
    assert 'yield "UA", 60 // element.delay' in dead[0].traceback
    assert [letter.element for letter in values(result, "dead behind")] == [("UA", 4)]


@STREAMS
def test_an_exception_after_a_grouping_is_reported_with_line_label_and_element(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(tmp_path / "rows")
        summed = rows | "pair" >> dm.Map(carrier_and_delay) | "sums" >> dm.Sum.per_key()
        _ = summed | "share" >> dm.Map(lambda pair: 1 // (pair[1] - 3)) | "kept" >> dm.io.Collect()

    write(tmp_path / "rows" / "a.parquet", row(1), row(2))
    with pytest.raises(
        dm.UserCodeError,
        match=rf"^ZeroDivisionError: .*\n  in: .*share.*\n  transform: 'share'\n  element: \('UA', 3\)\n{WAY_OUT}$",
    ):
        run(runner(host), build)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ({"a"}, "got {'a'} of type set"),
        ({"a": 1}, "got {'a': 1} of type dict"),
        (float("nan"), "a key may not be the float NaN"),
    ],
    ids=["set", "dict", "nan"],
)
@IN_PROCESS
def test_a_key_that_cannot_be_encoded_is_reported_with_the_element(
    runner: Callable[..., Any], tmp_path: Path, host: str, key: Any, said: str
) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    match = rf"(?s)^[^\n]*{re.escape(said)}.*\n  transform: 'sums'\n  element: \(.*, 1\)\n{WAY_OUT}$"
    with pytest.raises(dm.UserCodeError, match=match):
        run(runner(host), summing(tmp_path / "rows", lambda row: (key, row.delay)))


# Sinks.


@IN_PROCESS
def test_a_sink_that_cannot_be_written_is_refused_before_anything_is_read(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    (tmp_path / "taken").write_text("a file")

    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(tmp_path / "rows")
        _ = rows | "pair" >> dm.Map(carrier_and_delay) | "written" >> dm.io.WriteParquet(tmp_path / "taken" / "out")

    write(tmp_path / "rows" / "a.parquet", row(1))
    with pytest.raises(dm.SinkError, match=r"(?s)'written'.*taken.*Hint: "):
        start(runner(host), build)
    assert not (tmp_path / "checkpoint").exists()


@STREAMS
def test_a_micro_batch_whose_sink_failed_is_published_by_the_next_run(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    switch = tmp_path / "the disk is full"
    got = tmp_path / "got.jsonl"

    def write_down(values: list[Any]) -> None:
        if switch.exists() and 3 in values:
            raise OSError("no space left")
        with got.open("a") as file:
            file.write(json.dumps(values) + "\n")

    def build(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(tmp_path / "rows")
        _ = rows | dm.Map(lambda row: row.delay) | "written down" >> dm.io.ForeachBundle(write_down)

    write(tmp_path / "rows" / "a.parquet", *map(row, range(1, 7)))
    switch.touch()
    with pytest.raises(
        dm.UserCodeError,
        match=r"(?s)OSError: no space left.*'written down'.*Hint: this commit does not count as written",
    ):
        run(runner(host, rows=2), build)
    switch.unlink()
    run(runner(host, rows=2), build)
    assert [json.loads(line) for line in got.read_text().splitlines()] == [[1, 2], [3, 4], [5, 6]]


# Checkpoints.


@STREAMS
def test_a_checkpoint_of_another_pipeline_is_refused_with_the_names_of_the_differences(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    def counting(p: dm.Pipeline) -> None:
        rows = p | "departures" >> departures(tmp_path / "rows")
        windowed = rows | "pair" >> dm.Map(carrier_and_delay) | dm.Window.into(dm.FixedWindows(10))
        _ = windowed | "counts" >> dm.Count.per_key() | "kept" >> dm.io.Collect()

    write(tmp_path / "rows" / "a.parquet", row(1))
    build = summing(tmp_path / "rows", carrier_and_delay)
    run(runner(host), build)
    with pytest.raises(dm.CheckpointMismatch) as raised:
        start(runner(host), counting)
    message = str(raised.value)
    assert "was made by another pipeline" in message
    assert "'counts' takes the place of 'sums', which was: " in message
    assert message.count("FixedWindows(") <= 2, "only what differs is shown"
    assert "'pair'" not in message
    assert "\nHint: restore the old pipeline; or stop the run, carry over the state that has not changed" in message
    assert "--drop discards the state of 'sums': to keep it, keep the label" in message
    command = f"dataflow-model upgrade {tmp_path / 'checkpoint'} {tmp_path / 'checkpoint'}-2 --drop sums"
    assert message.splitlines()[-1].strip() == command
    assert values(run(runner(host), build)) == [("UA", 1)]


@STREAM_OF_SPARK
def test_a_checkpoint_directory_of_another_program_is_refused(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    (tmp_path / "checkpoint" / "spark").mkdir(parents=True)
    with pytest.raises(
        dm.CheckpointMismatch, match=r"that was not written by dataflow_model\nHint: pass a separate directory"
    ):
        start(runner(host), summing(tmp_path / "rows", carrier_and_delay))


@STREAM_OF_SPARK
def test_a_checkpoint_whose_record_of_the_run_cannot_be_read_is_refused(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    (tmp_path / "checkpoint" / "dataflow").mkdir(parents=True)
    (tmp_path / "checkpoint" / "dataflow" / "run.json").write_text("{cut of")
    with pytest.raises(dm.StateCorruption, match=r"run\.json' is damaged.*\nHint: "):
        start(runner(host), summing(tmp_path / "rows", carrier_and_delay))


@STREAM_OF_SPARK
def test_another_spark_querys_checkpoint_is_refused(runner: Callable[..., Any], tmp_path: Path, host: str) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    for name in ("offsets", "commits", "metadata"):
        (tmp_path / "checkpoint" / name).mkdir(parents=True)
    with pytest.raises(dm.CheckpointMismatch, match="that was not written by dataflow_model"):
        start(runner(host), summing(tmp_path / "rows", carrier_and_delay))


@STREAM_OF_SPARK
def test_a_checkpoint_directory_that_cannot_be_created_is_reported(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    write(tmp_path / "rows" / "a.parquet", row(1))
    (tmp_path / "checkpoint").write_text("a file")
    with pytest.raises(dm.SinkError, match=r"checkpoint directory '.*' cannot be written: .*\nHint: pass another"):
        start(runner(host), summing(tmp_path / "rows", carrier_and_delay))
