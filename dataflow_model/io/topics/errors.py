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
_PASSING: Final = frozenset({"_ALL_BROKERS_DOWN", "_DESTROY", "_NOENT", "_RESOLVE", "_TIMED_OUT", "_TRANSPORT"})
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
_WAYS_OUT: Final = {
    "GROUP_AUTHORIZATION_FAILED": "grant the user READ on groups whose names begin with 'dataflow_model-'",
    "INVALID_RECORD": "give each value a key, which compacted topics need",
    "INVALID_TRANSACTION_TIMEOUT": "pass a smaller 'transaction.timeout.ms' in options=",
    "MSG_SIZE_TOO_LARGE": _SMALLER,
    "RECORD_LIST_TOO_LARGE": _SMALLER,
    "TOPIC_AUTHORIZATION_FAILED": "grant the user DESCRIBE and READ on the topic, and WRITE to write to it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "grant the user WRITE and DESCRIBE on transactional ids that begin with "
    "'dataflow_model-'",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or fix its name",
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
