"""Times of NumPy and pandas in a column: what Python holds them as, without losing a nanosecond."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

_FINE: Final = frozenset({"ns", "ps", "fs", "as"})
"""The units of NumPy that are finer than those of Python."""


def are_foreign(kinds: Iterable[type[Any]]) -> bool:
    """Return whether one of these types is among those that `python_time` replaces."""
    return any(issubclass(kind, np.datetime64 | np.timedelta64) or _is_of_pandas(kind) for kind in kinds)


def python_time(value: Any) -> Any:
    """Return a time of NumPy or pandas as Python holds it, `None` for NaT, and any other value unchanged.

    Values in nanoseconds become those of pandas, which are times of Python too and keep them.

    Raises:
        ValueError: for a time that neither can hold, and for a length of time without a unit, in months or in years.

    Example:
        >>> python_time(np.datetime64("2024-01-01T00:30")), python_time(np.datetime64("2024-01"))
        (datetime.datetime(2024, 1, 1, 0, 30), datetime.date(2024, 1, 1))
        >>> python_time(np.timedelta64(1500, "ms")), python_time(np.timedelta64(1500, "ns"))
        (datetime.timedelta(seconds=1, microseconds=500000), Timedelta('0 days 00:00:00.000001500'))
        >>> python_time(np.timedelta64("NaT")), python_time(5)
        (None, 5)
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else _of_numpy(value)
    if not _is_of_pandas(type(value)):
        return value
    if type(value).__name__ == "NaTType":
        return None
    is_exact = isinstance(value, dt.timedelta) and not has_nanoseconds(value)
    return dt.timedelta(value.days, value.seconds, value.microseconds) if is_exact else value


def has_nanoseconds(value: Any) -> bool:
    """Return whether a time of pandas has nanoseconds that Python's own times would lose."""
    return bool(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0))


def _is_of_pandas(kind: type[Any]) -> bool:
    return kind.__module__.startswith("pandas.") and (
        issubclass(kind, dt.datetime | dt.timedelta) or kind.__name__ == "NaTType"
    )


def _of_numpy(value: np.datetime64 | np.timedelta64) -> Any:
    is_instant = isinstance(value, np.datetime64)
    if np.datetime_data(value.dtype)[0] in _FINE:
        in_nanoseconds = value.astype("M8[ns]" if is_instant else "m8[ns]")
        if in_nanoseconds != value:
            raise ValueError(f"a column holds nanoseconds at most, got {value!r}")
        import pandas as pd

        return pd.Timestamp(in_nanoseconds) if is_instant else pd.Timedelta(in_nanoseconds)
    time: Any = value.item()
    if not isinstance(time, dt.date | dt.timedelta):  # NumPy returns a number for what Python cannot hold
        raise ValueError(f"Python cannot hold {value!r}")  # noqa: TRY004 - its type is right
    return time
