"""What reading from Kafka and writing to it have in common: the client's options, and a first look at topics."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, SinkError, SourceError, explain
from dataflow_model.io.topics.errors import is_of_login, may_pass, said, way_out_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._topic import TopicDescription

PATIENCE: Final = 20.0
"""Seconds in which a broker must answer when a run starts."""
_SECONDS: Final = 2.0
"""How long one request may take until it is made again."""
_PAUSE: Final = 0.2
"""How long to wait before that, at most."""
_INTERNAL: Final = "__"
"""How the names of Kafka's own topics begin."""
_OWN: Final = (
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "transactional.id",
)
"""The options that this package sets itself."""
READING: Final = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "log_level": 0,
}
"""The options of a consumer that reads committed messages to the end of a partition, and commits nothing."""
_MOST_KEPT: Final = 8
"""The number of clients for requests that a process keeps."""
_T = TypeVar("_T")
_admins: dict[tuple[Any, ...], KeptAdmin] = {}


def checked_servers(value: Any) -> str:
    """Return the addresses of brokers as the client takes them.

    Raises:
        ModuleNotFoundError: without the client.
        InvalidType: for something that is neither text nor several texts.
        InvalidArgument: if there is no address.

    Example:
        >>> checked_servers(["one:9092", "two:9092"])
        'one:9092,two:9092'
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        raise ModuleNotFoundError(
            explain(
                "Kafka needs confluent-kafka, which is not installed", hint="run pip install 'dataflow-model[kafka]'"
            ),
            name="confluent_kafka",
        )
    given = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(part, str) for part in given):
        raise InvalidType(
            f"`bootstrap_servers` must be text such as 'host:9092', or several, got {value!r}",
            hint="pass bootstrap_servers='localhost:9092', for example",
        )
    servers = ",".join(part.strip() for part in given)
    if not servers or not all(part.strip() for part in servers.split(",")):
        raise InvalidArgument(
            f"`bootstrap_servers` must name at least one broker, got {value!r}",
            hint="pass bootstrap_servers='localhost:9092', for example",
        )
    return servers


def checked_topic(value: Any, name: str = "topic") -> str:
    """Return the name of a topic, of an argument that is called `name`.

    Raises:
        InvalidType: if it is not text.
        InvalidArgument: if it is empty.
    """
    if not isinstance(value, str):
        raise InvalidType(f"`{name}` must be a name, got {value!r}", hint="pass 'departures', for example")
    if not value:
        raise InvalidArgument(f"`{name}` must be a name, got ''", hint="pass 'departures', for example")
    return value


def checked_options(value: Any) -> dict[str, Any]:
    """Return options of the client (librdkafka), of which some are set by this package.

    Raises:
        InvalidType: for something that is not a dict with names of options.
        InvalidArgument: for an option that this package sets.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidType(
            f"`options` must be a dict of options of librdkafka, got {type(value).__name__}",
            hint="pass options={'security.protocol': 'SSL'}, for example",
        )
    for name in value:
        if name in _OWN:
            raise InvalidArgument(
                f"`options` must not contain {name!r}, which is set here",
                hint="leave it out" if name != "bootstrap.servers" else "pass bootstrap_servers=",
            )
    return dict(value)


def described(
    label: str, topics: Iterable[str], servers: str, options: Mapping[str, Any], *, reads: bool
) -> dict[str, TopicDescription]:
    """Return what the brokers say about topics, which the user has a right to read, or to write to.

    Args:
        label: what an error calls the transform.
        topics: the names of the topics.
        servers: the addresses of brokers.
        options: of the client.
        reads: whether they are read; else they are written to.

    Raises:
        InvalidArgument: for options that the client does not have.
        SourceError, SinkError: if the brokers do not answer in time or do not let the user in, a topic does not exist,
            or the right is missing.
    """
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin._acl import AclOperation  # which `admin` does not export for type checkers

    names = list(topics)

    def ask(admin: AdminClient) -> dict[str, TopicDescription]:
        futures = admin.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=_SECONDS
        )
        return {name: future.result() for name, future in futures.items()}

    try:
        found = answered(label, servers, options, ask)
    except KafkaException as error:
        cause = error.args[0]
        where = f"{', '.join(map(repr, names))} on {servers}"
        raise _refusal(label, where, said(cause, options), way_out_of(cause), reads=reads) from error
    right = AclOperation.READ if reads else AclOperation.WRITE
    for name, topic in found.items():
        operations: Any = topic.authorized_operations  # None if brokers do not say
        if operations is not None and right not in operations:
            where, lack = f"{name!r} on {servers}", f"the user has no right to {right.name} it"
            raise _refusal(label, where, lack, f"grant the user {right.name} on the topic", reads=reads)
    return found


