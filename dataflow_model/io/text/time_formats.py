"""Parse columns of times in formats of `strptime`, as strictly as Python does."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import time
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.zones import LocalTimes

_DIRECTIVES: Final = {
    "Y": "year",
    "y": "year",
    "m": "month",
    "b": "month",
    "B": "month",
    "d": "day",
    "j": "day of the year",
    "H": "hour",
    "I": "hour",
    "p": "half of the day",
    "M": "minute",
    "S": "second",
    "f": "fraction of a second",
    "z": "offset",
    "a": "day of the week",
    "A": "day of the week",
}
_TOKEN: Final = re.compile(r"%(.?)|\s+|[^%\s]+")
_ISO_OFFSET: Final = r"[T ]\d\d(:.*)?(Z|[+-]\d\d(:?\d\d)?)$"
_HOURS_ONLY: Final = re.compile(r"(?<=[+-]\d\d)(?![:\d])")
_NUMBERS: Final = frozenset("YymdjHIMSf")
_ISO: Final = np.frombuffer(b"0000-01-01T00:00:00.000000", np.uint8)
_PLACES: Final = {"Y": (0, 4), "m": (5, 7), "d": (8, 10), "H": (11, 13), "M": (14, 16), "S": (17, 19), "f": (20, 26)}
"""Where the digits are in ISO 8601 of directives that are padded with zeros."""
_FIRST_YEAR: Final = -62_135_596_800_000_000
_FEW: Final = 100
_MICROS: Final = 1_000_000
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": _MICROS, "ns": 1_000_000_000}
_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


@attrs.frozen
class TimeFormat:
    """A format, such as `"%d.%m.%Y %H:%M"`.

    Python's `strptime` reads the times, so names of months and days are English unless the program sets another locale.
    In addition, the day of the year must exist, and an offset may lack its minutes.

    Raises:
        InvalidArgument: for a format that is none, has directives that are not supported or contradict each other, or
            has no year.

    Example:
        >>> good, micros = TimeFormat("%d.%m.%Y").read(pa.array(["02.01.1970", "31.2.1970", None]))
        >>> good.tolist(), micros.tolist()
        ([True, False, False], [86400000000])
    """

    text: str
    directives: frozenset[str] = attrs.field(init=False, repr=False)
    _tokens: tuple[tuple[str | None, str], ...] = attrs.field(init=False, repr=False)
    """The directives, and the texts between them."""

    def __attrs_post_init__(self) -> None:
        """Check the format, and split it into directives and texts."""
        parts: dict[str, str] = {}
        tokens: list[tuple[str | None, str]] = []
        for token in _TOKEN.finditer(self.text):
            name = token[1]
            if name is None or name == "%":
                tokens.append((None, token[0] if name is None else "%"))
                continue
            if name not in _DIRECTIVES:
                raise _unsupported(self.text, token[0])
            part = _DIRECTIVES[name]
            if part in parts:
                raise InvalidArgument(
                    f"`timestamp_formats` can say the {part} once, got %{parts[part]} and %{name} in {self.text!r}",
                    hint="leave one of them out",
                )
            parts[part] = name
            tokens.append((name, ""))
        if not parts:
            raise InvalidArgument(
                f"`timestamp_formats` takes formats as of strptime, got {self.text!r}",
                hint="write '%d.%m.%Y %H:%M', for example",
            )
        if "year" not in parts:
            raise InvalidArgument(
                f"`timestamp_formats` must say the year (%Y or %y), got {self.text!r}",
                hint="read the column as text by schema=, and parse it in dm.WithTimestamps(…)",
            )
        if "day of the year" in parts and ("month" in parts or "day" in parts):
            raise InvalidArgument(
                f"`timestamp_formats` can say the day of the year (%j) or month and day, got {self.text!r}",
                hint="leave one of them out",
            )
        object.__setattr__(self, "directives", frozenset(parts.values()))
        object.__setattr__(self, "_tokens", tuple(tokens))

    @property
    def is_number(self) -> bool:
        """Whether times in this format look like whole numbers."""
        literal = "".join(text for name, text in self._tokens if name is None)
        return self.directives <= _NUMBERS and (not literal or literal.isdecimal())

    @property
    def is_date(self) -> bool:
        """Whether times in this format have no time of the day."""
        return self.directives.isdisjoint("HIpMSfz")

    @property
    def has_offset(self) -> bool:
        """Whether times in this format have an offset from UTC."""
        return "z" in self.directives

    def read(self, texts: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which texts have this format, and their times in microseconds: in UTC with an offset, else local."""
        micros = self._padded(texts)
        if micros is not None:
            return np.ones(len(texts), np.bool_), micros
        if len(texts) > _FEW and self.directives <= _PLACES.keys():  # most of them may be padded
            half = len(texts) // 2
            parts = self.read(texts[:half]), self.read(texts[half:])
            return np.concatenate([good for good, _ in parts]), np.concatenate([micros for _, micros in parts])
        encoded = texts.drop_null().dictionary_encode()
        read = [self._micros_of(text) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.to_numpy()
        is_read = np.array([number is not None for number in read], np.bool_)[indices]
        good = texts.is_valid().to_numpy(zero_copy_only=False).copy()
        good[good] = is_read
        return good, np.array([number or 0 for number in read], np.int64)[indices][is_read]

    def _micros_of(self, text: str) -> int | None:
        """Return a time in microseconds, in UTC with an offset; `None` if the text has another form."""
        texts = [text]
        if self.has_offset:
            texts += [f"{text[: match.end()]}00{text[match.end() :]}" for match in _HOURS_ONLY.finditer(text)]
        for written in texts:
            with contextlib.suppress(ValueError):
                moment = dt.datetime.strptime(written, self.text)  # noqa: DTZ007 - as the format says
                if "j" in self.directives and time.strptime(written, self.text).tm_yday != moment.timetuple().tm_yday:
                    return None  # day 366, which Python takes for the first of the next year
                return (moment - dt.datetime(1970, 1, 1, tzinfo=moment.tzinfo and dt.UTC)) // dt.timedelta.resolution
        return None

    def _padded(self, texts: pa.Array) -> NDArray[np.int64] | None:
        """Return times whose digits and separators are all at the same positions, which is fast; `None` for others."""
        if texts.null_count or not len(texts) or not self.directives <= _PLACES.keys():
            return None
        spans = [(name, _PLACES[name]) if name else (text, (0, len(text.encode()))) for name, text in self._tokens]
        width = sum(stop - start for _, (start, stop) in spans)
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        if (np.diff(ends) != width).any():
            return None
        characters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(len(texts), width)
        iso = np.tile(_ISO, (len(texts), 1))
        index = 0
        for (name, text), (_, (start, stop)) in zip(self._tokens, spans, strict=True):
            part = characters[:, index : index + stop - start]
            index += stop - start
            if name:
                iso[:, start:stop] = part
            elif (part != np.frombuffer(text.encode(), np.uint8)).any():
                return None
        starts = np.arange(len(texts) + 1, dtype=np.int32) * len(_ISO)
        written = pa.StringArray.from_buffers(len(texts), pa.py_buffer(starts), pa.py_buffer(iso))
        try:
            micros: NDArray[np.int64] = written.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            return None
        return micros if micros.min() >= _FIRST_YEAR else None


def times_of(
    texts: pa.Array,
    kind: pa.DataType,
    formats: Sequence[TimeFormat],
    local: LocalTimes | None,
    chosen: Callable[[NDArray[np.int64]], Sequence[str | None]] | None = None,
) -> tuple[pa.Array, dict[int, str]]:
    """Return the times that are written in one of some formats or in ISO 8601, and why some are none, by index.

    Null stays null. Times without an offset are in the zone of `local`, which decides about those that occur twice
    there or are skipped; `chosen` is an argument of `LocalTimes.offsets`. Without a zone, they are in UTC, and a column
    whose type has no zone holds the times in UTC.

    Raises:
        pa.ArrowInvalid: for a text in another form.
        ValueError: for an instant that the type cannot hold.

    Example:
        >>> texts = pa.array(["1.7.2013", "2013-07-01T12:00+05:00"])
        >>> times, _ = times_of(texts, pa.timestamp("s"), [TimeFormat("%d.%m.%Y")], None)
        >>> times.to_pylist()
        [datetime.datetime(2013, 7, 1, 0, 0), datetime.datetime(2013, 7, 1, 7, 0)]
    """
    times, have_offsets = _read(texts, kind.unit, formats)
    if kind.tz is None:
        return times, {}
    valid = times.is_valid().to_numpy(zero_copy_only=False)
    indices = np.flatnonzero(valid & ~have_offsets)
    if local is None or not len(indices):
        return times.cast(pa.timestamp(kind.unit, "UTC")).cast(kind), {}

    def are_dates(some: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _are_dates(texts.take(pa.array(indices[some])), formats)

    values = times.cast(pa.int64()).fill_null(0).to_numpy().copy()
    per_second = _PER_SECOND[kind.unit]
    offsets, problems = local.offsets(
        values[indices] // (per_second // _MICROS)
        if per_second > _MICROS
        else values[indices] * (_MICROS // per_second),
        None if chosen is None else lambda some: chosen(indices[some]),
        are_dates,
    )
    shifts = offsets // _MICROS * per_second
    instants = values[indices] - shifts
    if ((instants > values[indices]) != (shifts < 0)).any():
        raise ValueError(f"an instant is beyond what {kind} can hold")
    values[indices] = instants
    problems = {int(indices[index]): reason for index, reason in problems.items()}
    valid[list(problems)] = False
    return pa.array(values, pa.int64(), mask=~valid).cast(pa.timestamp(kind.unit, "UTC")).cast(kind), problems


def inferred_kind(texts: pa.Array, formats: Sequence[TimeFormat]) -> pa.DataType | None:
    """Return the type of a column if all its texts are times in one of some formats or in ISO 8601, else `None`.

    Example:
        >>> inferred_kind(pa.array(["1.7.2013 +0200", None]), [TimeFormat("%d.%m.%Y %z")])
        TimestampType(timestamp[us, tz=UTC])
    """
    present = texts.drop_null()
    offsets = np.zeros(0, np.bool_)
    for part in (present.slice(0, _FEW), present):  # the first rows tell most columns of other text
        try:
            _, offsets = _read(part, "us", formats)
        except pa.ArrowInvalid:
            return None
    return pa.timestamp("us", "UTC" if offsets.all() else None) if len(offsets) else None


def _read(texts: pa.Array, unit: str, formats: Sequence[TimeFormat]) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return times without a zone, and which of them are in UTC because they had an offset."""
    unread = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    values = np.zeros(len(texts), np.int64)
    offsets = np.zeros(len(texts), np.bool_)
    for form in formats:
        if len(unread):
            good, micros = form.read(texts if len(unread) == len(texts) else texts.take(pa.array(unread)))
            indices, unread = unread[good], unread[~good]
            values[indices] = pa.array(micros, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
            offsets[indices] = form.has_offset
    if len(unread):
        values[unread], offsets[unread] = _read_iso(texts.take(pa.array(unread)), unit)
    times = pa.array(values, pa.int64(), mask=~texts.is_valid().to_numpy(zero_copy_only=False))
    return times.cast(pa.timestamp(unit)), offsets


def _read_iso(texts: pa.Array, unit: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return times in ISO 8601 as numbers, and which of them are in UTC because they had an offset."""
    kinds = pa.timestamp(unit), pa.timestamp(unit, "UTC")
    for kind in kinds:  # mostly all have an offset, or none
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(kind).cast(pa.int64()).to_numpy(), np.full(len(texts), kind.tz is not None)
    options = pc.MatchSubstringOptions(_ISO_OFFSET)
    offsets = pc.call_function("match_substring_regex", [texts], options).to_numpy(zero_copy_only=False)
    values = np.zeros(len(texts), np.int64)
    for kind in kinds:
        indices = np.flatnonzero(offsets == (kind.tz is not None))
        values[indices] = texts.take(pa.array(indices)).cast(kind).cast(pa.int64()).to_numpy()
    return values, offsets


def _are_dates(texts: pa.Array, formats: Sequence[TimeFormat]) -> NDArray[np.bool_]:
    """Return which texts have a date only, by the first format that they have."""
    encoded = texts.dictionary_encode()
    unread, dates = encoded.dictionary, []
    for form in formats:
        good, _ = form.read(unread)
        if form.is_date:
            dates += unread.filter(pa.array(good)).to_pylist()
        unread = unread.filter(pa.array(~good))
    dates += [text for text in unread.to_pylist() if _ISO_DATE.fullmatch(text)]
    is_date = np.isin(encoded.dictionary.to_pylist(), dates)
    parsed: NDArray[np.bool_] = is_date[encoded.indices.to_numpy()]
    return parsed


def _unsupported(form: str, directive: str) -> InvalidArgument:
    if directive == "%Z":
        hint = "pass zone=, or write %z if the times have offsets such as +0100"
    else:
        hint = (
            f"the directives are {', '.join(f'%{name}' for name in _DIRECTIVES)}; otherwise read the column as text by "
            "schema=, and parse it in dm.WithTimestamps(…)"
        )
    return InvalidArgument(f"`timestamp_formats` cannot have {directive}, got {form!r}", hint=hint)
