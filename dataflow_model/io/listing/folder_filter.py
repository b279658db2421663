"""Conditions on the columns in the names of folders: a folder that does not meet them is neither listed nor opened."""

from __future__ import annotations

import operator
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.listing.folder_columns import value_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MEMBERS: Final = ("in", "not in")
_WHOLE: Final = re.compile(r"-?[0-9]{1,40}")
_EXAMPLE: Final = 'pass [("dt", ">=", "2024-05-01"), ("hour", "in", [0, 12])], for example'


@attrs.frozen
class FolderFilter:
    """Conditions that all have to be met: a column, a comparison, and a value or several.

    A value is text, a whole number or a date, and a folder's value is read as one of the same kind. If it is none, the
    folder is not skipped: whether the value suits the column is decided where the file is read. Null meets only
    `("dt", "==", None)`, and `"in"` with `None` among the values.
    """

    conditions: tuple[tuple[str, str, Any], ...] = ()

    def skips(self, folder: str) -> bool:
        """Return whether the name of a folder does not meet a condition.

        Example:
            >>> late = FolderFilter((("hour", ">=", 12),))
            >>> late.skips("hour=03"), late.skips("hour=15"), late.skips("dt=2024-05-01"), late.skips("logs")
            (True, False, False, False)
        """
        pair = value_in(folder)
        return pair is not None and not all(
            _is_met(pair[1], sign, operand) for name, sign, operand in self.conditions if name == pair[0]
        )

    def types(self) -> dict[str, pa.DataType]:
        """Return the types of columns that follow from the values in the conditions.

        Example:
            >>> FolderFilter((("hour", "==", "03"), ("n", "in", (1, 2)), ("dt", ">", "2024-05-01"))).types()
            {'hour': DataType(string), 'n': DataType(int64)}
        """
        types = {}
        for name, value in self._operands():
            if isinstance(value, int):
                types[name] = pa.int64()
            elif isinstance(value, date):
                types[name] = pa.date32()
            elif value is not None and not _is_date(value):
                types[name] = pa.string()
        return types

    def _operands(self) -> Iterator[tuple[str, Any]]:
        for name, sign, operand in self.conditions:
            for value in operand if sign in _MEMBERS else (operand,):
                yield name, value

    def check(self, columns: pa.Schema, names: Iterable[str]) -> None:
        """Raise `InvalidArgument` for a condition on another column than those of the folders, or of another type."""
        names, present = list(names), set(columns.names)
        for name, value in self._operands():
            if name not in names:
                raise InvalidArgument(
                    f"`partition_filter` names {name!r}, which is no column of the folders",
                    hint=f"the columns of the folders are {', '.join(names)}"
                    if names
                    else "no file lies in folders such as dt=2024-05-01; filter the rows with dm.Filter(…)",
                )
            if name not in present:
                continue
            kind = columns.field(name).type
            if not _suits(value, kind):
                raise InvalidArgument(
                    f"`partition_filter` compares {name!r}, which is {kind}, with {value!r}",
                    hint="compare whole numbers with whole numbers, dates with dates, and anything else with the text "
                    f"in the names of the folders; or pass schema= with another type for {name!r}",
                )

    def __str__(self) -> str:
        return " and ".join(f"{name} {sign} {operand!r}" for name, sign, operand in self.conditions)


def checked_filter(value: Any) -> FolderFilter:
    """Return the argument `partition_filter`.

    Raises:
        InvalidType: unless it is a list of conditions.
        InvalidArgument: for a comparison that does not exist.

    Example:
        >>> str(checked_filter([("dt", ">=", "2024-05-01"), ("hour", "in", [0, 12])]))
        "dt >= '2024-05-01' and hour in (0, 12)"
    """
    if value is None or isinstance(value, FolderFilter):
        return value or FolderFilter()
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise InvalidType(f"`partition_filter` must be a list of conditions, got {value!r}", hint=_EXAMPLE)
    return FolderFilter(tuple(map(_condition, value)))


def _condition(given: Any) -> tuple[str, str, Any]:
    if not (isinstance(given, (list, tuple)) and len(given) == 3 and all(isinstance(part, str) for part in given[:2])):  # noqa: PLR2004 - name, sign, operand
        raise InvalidType(
            f"a condition of `partition_filter` must be (column, comparison, value), got {given!r}", hint=_EXAMPLE
        )
    name, sign, operand = given
    if sign not in _COMPARISONS and sign not in _MEMBERS:
        raise InvalidArgument(
            f"a comparison of `partition_filter` must be one of {', '.join((*_COMPARISONS, *_MEMBERS))}, got {sign!r}",
            hint=_EXAMPLE,
        )
    several = sign in _MEMBERS
    if several and (isinstance(operand, str) or not isinstance(operand, (list, tuple, set, frozenset, range))):
        raise InvalidType(f"{sign!r} in `partition_filter` needs a list of values, got {operand!r}", hint=_EXAMPLE)
    values = list(operand) if several else [operand]
    for value in values:
        is_plain = isinstance(value, (str, int, date)) and not isinstance(value, (bool, datetime))
        if not is_plain and not (value is None and sign in ("==", "!=", *_MEMBERS)):
            raise InvalidType(
                f"`partition_filter` compares {name!r} with text, whole numbers or dates, got {value!r}", hint=_EXAMPLE
            )
    return name, sign, tuple(sorted(set(values), key=repr)) if several else operand


def _is_met(text: str | None, sign: str, operand: Any) -> bool:
    if sign == "in":
        return any(_is_met(text, "==", value) for value in operand)
    if sign == "not in":
        return all(_is_met(text, "!=", value) for value in operand)
    if operand is None:
        return (text is None) == (sign == "==")
    if text is None:
        return False
    value: Any = text
    try:
        if isinstance(operand, date):
            value = date.fromisoformat(text)
        elif isinstance(operand, int):
            if not _WHOLE.fullmatch(text):
                return True
            value = int(text)
    except ValueError:
        return True
    return _COMPARISONS[sign](value, operand)


def _suits(value: Any, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if pa.types.is_integer(kind):
        return isinstance(value, int)
    if pa.types.is_date(kind):
        return isinstance(value, date) or (isinstance(value, str) and _is_date(value))
    return isinstance(value, str)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