def matching(label: str, pattern: str, servers: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of the topics that match a regular expression as a whole, in order; not those of Kafka itself.

    Args:
        label: what an error calls the transform.
        pattern: the regular expression.
        servers: the addresses of brokers.
        options: of the client.

    Raises:
        InvalidArgument: for options that the client does not have.
        SourceError: if the brokers do not answer in time or do not let the user in, or no topic matches.
    """
    from confluent_kafka import KafkaException

    try:
        found = answered(label, servers, options, lambda admin: admin.list_topics(timeout=_SECONDS)).topics
    except KafkaException as error:
        cause = error.args[0]
        raise SourceError(
            f"{label!r} cannot list the topics on {servers}: {said(cause, options)}", hint=way_out_of(cause)
        ) from error
    names = sorted(name for name in found if re.fullmatch(pattern, name) and not name.startswith(_INTERNAL))
    if not names:
        raise SourceError(
            f"{label!r} cannot read topics that match {pattern!r} on {servers}: there are none that the user may see",
            hint="create a topic, fix the pattern, which must match the whole name, or grant the user DESCRIBE on them",
        )
    return names


def pause(seconds: float) -> None:
    """Wait before a request is made again: half of the time at least, so that many clients do not ask at once."""
    time.sleep(seconds * random.uniform(0.5, 1))  # noqa: S311 - no secret


def _refusal(label: str, where: str, cause: str, hint: str, *, reads: bool) -> SinkError | SourceError:
    if reads:
        return SourceError(f"{label!r} cannot read the topic {where}: {cause}", hint=hint)
    return SinkError(f"{label!r} cannot write to the topic {where}: {cause}", hint=hint)


def answered(
    label: str,
    servers: str,
    options: Mapping[str, Any],
    ask: Callable[[AdminClient], _T],
    passes: Callable[[KafkaError], bool] = may_pass,
) -> _T:
    """Return what brokers answer to a request, which is made again for some time after errors that may pass.

    Args:
        label: what an error calls the transform.
        servers: the addresses of brokers.
        options: of the client.
        ask: makes the request once.
        passes: tells whether an error may be gone a little later.

    Raises:
        InvalidArgument: for options that the client does not have.
        KafkaException: the last error; if the brokers do not let the user in, that one.
    """
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + PATIENCE
    while True:
        kept = kept_admin(label, servers, options)  # held until it has answered: one that is dropped never does
        try:
            return ask(kept.client)
        except KafkaException as error:
            forget_admin(servers, options)  # a new one looks for brokers and leaders at once
            kept.client.poll(0)
            cause: KafkaError = next(filter(is_of_login, kept.faults), error.args[0])
            if not passes(cause) or time.monotonic() > deadline:
                raise KafkaException(cause) from error
            pause(_PAUSE)


@attrs.frozen
class KeptAdmin:
    """A client that asks brokers about topics, groups and offsets.

    Attributes:
        client: the client.
        faults: the errors that it has reported when it was polled, such as a wrong password.
    """

    client: AdminClient
    faults: list[KafkaError]


def kept_admin(label: str, servers: str, options: Mapping[str, Any]) -> KeptAdmin:
    """Return the client of this process for some brokers: a new one would first have to connect to them.

    Args:
        label: what an error calls the transform.
        servers: the addresses of brokers.
        options: of the client.

    Raises:
        InvalidArgument: for options that the client does not have.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    key = _key(servers, options)
    kept = _admins.get(key)
    if kept is None:
        faults = list[Any]()
        own: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0, "error_cb": faults.append}
        try:
            kept = KeptAdmin(AdminClient({**options, **own}), faults)
        except KafkaException as error:
            raise InvalidArgument(
                f"{label!r} cannot use its options: {said(error.args[0], options)}",
                hint="see the page Configuration properties of librdkafka for their names and values",
            ) from error
        _admins[key] = kept
        while len(_admins) > _MOST_KEPT:
            _admins.pop(next(iter(_admins)))
        return kept
    kept.client.poll(0)
    kept.faults.clear()  # they are of an earlier request
    return kept


def forget_admin(servers: str, options: Mapping[str, Any]) -> None:
    """Connect to brokers anew from now on."""
    _admins.pop(_key(servers, options), None)


def _key(servers: str, options: Mapping[str, Any]) -> tuple[Any, ...]:
    return os.getpid(), servers, repr(sorted(options.items()))
