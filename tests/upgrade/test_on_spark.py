"""Upgrades of real checkpoints: stopped in the midst, carried over, gone on with."""

from __future__ import annotations

import json
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.runners.spark.stopped import encoded_as_it_is
from tests.support.folders import content
from tests.support.inputs import write_history
from tests.support.pipelines import difference, run, seen, start, streaming
from tests.support.upgrade.pipelines import branched, chained, history, pairs, several, sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Any = types.SimpleNamespace(conf={"spark.master": "local[2]"})
CLUSTER: Any = types.SimpleNamespace(conf={"spark.master": "spark://driver:7077"})
PATIENCE = 300
"""Seconds after which a test that waits for a micro-batch gives up."""


def stopped_midway(spark: SparkSession, checkpoint: Path, build: Any, **options: Any) -> Any:
    """Run some micro-batches and stop."""
    result: Any = start(streaming(spark, checkpoint, max_rows_per_batch=60, **options), build)
    done = threading.Event()
    for _ in range(PATIENCE * 20):
        progress = result.query.lastProgress
        if progress is not None and progress.batchId >= 2:
            break
        assert result.query.isActive, result.query.exception()
        done.wait(0.05)
    result.stop()
    return result


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for name in (1, 2):
        write_history(tmp_path / "rows" / f"{name}.parquet", history(name, rows=300))
    return tmp_path / "rows"


