"""What Spark calls in a streaming query: the source, the keyed stages, the sink."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from dataflow_model.plan.sources import ElementsSource
from dataflow_model.runners.engine.observing import Observations
from dataflow_model.runners.spark.durable import check_format
from dataflow_model.runners.spark.failures import reported
from dataflow_model.runners.spark.job import JobWork, count_elements, do_work, home_of, share_out
from dataflow_model.runners.spark.keyed_stage import run_shard
from dataflow_model.runners.spark.offsets import Feed
from dataflow_model.runners.spark.publishing import Publisher, Staging, read_progress
from dataflow_model.runners.spark.requests import forget_signals, pending_signals
from dataflow_model.runners.spark.rows import SCHEMA_DDL, Kind, Row, arrow_batches, dump, load, rows_of_batches
from dataflow_model.runners.spark.sequencers import check_newest
from dataflow_model.runners.spark.stage0 import STATIC_STEP, read_script, read_slice, read_static
from dataflow_model.runners.spark.tallies import counting
from dataflow_model.runners.spark.tasks import micro_batch_of_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from dataflow_model.runners.spark.offsets import Control
    from dataflow_model.runners.spark.program import PackedProgram, Program
    from dataflow_model.runners.spark.stage0 import Slice

__all__ = ["OUR_SINK", "OUR_SOURCE", "KeyedStage", "SinkProvider", "SourceProvider", "option_of", "program_options"]

OUR_SOURCE: Final = "dataflow_model_source"
OUR_SINK: Final = "dataflow_model_sink"


def program_options(packed: PackedProgram, **more: str) -> dict[str, str]:
    """Return the options that carry a program to our source and sink."""
    return {"program": option_of(packed), **more}


def option_of(value: Any) -> str:
    """Return a value as the text of an option."""
    return base64.b64encode(dump(value)).decode()


def _option(options: Any, name: str) -> Any:
    return load(base64.b64decode(options[name]))


class Work(InputPartition):
    """What one task of stage 0 does: row ranges, and in one task of a micro-batch the control rows."""

    def __init__(
        self,
        number: int,
        control: Control,
        *,
        leads: bool,
        parts: list[Slice] | None = None,
        scripts: list[tuple[str, int, int, dict[int, Any]]] | None = None,
    ) -> None:
        self.number = number
        self.control = control
        self.leads = leads
        self.parts = parts or []
        self.scripts = scripts or []


class _JobReader(DataSourceReader):
    """Reads all bounded sources of a pipeline that are not DataFrames, in one job."""

    def __init__(self, packed: PackedProgram, works: list[JobWork]) -> None:
        self.packed = packed
        self.works = works

    def partitions(self) -> list[JobWork]:
        return self.works

    @reported
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, JobWork)  # noqa: S101 - as `partitions` made it
        program = self.packed.unpack()
        return arrow_batches(counting(program, home_of(program, partition), do_work(program, partition)))


class _StreamReader(DataSourceStreamReader):
    """Reads all sources of a pipeline that are not DataFrames."""

    def __init__(self, packed: PackedProgram, options: dict[str, str]) -> None:
        self.packed = packed
        self.rows = int(options["rows_per_batch"])
        self.parallelism = int(options["parallelism"])
        self.requests = pathlib.Path(options["requests"])
        self.directory = options["directory"]
        self.begin: dict[str, Any] = json.loads(options["begin"])

    def _feed(self) -> Feed:
        program = self.packed.unpack()
        return Feed(program.staged.sources, self.rows, self.parallelism, program.awaited, program.fault.read_clock)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self.begin

    @reported
    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802
        del limit
        check_newest(self.directory, self.packed.unpack().fence)
        check_format(start.get("format"), f"the offset in {self.directory!r}")
        drain, until_drained = ((self.requests / name).exists() for name in ("drain", "until_drained"))
        return self._feed().next(
            start,
            drain=drain,
            until_drained=until_drained,
            signals=pending_signals(self.requests),
            committed=read_progress(self.directory),
        )

    @reported
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Work]:
        feed = self._feed()
        control = feed.control(start, end)
        parts = share_out(feed.slices(start, end), self.parallelism) if not feed.scripts else []
        scripts = feed.script_rows(start, end) if feed.scripts else []
        return [
            Work(number, control, leads=number == 0, parts=some, scripts=scripts if number == 0 else None)
            for number, some in enumerate(parts or [[]])
        ]

    @reported
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Work)  # noqa: S101 - as `partitions` made it
        program = self.packed.unpack()
        home = program.labels[partition.number % len(program.labels)]
        return arrow_batches(counting(program, home, self._rows(partition)))

    def _rows(self, work: Work) -> Iterator[Row]:
        program = self.packed.unpack()
        home = program.labels[work.number % len(program.labels)]
        if work.leads:
            if program.staged.stages:
                payload = dump(work.control)
                yield from (Row(label, 1, Kind.CONTROL, payload) for label in program.labels)
            at = None if work.control.steps is None else (0, STATIC_STEP)
            for read in program.staged.sources:
                if isinstance(read.source, ElementsSource) and read.label in work.control.begins:
                    yield from read_static(program, read.label, at, home)
                    yield from _counted(program, read.label, count_elements(read.source))
        for label, first, last, places in work.scripts:
            yield from read_script(program, label, first, last, places, home)
            source = program.staged.plan[label].source  # type: ignore[union-attr]
            yield from _counted(program, label, count_elements(source, first, last))
        for part in work.parts:
            yield from read_slice(program, part, work.control.wall, home)

    @reported
    def commit(self, end: dict[str, Any]) -> None:
        """Forget the requests that were taken; the sources keep what they have."""
        forget_signals(self.requests, end["signals"])


def _counted(program: Program, label: str, count: int) -> Iterator[Row]:
    """Tell stage 1 how many elements a source without files has given."""
    none = np.empty(0, np.int64)
    payload = dump((Observations(label, "", none), {"elements_out": count}))
    yield from (Row(shard, 1, Kind.SEEN, payload) for shard in program.labels if program.staged.stages)


class SourceProvider(DataSource):
    """The source that Spark is given."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return OUR_SOURCE

    def schema(self) -> str:
        """Return the schema of rows between stages."""
        return SCHEMA_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads in a bounded job."""
        del schema
        return _JobReader(_option(self.options, "program"), _option(self.options, "works"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads in a stream."""
        del schema
        return _StreamReader(_option(self.options, "program"), dict(self.options))


