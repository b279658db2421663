"""A topic of Kafka as a sink: the rows of a commit and a mark that names it are in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.io.sinks.column_sinks import ColumnSink
from dataflow_model.io.sinks.sink_columns import checked_schema, columns_text, own_columns
from dataflow_model.io.topics.client import checked_options, checked_servers, checked_topic, described
from dataflow_model.io.topics.messages import RESERVED, KafkaWriter, WeakKafkaWriter, messages_of
from dataflow_model.overriding import override
from dataflow_model.plan.endpoints.outcomes import Reader
from dataflow_model.plan.endpoints.sinks import KnownCommits
from dataflow_model.values import pickles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.plan.endpoints.sinks import Fence

_BOUNDS: Final = frozenset({"window_start", "window_end"})


def _checked_columns(value: Any, name: str) -> tuple[str, ...]:
    columns = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(column, str) and column for column in columns) or len(set(columns)) < len(columns):
        raise InvalidArgument(
            f"`{name}` must be one column or several, each once, got {value!r}", hint=f"pass {name}='key', for example"
        )
    return columns


def _checked_keys(value: Any) -> tuple[str, ...]:
    return _checked_columns(value, "keys")


def _checked_headers(value: Any) -> tuple[str, ...]:
    columns = _checked_columns(value, "headers")
    taken = [column for column in columns if column.startswith(RESERVED)]
    if taken:
        raise InvalidArgument(
            f"the names of headers must not begin with {RESERVED!r}, got {taken[0]!r}", hint="rename the column"
        )
    return columns


def _checked_dead_letters(value: Any) -> str | None:
    return None if value is None else checked_topic(value, "dead_letters")


@attrs.frozen(kw_only=True)
class KafkaSink(ColumnSink):
    """A topic.

    Attributes:
        topic: its name.
        servers: the addresses of brokers.
        value: `"json"` if elements are rows; `"bytes"` if they are values, or pairs of a key and a value.
        keys: the columns that are the key of a message; none if it has none.
        headers: the columns that are headers of a message, besides those that tell of the commit.
        schema, panes, retractions: see `ColumnSink`; for rows only.
        upsert: whether readers keep one value for each key, so that a retraction is a tombstone; `"replace"` if the
            one that is emitted last is meant, whatever window and pane it is of.
        dead_letters: the topic for elements that do not fit; `None` if they fail the run.
        delivery: whether each message is there once, or at least once.
        marks: where the last commit of a stream is noted: with a group, or in the topic `<topic>-marks`.
        options: of the client.
        label: what errors, the transactional id and the group of the mark call the transform.
        fence: the start of a run that writes.
    """

    topic: str = attrs.field(converter=checked_topic)
    servers: str = attrs.field(converter=checked_servers)
    value: Literal["json", "bytes"] = "json"
    keys: tuple[str, ...] = attrs.field(default=(), converter=_checked_keys)
    headers: tuple[str, ...] = attrs.field(default=(), converter=_checked_headers)
    schema: pa.Schema | None = attrs.field(default=None, converter=checked_schema, repr=False)
    panes: bool = False
    upsert: bool | Literal["replace"] = False
    dead_letters: str | None = attrs.field(default=None, converter=_checked_dead_letters)
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    marks: Literal["group", "topic"] = "group"
    options: Mapping[str, Any] = attrs.field(default=None, converter=checked_options, repr=False)
    retractions: bool = attrs.field(default=False, repr=False)
    label: str = attrs.field(default="WriteKafka", repr=False)
    fence: Fence | None = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the options against each other."""
        if self.value not in ("json", "bytes"):  # not in a set, as what is given may have no hash
            raise InvalidArgument(
                f"`value` must be 'json' or 'bytes', got {self.value!r}",
                hint="use value='bytes', and make pairs of a key and a value with dm.Map(…) before",
            )
        if self.upsert not in (False, True, "replace"):
            raise InvalidArgument(
                f"`upsert` must be False, True or 'replace', got {self.upsert!r}", hint="pass upsert=True"
            )
        if self.marks not in ("group", "topic"):
            raise InvalidArgument(f"`marks` must be 'group' or 'topic', got {self.marks!r}", hint="leave it out")
        if self.delivery not in ("exactly_once", "at_least_once"):
            raise InvalidArgument(
                f"`delivery` must be 'exactly_once' or 'at_least_once', got {self.delivery!r}", hint="leave it out"
            )
        if self.dead_letters == self.topic:
            raise InvalidArgument(
                f"`dead_letters` must be another topic than that of the rows, got {self.topic!r}",
                hint=f"pass dead_letters='{self.topic}-bad', for example",
            )
        if self.delivery == "at_least_once" and self.marks != "group":
            raise InvalidArgument(
                f"delivery='at_least_once' writes no marks, got marks={self.marks!r}", hint="leave `marks` out"
            )
        if self.value == "bytes":
            given = [name for name in ("keys", "headers", "schema", "panes") if getattr(self, name)]
            if given:
                raise InvalidArgument(
                    f"`{given[0]}` is for rows, and with value='bytes' the elements are values, or keys and values",
                    hint=f"leave `{given[0]}` out and make pairs (key, value) or triples (key, value, headers), or use "
                    "value='json'",
                )
        elif self.upsert and not self.keys:
            raise InvalidArgument(
                "`upsert` needs the key of which a value is the newest, got no `keys`", hint="pass keys='key', too"
            )
        if self.full_schema is not None:
            self.check_columns(self.full_schema)

    def check_columns(self, schema: pa.Schema) -> None:
        """Raise `InvalidArgument` if a key or a header is none of the columns."""
        for what, columns in (("key", self.keys), ("header", self.headers)):
            lacking = [column for column in columns if column not in set(schema.names)]
            if lacking:
                raise InvalidArgument(
                    f"{self.label!r} has the {what} {lacking[0]!r}, but its rows have no such column",
                    hint=f"the columns are {', '.join(schema.names)}",
                )

    @property
    def awaits_columns(self) -> bool:
        """Whether the elements are rows whose columns are not known."""
        return self.value == "json" and self.schema is None

    @override
    def columns_in(self, message: bytes) -> pa.Schema | None:
        return own_columns(pickles.load(message).schema, panes=self.panes, retractions=self.retractions)

    def describe(self) -> str:
        """Return how users write it, without the options, which may hold a password."""
        value = "" if self.value == "json" else f", value={self.value!r}"
        keys = f", keys={self.keys!r}" if self.keys else ""
        upsert = f", upsert={self.upsert!r}" if self.upsert else ""
        delivery = "" if self.delivery == "exactly_once" else f", delivery={self.delivery!r}"
        return f"WriteKafka({self.topic!r}{value}{keys}{', panes=True' if self.panes else ''}{upsert}{delivery})"

    def destination(self) -> Mapping[str, object]:
        """Return the topic, the form of its messages, and how commits are told apart; brokers may be replaced.

        A commit of which a start without transactions has written a part would look complete to one with transactions,
        and a mark that an earlier start has left elsewhere would be out of date.
        """
        return {
            "topic": self.topic,
            "value": self.value,
            "keys": self.keys,
            "headers": self.headers,
            "dead_letters": self.dead_letters,
            "delivery": self.delivery,
            "marks": self.marks,
            "panes": self.panes,
            "upsert": self.upsert,
            "columns": columns_text(self.schema),
        }

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return what readers of the topic can tell: all rows, or the last one of each key."""
        if not self.upsert:
            return Reader.ROWS_WITH_PANES if self.panes and keeps_windows else Reader.ROWS
        if self.upsert == "replace":
            return Reader.REPLACED_ROW
        columns = set(self.keys) if self.panes and keeps_windows else set()
        if has_window or not columns.isdisjoint(_BOUNDS):
            return Reader.ROW_OF_PANE if "pane_index" in columns else Reader.ROW_OF_WINDOW
        return Reader.ROW

    def check(self) -> None:
        """Raise `SinkError` if the brokers cannot be reached, or a topic does not exist."""
        topics = [self.topic] if self.dead_letters is None else [self.topic, self.dead_letters]
        described(self.label, topics, self.servers, self.options, reads=False)

    def fenced(self, fence: Fence) -> KafkaSink:
        """Return the sink as one start of a run uses it."""
        return attrs.evolve(self, fence=fence)

    def claim(self) -> None:
        """Reject writes of older starts of the run from now on."""
        if self.fence is not None and self.delivery == "exactly_once":
            from dataflow_model.io.topics.transactions import transactions_of

            transactions_of(self, self.fence).claim()

    def commits_of(self, run_id: str) -> KnownCommits:
        """Return the last commit of a run in the topic, if it is noted there."""
        from dataflow_model.io.topics.transactions import last_commit

        if self.delivery == "at_least_once":
            return KnownCommits()

        commit = last_commit(self, run_id)
        return KnownCommits([commit] if commit else [])

    def open(self, commit_id: str, task_id: str) -> KafkaWriter:
        """Return a writer that keeps one task's messages and sends them to the commit."""
        del commit_id, task_id
        return KafkaWriter(self)

    def open_weak(self, commit_id: str, part: str) -> WeakKafkaWriter | None:
        """Return a writer that writes its part at least once; `None` if the columns are not known."""
        return None if self.awaits_columns else WeakKafkaWriter(self, f"{commit_id}-{part}")

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Publish the tasks' messages in emission order, in one transaction that also names the commit.

        Raises:
            SupersededRun: when a newer start of the run has claimed the topic.
            SinkError: if the brokers report an error that does not pass.
        """
        from dataflow_model.io.topics.producing import send
        from dataflow_model.io.topics.transactions import publish_once, transactions_of

        pending = messages_of(messages)
        if pending and self.delivery == "at_least_once":
            send(self, commit_id, pending)
        elif pending and self.fence is None:
            publish_once(self, commit_id, pending)
        elif pending and self.fence is not None:
            transactions_of(self, self.fence).publish(commit_id, pending)

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Do nothing: nothing is written outside the messages."""

    def counts(self, messages: Sequence[bytes]) -> Mapping[str, int]:
        """Return the numbers of `rows`, including retractions, and `dead_letters`, and which may be there twice."""
        pending = [pickles.load(message) for message in messages]
        rows, letters = sum(part.rows for part in pending), sum(part.dead_letters for part in pending)
        repeated = sum(part.rows for part in pending if self.delivery == "at_least_once" or part.is_published)
        counts = {"rows": rows, "dead_letters": letters}
        return counts | {"rows_at_least_once": repeated} if repeated else counts
