"""Of the starts of one run only the newest may write; an older one that is still alive is told so when it writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.plan.endpoints.sinks import Fence
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.checkpoint import sequencers
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest, take_sequencer
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.commits.publishing import Publisher
from dataflow_model.runners.sharded.commits.restoring import claim_sinks
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id
from dataflow_model.runners.sharded.outputs.pending import Pending, PendingWriter
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from tests.support.exactly_once.databases import rows
from tests.support.exactly_once.tables import PAIRS, record
from tests.support.written_files import visible

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics

METRICS: TaskMetrics = {"depth": 1, "shard": 0, "counters": {}, "sources": {}, "watermarks": {}}


@attrs.define
class Start:
    """One start of a run that writes to files and to a table, without Spark.

    Args:
        folder: where everything is.
        weak: whether its productions are weak.
        repeats: the number of a micro-batch that an earlier start has planned, and that start.
    """

    folder: Path
    weak: bool = False
    repeats: tuple[int, Start] | None = None
    program: Program = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        p = dm.Pipeline()
        pairs = p | dm.Create([("a", 1)])
        _ = pairs | dm.io.WriteJson(self.folder / "files", schema=PAIRS)
        _ = pairs | dm.io.WriteTable(self.url, table="sums", keys="key", schema=PAIRS)
        staged = cut_into_stages(p.plan())
        for write in staged.sinks:
            write.sink.check()
        taken = take_sequencer(self.directory)
        program = Program(staged, {}, (0,), "7c1f", sequencer=taken, directory=self.directory, weak=self.weak)
        if self.repeats is not None:
            number, earlier = self.repeats
            program = attrs.evolve(program, planned=(number, earlier.program.sequencer))
        self.program = program.pack().unpack()

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'test.db'}"

    @property
    def directory(self) -> str:
        return str(self.folder / "checkpoint" / "dataflow")

    @property
    def publisher(self) -> Publisher:
        return Publisher(self.program, self.directory)

    def written(self, batch: int, value: int) -> Pending:
        with PendingWriter(Task(self.program, ProcessCache(), micro_batch=batch), "part") as writer:
            for label in ("WriteJson", "WriteTable"):
                writer.write(label, [record(1, ("a", value))])
            return attrs.evolve(writer.close(), metrics=[METRICS])

    def run(self, batch: int, value: int) -> None:
        self.publisher.commit(batch, [self.written(batch, value)])

    def found(self) -> tuple[list[str], list[int]]:
        return visible(self.folder / "files"), [row["value"] for row in rows(self.url, "sums")]


def test_weak_output_to_which_no_records_are_written_is_published_and_not_handed_to_the_commit(tmp_path: Path) -> None:
    start = Start(tmp_path, weak=True)
    with PendingWriter(Task(start.program, ProcessCache()), "part") as writer:
        writer.write("WriteJson", [])
        pending = writer.close()
    assert (list(pending.messages), list(pending.published)) == ([], ["WriteJson"])


def test_each_sequencer_is_greater_than_those_before_even_if_the_clock_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [take_sequencer(str(tmp_path))]
    monkeypatch.setattr("time.time_ns", lambda: 5_000)
    taken += [take_sequencer(str(tmp_path)) for _ in range(20)]
    assert taken == sorted(set(taken))
    monkeypatch.undo()
    taken.append(take_sequencer(str(tmp_path)))
    assert taken[-1] == max(taken)
    assert len(list((tmp_path / "sequencers").iterdir())) <= sequencers._KEPT + 1


def test_starts_at_the_same_moment_take_different_sequencers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 5_000)
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(take_sequencer, [str(tmp_path)] * 8))
    assert len(set(taken)) == 8


def test_a_checkpoint_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("a file where a directory should be")
    with pytest.raises(
        dm.SinkError, match=r"'.*/sequencers' in the checkpoint directory cannot be written: .*\nHint: check free space"
    ):
        take_sequencer(str(tmp_path / "checkpoint" / "dataflow"))


def test_a_run_without_a_checkpoint_is_never_superseded(tmp_path: Path) -> None:
    check_newest(str(tmp_path), None)


def test_the_error_of_a_superseded_run_names_the_run_and_when_and_by_whom_it_was_superseded(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint" / "dataflow"
    older, newer = take_sequencer(str(directory)), take_sequencer(str(directory))
    check_newest(str(directory), Fence("7c1f", newer))
    with pytest.raises(
        dm.SupersededRun,
        match=rf"run 7c1f, started at .*Z, may no longer write:\nthe checkpoint '{tmp_path}/checkpoint' was taken "
        r"over at .*Z by a newer start of the run \(process \d+ on .*\)\nHint: end this process and let the newer one",
    ):
        check_newest(str(directory), Fence("7c1f", older))


def test_a_superseded_start_that_resumes_is_refused_at_its_first_write_and_changes_nothing(tmp_path: Path) -> None:
    older = Start(tmp_path)
    older.run(0, 1)
    asleep = older.written(1, 666)  # and then its process hangs
    newer = Start(tmp_path, repeats=(1, older))
    newer.run(1, 2)
    after = newer.found()
    with pytest.raises(dm.SupersededRun):
        older.publisher.commit(1, [asleep])
    older.publisher.abort(1, [asleep])
    with pytest.raises(dm.SupersededRun):
        older.run(2, 667)
    assert newer.found() == after == ([f"part-{commit_id(older.program, number)}-00000.json" for number in (0, 1)], [2])
    newer.run(2, 3)
    assert newer.found()[1] == [3]


def test_a_superseded_start_that_aborts_does_not_remove_pending_output_of_the_newer_one(tmp_path: Path) -> None:
    older = Start(tmp_path)
    newer = Start(tmp_path, repeats=(0, older))
    asleep, awake = older.written(0, 666), newer.written(0, 1)
    older.publisher.abort(0, [asleep])
    newer.publisher.commit(0, [awake])
    assert newer.found()[1] == [1]


def test_a_table_refuses_a_commit_prepared_before_a_newer_start_claimed_it(tmp_path: Path) -> None:
    older = Start(tmp_path)
    asleep = older.written(0, 666)
    newer = Start(tmp_path)
    claim_sinks(newer.program, "checkpoint")
    sink, fence = older.program.staged.sinks[1].sink, older.program.fence
    assert fence is not None
    with pytest.raises(dm.SupersededRun, match="table 'sums'"):
        sink.fenced(fence).commit("7c1f-00000000", [asleep.messages["WriteTable"]])
    assert newer.found() == ([], [])


def test_a_superseded_start_records_no_progress(tmp_path: Path) -> None:
    older = Start(tmp_path)
    asleep = older.written(0, 1)
    Start(tmp_path, repeats=(0, older)).run(0, 1)
    noted = read_progress(older.directory)
    with pytest.raises(dm.SupersededRun):
        older.publisher.commit(0, [asleep])
    assert read_progress(older.directory) == noted


def test_weak_productions_of_a_superseded_start_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    older = Start(tmp_path, weak=True)
    newer = Start(tmp_path, weak=True, repeats=(0, older))
    with pytest.raises(dm.SupersededRun):
        older.written(0, 666)
    assert newer.found() == ([], [])
    assert newer.written(0, 1).messages == {}
    assert newer.found() == ([f"part-{commit_id(older.program, 0)}-part.json"], [1])
    with pytest.raises(dm.SupersededRun):
        older.publisher.commit(0, [])
