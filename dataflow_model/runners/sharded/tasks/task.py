"""A task of a run, and the cache of the process that runs it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.lifetimes import tear_down_all
from dataflow_model.runners.engine.lanes.ipc import to_narrow_ipc
from dataflow_model.runners.engine.lifted.allocation import keep_freed_memory
from dataflow_model.runners.sharded.tasks.compact import dump_compact
from dataflow_model.runners.sharded.tasks.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dataflow_model.runners.sharded.tasks.program import PackedProgram, Program
    from dataflow_model.runners.sharded.tasks.shard_state import ShardState

_KEPT_PROGRAMS: Final = 4
_KEPT_SHARDS: Final = 64


@attrs.define(eq=False)
class ProcessCache:
    """The cache of one process between tasks: programs, fragments whose DoFns are set up, and shards.

    A process without it, such as a new one, restores everything from durable state.

    Attributes:
        runs: a counter of the shards that have been run in this process.
    """

    runs: Iterator[int] = attrs.field(factory=itertools.count)
    _programs: dict[str, Program] = attrs.field(init=False, factory=dict)
    _fragments: dict[tuple[str, str, frozenset[str]], Fragment] = attrs.field(init=False, factory=dict)
    _shards: dict[tuple[str, int, int], ShardState] = attrs.field(init=False, factory=dict)

    def program(self, packed: PackedProgram) -> Program:
        """Return a program, which is unpacked only once."""
        program = self._programs.get(packed.digest)
        if program is None:
            keep_freed_memory()
            program = packed.unpack()
            while len(self._programs) >= _KEPT_PROGRAMS:
                self.forget(next(iter(self._programs)))
            self._programs[packed.digest] = program
        return program

    def fragment(self, program: Program, producer: str, skip: frozenset[str]) -> Fragment:
        """Return the fragment after a source, without some nodes; its DoFns are set up once."""
        key = (program.digest, producer, skip)
        if key not in self._fragments:
            staged = program.staged
            self._fragments[key] = Fragment(staged.plan, producer, staged.cuts, program.side_values, skip)
        return self._fragments[key]

    def take_shard(self, program: Program, depth: int, shard: int) -> ShardState | None:
        """Remove a shard from the cache and return it; `None` if it is not cached."""
        return self._shards.pop((program.digest, depth, shard), None)

    def keep_shard(self, program: Program, depth: int, shard: int, state: ShardState) -> None:
        """Put a shard into the cache; if the cache is full, the least recently used shard is discarded."""
        while len(self._shards) >= _KEPT_SHARDS:
            self._shards.pop(next(iter(self._shards))).discard()
        self._shards[program.digest, depth, shard] = state

    def forget_shards(self, digest: str | None = None) -> None:
        """Discard the shards of a program, or of all programs, and tear down their functions."""
        for key in [key for key in self._shards if digest in {None, key[0]}]:
            self._shards.pop(key).discard()

    def forget_fragments(self, digest: str) -> None:
        """Discard the fragments after the sources of a program, and tear down their functions."""
        tear_down_all([self._fragments.pop(key) for key in list(self._fragments) if key[0] == digest])

    def forget(self, digest: str) -> None:
        """Discard a program and everything that belongs to it, and tear down its functions."""
        self._programs.pop(digest, None)
        self.forget_shards(digest)
        self.forget_fragments(digest)


@attrs.frozen(eq=False)
class Task:
    """One task: a program's work on one part of a micro-batch, in one process.

    Attributes:
        program: the program.
        cache: the cache of the process.
        part: the index of the part among those that run in parallel.
        micro_batch: the number of the micro-batch; 0 in a bounded job, which commits once.
        stays: whether its rows stay in this process, so that what they carry need not be pickled.
    """

    program: Program
    cache: ProcessCache
    part: int = 0
    micro_batch: int = 0
    stays: bool = False

    @property
    def home(self) -> int:
        """The id of the shard that receives rows which belong to none."""
        return self.program.shard_ids[self.part % len(self.program.shard_ids)]

    def fragment(self, producer: str, skip: frozenset[str] = frozenset()) -> Fragment:
        """Return the fragment after a source, without some nodes."""
        return self.cache.fragment(self.program, producer, skip)

    def tear_down(self) -> None:
        """Tear down the functions after the sources, which the cache keeps for the next task of this process."""
        self.cache.forget_fragments(self.program.digest)

    def packed(self, value: Any) -> Any:
        """Return a value as the payload of a row."""
        return value if self.stays else dump_compact(value)

    def row_for_commit(self, kind: str, value: Any) -> Row:
        """Return the row that carries a value to the commit, past all stages."""
        return Row(self.home, len(self.program.staged.stages) + 1, kind, self.packed(value))

    def rows_for_followers(self, kind: str, value: Any) -> Iterator[Row]:
        """Yield a row that carries a value for each shard that follows the sources."""
        payload = self.packed(value)
        return (Row(shard, 1, kind, payload) for shard in self.program.followers)

    def packed_table(self, table: pa.Table) -> bytes | pa.Table:
        """Return a table as a part of the payload of a row."""
        return table if self.stays else to_narrow_ipc(table)

    def reach(self, point: str) -> None:
        """Pass a named point; the process is killed there if a test has armed a crash."""
        self.program.fault.reach(point, self.micro_batch)

    def for_shard(self, shard: int) -> Task:
        """Return the task that runs one shard of the same micro-batch in this process."""
        return attrs.evolve(self, part=self.program.shard_ids.index(shard))