@pytest.mark.slow
def test_a_run_on_spark_resumes_with_another_number_of_shards_and_the_same_panes(
    spark: SparkSession, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = chained(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    old, new = tmp_path / "hourly delays, 50%", tmp_path / "hourly delays, 60%"
    first = stopped_midway(spark, old, build, shards=2)
    assert first.state is dm.RunnerState.STOPPED
    before = content(old)
    assert main(["upgrade", str(old), str(new)]) == 0
    printed = capsys.readouterr().out
    assert "sums: 7 keys" in printed
    assert "checkpoint=" in printed
    assert content(old) == before
    second = run(streaming(spark, new, shards=3), build)
    assert second.state is dm.RunnerState.DONE
    assert not difference(expected, seen(second.collected("panes")))
    assert second.metrics()["rows"]["elements_out"] == 600
    assert content(old) == before


@pytest.mark.slow
def test_a_run_on_spark_goes_on_with_another_trigger_and_other_labels(
    spark: SparkSession, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def summing(source: str, label: str, sink: str, trigger: dm.Trigger) -> Any:
        def build(p: dm.Pipeline) -> None:
            windows = dm.Window.into(dm.FixedWindows("20 microseconds")).trigger(trigger)
            strategy = windows.allowed_lateness("30 microseconds").accumulating()
            panes = pairs(p, rows, source) | f"{label} windows" >> strategy | label >> dm.Sum.per_key()
            _ = panes | sink >> dm.io.WriteJson(tmp_path / "out", panes=True)

        return build

    before = summing("rows", "sums", "panes", dm.AfterWatermark(early=dm.AfterCount(3), late=dm.AfterCount(1)))
    after = summing("flights", "totals", "lines", dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(2)))
    stopped_midway(spark, tmp_path / "old", before, shards=2)
    old = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.json")}
    renames = ["rows=flights", "rows pairs=flights pairs", "sums=totals", "sums windows=totals windows", "panes=lines"]
    options = [word for rename in renames for word in ("--rename", rename)]
    assert main(["upgrade", str(tmp_path / "old"), str(tmp_path / "new"), *options]) == 0
    assert "totals: was sums" in capsys.readouterr().out
    finished = run(streaming(spark, tmp_path / "new", shards=3), after)
    assert finished.metrics()["flights"]["elements_out"] == 600
    written = [path for path in (tmp_path / "out").glob("*.json") if path.name not in old]
    assert all((tmp_path / "out" / name).read_bytes() == lines for name, lines in old.items())
    rows_in = [json.loads(line) for name in old for line in old[name].splitlines()]
    rows_in += [json.loads(line) for path in written for line in path.read_text().splitlines()]
    last: dict[Any, tuple[int, int]] = {}
    for row in rows_in:
        place = row["key"], row["window_start"]
        assert place not in last or row["pane_index"] != last[place][0]
        last[place] = max(last.get(place, (-1, 0)), (row["pane_index"], row["value"]))

    def collected(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows("20 microseconds")).allowed_lateness("30 microseconds").accumulating()
        _ = pairs(p, rows) | windows | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    results = {
        (record.value[0], str(record.window)): record.value[1]
        for record in run(dm.LocalRunner(), collected).collected("panes")
    }
    assert sorted((key, value) for (key, _), (_, value) in last.items()) == sorted(
        (key, value) for (key, _), value in results.items()
    )


# What 'lists' holds does not matter: it is dropped by the upgrade.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'lists' groups the accumulating panes of:dataflow_model.PlanWarning")
def test_groupings_are_added_and_removed_by_an_upgrade_but_not_by_a_restart(
    spark: SparkSession, rows: Path, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"

    def changed(p: dm.Pipeline) -> None:
        elements = pairs(p, rows)
        _ = sums(elements) | "panes" >> dm.io.Collect()
        windows = "count windows" >> dm.Window.into(dm.FixedWindows("20 microseconds"))
        _ = elements | windows | "counts" >> dm.Count.per_key() | "counted" >> dm.io.Collect()

    def first(p: dm.Pipeline) -> None:
        by_letter = sums(pairs(p, rows))
        _ = by_letter | "panes" >> dm.io.Collect()
        _ = by_letter | "lists" >> dm.GroupByKey() | "listed" >> dm.io.Collect()

    result = stopped_midway(spark, old, first, shards=2)
    read = result.metrics()["rows"]["elements_out"]
    with pytest.raises(dm.CheckpointMismatch) as refused:
        start(streaming(spark, old), changed)
    assert f"dataflow-model upgrade {old} {old}-2 --drop lists" in str(refused.value)
    dm.upgrade(str(old), str(tmp_path / "early"), spark=spark)
    with pytest.raises(dm.CheckpointMismatch, match="'lists' is gone"):
        start(streaming(spark, tmp_path / "early"), changed)
    done = dm.upgrade(str(old), str(new), drop=["lists"], spark=spark)
    assert done.rows == {"rows": read}
    assert done.dropped == ("lists",)
    expected = seen(run(dm.LocalRunner(), branched(rows, "sums")).collected("panes"))
    second = run(streaming(spark, new, shards=2), changed)
    assert not difference(expected, seen(second.collected("panes")))
    assert second.metrics()["rows"]["elements_out"] == 600
    assert second.metrics()["counts"]["elements_in"] == 600 - read


@pytest.mark.slow
def test_a_source_is_added_on_a_plain_restart(spark: SparkSession, rows: Path, tmp_path: Path) -> None:
    write_history(tmp_path / "more" / "3.parquet", history(3, rows=90))
    stopped_midway(spark, tmp_path / "old", several(rows))
    both = run(streaming(spark, tmp_path / "old"), several(rows, tmp_path / "more"))
    assert both.state is dm.RunnerState.DONE
    metrics = both.metrics()
    assert metrics["rows"]["elements_out"] == 600
    assert metrics["more"]["elements_out"] == 90
    assert metrics["sums"]["elements_in"] == 690
    write_history(tmp_path / "others" / "4.parquet", history(4, rows=9))
    with pytest.raises(dm.CheckpointMismatch, match="is complete, so 'all', 'others', 'others pairs' cannot be added"):
        start(streaming(spark, tmp_path / "old"), several(rows, tmp_path / "more", tmp_path / "others"))


def test_a_path_that_spark_percent_encodes_is_read_by_another_name_on_this_machine(tmp_path: Path) -> None:
    plain, spaced = (tmp_path / name for name in ("délais+(a=1)", "hourly delays, 50%"))
    spaced.mkdir()
    with encoded_as_it_is(str(plain), CLUSTER) as path:
        assert path == str(plain)
    with encoded_as_it_is(str(spaced), LOCAL) as path:
        assert not {" ", "%"} & {*path}
        assert Path(path).resolve() == spaced.resolve()
    with (
        pytest.raises(dm.InvalidArgument, match=r"got '.*hourly delays, 50%'\nHint: leave `spark` out"),
        encoded_as_it_is(str(spaced), CLUSTER),
    ):
        pass
