"""The watermark of consecutive files: the creation time of the oldest unfinished file.

Source: the MillWheel paper, where an injector that reads log files seeds the low watermark with the creation time of
the oldest unfinished file.
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


def _checked(value: Any) -> Any:
    if isinstance(value, str) or callable(value):
        return value
    raise InvalidType(
        f"`created` must be a pattern of file names, or a function of one, got {value!r}",
        hint="created='queries-%Y%m%dT%H%M%S.json'",
    )


@attrs.frozen(repr=False)
class OldestFile:
    """A watermark estimator: the watermark is the creation time of the oldest unfinished file.

    Use it for files whose records are newer than the file itself, such as rotating logs. A file is unfinished from the
    moment it is listed until its last row has been read; if no file is unfinished, the watermark is the creation time
    of the newest one. A record that is older than its own file may be late.

    Args:
        created: a pattern of `datetime.strptime` for file names without directories (in UTC, unless it contains `%z`),
            or a function from the path below the common directory to an instant. The creation time in the file system
            is not used, since copying a file changes it.

    Raises:
        InvalidType: if `created` is neither text nor a function.

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
            SourceError: if the name does not contain the time.
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
        """Return `reached`, which for files is their creation time."""
        return reached

    def __repr__(self) -> str:
        # Without an address, since the checkpoint's fingerprint contains the repr.
        created = self.created if isinstance(self.created, str) else getattr(self.created, "__qualname__", "function")
        return f"OldestFile({created!r})"