class _SparkStore:
    """The state store of one shard behind `StateStore`."""

    def __init__(self, head: Any, log: Any) -> None:
        self.head = head
        self.log = log

    def get_head(self) -> bytes | None:
        found = self.head.get()
        return None if found is None else bytes(found[0])

    def put_head(self, head: bytes) -> None:
        self.head.update((head,))

    def get(self, sequence: int, part: int) -> bytes | None:
        found = self.log.getValue((sequence, part))
        return None if found is None else bytes(found[0])

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        self.log.updateValue((sequence, part), (payload,))

    def remove(self, sequence: int, part: int) -> None:
        self.log.removeKey((sequence, part))


@attrs.define
class KeyedStage(StatefulProcessor):
    """A keyed stage as Spark's stateful processor; the grouping key is the shard."""

    packed: PackedProgram
    depth: int
    _store: Any = None

    def init(self, handle: Any) -> None:
        """Open the state variables."""
        self._store = _SparkStore(
            handle.getValueState("head", "records binary"),
            handle.getMapState("log", "sequence long, part int", "payload binary"),
        )

    @reported
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Run one micro-batch of one shard."""
        import pandas as pd  # the other processes that load this module have no use for it

        del timerValues
        program = self.packed.unpack()
        received, store = program.fault.receive(_rows_of(rows)), program.fault.keep(self._store)
        out = list(run_shard(program, self.depth, int(key[0]), received, store))
        yield pd.DataFrame(
            {
                "shard": pd.array([row.shard for row in out], "int32"),
                "stage": pd.array([row.stage for row in out], "int32"),
                "bucket": pd.array([row.bucket for row in out], "int32"),
                "kind": [row.kind for row in out],
                "payload": [row.payload for row in out],
            }
        )

    def close(self) -> None:
        """Do nothing: the cache outlives the micro-batch."""


def _rows_of(frames: Iterator[pd.DataFrame]) -> Iterator[Row]:
    for frame in frames:
        for shard, stage, kind, payload in zip(
            frame["shard"], frame["stage"], frame["kind"], frame["payload"], strict=True
        ):
            yield Row(int(shard), int(stage), kind, bytes(payload))


class _Staged(WriterCommitMessage):
    def __init__(self, staging: Staging) -> None:
        self.staging = staging


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes all sinks of a pipeline: tasks stage, one commit publishes."""

    def __init__(self, packed: PackedProgram, options: dict[str, str]) -> None:
        self.packed = packed
        self.directory = options["directory"]

    @reported
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        publisher = Publisher(self.packed.unpack(), self.directory)
        return _Staged(publisher.stage(micro_batch_of_task() or 0, rows_of_batches(iterator)))

    @reported
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        Publisher(self.packed.unpack(), self.directory).commit(batchId, _stagings(messages))

    @reported
    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        Publisher(self.packed.unpack(), self.directory).abort(batchId, _stagings(messages))


def _stagings(messages: list[Any]) -> list[Staging]:
    return [message.staging for message in messages if message is not None]


class SinkProvider(DataSource):
    """The sink that Spark is given."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return OUR_SINK

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802
        """Return what writes in a stream."""
        del schema, overwrite
        return _StreamWriter(_option(self.options, "program"), dict(self.options))
