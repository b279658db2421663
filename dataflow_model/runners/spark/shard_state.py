"""The soft state of a shard: what a worker remembers between micro-batches, and how it catches up with the log.

The cache belongs to a worker process. It is valid only for the token that it claims: a worker that has missed some
micro-batches applies just those deltas; one whose last attempt did not become durable starts from the log.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.runners.engine.columnar import ColumnarEngine
from dataflow_model.runners.engine.grouping import GroupingEngine
from dataflow_model.runners.engine.relay import RelayEngine
from dataflow_model.runners.engine.shard import StageShard
from dataflow_model.runners.engine.side_join import JoinState, SideJoinEngine
from dataflow_model.runners.engine.stateful import StatefulEngine
from dataflow_model.runners.engine.timeline import ReplayProgress
from dataflow_model.runners.spark.rows import dump
from dataflow_model.runners.spark.state_log import Delta, StateLog, keys_of

if TYPE_CHECKING:
    from collections import Counter

    from dataflow_model.runners.engine.timeline import At
    from dataflow_model.runners.spark.program import Program
    from dataflow_model.runners.spark.rows import PackedBundle
    from dataflow_model.runners.spark.state_log import StateStore

__all__ = ["ShardMeta", "ShardState"]

_KEPT: Final = 64
_KEYED: Final = (GroupingEngine, ColumnarEngine, StatefulEngine)
_cache: dict[tuple[str, int, int], ShardState] = {}


@attrs.define
class ShardMeta:
    """What a shard keeps beside its keys; small, and stored whole with every delta.

    Attributes:
        positions: the clocks of each engine.
        watermarks, percentiles: what each producer's output watermarks are known to be.
        counters: of each keyed node, and at the first shard of the sources.
        replay: how far the sources have come; only stage 1 uses it.
        waiting: elements whose instant is not complete.
        joins: what each ParDo with changing side inputs keeps.
        latest: the last instant so far; what comes for an earlier one is behind the clock.
    """

    positions: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    watermarks: dict[str, int] = attrs.field(factory=dict)
    percentiles: dict[str, tuple[int, ...]] = attrs.field(factory=dict)
    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    replay: ReplayProgress = attrs.field(factory=ReplayProgress)
    waiting: list[PackedBundle] = attrs.field(factory=list)
    joins: dict[str, JoinState] = attrs.field(factory=dict)
    latest: At | None = None


@attrs.define
class ShardState:
    """One shard of one stage, in this worker's memory.

    Attributes:
        shard: the engines.
        meta: the rest.
        token: of the micro-batch that it stands after.
        known: by record of the log, the keys in it.
        how: whether the cache was `"fresh"`, `"behind"` or `"void"` this time.
    """

    shard: StageShard
    meta: ShardMeta = attrs.field(factory=ShardMeta)
    token: str = ""
    known: list[set[tuple[str, bytes]]] = attrs.field(factory=list)
    how: str = "void"
    _log: StateLog | None = None

    @classmethod
    def open(cls, program: Program, depth: int, label: int, store: StateStore) -> ShardState:
        """Return the shard as of its durable state; it is out of the cache until `commit` puts it back.

        Raises:
            StateCorruption: when the durable state is damaged.
        """
        log = StateLog(store, f"shard {label} of stage {depth}")
        token = log.open()
        state = _cache.pop((program.digest, depth, label), None)
        how = "fresh"
        if state is None or state.token != token:
            deltas = log.since(state.token) if state is not None and state.token else None
            how = "behind"
            if state is None or deltas is None:
                state, how = cls._new(program, depth), "void"
                deltas = log.since("")
            state.catch_up(log, deltas or [], whole=how == "void")
        return attrs.evolve(state, log=log, how=how, token=token)

    @classmethod
    def _new(cls, program: Program, depth: int) -> ShardState:
        return cls(StageShard(program.staged, depth, program.side_values, thaw=pickle.loads, lifts=program.lifts))

    def commit(self, program: Program, depth: int, label: int) -> None:
        """Make what has changed durable, then let the cache have it."""
        assert self._log is not None  # noqa: S101 - opened
        entries: dict[tuple[str, bytes], Any] = {}
        for name, engine in self.shard.engines.items():
            if isinstance(engine, _KEYED):
                self.meta.positions[name] = engine.position()
                entries.update({(name, encoded): entry for encoded, entry in engine.settle(dump).items()})
            if isinstance(engine, SideJoinEngine):
                self.meta.joins[name] = engine.state
            self.meta.counters[name] = engine.counters
        self.meta.watermarks = dict(self.shard.watermarks)
        self.meta.percentiles = dict(self.shard.percentiles)
        program.reach("before_state")
        self.token = self._log.append(Delta(self.meta, entries), self._current, self.known)
        program.reach("after_state")
        self._log = None
        while len(_cache) >= _KEPT:
            _cache.pop(next(iter(_cache)))
        _cache[program.digest, depth, label] = self

    def catch_up(self, log: StateLog, deltas: list[Delta], *, whole: bool) -> None:
        """Apply the deltas that lead to the log's head; `whole` when they are all there are."""
        for delta in deltas:
            self.meta = delta.meta
            by_owner: dict[str, dict[bytes, Any]] = {}
            for (name, encoded), entry in delta.entries.items():
                by_owner.setdefault(name, {})[encoded] = entry
            for name, changes in by_owner.items():
                engine = self.shard.engines[name]
                assert isinstance(engine, _KEYED)  # noqa: S101 - only groupings have keyed state
                engine.apply(changes)
        # Which keys each record holds: those of records that were just read are known, the others keep theirs.
        if whole:
            self.known = keys_of(deltas)
        else:
            kept = len(log.records) - len(deltas)
            self.known = self.known[:kept] + keys_of(deltas)
        for name, engine in self.shard.engines.items():
            counts = dict(self.meta.counters.get(name, {}))
            engine.counters.clear()
            engine.counters.update(counts)
            if isinstance(engine, SideJoinEngine) and name in self.meta.joins:
                engine.resume(self.meta.joins[name])
            if isinstance(engine, _KEYED) and name in self.meta.positions:
                engine.stand_at(**self.meta.positions[name])
        self.shard.watermarks = dict(self.meta.watermarks)
        self.shard.percentiles = dict(self.meta.percentiles)
        for engine in self.shard.engines.values():
            if isinstance(engine, RelayEngine):
                self.shard.stand_relay(engine)

    def _current(self, place: tuple[str, bytes]) -> Any:
        name, encoded = place
        engine = self.shard.engines[name]
        assert isinstance(engine, _KEYED)  # noqa: S101
        return engine.stored(encoded)
