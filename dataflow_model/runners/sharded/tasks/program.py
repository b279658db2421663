"""The program: everything that the tasks of a run need, pickled once and unpickled once per worker."""

from __future__ import annotations

import functools
import hashlib
import pathlib
import sys
import sysconfig
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

from dataflow_model.errors import PlanError, SourceError
from dataflow_model.plan.endpoints.sinks import Fence
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.logical.graph import Plan
from dataflow_model.plan.logical.nodes import Flatten, ParDo, Ref, ToPairs
from dataflow_model.plan.rewrites.early_end import percentile_that_ends
from dataflow_model.runners.engine.functions.ambient import Ambient
from dataflow_model.runners.engine.sources.timeline import Awaited
from dataflow_model.runners.sharded.checkpoint.durable import corrupt
from dataflow_model.runners.sharded.tasks.faults import Fault, armed
from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_program
from dataflow_model.values.pickles import dump_with_classes, load_with_classes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.logical.nodes import Node, SideInput
    from dataflow_model.plan.logical.stages import KeyedNode, StagedPlan
    from dataflow_model.plan.rewrites.lifting import Lift
    from dataflow_model.runners.engine.machines.shard import StageShard
    from dataflow_model.runners.sharded.state.log import Delta
    from dataflow_model.runners.sharded.tasks.shard_meta import ShardMeta
    from dataflow_model.values import Window


class Seed(Protocol):
    """The initial state of a run that was upgraded from an older one."""

    def of_shard(self, program: Program, stage: StageShard, index: int) -> Delta:
        """Return the initial state of a shard."""
        ...

    def of_sources(self, program: Program) -> ShardMeta:
        """Return what is initially known of the sources."""
        ...


