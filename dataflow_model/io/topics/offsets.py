"""Where the partitions of topics begin and end: what a source of Kafka lists."""

from __future__ import annotations

import concurrent.futures
import os
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataflow_model.errors import SourceError
from dataflow_model.io.topics.bounds import partition_of
from dataflow_model.io.topics.client import answered, described, kept_admin, matching, pause
from dataflow_model.io.topics.errors import may_pass, said, way_out_of
from dataflow_model.plan.endpoints.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._topic import TopicDescription

    from dataflow_model.io.topics.bounds import Bound, Offsets
    from dataflow_model.io.topics.source import KafkaSource

_T = TypeVar("_T")

_SECONDS: Final = 5.0
"""How long one request may take until it is made again."""
_SOON: Final = 2.0
"""How long a request for a report may take."""
_PAUSE: Final = 0.2
_TRIES: Final = 10
"""How often a topic that matches a pattern may be gone by the time that brokers are asked about it."""
_FRESH: Final = 2.0
"""Seconds for which the partitions of topics are not asked for again."""
_STALE: Final = frozenset({"FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "_UNKNOWN_PARTITION"})
"""The errors of a client that has old news of partitions, which have been listed a moment ago, or of their leaders."""
_END: Final = -1
"""The offset that brokers return if no row has a timestamp that is late enough."""
_ends: dict[tuple[Any, ...], tuple[float, tuple[Offsets, ...]]] = {}
_found: dict[tuple[Any, ...], tuple[float, dict[tuple[str, int], str]]] = {}


def listed(source: KafkaSource, known: Mapping[str, Origin]) -> list[Origin]:
    """Return the partitions of a source's topics in order of name.

    The version of an origin is the id of the topic, and the offset of its first row in the run.

    Args:
        source: the source.
        known: those that were listed before, which keep their first rows; without any, the run begins.
    """
    partitions = _ids_of(source)
    new = [partition for partition in partitions if _name(*partition) not in known]
    # Rows behind the first with a late timestamp may be earlier, so those in front of an instant may be anywhere.
    ends = _offsets(source, list(partitions), "latest")
    firsts = _offsets(source, new, "earliest" if known else source.start)
    if isinstance(source.start, dict) and not known:
        _check_partitions("start", source.start, partitions)
        _check_reached(source, "start", source.start, _offsets(source, list(source.start), "latest", committed=False))
    if isinstance(source.end, dict):
        _check_partitions("end", source.end, partitions)
        _check_reached(source, "end", source.end, ends)
        ends |= source.end
    origins = []
    for partition, topic_id in sorted(partitions.items()):
        before = known.get(_name(*partition))
        version: Any = None if before is None else before.version
        first = firsts[partition] if version is None else int(version[1])
        rows = max(0, ends[partition] - first)
        origins.append(Origin(_name(*partition), rows, (topic_id, first), first=first))
    return origins


def _name(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def find_topics(source: KafkaSource) -> dict[tuple[str, int], str]:
    """Return the id of the topic of each partition.

    Raises:
        SourceError: if the brokers cannot be reached, or a topic does not exist.
    """
    found = {
        (name, partition.id): str(topic.topic_id)
        for name, topic in _topics_of(source).items()
        for partition in topic.partitions
    }
    _found[key_of(source)] = time.monotonic(), found
    return found


def _topics_of(source: KafkaSource) -> dict[str, TopicDescription]:
    """Return what brokers say about the topics of a source."""
    if source.pattern is None:
        return described("ReadKafka", source.topics, source.servers, source.options, reads=True)
    tries = 0
    while True:
        topics = matching("ReadKafka", source.pattern, source.servers, source.options)
        try:
            return described("ReadKafka", topics, source.servers, source.options, reads=True)
        except SourceError as error:
            tries += 1
            if tries == _TRIES or not _is_unknown(error.__cause__):
                raise
            pause(_PAUSE)  # a topic was deleted after it was listed


def _is_unknown(error: BaseException | None) -> bool:
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and bool(error.args[0].name() == "UNKNOWN_TOPIC_OR_PART")


def ids_now(source: KafkaSource, topics: Collection[str]) -> dict[str, str | None]:
    """Return the ids that topics have now, by name; `None` for one that does not exist.

    Raises:
        SourceError: if the brokers do not answer.
    """
    from confluent_kafka import TopicCollection

    def ask(admin: AdminClient) -> dict[str, str | None]:
        futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_SECONDS)
        return {name: _id_in(future) for name, future in futures.items()}

    return _answered(source, f"look up {', '.join(map(repr, sorted(topics)))}", ask, may_pass)


def _id_in(described_topic: concurrent.futures.Future[TopicDescription]) -> str | None:
    """Return the id of a topic that was asked for; `None` if it does not exist."""
    from confluent_kafka import KafkaException

    try:
        return str(described_topic.result().topic_id)
    except KafkaException as error:
        if _is_unknown(error):
            return None
        raise


def _ids_of(source: KafkaSource) -> dict[tuple[str, int], str]:
    """Return what `find_topics` does, as it was at most two seconds ago."""
    at, found = _found.get(key_of(source), (0.0, {}))
    return found if found and time.monotonic() - at < _FRESH else find_topics(source)


def key_of(source: KafkaSource) -> tuple[Any, ...]:
    """Return what the clients of a source are kept by: the process, and what they connect to."""
    return os.getpid(), source.servers, source.topics, source.pattern, repr(sorted(source.options.items()))


def levels_of(source: KafkaSource, positions: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return how many offsets of each partition are unread, and how many of these an open transaction holds back.

    Brokers are asked once in two seconds; if they do not answer, there are no levels.

    Args:
        source: the source.
        positions: by partition, the offset up to which it has been read.
    """
    from confluent_kafka import KafkaException

    key, names = key_of(source), {partition_of(name): name for name in positions}
    at, ends = _ends.get(key, (0.0, ({}, {})))
    if not all(names.keys() <= part.keys() for part in ends) or time.monotonic() - at >= _FRESH:
        spec: Any = _specs().OffsetSpec.latest()
        kept = kept_admin("ReadKafka", source.servers, source.options)
        try:
            ends = tuple(
                _listed(kept.client, list(names), spec, committed=committed, seconds=_SOON)
                for committed in (False, True)
            )
        except KafkaException:
            return {}
        _ends[key] = time.monotonic(), ends
    written, committed_ends = ends
    return {
        "lag": {name: max(0, written[partition] - positions[name]) for partition, name in names.items()},
        "held_back": {
            name: max(0, written[partition] - committed_ends[partition]) for partition, name in names.items()
        },
    }


def _check_partitions(name: str, offsets: Offsets, partitions: Collection[tuple[str, int]]) -> None:
    """Raise `SourceError` for an offset of a partition that does not exist."""
    for partition in offsets:
        if partition not in partitions:
            count = sum(topic == partition[0] for topic, _ in partitions)
            raise SourceError(
                f"`{name}` of ReadKafka has an offset of {_name(*partition)}, and the topic has {count} partitions",
                hint="leave it out",
            )


def _check_reached(source: KafkaSource, name: str, offsets: Offsets, ends: Offsets) -> None:
    """Raise `SourceError` for an offset that a partition has not reached."""
    for partition, offset in offsets.items():
        if offset > ends[partition]:
            kind = "committed rows" if name == "end" else "rows"
            raise SourceError(
                f"`{name}` of ReadKafka is offset {offset} of {_name(*partition)}, which has {kind} up to offset "
                f"{ends[partition] - 1} on {source.servers}",
                hint=f"use at most {ends[partition]}, or start the run once there are more",
            )


def _offsets(
    source: KafkaSource, partitions: Sequence[tuple[str, int]], where: Bound, *, committed: bool = True
) -> Offsets:
    """Return an offset of each partition, of which the latest is behind the last row that is there.

    Args:
        source: the source.
        partitions: the partitions.
        where: the bound; a partition of which it has no offset begins at its earliest.
        committed: whether the latest row is the last one that is committed.
    """
    if not partitions:
        return {}
    specs = _specs()
    if where == "latest":
        return _asked(source, partitions, specs.OffsetSpec.latest(), committed=committed)
    if where == "earliest":
        return _asked(source, partitions, specs.OffsetSpec.earliest())
    if isinstance(where, dict):
        others = [partition for partition in partitions if partition not in where]
        return {partition: where[partition] for partition in partitions if partition in where} | _offsets(
            source, others, "earliest"
        )
    found = _asked(source, partitions, specs.OffsetSpec.for_timestamp(-(-int(where) // 1_000)))
    behind = [partition for partition in partitions if found[partition] == _END]
    return found | _offsets(source, behind, "latest")


def _specs() -> Any:
    """Return the module with the classes of requests for offsets, which it does not declare for type checkers."""
    import confluent_kafka.admin

    return confluent_kafka.admin


def _asked(source: KafkaSource, partitions: Sequence[tuple[str, int]], spec: Any, *, committed: bool = True) -> Offsets:
    def ask(admin: AdminClient) -> Offsets:
        return _listed(admin, partitions, spec, committed=committed, seconds=_SECONDS)

    return _answered(source, f"list the offsets of {source.contents}", ask, _passes)


def _answered(
    source: KafkaSource, what: str, ask: Callable[[AdminClient], _T], passes: Callable[[KafkaError], bool]
) -> _T:
    """Return what brokers answer; raises `SourceError`, which says what `ReadKafka` cannot do."""
    from confluent_kafka import KafkaException

    try:
        return answered("ReadKafka", source.servers, source.options, ask, passes)
    except KafkaException as error:
        cause = error.args[0]
        raise SourceError(
            f"ReadKafka cannot {what} on {source.servers}: {said(cause, source.options)}", hint=way_out_of(cause)
        ) from error


def _passes(error: KafkaError) -> bool:
    return may_pass(error) or error.name() in _STALE


def _listed(
    admin: AdminClient, partitions: Sequence[tuple[str, int]], spec: Any, *, committed: bool, seconds: float
) -> Offsets:
    """Ask for an offset of each partition, once; raises `KafkaException`."""
    from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition

    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(*partition): spec for partition in partitions}
    futures = admin.list_offsets(asked, isolation_level=level, request_timeout=seconds)
    try:
        return {(at.topic, at.partition): future.result(seconds + _SECONDS).offset for at, future in futures.items()}
    except concurrent.futures.TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001 - its public name
