"""The origins of sources, such as files and partitions: parts with an order of their own, which polls find."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import attrs

from dataflow_model.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet


CURSORS: Final = "return numbers, text, lists or dicts with text as keys, such as time.isoformat()"
"""The hint for a cursor that is no JSON value."""


class Origin(NamedTuple):
    """A part of a source with an order of its own, such as a file or a partition.

    Attributes:
        name: a name that is stable across runs; it orders origins at equal ticks, in natural order.
        rows: the number of rows, or `None` if it is not known: a bounded source is then read once more, to count them;
            an unbounded one has to know it. If positions have gaps, the number of positions from `first` on.
        version: numbers and text that differ when the origin has changed; `None` if it cannot change.
        replaced: in the result of `ColumnSource.poll`, whether a different origin has replaced the known one of this
            name.
        first: the position of its first row, of a source with a `position_column`.
        cursor: what `poll` needs to go on behind the last row that is listed; any JSON value, kept in the checkpoint.
    """

    name: str
    rows: int | None
    version: tuple[int | str, ...] | None = None
    replaced: bool = False
    first: int = 0
    cursor: Any = None

    @property
    def row_count(self) -> int:
        """The number of rows.

        Raises:
            SourceError: if it is not known.
        """
        if self.rows is None:
            raise SourceError(
                f"the origin {self.name!r} of an unbounded source has no number of rows",
                hint="list it with the number of rows that can be read by now: Origin(name, rows)",
            )
        return self.rows


class Known(Protocol):
    """The origins that an earlier poll has listed; from a checkpoint, they may have no versions."""

    def names(self) -> AbstractSet[str]:
        """Return the names of all origins."""
        ...

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed, or `None` if there was none with that name."""
        ...

    def is_read(self, name: str, /) -> bool:
        """Return whether all rows of an origin that were listed have been read."""
        ...

    def has_names_of(self, other: Known) -> bool:
        """Return whether the names are those of an earlier object; `False` if finding out would take long."""
        ...


class ChangeNotifier(Protocol):
    """A file descriptor that becomes readable when a poll of a source may find something new."""

    def watch(self) -> bool:
        """Prepare for a wait; return whether a poll is needed first, since something may have happened before this."""
        ...

    def fileno(self) -> int:
        """Return the descriptor."""
        ...

    def clear(self) -> None:
        """Make the descriptor unreadable until something happens again; called after a wait and before the poll."""
        ...

    def close(self) -> None:
        """Close the descriptor."""
        ...


class Changes(NamedTuple):
    """The result of a poll: the changes since the known origins were listed.

    Attributes:
        origins: the origins that are new, have more rows or another version, or were replaced, in order of name.
        gone: the names of known origins that no longer exist.
        counts: by counter of the source, how much is added to it; a negative number lowers it.
        has_more: whether there is more to list already, so that the next poll does not wait for `poll_interval`.
    """

    origins: list[Origin]
    gone: AbstractSet[str]
    counts: Mapping[str, int] = MappingProxyType({})
    has_more: bool = False


@attrs.frozen
class OriginPosition:
    """How far an origin has been read.

    Attributes:
        position: the position after the last row that was read.
        end: the position after the last row that was listed.
        version: its version; `None` if it cannot change.
        cursor: the cursor with which it was listed.
    """

    position: int
    end: int
    version: tuple[int | str, ...] | None = None
    cursor: Any = None


def stored_cursor(cursor: Any) -> Any:
    """Return a cursor as a checkpoint gives it back.

    Raises:
        TypeError, ValueError: if it is no JSON value, or would come back as another one.

    Example:
        >>> stored_cursor((1, "a"))
        [1, 'a']
    """
    text = json.dumps(cursor, allow_nan=False)
    _check_keys(cursor)  # after it, which rejects a value that contains itself
    return json.loads(text)


def _check_keys(cursor: Any) -> None:
    """Raise `TypeError` for a key that JSON would turn into text."""
    if isinstance(cursor, dict):
        others = [key for key in cursor if not isinstance(key, str)]
        if others:
            raise TypeError(f"the key {others[0]!r} is not text")
        cursor = [*cursor.values()]
    if isinstance(cursor, list | tuple):
        for value in cursor:
            _check_keys(value)
