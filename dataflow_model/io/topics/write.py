"""Writing to Kafka: the transform that users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from dataflow_model.io.arguments import with_label_hints
from dataflow_model.io.topics.sink import KafkaSink
from dataflow_model.io.write import WriteColumns
from dataflow_model.transforms.endpoints.create import Write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.transforms.pipelines.pcollection import PCollection


@with_label_hints(takes_path=False)
class WriteKafka(WriteColumns):
    """Write a collection to a topic of Kafka, each element once for readers of committed messages.

    With `value="json"`, elements become rows as in `WriteParquet`, and the value of a message is the row as `WriteJson`
    writes it. With `value="bytes"`, an element is a value, a pair of a key and a value, or a triple of these and
    headers. Key and value are bytes, text or `None`; headers are a dict or pairs of names and values.

    The messages of a commit wait in the checkpoint, and pass through the driver. One transaction holds them and a mark
    with the id of the commit, by which a restart knows whether they are in the topic. A bounded run writes all its
    messages in one transaction. Readers must have `isolation.level=read_committed`, or they see messages of
    transactions that were aborted too.

    A retraction has the header `dataflow_model.is_retraction`, and in rows a true value in a last column
    `is_retraction`. With `upsert=True`, it is a message with its key and without a value, a tombstone: then readers
    keep the last value of each key, as compacted topics do, and `run()` rejects a strategy whose panes would leave a
    wrong one. Each message also has the headers `dataflow_model.commit` and `dataflow_model.ordinal`, its number in the
    commit. Its timestamp is the event time, or the time of writing if that is earlier.

    Args:
        topic: the name of the topic, which must exist.
        bootstrap_servers: the address of a broker such as `"localhost:9092"`, or several.
        value: `"json"` or `"bytes"`.
        keys: the column or columns that are the key of a message: text as it is, any other value and several columns
            as JSON. Equal keys go to one partition, the same one as with the clients for Java.
        headers: the column or columns that are also headers of a message: text as it is, any other value as JSON.
        schema: the columns as a `pyarrow.Schema`. By default they are taken from type hints or, without them, from the
            first rows, as in `WriteParquet`.
        panes: also write `window_start` and `window_end` (UTC, null where infinite), `pane_index` and `pane_timing`.
        upsert: `True` if readers keep the last value of each key; `"replace"` if the value that is emitted last should
            stand, whichever window and pane it is of.
        dead_letters: a topic for elements that do not fit the columns, have no key where `upsert` needs one, or are too
            large for a message: each is a message in JSON with `row`, `label` and `reason`, in the same transaction,
            and is counted. Without it, such an element fails the run.
        delivery: `"exactly_once"`; or `"at_least_once"`, without transactions and marks, for brokers or users that may
            not use them: a commit that is repeated after a crash is there twice, with the same headers.
        marks: where a stream notes its last commit, in the same transaction: `"group"`, as metadata of an offset of the
            group `dataflow_model-RUN-LABEL`, or `"topic"`, in the compacted topic `TOPIC-marks`, which is created
            unless it exists. The latter does not expire, and needs no right to READ the topic or a group.
        options: options of the client, librdkafka, such as `{"security.protocol": "SSL"}`. They are not part of
            checkpoints, logs and reports.

    Raises:
        ModuleNotFoundError: if the client is not installed: `pip install 'dataflow-model[kafka]'`.
        InvalidArgument: for options that contradict each other, or that are set here, and a key or a header that is not
            a column.
        SinkError: by `run()`, if the brokers cannot be reached, the topic does not exist, or the user has no right to
            write to it; during the run, for an element that does not fit, unless `dead_letters` names a topic.
        SupersededRun: during the run, if a newer start uses its checkpoint.
        PlanError: by `run()`, for panes that would leave a wrong result.

    Source: Beam's `WriteToKafka`, which writes at least once; Materialize's progress records, which are in the
    transaction of the rows too.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4.0)]) | dm.io.WriteKafka("delays", bootstrap_servers="localhost:9092", keys="key")
        >>> p.plan()["WriteKafka"].sink.keys
        ('key',)
    """

    def __init__(  # noqa: PLR0913 - what a topic and its readers expect
        self,
        topic: str,
        *,
        bootstrap_servers: str | Sequence[str],
        value: Literal["json", "bytes"] = "json",
        keys: str | Sequence[str] = (),
        headers: str | Sequence[str] = (),
        schema: pa.Schema | None = None,
        panes: bool = False,
        upsert: bool | Literal["replace"] = False,
        dead_letters: str | None = None,
        delivery: Literal["exactly_once", "at_least_once"] = "exactly_once",
        marks: Literal["group", "topic"] = "group",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        sink = KafkaSink(
            topic=topic,
            servers=bootstrap_servers,
            value=value,
            keys=keys,
            headers=headers,
            schema=schema,
            panes=panes,
            upsert=upsert,
            dead_letters=dead_letters,
            delivery=delivery,
            marks=marks,
            options=options,
        )
        super().__init__(sink)

    @property
    def marks_retractions(self) -> bool:
        """Whether a column marks retractions; the others are tombstones."""
        sink: Any = self.sink
        return not sink.upsert

    def expand(self, pcoll: PCollection, /) -> None:
        """Add the node, with the columns of the element type if elements are rows and no schema is given."""
        sink: Any = self.sink
        if sink.value == "json":
            super().expand(pcoll)
        else:
            Write(attrs.evolve(sink, label=pcoll.pipeline.scope)).expand(pcoll)
