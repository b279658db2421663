"""Look into a checkpoint without starting anything: how far its run is, what state it keeps, and what it would do."""

from __future__ import annotations

import contextlib
import pathlib
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.runners.local.run_file import HOST, RunFile
from dataflow_model.runners.operating.largest_keys import largest_keys
from dataflow_model.runners.runs.options import checkpoint_path, trusts
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.sharded.checkpoint.requests import drain_requests, is_drained, pending_signals, signal_of
from dataflow_model.runners.sharded.checkpoint.running import who_runs
from dataflow_model.runners.sharded.checkpoint.trust import check_trust
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.directory import Checkpoint
from dataflow_model.runners.sharded.upgrade.reading import read_shard
from dataflow_model.runners.spark import spark_logs
from dataflow_model.time import EventTime, ProcessingTime

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from typing import Any

    from dataflow_model.runners.operating.largest_keys import KeySize
    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.upgrade.reading import ShardFound

DEFAULT_KEYS: Final = 5
"""The number of largest keys that are listed of each transform if the user asks for no number."""
MOST_BYTES: Final = 256 << 20
"""The size of the state up to which its keys are then listed."""


@attrs.frozen
class OpenOrigin:
    """An origin of a source, such as a file, that has unread rows; `listed` is the number of its rows."""

    name: str
    read: int
    listed: int


@attrs.frozen
class SourceState:
    """How far a source has been read.

    Attributes:
        label: the label of the source.
        rows: the number of rows read.
        behind: the number of rows that have been listed, but not been read.
        done: the number of origins that have been read completely and still exist.
        open: the other origins.
    """

    label: str
    rows: int
    behind: int
    done: int
    open: tuple[OpenOrigin, ...] = ()


@attrs.frozen
class TransformState:
    """The state of a keyed transform after the last commit.

    Attributes:
        label: its label.
        stage: its stage, from 1.
        entries: the number of keys with state, or of partial sums of a grouping in columns.
        bytes: the size of the state as stored.
        largest: its largest keys, the largest first, as far as they were asked for and can be read.
    """

    label: str
    stage: int
    entries: int
    bytes: int
    largest: tuple[KeySize, ...] = ()


@attrs.frozen(kw_only=True)
class Inspection:
    """What a checkpoint says about its run.

    Attributes:
        checkpoint: its path.
        runner: the runner that has made it.
        format: the format of the checkpoint.
        run_id: the id of the run.
        shards: the number of shards.
        state: `"running"`, `"stopped"`, `"finished"` or `"drained"`.
        process: the process in which it is running; `None` if it is not.
        micro_batch: the number of the last committed micro-batch; `None` before the first.
        commits: the number of commits.
        clock: the clock after the last commit: the wall clock, or the position of a replay clock or a script.
        watermarks: the output watermarks of sources and keyed transforms after the last commit.
        sources, transforms: their states.
        graph: what each transform does, in the order of the pipeline.
        drain_requested: whether the run is to be drained.
        signals: the requested signals that have not been taken.
        notes: what could not be read, and why.
    """

    checkpoint: str
    runner: str
    format: int
    run_id: str
    shards: int
    state: str
    process: str | None
    micro_batch: int | None
    commits: int
    clock: ProcessingTime | None
    watermarks: Mapping[str, EventTime]
    sources: tuple[SourceState, ...]
    transforms: tuple[TransformState, ...]
    graph: Mapping[str, str]
    drain_requested: bool
    signals: tuple[str, ...]
    notes: tuple[str, ...] = ()


def inspect(
    checkpoint: str | os.PathLike[str], *, keys: int | None = None, trust_checkpoint: bool = False
) -> Inspection:
    """Look into a checkpoint, whose run may be running, without changing or locking anything in it.

    Args:
        checkpoint: the directory.
        keys: the number of largest keys to list of each transform, for which all state is read into memory; by default
            5 if the state is at most 256 MiB.
        trust_checkpoint: whether to read it even if other users may write to it, since a checkpoint contains code.

    Raises:
        CheckpointMismatch: if the directory contains no checkpoint of a run, or one in another format.
        StateCorruption: if it is damaged.
        UntrustedCheckpoint: if everybody may write to it.
        SinkError: if it cannot be read.

    Example:
        >>> import dataflow_model as dm, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with dm.Pipeline(runner=dm.LocalRunner(checkpoint=folder)) as p:
        ...     _ = p | dm.Create([("UA", 4)]) | "sums" >> dm.Sum.per_key() | dm.io.Collect()
        >>> found = inspect(folder)
        >>> found.state, found.micro_batch, found.graph["sums"][:36]
        ('finished', 1, 'grouping of Create with Sum under Gl')
    """
    path = checkpoint_path(checkpoint)
    folder = pathlib.Path(path).absolute()
    if not folder.is_dir():
        raise nothing_there(path)
    check_trust(path, is_trusted=trusts(trust_checkpoint))
    record = record_of(path)
    is_local = (folder / HOST).exists()
    progress = read_progress(str(common_part(folder)))
    most, notes = _keys_to_list(keys, progress)
    read = _read_local if is_local else _read_on_spark
    observed = read(folder, record, most)
    requests = common_part(folder) / "requests"
    process = who_is_running(folder)
    is_over = observed.offset is not None and observed.offset.last and progress.get("moment") is None
    state = "drained" if is_drained(requests) else "running" if process else "finished" if is_over else "stopped"
    return Inspection(
        checkpoint=path,
        runner="LocalRunner" if is_local else "SparkRunner",
        format=FORMAT,
        run_id=record.run_id,
        shards=record.shards,
        state=state,
        process=process,
        micro_batch=observed.micro_batch,
        commits=progress.get("commits", 0),
        clock=ProcessingTime(progress["clock"]) if "clock" in progress else None,
        watermarks={label: EventTime(at) for label, at in progress.get("watermarks", {}).items()},
        sources=() if observed.offset is None else tuple(_sources(observed.offset, record.fingerprint)),
        transforms=tuple(_transforms(record, progress, observed.largest)),
        graph={label: line.replace(".main", "") for label, line in record.fingerprint.items()},
        drain_requested=any(drain_requests(requests)),
        signals=tuple(map(signal_of, pending_signals(requests))),
        notes=(*notes, *observed.notes),
    )


