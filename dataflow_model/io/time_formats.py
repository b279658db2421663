"""Parse columns of times in formats of `strptime`, as strictly as Python does."""

from __future__ import annotations

import contextlib
import re
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

__all__ = ["TimeFormat", "inferred_kind", "times_of"]

_MONTHS: Final = tuple(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _short(names: Sequence[str]) -> list[str]:
    return [name[:3] for name in names]


# The patterns are those of Python's `_strptime`: the first alternative that matches is taken, there and in Arrow.
_DIRECTIVES: Final = {
    "Y": ("year", r"\d{4}"),
    "y": ("year", r"\d\d"),
    "m": ("month", r"1[0-2]|0[1-9]|[1-9]"),
    "b": ("month", "|".join(_short(_MONTHS))),
    "B": ("month", "|".join(_MONTHS)),
    "d": ("day", r"3[01]|[12]\d|0[1-9]|[1-9]| [1-9]"),
    "j": ("day of the year", r"36[0-6]|3[0-5]\d|[12]\d\d|0[1-9]\d|00[1-9]|[1-9]\d|0[1-9]|[1-9]"),
    "H": ("hour", r"2[0-3]|[01]\d|\d"),
    "I": ("hour", r"1[0-2]|0[1-9]|[1-9]"),
    "p": ("half of the day", "am|pm"),
    "M": ("minute", r"[0-5]\d|\d"),
    "S": ("second", r"6[01]|[0-5]\d|\d"),
    "f": ("fraction of a second", r"\d{1,6}"),
    "z": ("offset", r"[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?|(?-i:Z)"),
    "a": ("day of the week", "|".join(_short(_DAYS))),
    "A": ("day of the week", "|".join(_DAYS)),
}
_IGNORED: Final = frozenset("aA")
_TOKEN: Final = re.compile(r"%(.?)|\s+|[^%\s]+")
_ISO_OFFSET: Final = r"[T ]\d\d(:.*)?(Z|[+-]\d\d(:?\d\d)?)$"
_WIDTHS: Final = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "I": 2, "M": 2, "S": 2, "f": 6}
"""The numbers of digits, padded with zeros."""
_PIVOT: Final = 69
"""The first year of the 20th century among those with two digits."""
_MONTHS_OF_YEAR: Final = 12
_HOURS: Final = 24
_NOON: Final = 12
_SIXTY: Final = 60
_FEW: Final = 100
_MICROS: Final = 1_000_000
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": _MICROS, "ns": 1_000_000_000}
_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


