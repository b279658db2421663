"""The streaming lowering: where its micro-batches are cut changes nothing, sources wait, requests are taken once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.endpoints.program_sources import DataFrameSource
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Read
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.plan.watermarks.origins import WatermarkOrigins
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.runners.sharded.feed.pacing import held_back
from dataflow_model.runners.sharded.state.log import StateLog
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.rows import Kind
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from dataflow_model.runners.spark.dataframes import frame_rows
from dataflow_model.testing import TestStream
from dataflow_model.values.pickles import load
from tests.support.micro_batches import Streamed
from tests.support.pipelines import seen
from tests.support.reference.states import key_state
from tests.support.watermarks.files import BY_TEN, ONCE_95, WHOLE, panes, run, summed, three_files, twenty, write
from tests.support.watermarks.scripts import DAY, EARLY, FIXED, paper_script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


BY_PERCENTILE = BY_TEN.trigger(EARLY)


def same(build: Callable[[dm.Pipeline], Any], folder: Path, rows: int) -> None:
    """Compare micro-batches with LocalRunner, record by record."""
    expected = seen(run(dm.LocalRunner(), build).collected("kept"))
    assert expected
    assert seen(Streamed(build, folder, rows).finish().collected("kept")) == expected


@pytest.mark.parametrize("rows", [7, 50, 1_000])
@pytest.mark.parametrize(
    "options",
    [
        {"watermark_origin": "file"},
        {"watermark_origin": "partition", "partitions": ["x", "y"], "idle_after": "5 seconds"},
        {"watermark_origin": "partition", "weight": "records"},
        {"watermark": dm.AdaptiveLateness(0.1)},
        {"watermark": dm.WallTime("80 seconds")},
        {"watermark": dm.Explicit(lambda row: row.value % 10 == 0)},
    ],
    ids=str,
)
def test_under_a_replay_clock_every_cut_gives_the_same_panes(tmp_path: Path, options: Any, rows: int) -> None:
    three_files(tmp_path / "in")
    same(summed(tmp_path / "in", BY_PERCENTILE, **options), tmp_path, rows)


@pytest.mark.parametrize("rows", [1, 3, 1_000])
def test_a_script_with_percentiles_and_signals_gives_the_same_panes_in_every_cut(tmp_path: Path, rows: int) -> None:
    steps = [
        "e 5@12:00:26",
        "w60 12:02:00",
        "e 7@12:01:00",
        "s now",
        "e 9@12:02:05",
        "s now",
        "w 12:02:00",
        "e 1@12:01:30",
    ]
    trigger = dm.AfterAny(dm.AfterWatermark(percentile=60), dm.AfterSignal("now"))

    def build(pipeline: dm.Pipeline) -> None:
        windowing = FIXED.trigger(dm.Repeatedly(trigger)).allowed_lateness("1 hour")
        sums = pipeline | TestStream.parse(steps, day=DAY, key="k") | windowing | "sum" >> dm.Sum.per_key()
        _ = sums | dm.Window.trigger(dm.Repeatedly(trigger)) | "most" >> dm.Max.per_key() | "kept" >> dm.io.Collect()

    same(build, tmp_path, rows)


@pytest.mark.parametrize("rows", [1, 1_000])
def test_micro_batch_mode_of_a_script_emits_the_panes_of_figure_6g(tmp_path: Path, rows: int) -> None:
    def build(pipeline: dm.Pipeline) -> None:
        _ = pipeline | paper_script() | FIXED | "sum" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()

    expected = seen(run(dm.LocalRunner(mode="microbatch", interval="1 minute"), build).collected("kept"))
    streamed = Streamed(build, tmp_path, rows, interval=dm.duration("1 minute")).finish()
    assert seen(streamed.collected("kept")) == expected


@pytest.mark.parametrize("clock", ["seen", None])
def test_a_run_stops_reading_when_95_percent_of_the_files_are_done(tmp_path: Path, clock: str | None) -> None:
    twenty(tmp_path / "in", straggler=3_000)
    build = summed(tmp_path / "in", WHOLE, processing_time=clock, watermark_origin="file")
    streamed = Streamed(build, tmp_path, rows=60).finish()
    emitted = panes(streamed)
    assert [timing for _, timing, _ in emitted] == ["EARLY"]
    assert streamed.metrics()["rows"]["elements_out"] < 1_000
    if clock:  # the replay clock says what had come by then, however it is cut
        assert emitted == panes(run(dm.LocalRunner(), build))


def far_apart(folder: Path) -> None:
    """Write two partitions, one of which runs through fifty hours while the other gets through half of one."""
    write(folder / "ahead.parquet", [(600 * number, 100, number, "ahead") for number in range(300)])
    write(folder / "behind.parquet", [(6 * number, 100, number, "behind") for number in range(300)])


def most_open(streamed: Streamed) -> int:
    """Return how many windows were open at most after a micro-batch, and run to the end."""
    most = 0
    while not streamed.offset.last:
        streamed.step()
        most = max(most, _open_windows(streamed))
    return most


def _open_windows(streamed: Streamed) -> int:
    open_windows = 0
    for (depth, shard), store in streamed.stores.items():
        log = StateLog(store, f"shard {shard} of stage {depth}")
        log.open()
        entries: dict[Any, Any] = {}
        (node,) = streamed.program.staged.stages[depth - 1]
        for record in log.since("") or []:
            entries.update(log.read(record).entries.get(node.label, {}))
        assert isinstance(node, GroupByKeyAndWindow)
        stored = [StoredKey.unpacked(entry) for entry in entries.values() if entry is not None]
        states = [key_state(node, key.state, takes_back=False) for key in stored]
        open_windows += sum(len(state.cells) + len(state.reopened) for state in states)
    return open_windows


def test_max_skew_bounds_the_state_when_one_partition_is_far_behind(tmp_path: Path) -> None:
    far_apart(tmp_path / "in")
    hourly = dm.Window.into(dm.FixedWindows("1 hour"))
    options = {"processing_time": None, "watermark_origin": "file"}
    free = Streamed(summed(tmp_path / "in", hourly, **options), tmp_path / "free", rows=20)
    bounded = Streamed(summed(tmp_path / "in", hourly, max_skew="2 hours", **options), tmp_path / "bounded", rows=20)
    assert most_open(free) > 40
    assert most_open(bounded) <= 6
    answers = [{(record.value, record.window) for record in result.collected("kept")} for result in (free, bounded)]
    assert answers[0] == answers[1]


def test_max_skew_is_rejected_if_the_whole_source_is_one_origin(tmp_path: Path) -> None:
    far_apart(tmp_path / "in")
    rows: Any = dm.io.ReadParquet(tmp_path / "in", event_time="at", max_skew="2 hours")
    with pytest.raises(dm.InvalidArgument, match=r"one origin, got max_skew='2 hours'\nHint: pass watermark_origin="):
        _ = dm.Pipeline() | rows
    _ = dm.Pipeline() | dm.Injector(rows, partition_by="file")


def test_a_followed_source_with_max_skew_waits_for_a_stalled_partition(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", [(number, 100, number, "a") for number in range(5)])
    write(tmp_path / "in" / "b.parquet", [(10 * number, 100, number, "b") for number in range(300)])
    options: dict[str, Any] = {"processing_time": None, "watermark_origin": "partition", "follow": True}
    build = summed(tmp_path / "in", max_skew="1 minute", partitions=["a", "b"], **options)
    streamed = Streamed(build, tmp_path, rows=10)
    for _ in range(10):
        streamed.step()
    waits_at = streamed.read_of("rows", "b.parquet")
    assert waits_at < 20
    write(tmp_path / "in" / "c.parquet", [(2_000 + number, 100, number, "a") for number in range(5)])
    for _ in range(50):
        streamed.step()
    assert 200 < streamed.read_of("rows", "b.parquet") < 220


@attrs.frozen
class Skewed(Source):
    """A source that waits."""

    watermark_origins: WatermarkOrigins = WatermarkOrigins(by="file", max_skew=dm.Duration(micros=10))  # noqa: RUF009
    is_bounded: bool = True


@pytest.mark.parametrize(("is_bounded", "waits"), [(True, {"b"}), (False, {"a", "b"})])
def test_a_bounded_source_with_max_skew_always_has_a_partition_to_read(is_bounded: bool, waits: set[str]) -> None:
    read = Read(label="rows", source=Skewed(is_bounded=is_bounded))
    committed = {"watermarks": {"rows": 0}, "reach": {"rows": {"a": 50, "b": 60, "c": 70}}}
    held = held_back({"rows": {"a": 4, "b": 4}}, [read], committed)
    assert held == {("rows", origin) for origin in waits}


def test_a_grouping_that_waits_for_a_percentile_is_not_lifted(tmp_path: Path) -> None:
    # Combined before the shuffle it would see the low watermark only.
    twenty(tmp_path / "in", straggler=300)

    def build(pipeline: dm.Pipeline) -> None:
        rows = pipeline | "rows" >> dm.io.ReadParquet(tmp_path / "in", event_time="at", watermark_origin="file")
        hours = dm.Window.into(dm.FixedWindows("1 hour")).trigger(ONCE_95, may_lose_data=True)
        _ = rows | hours | dm.WithKeys("partition", value="value") | dm.Sum.per_key() | "kept" >> dm.io.Collect()

    streamed = Streamed(build, tmp_path, rows=100).finish()
    assert [timing for _, timing, _ in panes(streamed)] == ["EARLY"]


def test_a_dataframe_reports_the_watermark_of_each_of_its_partitions() -> None:
    source = DataFrameSource(
        None, event_time="at", watermark_origins=WatermarkOrigins(by="partition"), is_bounded=False
    )
    pipeline = dm.Pipeline()
    _ = pipeline | "rows" >> dm.Read(source) | dm.Map(lambda row: (row.partition, row.at)) | FIXED | dm.Sum.per_key()
    program = Program(cut_into_stages(pipeline.plan()), {}, (0,), "run").pack().unpack()
    batch = pa.RecordBatch.from_pydict({"at": [5, 9, 7], "partition": [0, 1, 0]})
    rows = list(frame_rows(Task(program, ProcessCache(), 3), "rows", [batch]))
    [(observations, counts)] = [load(row.payload) for row in rows if row.kind == Kind.SEEN]
    assert counts["elements_out"] == 3
    observed = {part.name: (part.greatest.tolist(), part.counts.tolist()) for part in observations.parts}
    assert observed == {"0": ([7], [2]), "1": ([9], [1])}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_skew": "1 hour"}, "Spark reads a DataFrame by itself"),
        ({"watermark_origin": "file"}, "`watermark_origin` names the column 'file'"),
    ],
)
def test_a_dataframe_refuses_options_that_only_files_have(options: dict[str, Any], said: str) -> None:
    from pyspark.sql.types import LongType, StructType

    class Frame:
        isStreaming = True  # noqa: N815 - Spark's name
        schema = StructType().add("at", LongType())

    with pytest.raises(dm.InvalidArgument, match=said):
        dm.io.ReadDataFrame(Frame(), event_time="at", **options)


def test_a_signal_takes_effect_once(tmp_path: Path) -> None:
    def build(pipeline: dm.Pipeline) -> None:
        script = TestStream()
        for number in range(4):
            script = script.add(2**number, event_time=0, key="k")
        windowing = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterSignal("flush"))).discarding()
        _ = pipeline | script | windowing | dm.Sum.per_key() | "kept" >> dm.io.Collect()

    streamed = Streamed(build, tmp_path, rows=1)
    for _ in range(4):  # two for what is static, two elements
        streamed.step()
    streamed.signal("flush")
    streamed.finish()
    assert [record.value[1] for record in streamed.collected("kept")] == [3, 12]


@pytest.mark.parametrize("rows", [7, 50, 1_000])
@pytest.mark.parametrize("behind", ["grouping", "reshuffle"])
def test_functions_receive_the_same_percentiles_however_the_stream_is_cut(
    tmp_path: Path, behind: str, rows: int
) -> None:
    three_files(tmp_path / "in")

    def build(pipeline: dm.Pipeline) -> None:
        read = pipeline | "rows" >> dm.io.ReadParquet(
            tmp_path / "in", event_time="at", processing_time="seen", watermark_origin="file"
        )
        late = dm.AfterWatermark(early=dm.AfterProcessingTime(3), late=dm.AfterCount(1))
        windows = BY_TEN.trigger(late).allowed_lateness("1 hour").accumulating_and_retracting()
        sums = read | windows | dm.WithKeys("partition", value="value") | dm.Sum.per_key()
        source = sums if behind == "grouping" else read | dm.Reshuffle()
        ask = dm.Map(lambda element, watermark_percentile: (watermark_percentile, str(element)))
        _ = source | ask | "kept" >> dm.io.Collect()

    same(build, tmp_path, rows)
    percentiles = {record.value[0] for record in run(dm.LocalRunner(), build).collected("kept")}
    assert None in percentiles, "nothing was late"
    assert len(percentiles - {None}) > 1
