"""Sinks under Spark: tasks stage their rows, the commit of a micro-batch publishes all sinks and the progress."""

from __future__ import annotations

import json
import pathlib
import pickle
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import attrs

from dataflow_model.plan.nodes import Write
from dataflow_model.plan.sinks import MessageSink, Record
from dataflow_model.runners.engine.records import records_of
from dataflow_model.runners.spark.rows import Kind, PackedBundle, PackedPanes, dump, load
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.sinks import Sink, SinkWriter
    from dataflow_model.runners.spark.program import Program
    from dataflow_model.runners.spark.rows import Row

__all__ = [
    "Publisher",
    "Stager",
    "Staging",
    "commit_id",
    "read_collected",
    "read_counters",
    "read_progress",
    "read_watermarks",
]

_PROGRESS: Final = "progress.json"


@attrs.define
class Staging:
    """What one task has staged: the sinks' messages by label, and metrics in passing."""

    messages: dict[str, bytes] = attrs.field(factory=dict)
    metrics: list[dict[str, Any]] = attrs.field(factory=list)


def commit_id(program: Program, batch: int) -> str:
    """Name a commit."""
    return f"{program.run_id}-{batch:08d}"


@attrs.define
class Stager:
    """The sinks of one task; as a context manager it removes what was staged when the task fails.

    Args:
        program: the program.
        batch: the micro-batch.
    """

    program: Program
    batch: int
    _task: str = attrs.field(init=False, factory=lambda: uuid.uuid4().hex[:12])
    _writers: dict[str, SinkWriter] = attrs.field(init=False, factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for writer in self._writers.values():
                writer.abort()

    def write(self, label: str, records: Sequence[Record]) -> None:
        """Stage records for a sink."""
        self._writer(label).write(records)

    def write_panes(self, packed: PackedPanes) -> None:
        """Stage panes in columns, if the sink takes columns."""
        writer, records = self._writer(packed.cut), packed.records()
        write_columns = getattr(writer, "write_columns", None)
        if write_columns is None:
            writer.write(records)
        else:
            write_columns(records.panes.columns(panes=bool(getattr(self._sink(packed.cut), "panes", False))))

    def close(self) -> dict[str, bytes]:
        """Finish, and return the sinks' messages by label."""
        return {label: writer.close() for label, writer in self._writers.items()}

    def _writer(self, label: str) -> SinkWriter:
        if label not in self._writers:
            self._writers[label] = self._sink(label).open(commit_id(self.program, self.batch), self._task)
        return self._writers[label]

    def _sink(self, label: str) -> Sink:
        node = self.program.staged.plan[label]
        assert isinstance(node, Write)  # noqa: S101 - only sinks are sent output
        return node.sink


@attrs.frozen
class Publisher:
    """Writes and publishes the sinks of a program.

    Args:
        program: the program.
        directory: where the run keeps its own files, beside Spark's checkpoint.
    """

    program: Program
    directory: str

    def stage(self, batch: int, rows: Iterable[Row]) -> Staging:
        """Write one task's rows to where no reader sees them yet."""
        staging = Staging()
        with Stager(self.program, batch) as stager:
            for row in rows:
                if row.kind == Kind.METRICS:
                    staging.metrics.append(load(row.payload))
                elif row.kind == Kind.OUTPUT:
                    packed: PackedBundle = load(row.payload)
                    stager.write(packed.cut, records_of(packed.bundle, packed.instants()))
                elif row.kind == Kind.PANES:
                    stager.write_panes(load(row.payload))
            staging.messages = stager.close()
            self.program.reach("after_staging", batch)
        return staging

    def commit(self, batch: int, staged: Sequence[Staging]) -> None:
        """Publish what the tasks have staged; again for the same micro-batch, it changes nothing."""
        if self.program.staged.stages and not any(staging.metrics for staging in staged):
            self.abort(batch, staged)  # no shard has run: a DataFrame's rows that came behind the end of the input
            return
        rows: dict[str, Counter[str]] = {}
        self.program.reach("before_publishing", batch)
        for write in self.program.staged.sinks:
            messages = [staging.messages[write.label] for staging in staged if write.label in staging.messages]
            write.sink.commit(commit_id(self.program, batch), messages)
            rows[write.label] = Counter(write.sink.counts(messages))
            if isinstance(write.sink, MessageSink):
                records = write.sink.records(messages)
                rows[write.label]["elements_in"] += len(records)
                if records:
                    _keep(self._collected(write.label), commit_id(self.program, batch), records)
            self.program.reach("while_publishing", batch)
        self.program.reach("after_publishing", batch)
        _write_progress(
            pathlib.Path(self.directory), batch, [part for staging in staged for part in staging.metrics], rows
        )
        self.program.reach("after_progress", batch)

    def abort(self, batch: int, staged: Sequence[Staging]) -> None:
        """Remove what the tasks have staged."""
        for write in self.program.staged.sinks:
            messages = [staging.messages[write.label] for staging in staged if write.label in staging.messages]
            write.sink.abort(commit_id(self.program, batch), messages)

    def _collected(self, label: str) -> pathlib.Path:
        return _collected(self.directory, label)


def read_collected(directory: str, label: str) -> list[Record]:
    """Return what a sink that keeps its records has received, in emission order."""
    records: list[Record] = []
    for path in sorted(_collected(directory, label).glob("*.pickle")):
        records.extend(pickle.loads(path.read_bytes()))
    records.sort(key=lambda record: record.order)
    return records


def read_progress(directory: str) -> dict[str, Any]:
    """Return the progress that the last commit wrote; empty before the first."""
    try:
        progress: dict[str, Any] = json.loads(pathlib.Path(directory, _PROGRESS).read_text())
    except FileNotFoundError:
        return {}
    return progress


def read_counters(directory: str, plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the counters of each transform, as of the last commit."""
    progress = read_progress(directory)
    found: dict[str, dict[str, Any]] = {node.label: {} for node in plan.nodes}
    for part in ("counters", "sinks"):
        for label, counts in progress.get(part, {}).items():
            found.setdefault(label, {}).update(counts)
    return found


def read_watermarks(directory: str) -> dict[str, EventTime]:
    """Return the output watermark of each source and keyed node, as of the last commit."""
    return {label: EventTime(watermark) for label, watermark in read_progress(directory).get("watermarks", {}).items()}


def _collected(directory: str, label: str) -> pathlib.Path:
    return pathlib.Path(directory, "collected", quote(label, safe=""))


def _keep(directory: pathlib.Path, commit_id: str, records: list[Record]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / f"{commit_id}.pickle", dump(records))


def _replace(path: pathlib.Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    fresh.write_bytes(content)
    fresh.replace(path)


def _write_progress(
    directory: pathlib.Path, batch: int, metrics: Sequence[dict[str, Any]], rows: dict[str, Counter[str]]
) -> None:
    """Write counters and watermarks; those of shards are totals, those of sinks are added up over commits."""
    before = read_progress(str(directory))
    counters: dict[str, Counter[str]] = {}
    watermarks: dict[str, int] = {}
    cache: Counter[str] = Counter(before.get("cache", {}))
    sources: dict[str, Any] = {name: before[name] for name in ("reach", "enough") if name in before}
    for part in metrics:
        for label, counts in part["counters"].items():
            counters.setdefault(label, Counter()).update(counts)
        for label, counts in part["sources"].items():
            if part["depth"] == 0:
                counters.setdefault(label, Counter()).update(counts)
            elif part["depth"] == 1:
                counters[label] = Counter(counts)  # every shard is told the same
        for label, watermark in part["watermarks"].items():
            watermarks[label] = min(watermark, watermarks.get(label, watermark))
        cache[part["cache"]] += 1
        sources.update({name: part[name] for name in ("reach", "enough") if name in part})  # every shard tells the same
    sinks = {label: Counter(before.get("sinks", {}).get(label, {})) for label in rows}
    if before.get("batch", -1) < batch:
        for label, counts in rows.items():
            sinks[label].update(counts)
    progress = {
        "batch": batch,
        "counters": counters or before.get("counters", {}),
        "sinks": sinks,
        "watermarks": watermarks or before.get("watermarks", {}),
        "cache": cache,
        **sources,
    }
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / _PROGRESS, json.dumps(progress).encode())
