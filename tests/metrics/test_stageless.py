"""Streams without a keyed stage report about their sources what streams with one do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.runners.sharded.commits.progress import (
    read_counters,
    read_progress,
    read_watermarks,
    write_progress,
)
from dataflow_model.runners.sharded.commits.publishing import Publisher
from tests.support.hosts import on_hosts, runner_on
from tests.support.laws.examples import share_of_examples
from tests.support.micro_batches import Streamed
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SCHEMA = pa.schema({"at": pa.int64(), "n": pa.int64()})
BAD = "not a number"


def put(folder: Path, name: str, rows: Sequence[tuple[Any, Any]]) -> None:
    """Let a file appear whole."""
    folder.mkdir(exist_ok=True)
    fresh = folder / f".{name}"
    fresh.write_text("at,n\n" + "".join(f"{at},{n}\n" for at, n in rows))
    fresh.rename(folder / f"{name}.csv")


def pipeline(folder: Path, *, is_keyed: bool, **options: Any) -> Callable[[dm.Pipeline], None]:
    """Return what builds a pipeline that reads files, with or without a keyed stage."""

    def build(p: dm.Pipeline) -> None:
        reader = dm.io.ReadCsv(folder, event_time="at", schema=SCHEMA, **options).with_exception_handling()
        rows, bad = p | "rows" >> reader
        numbers = rows | "numbers" >> dm.Map(lambda row: row.n)
        if is_keyed:
            numbers = numbers | "shuffled" >> dm.Reshuffle()
        _ = numbers | "kept" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()

    return build


def reported(stepped: Stepped) -> dict[str, Any]:
    """Return what a stream reports about its source."""
    ours = str(stepped.checkpoint / "dataflow")
    p = dm.Pipeline()
    stepped.build(p)
    progress = read_progress(ours)
    return {
        "counters": read_counters(ours, p.plan())["rows"],
        "watermark": read_watermarks(ours).get("rows"),
        "clock": progress["clock"],
        "reach": progress["reach"],
        "clocks": progress["clocks"],
    }


EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.one_of(st.integers(0, 100), st.just(BAD)), max_size=6)), max_size=6
)


@pytest.mark.parametrize("options", [{}, {"watermark_origin": "file", "max_skew": 10, "idle_after": 3}])
@share_of_examples(0.2)
@given(events=EVENTS, rows=st.integers(1, 8))
def test_a_stream_without_a_keyed_stage_reports_what_one_with_a_keyed_stage_does(
    tmp_path_factory: pytest.TempPathFactory,
    options: dict[str, Any],
    events: list[tuple[str, list[Any]]],
    rows: int,
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    clock = dm.testing.ManualClock(1_000)
    streams = [
        Stepped(
            pipeline(folder / "rows", is_keyed=is_keyed, follow=True, **options),
            folder / f"checkpoint {is_keyed}",
            rows,
            clock,
        )
        for is_keyed in (False, True)
    ]
    put(folder / "rows", "first", [(1_000_000, 1)])
    for name, numbers in events:
        put(folder / "rows", name, [(n if n == BAD else n * 1_000_000, 1) for n in numbers])
        clock.advance(1)
        steps = [stream.steps() for stream in streams]
        assert steps[0] == steps[1]
        assert reported(streams[0]) == reported(streams[1])


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("was_keyed", [False, True])
def test_an_upgrade_continues_what_was_reported(tmp_path: Path, was_keyed: bool, is_keyed: bool) -> None:
    folder = tmp_path / "rows"
    put(folder, "a", [(1, 1), (5, 2), (BAD, 3)])
    before = Stepped(pipeline(folder, is_keyed=was_keyed, follow=True), tmp_path / "old")
    before.steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"), drop=["shuffled"] if was_keyed else [])
    after = Stepped(pipeline(folder, is_keyed=is_keyed, follow=True), tmp_path / "new")
    put(folder, "b", [(3, 1), (BAD, 2)])
    after.steps()
    assert reported(after)["counters"] == {"elements_out": 3, "dead_letters": 2}
    assert reported(after)["watermark"] == dm.EventTime(5)


def test_a_bounded_stream_without_a_keyed_stage_reports_its_end(tmp_path: Path) -> None:
    put(tmp_path / "rows", "a", [(1, 1), (BAD, 2), (3, 3)])
    stepped = Stepped(pipeline(tmp_path / "rows", is_keyed=False), tmp_path / "checkpoint", rows=1)
    stepped.steps()
    assert reported(stepped)["counters"] == {"elements_out": 2, "dead_letters": 1}
    assert reported(stepped)["watermark"] == dm.MAX_TIMESTAMP


def test_a_commit_that_is_repeated_counts_the_rows_of_the_sources_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Publisher.commit

    def commit_twice(self: Publisher, batch: int, pending: Any) -> None:
        commit(self, batch, pending)
        commit(self, batch, pending)

    monkeypatch.setattr(Publisher, "commit", commit_twice)
    put(tmp_path / "rows", "a", [(1, 1), (BAD, 2), (3, 3)])
    run = Streamed(pipeline(tmp_path / "rows", is_keyed=False), tmp_path / "run", rows=1).finish()
    assert run.metrics()["rows"] == {"elements_out": 2, "dead_letters": 1}


def test_damaged_state_of_the_sources_is_detected(tmp_path: Path) -> None:
    put(tmp_path / "rows", "a", [(1, 1)])
    stepped = Stepped(pipeline(tmp_path / "rows", is_keyed=False, follow=True), tmp_path / "checkpoint")
    stepped.steps()
    ours = str(tmp_path / "checkpoint" / "dataflow")
    progress = read_progress(ours)
    sealed = progress["followed"]
    write_progress(ours, {**progress, "followed": sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]})
    put(tmp_path / "rows", "b", [(1, 1)])
    with pytest.raises(
        dm.StateCorruption, match=r"the state of the sources of run \w+ is damaged: it fails its checksum"
    ):
        stepped.steps()


@on_hosts("process", "batch", slow=("streaming",))
def test_every_runner_counts_the_rows_of_a_pipeline_without_a_keyed_stage(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    put(tmp_path / "rows", "a", [(1, 1), (BAD, 2), (3, 3)])
    put(tmp_path / "rows", "b", [(4, 4)])
    runner = runner_on(host, request, tmp_path / "checkpoint")
    result = run(runner, pipeline(tmp_path / "rows", is_keyed=False))
    assert result.metrics()["rows"] == {"elements_out": 3, "dead_letters": 1}
    assert result.report().transforms["rows"].elements_out == 3
    assert result.watermarks()["rows"] == dm.MAX_TIMESTAMP
