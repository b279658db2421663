"""Consumer groups: the right to one, and notes of how far a run has read, for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import SinkError, SourceError
from dataflow_model.io.topics.client import answered, kept_admin
from dataflow_model.io.topics.errors import may_pass, said, way_out_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    from dataflow_model.io.topics.bounds import Offsets
    from dataflow_model.io.topics.source import KafkaSource

_SECONDS: Final = 5.0
"""How long one request may take until it is made again."""
_GRANT: Final = "grant the user READ on the group"
_REFUSED: Final = "GROUP_AUTHORIZATION_FAILED"
_OF_COORDINATORS: Final = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
"""The errors of groups whose broker has not started to look after them."""
_UNKNOWN: Final = "GROUP_ID_NOT_FOUND"


def check_group(label: str, group: str, servers: str, options: Mapping[str, Any], *, reads: bool) -> None:
    """Check that the user has the right READ on a consumer group, which notes of offsets need.

    Args:
        label: what an error calls the transform.
        group: the group, which need not exist.
        servers: the addresses of brokers.
        options: of the client.
        reads: whether a source asks; else a sink does.

    Raises:
        InvalidArgument: for options that the client does not have.
        SourceError, SinkError: if the right is missing, or the brokers do not answer in time or do not let the user in.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._acl import AclOperation  # which `admin` does not export for type checkers

    def ask(admin: AdminClient) -> Any:
        [future] = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=_SECONDS
        ).values()
        return future.result().authorized_operations

    try:
        operations = answered(label, servers, options, ask, _passes)
    except KafkaException as error:
        cause = error.args[0]
        if cause.name() == _UNKNOWN:  # brokers say so of a group that is not there, once the user may see it
            return
        hint = _GRANT if cause.name() == _REFUSED else way_out_of(cause)
        raise _refusal(label, f"{group!r} on {servers}", said(cause, options), hint, reads=reads) from error
    if operations is not None and AclOperation.READ not in operations:
        raise _refusal(label, f"{group!r} on {servers}", "the user has no right to READ it", _GRANT, reads=reads)


def _passes(error: KafkaError) -> bool:
    return may_pass(error) or error.name() in _OF_COORDINATORS


def _refusal(label: str, where: str, cause: str, hint: str, *, reads: bool) -> SinkError | SourceError:
    problem = f"{label!r} cannot note offsets in the group {where}: {cause}"
    return SourceError(problem, hint=hint) if reads else SinkError(problem, hint=hint)


def note_positions(source: KafkaSource, group: str, positions: Offsets) -> None:
    """Note in a consumer group up to which offset each partition has been read.

    Raises:
        ConnectionError: if that may succeed a little later.
        SourceError: otherwise, such as for a group with members.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    offsets = [TopicPartition(*partition, offset) for partition, offset in positions.items()]
    request = ConsumerGroupTopicPartitions(group, offsets)
    admin = kept_admin("ReadKafka", source.servers, source.options)  # held until it has answered
    try:
        [future] = admin.client.alter_consumer_group_offsets([request], request_timeout=_SECONDS).values()
        errors = [partition.error for partition in future.result().topic_partitions if partition.error is not None]
    except KafkaException as error:
        errors = [error.args[0]]
    if not errors:
        return
    problem = f"ReadKafka cannot note offsets in the group {group!r}: {said(errors[0], source.options)}"
    if _passes(errors[0]):
        raise ConnectionError(problem)
    raise SourceError(problem, hint="choose a group that no consumer is a member of, for which the user has READ")
