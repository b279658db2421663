"""Inputs and results of transforms: one collection, or a tuple, list or dict of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a value, or a tuple, list or dict of values, with each value converted; `None` stays `None`.

    Example:
        >>> mapped({"a": 1, "b": (2, None)}, str)
        {'a': '1', 'b': ('2', None)}
    """
    match value:
        case None:
            return None
        case tuple():
            parts = [mapped(part, convert) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        case list():
            return [mapped(part, convert) for part in value]
        case dict():
            return {name: mapped(part, convert) for name, part in value.items()}
        case _:
            return convert(value)