@attrs.frozen(eq=False, slots=False)  # cached properties need a dict
class Program:
    """A staged plan and how it is run.

    Attributes:
        staged: the chain of stages.
        side_values: the static side inputs.
        shard_ids: the ids of the shards.
        run_id: the id of the run, which commits contain; a resumed run keeps it.
        lifts: the groupings that get columns.
        buckets: the number of parts into which a bounded job divides each shard's keys, so that one fits in memory.
        wall: the wall clock when the run started, which a bounded job uses throughout.
        sequencer: the sequencer of this start of the run; 0 without a checkpoint.
        planned: the micro-batch that an earlier start planned last, and the sequencer of that start: if this start
            finishes or repeats it, its commit keeps its id; `None` if there is none.
        directory: the common part of the checkpoint, which keeps the outputs of memoised functions in case a partly
            published micro-batch is repeated; empty on a host that never repeats one.
        common: the common part of the checkpoint on every host; empty without one.
        weak: whether sinks that can publish before the micro-batch commits do so.
        fault: the fault that a test injects.
        edition: distinguishes the run's commits from those before an upgrade.
        marks: the labels under which renamed sinks note their commits; see `Fence`.
        folded: the groupings that keep their state in columns although they get elements.
        seed: the initial state of the shards, if the run was upgraded from an older one.
        ambient: the settings of the program's thread when the run started, which users' functions see in workers.
        max_state_memory: the bytes of memory for state by key, over all shards; `None` for no bound.
        digest: identifies the program in this worker.
        main_classes: in a worker, the classes of the program's `__main__` by name; see `values.main_classes`.
        outlasts: whether a function may have work left when the input has ended.
        awaited: what the plan's triggers wait for.
    """

    staged: StagedPlan
    side_values: Mapping[SideInput, Callable[[Window], Any]]
    shard_ids: tuple[int, ...]
    run_id: str
    buckets: int = 1
    lifts: Mapping[str, Lift] = attrs.field(factory=dict)
    wall: int = 0
    sequencer: int = 0
    planned: tuple[int, int] | None = None
    directory: str = ""
    common: str = ""
    weak: bool = False
    fault: Fault = attrs.field(factory=armed)
    edition: str = ""
    marks: Mapping[str, str] = attrs.field(factory=dict)
    folded: Mapping[str, Lift] = attrs.field(factory=dict)
    seed: Seed | None = None
    ambient: Ambient = attrs.field(factory=Ambient.here)
    max_state_memory: int | None = None
    digest: str = ""
    main_classes: Mapping[str, type] = attrs.field(factory=dict)
    outlasts: bool = attrs.Factory(lambda self: _outlasts(self.staged), takes_self=True)
    awaited: Awaited = attrs.Factory(lambda self: _awaited(self.staged), takes_self=True)

    def endpoints(self) -> Program:
        """Return what plans and commits micro-batches: sources and sinks, with one node for all transforms in between.

        A process that does no more than that needs no module in which the functions of the pipeline are.
        """
        reads = self.staged.sources
        between = Flatten(label="", inputs=tuple(Ref(read.label) for read in reads))
        writes = [attrs.evolve(write, input=Ref(between.label)) for write in self.staged.sinks]
        plan = Plan((*reads, between, *writes))
        stages: tuple[tuple[KeyedNode, ...], ...] = tuple(() for _ in self.staged.stages)
        staged = attrs.evolve(self.staged, plan=plan, whole=plan, stages=stages, side_feeds={}, owners={}, passes=())
        foreign = {module.partition(".")[0] for module in self.staged.plan.foreign_modules}
        ambient = self.ambient.without(foreign)  # to restore a context variable, its module is imported
        return attrs.evolve(self, staged=staged, side_values={}, lifts={}, folded={}, ambient=ambient)

    def pack(self) -> PackedProgram:
        """Return the program in a form that can be sent to workers.

        Raises:
            PlanError: if it cannot be pickled.
        """
        needed = attrs.evolve(self, staged=attrs.evolve(self.staged, whole=self.staged.plan, passes=()))
        try:
            blob = dump_with_classes(needed)
        except BaseException as error:
            raise unpicklable_program(error) from error
        return PackedProgram(hashlib.sha256(blob).hexdigest(), blob, folders=_own_folders())

    @property
    def fence(self) -> Fence | None:
        """The fence of this start of the run; `None` for a bounded job."""
        return Fence(self.run_id, self.sequencer, tuple(self.marks.items())) if self.sequencer else None

    @property
    def followers(self) -> tuple[int, ...]:
        """The ids of the shards that follow the sources; without keyed stages the commit does, under one id."""
        return self.shard_ids if self.staged.stages else self.shard_ids[:1]

    @functools.cached_property
    def is_on_wall(self) -> bool:
        """Whether the wall clock is the run's clock, since neither the data nor a script determine one."""
        sources = [read.source for read in self.staged.sources]
        return not any(source.has_own_clock for source in sources)

    @functools.cached_property
    def state_memory_share(self) -> int | None:
        """The bytes of memory for the state by key of one keyed node on one shard; `None` for no bound."""
        if self.max_state_memory is None:
            return None
        return self.max_state_memory // max(1, len(self.shard_ids) * len(self.staged.keyed))

    @functools.cached_property
    def _reached(self) -> dict[str, frozenset[str]]:
        """The cuts that each node's output reaches, including the node itself if it is one."""
        reached: dict[str, frozenset[str]] = {}
        waiting = self.staged.side_feeds.keys()  # their side inputs reach them too
        for node in reversed(self.staged.plan.nodes):
            if node.label in self.staged.cuts:
                reached[node.label] = frozenset({node.label})
                continue
            consumers = []
            for other in self.staged.plan.nodes:
                by_closure = isinstance(other, ParDo) and other.label not in waiting
                if any(ref.label == node.label for ref in (other.inputs[:1] if by_closure else other.inputs)):
                    consumers.append(other)
            reached[node.label] = frozenset().union(*(reached[other.label] for other in consumers))
        return reached

    def lifts_from(self, label: str) -> tuple[Lift, ...]:
        """Return the lifted groupings that a source feeds."""
        return tuple(lift for lift in self.lifts.values() if lift.read == label)

    @functools.cached_property
    def only_lifted(self) -> frozenset[str]:
        """The nodes whose output reaches only lifted groupings, which element-wise processing skips."""
        lifted = self.lifts.keys()
        return frozenset(label for label, cuts in self._reached.items() if cuts and cuts <= lifted)

    def all_but(self, cuts: Collection[str]) -> frozenset[str]:
        """Return the nodes whose output reaches none of the cuts."""
        return frozenset(label for label, reached in self._reached.items() if reached.isdisjoint(cuts))

    def element_consumers(self, label: str) -> tuple[Node, ...]:
        """Return the nodes that take a source's rows as elements."""
        return tuple(node for node in self.staged.plan.consumers(Ref(label)) if node.label not in self.only_lifted)

    def skipped_from(self, label: str) -> dict[str, list[str]]:
        """Return the nodes that rows skip on their way to lifted groupings, each under the first of these."""
        skipped: dict[str, list[str]] = {}
        refs = [Ref(label)]
        for ref in refs:
            for node in self.staged.plan.consumers(ref):
                if node.label in self.only_lifted and node.label not in self.lifts:
                    skipped.setdefault(min(self._reached[node.label]), []).append(node.label)
                    refs.append(Ref(node.label))
        return skipped

    def pairs_of(self, label: str) -> ToPairs | None:
        """Return the node that turns the rows into pairs of two columns, if no other node takes them as elements."""
        consumers = self.element_consumers(label)
        pairs = consumers[0] if len(consumers) == 1 else None
        if self.staged.source(label).id_columns:  # the record's id needs its columns
            return None
        return pairs if isinstance(pairs, ToPairs) and isinstance(pairs.key, str) and pairs.value is not None else None

    def projected_source(self, label: str) -> ColumnSource:
        """Return a source with only the columns that are needed."""
        node = self.staged.read(label)
        source = node.source.as_columns
        assert source is not None  # noqa: S101 - only column sources are read by ranges of rows
        pairs = self.pairs_of(label)
        # A dead letter contains the whole row, and text may be bad in any column.
        if node.dead_letters is not None or not source.is_typed or (self.element_consumers(label) and pairs is None):
            return source
        columns = {name for lift in self.lifts_from(label) for name in (lift.key, lift.value) if name is not None}
        if pairs is not None:
            columns |= {str(pairs.key), str(pairs.value)}
        return source.project(columns) if columns <= set(source.schema().names) else source


