"""Bounds of what a run reads of topics: the ends of partitions, instants, and offsets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.io.topics.client import checked_topic
from dataflow_model.time import EventTime, event_time

Offsets = dict[tuple[str, int], int]
"""Offsets by topic and partition."""
Bound = Literal["earliest", "latest"] | EventTime | Offsets
_PARTITION: Final = 2
_EXAMPLE: Final = "pass {('departures', 0): 42}, for example"


def checked_topics(value: Any) -> tuple[str, ...]:
    """Return the names of topics.

    Raises:
        InvalidType: if a name is not text.
        InvalidArgument: if there is none, or one is empty or repeated.
    """
    if value is None:
        return ()
    topics = (value,) if isinstance(value, str) else tuple(value)
    if not topics or len(set(topics)) < len(topics):
        raise InvalidArgument(
            f"`topics` must be one topic or several, each once, got {value!r}", hint="pass 'departures', for example"
        )
    return tuple(map(checked_topic, topics))


def checked_pattern(value: Any) -> str | None:
    """Return a regular expression.

    Raises:
        InvalidType: if it is not text.
        InvalidArgument: if it is not a regular expression.
    """
    hint = "pass pattern='departures-.*', for example"
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidType(f"`pattern` must be a regular expression as text, got {value!r}", hint=hint)
    try:
        re.compile(value)
    except re.error as error:
        raise InvalidArgument(f"`pattern` must be a regular expression, got {value!r}: {error}", hint=hint) from error
    return value


def checked_start(value: Any) -> Bound:
    """Return the argument `start`.

    Raises:
        InvalidArgument: for text that is neither a word nor an instant, and for offsets that are no offsets.
        InvalidType: for something else than a bound.
    """
    return _checked("start", value)


def checked_end(value: Any) -> Bound | None:
    """Return the argument `end`; the errors are those of `checked_start`."""
    if value == "earliest":
        raise InvalidArgument("`end` leaves nothing to read, got 'earliest'", hint="use end='latest'")
    return None if value is None else _checked("end", value)


def check_offsets(name: str, bound: Bound | None, topics: tuple[str, ...]) -> None:
    """Reject offsets of topics that are not read.

    Args:
        name: the name of the argument.
        bound: its value.
        topics: the topics that are read; empty if a pattern says which.

    Raises:
        InvalidArgument: for such an offset.
    """
    if not isinstance(bound, dict) or not topics:
        return
    for topic, partition in bound:
        if topic not in topics:
            raise InvalidArgument(
                f"`{name}` has an offset of {topic}/{partition}, but the topics are {', '.join(topics)}",
                hint="leave it out, or read that topic too",
            )


def checked_group(value: Any) -> str | None:
    """Return the name of a consumer group.

    Raises:
        InvalidType: if it is not text.
        InvalidArgument: if it is empty.
    """
    hint = "pass group='delays', for example"
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidType(f"`group` must be the name of a consumer group, got {value!r}", hint=hint)
    if not value:
        raise InvalidArgument("`group` must be the name of a consumer group, got ''", hint=hint)
    return value


def partition_of(name: str) -> tuple[str, int]:
    """Return the topic and the partition of an origin.

    Example:
        >>> partition_of("departures/3")
        ('departures', 3)
    """
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


def _checked(name: str, value: Any) -> Bound:
    if isinstance(value, Mapping):
        return _checked_offsets(name, value)
    given: Any = value
    return given if isinstance(value, str) and value in {"earliest", "latest"} else event_time(value)


def _checked_offsets(name: str, value: Mapping[Any, Any]) -> Offsets:
    """Return offsets by topic and partition.

    Example:
        >>> _checked_offsets("start", {("departures", 3): 42})
        {('departures', 3): 42}
    """
    if not value:
        raise InvalidArgument(f"`{name}` must have at least one offset, got {{}}", hint=_EXAMPLE)
    for partition, offset in value.items():
        is_partition = (
            isinstance(partition, tuple)
            and len(partition) == _PARTITION
            and isinstance(partition[0], str)
            and type(partition[1]) is int
            and partition[1] >= 0
        )
        if not is_partition:
            raise InvalidType(
                f"`{name}` must have offsets by topic and partition, got {shown(partition)} for one of these",
                hint=_EXAMPLE,
            )
        if type(offset) is not int or offset < 0:
            raise InvalidArgument(
                f"`{name}` must have offsets that are whole numbers from 0 on, got {shown(offset)} for "
                f"{partition[0]}/{partition[1]}",
                hint=_EXAMPLE,
            )
    return dict(value)