@attrs.frozen
class TimeFormat:
    """A format, such as `"%d.%m.%Y %H:%M"`.

    Names of months and days are English, and their case does not matter. What Python's `strptime` rejects is not read;
    in addition, the day of the year must exist, and an offset may lack its minutes.

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
    """The directives with their patterns, and the texts between them."""

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
            part, alternatives = _DIRECTIVES[name]
            if part in parts:
                raise InvalidArgument(
                    f"`timestamp_formats` can say the {part} once, got %{parts[part]} and %{name} in {self.text!r}",
                    hint="leave one of them out",
                )
            parts[part] = name
            tokens.append((name, f"(?P<{name}>{alternatives})"))
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
        return self.directives <= _WIDTHS.keys() and (not literal or literal.isdecimal())

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
        padded = self._padded_numbers(texts)
        if padded is not None:
            micros, exists = _micros(padded, len(texts))
            if exists.all():
                return exists, micros
        pattern = "".join(
            text if name else r"\s+" if text.isspace() else re.escape(text) for name, text in self._tokens
        )
        options = pc.ExtractRegexOptions(f"^(?i:{pattern})(?P<rest>(?s:.*))")
        matches = pc.call_function("extract_regex", [texts], options)
        is_whole = pc.call_function("equal", [matches.field("rest"), pa.scalar("")])
        good = pc.call_function("and_kleene", [matches.is_valid(), is_whole]).to_numpy(zero_copy_only=False).copy()
        parts = matches.filter(pa.array(good))
        numbers = {name: _number(name, parts.field(name)) for name in self.directives - _IGNORED}
        micros, exists = _micros(numbers, len(parts))
        good[np.flatnonzero(good)] = exists
        return good, micros[exists]

    def _padded_numbers(self, texts: pa.Array) -> dict[str, NDArray[np.int64]] | None:
        """Return the numbers in texts whose digits and separators are all at the same places, which is fast.

        `None` if the texts differ in that, or the format has directives that are not numbers.
        """
        if texts.null_count or not len(texts) or not self.directives <= _WIDTHS.keys():
            return None
        width = sum(len(text.encode()) if name is None else _WIDTHS[name] for name, text in self._tokens)
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        if (np.diff(ends) != width).any():
            return None
        characters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(len(texts), width)
        numbers = {}
        place = 0
        for name, text in self._tokens:
            if name is None:
                literal = np.frombuffer(text.encode(), np.uint8)
                if (characters[:, place : place + len(literal)] != literal).any():
                    return None
                place += len(literal)
                continue
            number = np.zeros(len(texts), np.int64)
            for _ in range(_WIDTHS[name]):
                digits = characters[:, place] - ord("0")  # wraps around for what comes before the digits
                if digits.max() > 9:  # noqa: PLR2004
                    return None
                number = number * 10 + digits
                place += 1
            numbers[name] = number
        return numbers


def times_of(
    texts: pa.Array,
    kind: pa.DataType,
    formats: Sequence[TimeFormat],
    local: LocalTimes | None,
    chosen: Callable[[NDArray[np.int64]], Sequence[str | None]] | None = None,
) -> tuple[pa.Array, dict[int, str]]:
    """Return the times that are written in one of some formats or in ISO 8601, and why some are none, by place.

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
    places = np.flatnonzero(valid & ~have_offsets)
    if local is None or not len(places):
        return times.cast(pa.timestamp(kind.unit, "UTC")).cast(kind), {}

    def are_dates(some: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _are_dates(texts.take(pa.array(places[some])), formats)

    values = times.cast(pa.int64()).fill_null(0).to_numpy().copy()
    per_second = _PER_SECOND[kind.unit]
    offsets, problems = local.offsets(
        values[places] // (per_second // _MICROS) if per_second > _MICROS else values[places] * (_MICROS // per_second),
        None if chosen is None else lambda some: chosen(places[some]),
        are_dates,
    )
    shifts = offsets // _MICROS * per_second
    instants = values[places] - shifts
    if ((instants > values[places]) != (shifts < 0)).any():
        raise ValueError(f"an instant is beyond what {kind} can hold")
    values[places] = instants
    problems = {int(places[place]): reason for place, reason in problems.items()}
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
            places, unread = unread[good], unread[~good]
            values[places] = pa.array(micros, pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
            offsets[places] = form.has_offset
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
        places = np.flatnonzero(offsets == (kind.tz is not None))
        values[places] = texts.take(pa.array(places)).cast(kind).cast(pa.int64()).to_numpy()
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
    found: NDArray[np.bool_] = is_date[encoded.indices.to_numpy()]
    return found


def _micros(numbers: dict[str, NDArray[np.int64]], count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return times in microseconds from their parts by directive, and which of them exist."""

    def number(name: str, default: int = 0) -> NDArray[np.int64]:
        return numbers.get(name, np.full(count, default, np.int64))

    year = number("Y")
    if "y" in numbers:
        year = numbers["y"] + np.where(numbers["y"] < _PIVOT, 2000, 1900)
    month = next((numbers[name] for name in "mbB" if name in numbers), number("", 1))
    day, length = (numbers["j"], 12) if "j" in numbers else (number("d", 1), 1)
    first, following = (_first_days((year - 1970) * 12 + month - 1 + months) for months in (0, length))
    hour = numbers["I"] % _NOON + _NOON * number("p") if "I" in numbers else number("H")
    minute, second = number("M") - number("z"), number("S")
    exists = (year > 0) & (month > 0) & (month <= _MONTHS_OF_YEAR) & (day > 0) & (day <= following - first)
    exists &= (
        (hour < _HOURS) & (number("I", 1) > 0) & (number("I") <= _NOON) & (number("M") < _SIXTY) & (second < _SIXTY)
    )
    seconds = (((first + day - 1) * _HOURS + hour) * _SIXTY + minute) * _SIXTY + second
    return seconds * 1_000_000 + number("f"), exists


def _number(name: str, texts: pa.Array) -> NDArray[np.int64]:
    """Return a part of some times as numbers; each different text is parsed once."""
    encoded = texts.dictionary_encode()
    numbers = np.array([_value(name, text) for text in encoded.dictionary.to_pylist()], np.int64)
    values: NDArray[np.int64] = numbers[encoded.indices.to_numpy()]
    return values


def _value(name: str, text: str) -> int:
    """Return a part of a time as a number: months from 1, an offset in minutes, 1 for the afternoon."""
    match name:
        case "b" | "B":
            return _short(_MONTHS).index(text[:3].lower()) + 1
        case "p":
            return int(text.lower() == "pm")
        case "f":
            return int(text.ljust(6, "0"))
        case "z":
            digits = text[1:].replace(":", "").ljust(4, "0")
            return (-1 if text.startswith("-") else 1) * (int(digits[:2]) * _SIXTY + int(digits[2:]))
        case _:
            return int(text)


def _first_days(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first day of months that are counted from January 1970."""
    return months.view("M8[M]").astype("M8[D]").astype(np.int64)


def _unsupported(form: str, directive: str) -> InvalidArgument:
    if directive == "%Z":
        hint = "pass zone=, or write %z if the times have offsets such as +0100"
    else:
        hint = (
            f"the directives are {', '.join(f'%{name}' for name in _DIRECTIVES)}; otherwise read the column as text by "
            "schema=, and parse it in dm.WithTimestamps(…)"
        )
    return InvalidArgument(f"`timestamp_formats` cannot have {directive}, got {form!r}", hint=hint)