def _outlasts(staged: StagedPlan) -> bool:
    return any(isinstance(node, ParDo) and isinstance(node.fn, ResumingFn) for node in staged.plan.nodes)


def _awaited(staged: StagedPlan) -> Awaited:
    return Awaited(staged.percentiles, percentile_that_ends(staged.plan))


def _own_folders() -> tuple[str, ...]:
    """Return the folders and archives from which this process imports modules that are not installed."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    folders = [pathlib.Path(folder).absolute() for folder in sys.path]
    return tuple(
        str(folder)
        for folder in folders
        if not folder.is_relative_to(library)
        and folder.name not in {"site-packages", "dist-packages"}
        and folder.exists()
    )


@attrs.frozen
class PackedProgram:
    """A program as bytes, or the file that contains them.

    Attributes:
        digest: identifies the program.
        blob: the bytes; empty if they are in a file.
        file: the path of that file, on a file system that the workers share.
        key: what the file is encrypted with. It travels with the program and is in no file, since a program contains
            what users pass to functions and connectors, such as passwords.
        folders: where the driver finds modules of its own, such as those beside its program. A worker searches them
            last, if it has them: on the driver's machine the functions can import the same modules as there.
    """

    digest: str
    blob: bytes = b""
    file: str = ""
    folders: tuple[str, ...] = ()
    key: bytes = attrs.field(default=b"", repr=False)

    def unpack(self) -> Program:
        """Return the program.

        Raises:
            PlanError: if a module is missing here, or something in it.
            SourceError: if the file cannot be read.
            StateCorruption: if the file has another content.
        """
        sys.path += [folder for folder in self.folders if folder not in sys.path and pathlib.Path(folder).exists()]
        program: Program
        try:
            program, main_classes = load_with_classes(self.blob or self._read())
        except ModuleNotFoundError as error:
            raise PlanError(
                f"a worker cannot import {error.name!r}, which the pipeline's functions or values refer to",
                hint="install it for the workers, or, on Spark, ship a module of your own with "
                "spark.addArtifacts('module.py', pyfile=True)",
            ) from error
        except AttributeError as error:
            raise PlanError(
                f"a worker does not have what the pipeline's functions or values refer to by name: {error}",
                hint="define it in a module that the workers can import, or refer to it in a function only",
            ) from error
        return attrs.evolve(program, digest=self.digest, main_classes=main_classes)

    def path(self) -> pathlib.Path:
        """Return the path of the file on this machine."""
        return pathlib.Path(self.file)

    def _read(self) -> bytes:
        path = self.path()
        try:
            blob = encrypted(path.read_bytes(), self.key)
        except OSError as error:
            raise SourceError(
                f"a worker cannot read the run's functions in {str(path)!r}: {error}",
                hint="make sure that driver and workers share the checkpoint directory and run as the same user",
            ) from error
        if hashlib.sha256(blob).hexdigest() != self.digest:
            raise corrupt(repr(str(path)), "it is not the file that the driver wrote")
        return blob


def encrypted(data: bytes, key: bytes) -> bytes:
    """Return bytes that mean nothing without the key, or what they were: XOR with the output of SHAKE-256 for the key.

    Args:
        data: the bytes.
        key: random bytes, used for nothing else.

    Example:
        >>> encrypted(encrypted(b"a program", b"a key"), b"a key")
        b'a program'
    """
    stream = hashlib.shake_256(key).digest(len(data))
    return (np.frombuffer(data, np.uint8) ^ np.frombuffer(stream, np.uint8)).tobytes()
