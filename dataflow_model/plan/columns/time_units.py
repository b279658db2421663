"""The unit of whole numbers that are times, and the check that catches a missing one."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""Seconds, milliseconds, microseconds or nanoseconds."""

_FACTORS: Final = {"s": 1_000_000, "ms": 1_000}
_NANOS: Final = 1_000
_EARLIEST: Final = int(dt.datetime(1990, 1, 1, tzinfo=dt.UTC).timestamp())
_END_OF_JANUARY: Final = 31 * 86_400 * 1_000_000
"""The end of January 1970 in microseconds."""
_WHOLE_SECOND: Final = 1_000_000
_ROUND: Final = 1_400_000_000, 1_790_000_000
"""The first and the last second for which round numbers are rather seconds than multiples of whole seconds."""
_FEW: Final = 0.05
"""The share of values that may be outside of the plausible years, such as 0 for a time that is not known."""
_MOST: Final = 2**63 - 1


def checked_unit(unit: Any) -> TimeUnit | None:
    """Return a unit, or `None`.

    Raises:
        InvalidArgument: for anything else.
    """
    if unit in {None, "s", "ms", "us", "ns"}:
        checked: TimeUnit | None = unit
        return checked
    raise InvalidArgument(
        f"`event_time_unit` must be 's', 'ms', 'us' or 'ns', got {unit!r}",
        hint="pass 'ms' for times of JavaScript, Java or Kafka, and 's' for Unix times",
    )


def in_micros(
    times: NDArray[np.int64], known: NDArray[np.bool_] | None, unit: TimeUnit | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return times in microseconds, and which of them are known; one beyond 64 bits is not.

    Example:
        >>> in_micros(np.array([1_709_315_512, 2**60]), None, "s")
        (array([1709315512000000,                0]), array([ True, False]))
    """
    if unit == "ns":
        return times // _NANOS, known
    factor = _FACTORS.get(unit or "us", 1)
    if factor == 1:
        return times, known
    fits = np.abs(times) <= _MOST // factor
    micros = np.where(fits, times, 0) * factor
    if fits.all():
        return micros, known
    return micros, fits if known is None else fits & known


def check_unit_of_columns(schema: pa.Schema, names: Iterable[str], unit: TimeUnit | None) -> None:
    """Raise `InvalidArgument` if a unit is given, but none of the time columns holds whole numbers."""
    kinds = {name: schema.field(name).type for name in names}
    if unit is None or any(map(pa.types.is_integer, kinds.values())):
        return
    candidates = ", ".join(f"{name!r} is {kind}" for name, kind in kinds.items()) or "there is none"
    raise InvalidArgument(
        f"`event_time_unit` is the unit of a time column of whole numbers, but {candidates}",
        hint="leave it out; with schema=, such a column is pa.int64()",
    )


def check_unit(column: pa.Array, name: str, option: str) -> None:
    """Reject whole numbers without a unit that look like seconds or milliseconds.

    Args:
        column: values of a time column for which no unit is given.
        name: the name of the column.
        option: the argument that names it.

    Raises:
        InvalidArgument: if they are in January 1970 as microseconds, and in the years from 1990 as seconds or
            milliseconds; the hint names the unit.

    Example:
        >>> check_unit(pa.array([1709315512]), "at", "event_time")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `event_time` column 'at' holds 1709315512, as microseconds January 1970
        Hint: pass event_time_unit='s' for 2024-03-01T17:51:52Z, or event_time_unit='us' if it is right
    """
    if not pa.types.is_integer(column.type):
        return
    values = column.drop_null()
    if not len(values):
        return
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    least, greatest = float(np.quantile(numbers, _FEW)), float(numbers.max())
    for unit, per_second in (("s", 1), ("ms", 1_000)):
        if least < _EARLIEST * per_second or greatest >= min(_END_OF_JANUARY, 2**32 * per_second):
            continue
        is_recent = _ROUND[0] * per_second <= least and greatest <= _ROUND[1] * per_second
        if not is_recent and not (numbers % _WHOLE_SECOND).any():  # whole seconds, in microseconds
            continue
        number = int(greatest)
        text = dt.datetime.fromtimestamp(number // per_second, dt.UTC).isoformat().replace("+00:00", "Z")
        raise InvalidArgument(
            f"`{option}` column {name!r} holds {number}, as microseconds January 1970",
            hint=f"pass event_time_unit={unit!r} for {text}, or event_time_unit='us' if it is right",
        )
