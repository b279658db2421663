"""The watermark of files that follow each other: when the oldest one was created that is not finished.

Source: the MillWheel paper: an injector that reads log files seeds the low watermark with when the oldest unfinished
file was created.
"""

from __future__ import annotations

import datetime as dt
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import InvalidType, SourceError
from dataflow_model.time import event_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.time import EventTime, InstantLike

__all__ = ["OldestFile"]


def _checked(value: Any) -> Any:
    if isinstance(value, str) or callable(value):
        return value
    raise InvalidType(
        f"`created` must be a pattern of file names, or a function of one, got {value!r}",
        hint="created='queries-%Y%m%dT%H%M%S.json'",
    )


@attrs.frozen(repr=False)
class OldestFile:
    """Take the creation time of the oldest file that has not been read to its end.

    For files with records of the time after they were begun, such as logs that rotate. A file is unfinished from when
    it is listed until its last row has been read; while none is, the watermark stands at the creation of the newest. A
    record that is older than its own file may be late.

    Args:
        created: a pattern of `datetime.strptime` for the files' names, without the directories (UTC, unless it has
            `%z`), or a function that makes the instant of the path below the common directory. It must not change:
            renaming or copying a file does change what the file system says.

    Raises:
        InvalidType: for anything else.

    Source: the log-file injector of the MillWheel paper.

    Example:
        >>> OldestFile("queries-%Y%m%dT%H%M%S.json").created_at("logs/queries-20130826T120000.json")
        EventTime(2013-08-26T12:00:00Z)
        >>> OldestFile("%Y.json").created_at("logs/last.json")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.SourceError: cannot tell from its name when the file 'logs/last.json' was created: time
            data 'last.json' does not match format '%Y.json'
        Hint: fix created=…, or move such files elsewhere; names that begin with '_' or '.' are skipped
    """

    created: str | Callable[[str], InstantLike] = attrs.field(converter=_checked)

    def created_at(self, name: str) -> EventTime:
        """Return when a file was created.

        Raises:
            SourceError: when its name does not tell.
        """
        try:
            if not isinstance(self.created, str):
                return event_time(self.created(name))
            created = dt.datetime.strptime(PurePath(name).name, self.created)  # noqa: DTZ007 - see the next line
            return event_time(created if created.tzinfo is not None else created.replace(tzinfo=dt.UTC))
        except Exception as error:
            raise SourceError(
                f"cannot tell from its name when the file {name!r} was created: {error}",
                hint="fix created=…, or move such files elsewhere; names that begin with '_' or '.' are skipped",
            ) from error

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached`: how far a file has come is when it was created."""
        return reached

    def __repr__(self) -> str:
        # Without an address: the checkpoint's fingerprint has it.
        created = self.created if isinstance(self.created, str) else getattr(self.created, "__qualname__", "function")
        return f"OldestFile({created!r})"
