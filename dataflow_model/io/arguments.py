"""A check of the keyword arguments of readers, whose error names the one that was probably meant."""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import InvalidType
from dataflow_model.plan.watermark_origins import WatermarkOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_arguments"]

_OTHER_NAMES: Final = {
    "decimal": "decimal_point",
    "names": "columns",
    "na_values": "null_values",
    "sep": "delimiter",
    "separator": "delimiter",
    "time_zone": "zone",
    "timezone": "zone",
    "tz": "zone",
}
"""Arguments of pandas and others, and what they are called here."""


def check_arguments(reader: type, options: Mapping[str, Any]) -> None:
    """Check that the further options of a reader are those that it has.

    Raises:
        InvalidType: for another one; the hint names the argument that was probably meant.
    """
    for name in options:
        if name not in WatermarkOptions.__annotations__:
            raise InvalidType(f"{reader.__name__} has no argument {name!r}", hint=_way_out(name, _arguments_of(reader)))


def _way_out(name: str, arguments: list[str]) -> str:
    meant = [_OTHER_NAMES.get(name, ""), *difflib.get_close_matches(name, arguments, n=1)]
    for argument in meant:
        if argument in arguments:
            return f"use `{argument}`"
    return f"its arguments are {', '.join(f'`{argument}`' for argument in arguments)}"


def _arguments_of(reader: type) -> list[str]:
    named = [
        name
        for kind in reader.__mro__
        if "__init__" in vars(kind) and kind.__module__ == reader.__module__
        for name, parameter in inspect.signature(vars(kind)["__init__"]).parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return [*dict.fromkeys([*named, *WatermarkOptions.__annotations__])]