def record_of(path: str) -> RunRecord:
    """Return the record of the run in a checkpoint.

    Raises:
        CheckpointMismatch: if there is none, or one in another format.
        StateCorruption: if it is missing or damaged.
    """
    folder = pathlib.Path(path).absolute()
    record = Checkpoint.check_path(path, HOST if (folder / HOST).exists() else spark_logs.HOST)
    if record is None:
        raise nothing_there(path)
    return record


def nothing_there(path: str) -> CheckpointMismatch:
    """Return the error for a directory without a checkpoint."""
    if (common_part(pathlib.Path(path)) / "seed").exists():
        return CheckpointMismatch(
            f"no run has started in {path!r} since it was upgraded",
            hint="start the changed pipeline with this checkpoint, and look at it then",
        )
    return CheckpointMismatch(
        f"{path!r} contains no checkpoint of a dataflow_model run",
        hint="pass the directory that a run uses as checkpoint=",
    )


def who_is_running(folder: pathlib.Path) -> str | None:
    """Return the process in which the run of a checkpoint is running; `None` if it is not.

    Its mark says so. The lock of a run in process is not tried, since a run that starts at that moment would fail.
    """
    return who_runs(str(common_part(folder)))


@attrs.frozen
class _Found:
    """What the host's part of a checkpoint says."""

    micro_batch: int | None = None
    offset: Offset | None = None
    largest: Mapping[str, tuple[KeySize, ...]] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()


def _keys_to_list(keys: int | None, progress: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return how many keys of each transform to list, and what to say about it."""
    if keys is not None:
        return keys, []
    size = sum(stored for _, stored in progress.get("state", {}).values())
    if size <= MOST_BYTES:
        return DEFAULT_KEYS, []
    return 0, [f"the state of {size:,} bytes was not read; ask for its largest keys: dataflow-model inspect --keys 5"]


def _read_local(folder: pathlib.Path, record: RunRecord, most: int) -> _Found:
    file = RunFile.read_only(str(folder / HOST))
    if file is None:
        return _Found()
    with contextlib.closing(file), file.snapshot():
        commit = file.last_commit()
        if commit is None:
            return _Found()
        observed = _Found(commit.number, commit.offset)
        if not most:
            return observed
        try:
            return attrs.evolve(observed, largest=largest_keys(_shards(file, record), most))
        except CheckpointMismatch as error:  # a class of the user's that cannot be imported here
            problem = str(error).partition("\n")[0]
            return attrs.evolve(observed, notes=(f"the largest keys could not be read: {problem}",))


def _shards(file: RunFile, record: RunRecord) -> Iterator[ShardFound]:
    ids = range(record.shards)
    return (read_shard(record, ids, shard, file.store(depth, shard)) for depth, shard in file.shards())


def _read_on_spark(folder: pathlib.Path, _: RunRecord, most: int) -> _Found:
    host_part = str(folder / spark_logs.HOST)
    batch = spark_logs.last_committed(host_part)
    notes = ["the largest keys are in Spark's own state store, which only Spark can read"] if most else []
    if batch is None:
        return _Found()
    offset, others = spark_logs.offset_of(host_part, batch)
    if others:
        notes.append(f"only Spark knows how far it has read the streaming DataFrames, of which there are {others}")
    return _Found(batch, offset, notes=tuple(notes))


def _sources(offset: Offset, fingerprint: Mapping[str, str]) -> Iterator[SourceState]:
    for label in (label for label in fingerprint if label in offset.begun):
        source = offset.of_source(label)
        listed = [OpenOrigin(name, origin.read, origin.end - origin.first) for name, origin in source.open.items()]
        unread = tuple(origin for origin in listed if origin.read < origin.listed)
        yield SourceState(
            label,
            source.rows_read,
            sum(origin.listed - origin.read for origin in unread),
            len(source.done) + len(listed) - len(unread),
            unread,
        )


def _transforms(
    record: RunRecord, progress: Mapping[str, Any], largest: Mapping[str, tuple[KeySize, ...]]
) -> Iterator[TransformState]:
    for stage, labels in enumerate(record.stages, 1):
        for label in labels:
            entries, stored = progress.get("state", {}).get(label, (0, 0))
            yield TransformState(label, stage, entries, stored, largest.get(label, ()))
