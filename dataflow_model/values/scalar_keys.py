"""NumPy and pandas scalars as keys: the Python values that they represent, without loss of precision.

This module imports neither package: a program that has such a scalar has already imported it.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from dataflow_model.errors import KeyEncodingError
from dataflow_model.micros import micros_since_epoch

_PER_MICROSECOND: Final = 10**12  # attoseconds: the finest unit that NumPy has
_ATTOSECONDS: Final = {
    "W": 604_800 * 10**18, "D": 86_400 * 10**18, "h": 3_600 * 10**18, "m": 60 * 10**18, "s": 10**18,
    "ms": 10**15, "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1,
}  # fmt: skip
_MONTHS: Final = {"Y": 12, "M": 1}
_CALENDAR: Final = frozenset({"Y", "M", "W", "D"})
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_MAP_TO_NONE: Final = "map it to None before grouping"


def encode_moment(moment: datetime.datetime, nanoseconds: int = 0) -> bytes:
    """Encode a datetime, as an instant if it has a zone, else as local time; `nanoseconds` (0 to 999) are added."""
    tag, moment = (b"l", moment.replace(tzinfo=datetime.UTC)) if moment.utcoffset() is None else (b"d", moment)
    return _counted(tag, micros_since_epoch(moment), nanoseconds * 10**9)


def encode_period(period: datetime.timedelta) -> bytes:
    """Encode a duration."""
    return _counted(b"e", (period.days * 86_400 + period.seconds) * 1_000_000 + period.microseconds, 0)


def is_numpy_scalar(kind: type[Any]) -> bool:
    """Return whether a type is a NumPy scalar type; array types are not."""
    return any(base.__name__ == "generic" and base.__module__ == "numpy" for base in kind.__mro__)


def is_pandas_scalar(kind: type[Any]) -> bool:
    """Return whether a type is pandas' `Timestamp` or `Timedelta`, or the type of `NaT` or `NA`."""
    return kind.__module__.startswith("pandas.") and kind.__name__ in {"Timestamp", "Timedelta", "NaTType", "NAType"}


def from_numpy(key: Any) -> Any:
    """Return the Python scalar that a NumPy scalar represents, or its encoding if Python has no such value.

    Raises:
        KeyEncodingError: for NaT, a duration without a unit, and a number that no Python scalar can hold.
    """
    kind = key.dtype.kind
    if kind in "mM":
        if str(key) == "NaT":
            raise KeyEncodingError("a key may not be NaT, which is not equal to itself", hint=_MAP_TO_NONE)
        return _numpy_time(key, is_instant=kind == "M")
    value = key.item()
    if type(value) is type(key):
        raise KeyEncodingError(
            f"a key may not be a {type(key).__name__}, got {key!r}", hint="convert it: float(key) or str(key)"
        )
    return value


def from_pandas(key: Any) -> bytes:
    """Return the encoding of a pandas scalar.

    Raises:
        KeyEncodingError: for `NaT` and `NA`.
    """
    match type(key).__name__:
        case "Timestamp":
            return encode_moment(key, key.nanosecond)
        case "Timedelta":
            micros = (key.days * 86_400 + key.seconds) * 1_000_000 + key.microseconds
            return _counted(b"e", micros, key.nanoseconds * 10**9)
        case _:
            raise KeyEncodingError(f"a key may not be {key!r}, which is not equal to itself", hint=_MAP_TO_NONE)


def _numpy_time(key: Any, *, is_instant: bool) -> Any:
    unit = key.dtype.str.partition("[")[2].rstrip("]")
    step = unit.rstrip("abcdefghijklmnopqrstuvwxyzDMWY")
    count = int(key.view("i8")) * int(step or 1)
    unit = unit[len(step) :]
    if is_instant and unit in _CALENDAR:
        return _date(key, count, unit)
    if unit in _ATTOSECONDS:
        micros, rest = divmod(count * _ATTOSECONDS[unit], _PER_MICROSECOND)
        return _counted(b"l" if is_instant else b"e", micros, rest)
    if unit in _MONTHS:
        return b"eM%d" % (count * _MONTHS[unit])
    raise KeyEncodingError(
        f"a key may not be a time without a unit, got {key!r}", hint="convert it: key.astype('int64')"
    )


def _date(key: Any, count: int, unit: str) -> datetime.date:
    try:
        if unit in _MONTHS:
            years, month = divmod(count * _MONTHS[unit], 12)
            return datetime.date(1970 + years, month + 1, 1)
        return datetime.date.fromordinal(_EPOCH_DAY + count * (7 if unit == "W" else 1))
    except (ValueError, OverflowError) as error:
        raise KeyEncodingError(
            f"a key may not be a date outside the years 1 to 9999, got {key!r}",
            hint="convert it: key.astype('int64')",
        ) from error


def _counted(tag: bytes, micros: int, attoseconds: int) -> bytes:
    return tag + (b"%d.%018d" % (micros, attoseconds) if attoseconds else b"%d" % micros)
