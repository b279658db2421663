"""The parts of a query that Spark calls: the source and the keyed stages."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from dataflow_model.runners.engine.functions.lifetimes import torn_down_if_failed
from dataflow_model.runners.sharded.checkpoint.durable import check_format
from dataflow_model.runners.sharded.checkpoint.requests import drain_requests, forget_signals, pending_signals
from dataflow_model.runners.sharded.checkpoint.sequencers import check_newest
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.feed.acknowledging import acknowledge
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.feed.polls import Polls
from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.runners.sharded.stages.tallies import counting
from dataflow_model.runners.sharded.stages.work import has_work, plan_work, read_work
from dataflow_model.runners.sharded.tasks.rows import Row, arrow_batches
from dataflow_model.runners.spark.deployment.failures import reported
from dataflow_model.runners.spark.deployment.worker_memory import returning_memory
from dataflow_model.runners.spark.tasks import CachedFunctions, this_program, this_task
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd
    import pyarrow as pa

    from dataflow_model.runners.sharded.stages.work import Work
    from dataflow_model.runners.sharded.tasks.program import PackedProgram

OUR_SOURCE: Final = "dataflow_model_source"
_POLLS: Final[dict[str, Polls]] = {}
"""The polls of each program that this process plans micro-batches of; Spark makes a new reader for each call."""


def program_options(packed: PackedProgram, endpoints: PackedProgram, **options: str) -> dict[str, str]:
    """Return the options of our source and sink that contain a program, for tasks, and its endpoints, for the rest."""
    return {"program": option_of(packed), "endpoints": option_of(endpoints), **options}


def option_of(value: Any) -> str:
    """Return a value as the text of an option."""
    return base64.b64encode(dump(value)).decode()


def value_of(options: Any, name: str) -> Any:
    """Return the value in the text of an option."""
    return load(base64.b64decode(options[name]))


@attrs.frozen
class _Part:
    """One task of stage 0 in a stream."""

    number: int
    work: Work


class StreamReader:
    """Reads all sources of a pipeline that are not DataFrames, as Spark's `DataSourceStreamReader` expects it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.packed: PackedProgram = value_of(options, "program")
        self.endpoints: PackedProgram = value_of(options, "endpoints")
        self.rows = int(options["rows_per_batch"])
        self.parallelism = int(options["parallelism"])
        self.requests = pathlib.Path(options["requests"])
        self.directory = options["directory"]
        self.begin: dict[str, Any] = json.loads(options["begin"])

    def _feed(self) -> Feed:
        program = this_program(self.endpoints)
        return Feed.of(
            program,
            rows_per_batch=self.rows,
            parallelism=self.parallelism,
            read_clock=program.fault.read_clock,
            polls=_POLLS.setdefault(self.endpoints.digest, Polls()),
        )

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new stream begins."""
        return self.begin

    @reported
    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the micro-batch ends that begins at `start`; `start` itself if it would do nothing."""
        del limit
        check_newest(self.directory, this_program(self.endpoints).fence)
        check_format(start.get("format"), f"the offset in {self.directory!r}")
        drain, until_drained = drain_requests(self.requests)
        feed, progress = self._feed(), read_progress(self.directory)
        begin = Offset.of_json(start)
        end = feed.next(
            begin,
            drain=drain,
            until_drained=until_drained,
            signals=pending_signals(self.requests),
            committed=progress,
        )
        return start if self._is_idle(feed, begin, end, progress) else end.to_json()

    def _is_idle(self, feed: Feed, start: Offset, end: Offset, progress: Mapping[str, Any]) -> bool:
        """Return whether a micro-batch would do nothing: there is no new data, and nothing is due on the wall clock.

        Before the first micro-batch, the state of a run that was upgraded may wait for any moment. The clock of this
        source is needed where Spark reads DataFrames by itself.
        """
        has_dataframes = any(read.source.as_dataframe is not None for read in feed.reads)
        if has_dataframes or end is start or progress.get("batch", -1) < 0 or "moment" not in progress:
            return False
        moment: int | None = progress["moment"]
        is_due = moment is not None and moment <= feed.wall()
        return not (is_due or has_work(start, end, plan_work(feed, start, end), progress.get("ended", ())))

    @reported
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Part]:
        """Return the tasks of a micro-batch."""
        works = plan_work(self._feed(), Offset.of_json(start), Offset.of_json(end))
        return [_Part(number, work) for number, work in enumerate(works)]

    @reported
    def read(self, partition: _Part) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task for the first keyed stage or the sink."""
        task = attrs.evolve(this_task(self.packed), part=partition.number)
        with returning_memory(), torn_down_if_failed(CachedFunctions(task)):
            yield from arrow_batches(counting(task, read_work(task, partition.work)))

    @reported
    def commit(self, end: dict[str, Any]) -> None:
        """Delete the requests that were taken, and tell the sources what has been read for good."""
        forget_signals(self.requests, end["signals"])
        acknowledge(this_program(self.endpoints).staged.sources, Offset.of_json(end))


class _SparkStore:
    """The state store of one shard, in Spark's state variables; see `StateStore`."""

    def __init__(self, head: Any, log: Any) -> None:
        self.head = head
        self.log = log

    def get_head(self) -> bytes | None:
        row = self.head.get()
        return None if row is None else bytes(row[0])

    def put_head(self, head: bytes) -> None:
        self.head.update((head,))

    def get(self, sequence: int, part: int) -> bytes | None:
        row = self.log.getValue((sequence, part))
        return None if row is None else bytes(row[0])

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        self.log.updateValue((sequence, part), (payload,))

    def remove(self, sequence: int, part: int) -> None:
        self.log.removeKey((sequence, part))


@attrs.define
class KeyedStage:
    """A keyed stage in Spark's stateful processor; the grouping key is the shard. See `Stage`."""

    VALUES: ClassVar[Mapping[str, StructType]] = {"head": StructType().add("records", BinaryType())}
    MAPS: ClassVar[Mapping[str, tuple[StructType, StructType]]] = {
        "log": (
            StructType().add("sequence", LongType()).add("part", IntegerType()),
            StructType().add("payload", BinaryType()),
        )
    }

    packed: PackedProgram
    depth: int
    head: Any
    log: Any

    @reported
    def run(self, key: Any, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Run one micro-batch of one shard."""
        with returning_memory():
            yield self._output(int(key[0]), rows)

    def _output(self, shard: int, rows: Iterator[pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd  # other processes that load this module do not need it

        task, store = this_task(self.packed), _SparkStore(self.head, self.log)
        with torn_down_if_failed(CachedFunctions(task)):
            out = list(run_shard(task, self.depth, shard, _rows_of(rows), store))
        return pd.DataFrame(
            {
                "shard": pd.array([row.shard for row in out], "int32"),
                "stage": pd.array([row.stage for row in out], "int32"),
                "bucket": pd.array([row.bucket for row in out], "int32"),
                "kind": [row.kind for row in out],
                "payload": [row.payload for row in out],
            }
        )


def _rows_of(frames: Iterator[pd.DataFrame]) -> Iterator[Row]:
    for frame in frames:
        for shard, stage, kind, payload in zip(
            frame["shard"], frame["stage"], frame["kind"], frame["payload"], strict=True
        ):
            yield Row(int(shard), int(stage), kind, bytes(payload))
