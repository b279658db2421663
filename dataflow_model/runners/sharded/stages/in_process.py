"""All tasks of a stream in one process, where its shards run one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.runners.sharded.stages.tallies import counting
from dataflow_model.runners.sharded.stages.work import read_work
from dataflow_model.runners.sharded.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.runners.sharded.stages.work import Work
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.rows import Row
    from dataflow_model.runners.sharded.tasks.task import ProcessCache

StoreT = TypeVar("StoreT", bound="StateStore")


@attrs.define
class InProcess(Generic[StoreT]):
    """Runs micro-batches of a program.

    Args:
        program: the program.
        stores: the state store of each shard, by stage and id.
        cache: the cache of the process.
        stays: whether tasks pass objects to each other unchanged; otherwise these are pickled, as between processes.
    """

    program: Program
    stores: dict[tuple[int, int], StoreT]
    cache: ProcessCache
    stays: bool = False

    def run(self, number: int, works: Sequence[Work]) -> list[Row]:
        """Run a micro-batch, and return the rows for the sinks.

        Args:
            number: the number of the micro-batch.
            works: what it reads.
        """
        return self.run_stages(number, self.read(number, works))

    def read(self, number: int, works: Sequence[Work]) -> list[Row]:
        """Return the rows that stage 0 sends."""
        rows: list[Row] = []
        for part, work in enumerate(works):
            task = Task(self.program, self.cache, part, number, self.stays)
            rows += counting(task, read_work(task, work))
        return rows

    def run_stages(self, number: int, sent: Iterable[Row]) -> list[Row]:
        """Run the shards of all stages in turn, and return the rows for the sinks."""
        inboxes: dict[tuple[int, int], list[Row]] = {key: [] for key in self.stores}
        outputs: list[Row] = []
        for row in sent:
            inboxes.get((row.stage, row.shard), outputs).append(row)
        task = Task(self.program, self.cache, micro_batch=number, stays=self.stays)
        for (depth, shard), store in self.stores.items():
            for row in self.run_shard(task, depth, shard, inboxes[depth, shard], store):
                inboxes.get((row.stage, row.shard), outputs).append(row)
        return outputs

    def run_shard(self, task: Task, depth: int, shard: int, rows: list[Row], store: StateStore) -> Iterable[Row]:
        """Run one shard of one stage."""
        return run_shard(task, depth, shard, rows, store)
