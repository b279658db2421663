"""The errors of Kafka's client: what to say about each, whether it passes, and without what must stay secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

_HIDDEN: Final = "***"
_SECRETS: Final = ("password", "secret", "sasl.jaas", "ssl.key.pem", "token")
"""Parts of the names of options whose values must not be shown."""
_LOGIN: Final = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
_PASSING: Final = frozenset(
    {
        "BROKER_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_COORDINATOR",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_LEADER_EPOCH",
        "_ALL_BROKERS_DOWN",
        "_DESTROY",
        "_NOENT",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TRANSPORT",
    }
)
"""The client marks only the errors of producers as passing, not those of its answers about topics and offsets."""
_FINAL: Final = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "INVALID_TRANSACTION_TIMEOUT",
        "MSG_SIZE_TOO_LARGE",
        "OFFSET_METADATA_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNKNOWN_TOPIC_OR_PART",
        "UNSUPPORTED_VERSION",
        "_INVALID_ARG",
        "_UNSUPPORTED_FEATURE",
    }
)
_SMALLER: Final = "increase max.message.bytes of the topic, or write smaller values"
_AT_LEAST_ONCE: Final = "or write with delivery='at_least_once'"
_WAYS_OUT: Final = {
    "GROUP_AUTHORIZATION_FAILED": "grant the user READ on groups whose names begin with 'dataflow_model-', or write "
    "with marks='topic'",
    "CLUSTER_AUTHORIZATION_FAILED": "grant the user IDEMPOTENT_WRITE on the cluster, which brokers before Kafka 3.0 "
    f"need, {_AT_LEAST_ONCE}",
    "INVALID_RECORD": "give each value a key, which compacted topics need",
    "INVALID_TIMESTAMP": "set message.timestamp.type=LogAppendTime for the topic, or larger values of "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms, and compare the clocks",
    "INVALID_TRANSACTION_TIMEOUT": "pass a smaller 'transaction.timeout.ms' in options=",
    "MSG_SIZE_TOO_LARGE": _SMALLER,
    "RECORD_LIST_TOO_LARGE": _SMALLER,
    "TOPIC_AUTHORIZATION_FAILED": "grant the user DESCRIBE and READ on the topic, and WRITE to write to it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "grant the user WRITE and DESCRIBE on transactional ids that begin with "
    f"'dataflow_model-', {_AT_LEAST_ONCE}",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or fix its name",
    "UNSUPPORTED_VERSION": f"use brokers with transactions, {_AT_LEAST_ONCE}",
    "_UNSUPPORTED_FEATURE": f"use brokers with transactions, {_AT_LEAST_ONCE}",
}


def said(error: KafkaError, options: Mapping[str, Any]) -> str:
    """Return the message of an error, without the values of secret options.

    Example:
        >>> from confluent_kafka import KafkaError
        >>> said(KafkaError(-169, "no user ann with s3cret"), {"sasl.password": "s3cret"})
        'no user ann with *** (_AUTHENTICATION)'
    """
    text = f"{error.str()} ({error.name()})"
    for name, value in options.items():
        if value and any(part in name for part in _SECRETS):
            text = text.replace(str(value), _HIDDEN)
    return text


def way_out_of(error: KafkaError) -> str:
    """Return what the hint of an error suggests."""
    if is_of_login(error):
        return "check the user, the password and the other options of security"
    return _WAYS_OUT.get(error.name(), "make sure that the brokers run and can be reached, and start the run again")


def is_final(error: KafkaError) -> bool:
    """Return whether an error stays until somebody has changed something."""
    return error.name() in _FINAL or is_of_login(error)


def is_of_login(error: KafkaError) -> bool:
    """Return whether the brokers do not let the user in."""
    return error.name() in _LOGIN


def may_pass(error: KafkaError) -> bool:
    """Return whether an error may be gone a little later."""
    return error.name() in _PASSING or error.retriable()
