"""Local times of a zone as instants: those that occur once, and those that occur twice or not at all."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import numpy as np

from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["LocalTimes", "offset_text", "offsets", "offsets_of", "start_of_date"]

_BAD_ROW: Final = "bad row"
_EARLIER: Final = "earlier"
_LATER: Final = "later"

_DAY: Final = 86_400
_MICROS: Final = 1_000_000
_SECOND: Final = datetime.timedelta(seconds=1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone
_FIRST_DAY: Final = (datetime.date.min - _EPOCH.date()).days
_LAST_DAY: Final = (datetime.date.max - _EPOCH.date()).days
_OFFSET: Final = re.compile(r"([+-])(\d\d)(?::?([0-5]\d)(?::?([0-5]\d))?)?")
_UNKNOWN: Final = np.iinfo(np.int64).min


@attrs.frozen
class LocalTimes:
    """Which instants the local times of a zone are.

    When the clocks change, the zone has one offset from UTC before and another one after. A local time that occurs
    twice, and one that is skipped, is one instant by the offset before the change and another one by the offset after
    it: `"earlier"` and `"later"` are these two in order of time. Of a time that occurs twice they are the two
    occurrences (`fold=0` and `fold=1` of PEP 495). A time that is skipped is moved by the length of the gap, to before
    the gap (`fold=1`) or after it (`fold=0`).

    Attributes:
        zone: the name of the zone.
        ambiguous: what a time that occurs twice means: `"earlier"`, `"later"`, `"bad row"` for nothing, or the name of
            the column that says which of the two it is.
        nonexistent: what a time that is skipped means: `"earlier"`, `"later"`, or `"bad row"` for nothing.

    Raises:
        InvalidArgument: for other values.

    Source: the disambiguation of JavaScript's `Temporal`.

    Example:
        >>> written = np.array(["2013-03-31T02:30", "2013-10-27T02:30"], "M8[us]").astype(np.int64)
        >>> offsets, problems = LocalTimes("Europe/Berlin", ambiguous="earlier").offsets(written)
        >>> (written - offsets).astype("M8[us]").astype("M8[m]")[1], list(problems)
        (np.datetime64('2013-10-27T00:30'), [0])
    """

    zone: str
    ambiguous: str = _BAD_ROW
    nonexistent: str = _BAD_ROW

    def __attrs_post_init__(self) -> None:
        """Check the choices."""
        ambiguous: Any = self.ambiguous
        if not isinstance(ambiguous, str):
            raise InvalidArgument(
                f"`ambiguous` must be 'bad row', 'earlier', 'later' or the name of a column, got {ambiguous!r}",
                hint='pass ambiguous="earlier", for example',
            )
        if self.nonexistent not in {_BAD_ROW, _EARLIER, _LATER}:
            raise InvalidArgument(
                f"`nonexistent` must be 'bad row', 'earlier' or 'later', got {self.nonexistent!r}",
                hint='pass nonexistent="later", for example',
            )

    @property
    def column(self) -> str | None:
        """The column that says which of two times is meant."""
        return None if self.ambiguous in {_BAD_ROW, _EARLIER, _LATER} else self.ambiguous

    def offsets(
        self,
        local: NDArray[np.int64],
        chosen: Callable[[NDArray[np.int64]], Sequence[str | None]] | None = None,
        are_dates: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[np.int64], dict[int, str]]:
        """Return what to subtract from local times, in microseconds, and why some are no instants, by position.

        Args:
            local: local times in microseconds since 1970-01-01T00:00.
            chosen: returns the texts of the column `ambiguous` at some indices. Each is an offset from UTC, such as
                `+01:00`, or 0 for the earlier and 1 for the later of the two times.
            are_dates: returns whether the times at some indices, all of them midnight, are dates. A date that exists
                begins with its first instant, as calendar windows do.
        """
        before, after = offsets_of(self.zone, local)
        offsets = before
        problems: dict[int, str] = {}
        if not (before != after).any():
            return offsets, problems
        if are_dates is not None:
            self._begin_dates(local, before, after, are_dates)
        offsets = before.copy()
        twice = np.flatnonzero(before > after)
        if len(twice) and self.column is not None and chosen is not None:
            texts = chosen(twice)
            is_later, known = _chosen(texts, before[twice], after[twice])
            offsets[twice[is_later]] = after[twice[is_later]]
            for index in np.flatnonzero(~known).tolist():
                position = int(twice[index])
                problems[position] = self._unknown(texts[index], int(before[position]), int(after[position]))
        elif self.ambiguous == _LATER:
            offsets[twice] = after[twice]
        elif self.ambiguous != _EARLIER:
            reason = (
                f'which occurs twice in {self.zone}; pass ambiguous="earlier" or ambiguous="later", or the name of a '
                "column that says which"
            )
            problems.update(dict.fromkeys(twice.tolist(), reason))
        never = np.flatnonzero(before < after)
        if self.nonexistent == _EARLIER:
            offsets[never] = after[never]
        elif self.nonexistent != _LATER:
            reason = f'which the clocks in {self.zone} skip; pass nonexistent="earlier" or nonexistent="later"'
            problems.update(dict.fromkeys(never.tolist(), reason))
        return offsets, problems

    def _begin_dates(
        self,
        local: NDArray[np.int64],
        before: NDArray[np.int64],
        after: NDArray[np.int64],
        are_dates: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    ) -> None:
        """Set the offsets of the dates whose midnight does not occur once to what their first instant needs."""
        indices = np.flatnonzero((before != after) & (local % (_DAY * _MICROS) == 0))
        if len(indices):
            indices = indices[are_dates(indices)]
        for midnight in np.unique(local[indices]).tolist():
            same = indices[local[indices] == midnight]
            start = start_of_date(self.zone, _EPOCH + midnight * _MICROSECOND)
            if start + int(after[same[0]]) < midnight + _DAY * _MICROS:  # otherwise the zone skipped the whole date
                before[same] = after[same] = midnight - start

    def _unknown(self, text: str | None, before: int, after: int) -> str:
        said = f"holds {text!r}" if text else "is empty"
        return (
            f"which occurs twice in {self.zone}, and column {self.column!r} {said}; it must be 0 or "
            f"{offset_text(before)} for the earlier time, and 1 or {offset_text(after)} for the later one, or pass "
            f'ambiguous="earlier"'
        )


def offsets(zone: str, wall: datetime.datetime) -> tuple[int, int]:
    """Return the offsets from UTC of a local time before and after a change of the clocks, in microseconds.

    They are equal unless the local time occurs twice (the first offset is larger) or is skipped (the second is larger).

    Example:
        >>> [offset // 3_600_000_000 for offset in offsets("Europe/Berlin", datetime.datetime(2013, 10, 27, 2, 30))]
        [2, 1]
    """
    known = zoneinfo.ZoneInfo(zone)
    first, second = (
        # A plain datetime: pendulum's would resolve the fold by itself.
        cast("datetime.timedelta", datetime.datetime.utcoffset(wall.replace(tzinfo=known, fold=fold)))
        for fold in (0, 1)
    )
    return first // _MICROSECOND, second // _MICROSECOND


def offsets_of(zone: str, local: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the `offsets` of a column of local times, looking each day of it up once.

    Arrow's `assume_timezone` is not used, because it knows no change of the clocks after 2037.

    Args:
        zone: the name of the zone.
        local: local times in microseconds since 1970-01-01T00:00.
    """
    if not len(local):
        return local, local
    days = local // (_DAY * _MICROS)
    changes = np.flatnonzero(days[1:] != days[:-1])
    spans = [span for day in np.unique(days[[0, *(changes + 1)]]).tolist() for span in _spans(zone, day)]
    table = np.array(spans, np.int64)
    at = np.searchsorted(table[:, 0], local, side="right") - 1
    return table[at, 1], table[at, 2]


@functools.lru_cache(maxsize=65_536)
def _spans(zone: str, day: int) -> tuple[tuple[int, int, int], ...]:
    """Return where in a local day the offsets change: the local time, and the offsets from there on.

    A day has at most one change of the clocks: in the database they are days apart.
    """
    known = min(max(day, _FIRST_DAY), _LAST_DAY)  # years that Python does not have are like the nearest one
    spans: list[tuple[int, int, int]] = []

    def at(second: int) -> tuple[int, int]:
        return offsets(zone, _EPOCH + datetime.timedelta(days=known, seconds=second))

    def split(start: int, end: int, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Append the spans of the seconds `[start, end]`."""
        if first == last:
            if not spans or spans[-1][1:] != first:
                spans.append(((day * _DAY + start) * _MICROS, *first))
            return
        if end == start + 1:
            split(start, start, first, first)
            split(end, end, last, last)
            return
        middle = (start + end) // 2
        shift = at(middle)
        split(start, middle, first, shift)
        split(middle, end, shift, last)

    split(0, _DAY - 1, at(0), at(_DAY - 1))
    return tuple(spans)


def start_of_date(zone: str, midnight: datetime.datetime) -> int:
    """Return the first instant at which the clocks show a date's midnight or later, in microseconds since the epoch.

    That is the first occurrence of a midnight that occurs twice, and the change of the clocks if they skip midnight.

    Example:
        >>> start_of_date("America/Sao_Paulo", datetime.datetime(2018, 11, 4)) // 3_600_000_000 % 24
        3
    """
    before, after = offsets(zone, midnight)
    first = midnight - before * _MICROSECOND
    if before < after:
        first = _change(midnight, zoneinfo.ZoneInfo(zone), midnight - after * _MICROSECOND, first)
    return (first - _EPOCH) // _MICROSECOND


def offset_text(micros: int) -> str:
    """Format an offset from UTC.

    Example:
        >>> offset_text(-12_600_000_000), offset_text(1_172_000_000)
        ('-03:30', '+00:19:32')
    """
    minutes, seconds = divmod(abs(micros) // _MICROS, 60)
    text = f"{'-' if micros < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def _change(
    wall: datetime.datetime, zone: datetime.tzinfo, before: datetime.datetime, at: datetime.datetime
) -> datetime.datetime:
    """Bisect, to the second, for the instant in `(before, at]` from which the zone shows `wall` or later."""
    while at - before > _SECOND:
        middle = before + (at - before) // 2 // _SECOND * _SECOND
        local_time = middle.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None, fold=0)
        before, at = (before, middle) if local_time >= wall else (middle, at)
    return at


def _chosen(
    texts: Sequence[str | None], before: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which texts say the later of two times, and which say one of them."""
    folds, said = (np.array(column, np.int64) for column in zip(*map(_fold_or_offset, texts), strict=True))
    is_later = (folds == 1) | (said == after)
    return is_later, is_later | (folds == 0) | (said == before)


@functools.lru_cache(maxsize=1024)
def _fold_or_offset(text: str | None) -> tuple[int, int]:
    text = (text or "").strip()
    if text in {"0", "1"}:
        return int(text), _UNKNOWN
    if text in {"Z", "z"}:
        return -1, 0
    match = _OFFSET.fullmatch(text)
    if match is None:
        return -1, _UNKNOWN
    sign, *parts = match.groups(default="0")
    hours, minutes, seconds = map(int, parts)
    return -1, (-1 if sign == "-" else 1) * ((hours * 60 + minutes) * 60 + seconds) * _MICROS
