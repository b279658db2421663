"""A worker's cache of a shard's state between micro-batches, and how it catches up with the log.

The cache is valid only for its token. A worker that has missed some micro-batches applies only their deltas; a worker
whose last attempt did not become durable loads the whole log.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import DataflowError
from dataflow_model.plan.logical.graph import take_uncommitted
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.machines.shard import StageShard
from dataflow_model.runners.sharded.state.key_classes import check_key_classes, further_key_classes
from dataflow_model.runners.sharded.state.log import Contents, Delta, StateLog
from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta
from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.runners.sharded.state.log import Entries, Record, StateStore
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.task import Task


@attrs.define
class ShardState:
    """One shard of one stage, in this worker's memory.

    Attributes:
        shard: the machines.
        meta: the rest of the state.
        token: the token of the micro-batch after which this is the state.
        contents: the keys in each record of the log.
        how: whether the cache was `"fresh"`, `"behind"` or `"void"` when it was opened.
        uncommitted: what its functions want to be called when the micro-batch of `token` is committed.
    """

    shard: StageShard
    meta: ShardMeta = attrs.field(factory=ShardMeta)
    token: str = ""
    contents: Contents = attrs.field(factory=Contents)
    how: str = "void"
    uncommitted: list[Callable[[], None]] = attrs.field(factory=list)
    _log: StateLog | None = None

    @classmethod
    def open(cls, task: Task, depth: int, shard: int, store: StateStore) -> ShardState:
        """Return the shard in its durable state, and remove it from the worker's cache until `commit` returns it.

        Raises:
            CheckpointMismatch: if another version of the package wrote the durable state in another format, or if a
                class of keys has changed.
            StateCorruption: if it is damaged.
        """
        program = task.program
        log = StateLog(store, f"shard {shard} of stage {depth}")
        token = log.open()
        if not token and program.seed is not None:  # as if a micro-batch had written it before the first one
            index = program.shard_ids.index(shard)
            delta = program.seed.of_shard(program, cls._new(program, depth).shard, index)
            token = log.append(delta, lambda owner: delta.entries[owner].__getitem__, Contents())
        state = task.cache.take_shard(program, depth, shard)
        how = "fresh"
        if state is None or state.token != token:
            missed = log.since(state.token) if state is not None and state.token else None
            how = "behind"
            if state is None or missed is None:
                if state is not None:
                    state.discard()
                state, how = cls._new(program, depth), "void"
                missed = log.since("")
            state.catch_up(log, missed or [], whole=how == "void")
        for call in state.uncommitted:  # the attempt is part of the durable state, so it was not repeated elsewhere
            call()
        state.uncommitted.clear()
        state.take_uncommitted(task)  # of an attempt of another shard that has failed
        return attrs.evolve(state, log=log, how=how, token=token)

    @classmethod
    def _new(cls, program: Program, depth: int) -> ShardState:
        lifts = {**program.lifts, **program.folded}
        shard = StageShard(program.staged, depth, program.side_values, is_durable=True, lifts=lifts)
        share = program.state_memory_share
        if share is not None:
            for machine in shard.machines.values():
                machine.bound_memory(share)
        return cls(shard)

    def commit(self, task: Task, depth: int, shard: int) -> None:
        """Make the changes durable; then return the shard to the cache, or tear it down if the input has ended."""
        assert self._log is not None  # noqa: S101 - `open` sets it
        entries: Entries = {}
        for name, machine in self.shard.machines.items():
            clocks, whole = machine.clocks(), machine.whole()
            if clocks:
                self.meta.positions[name] = clocks
            if whole is not None:
                self.meta.joins[name] = whole
            try:
                settled = machine.settle()
            except DataflowError:  # the disk for state beyond the bound on memory is full, for example
                raise
            except BaseException as error:
                raise unpicklable_state(name, error) from error
            if settled:
                entries[name] = settled
            self.meta.reports[name] = machine.output_watermarks().low
            self.meta.counters[name] = machine.counters
        known = self.shard.watermarks.items()
        self.meta.watermarks = {producer: watermarks.low for producer, watermarks in known}
        self.meta.percentiles = {
            producer: further for producer, watermarks in known if (further := watermarks.percentiles)
        }
        self.meta.key_classes |= further_key_classes(self.meta.key_classes, entries, self.meta.joins.values())
        task.reach("before_state")
        self.token = self._log.append(Delta(self.meta, entries), self._current, self.contents)
        task.reach("after_state")
        self._log = None
        self.uncommitted = self.take_uncommitted(task)
        if self.shard.is_over:
            self.shard.tear_down()
            return
        task.cache.keep_shard(task.program, depth, shard, self)

    def catch_up(self, log: StateLog, missed: list[Record], *, whole: bool) -> None:
        """Apply the records that lead to the log's head, one at a time; with `whole` they are the entire log."""
        if whole:
            self.contents = Contents()
        self.contents.keep_only(log.records[: len(log.records) - len(missed)])
        for record in missed:
            delta = log.read(record)
            self.contents.note(record, delta.entries)
            self.meta = delta.meta
            check_key_classes(self.meta.key_classes)
            for name, changes in delta.entries.items():
                self.shard.machines[name].apply(changes)
        for name, machine in self.shard.machines.items():
            counts = dict(self.meta.counters.get(name, {}))
            machine.counters.clear()
            machine.counters.update(counts)
            if name in self.meta.joins:
                machine.resume(self.meta.joins[name])
            if name in self.meta.positions:
                machine.set_clocks(**self.meta.positions[name])
        self.shard.watermarks = {
            producer: Watermarks.of(low, self.meta.percentiles.get(producer, ()))
            for producer, low in self.meta.watermarks.items()
        }

    def _current(self, owner: str) -> Callable[[bytes], Any]:
        return self.shard.machines[owner].stored

    def discard(self) -> None:
        """Tear down a cached shard, ignoring errors, which do not concern the run that replaces it."""
        with contextlib.suppress(Exception):
            self.shard.tear_down()

    def take_uncommitted(self, task: Task) -> list[Callable[[], None]]:
        """Return what the functions want to be called once all that they have put out is committed, and forget it.

        A host in process takes it itself.
        """
        if task.stays:
            return []
        return take_uncommitted(task.program.staged.plan[label] for label in self.shard.labels)
