"""Options out of a closed set, given as the enum's member or as its text."""

from __future__ import annotations

import enum
from typing import TypeVar

from dataflow_model.errors import InvalidArgument

__all__ = ["as_option"]

E = TypeVar("E", bound=enum.Enum)


def as_option(options: type[E], value: E | str) -> E:
    """Return the member of `options` that `value` is or names; case does not matter.

    Raises:
        InvalidArgument: when there is no such member.

    Example:
        >>> from dataflow_model.plan.strategy import LateData
        >>> as_option(LateData, "drop")
        <LateData.DROP: 'drop'>
    """
    if isinstance(value, options):
        return value
    for name, option in options.__members__.items():  # with the aliases
        if isinstance(value, str) and value.lower() in {name.lower(), str(option.value).lower()}:
            return option
    choices = " or ".join(repr(name.lower()) for name in options.__members__)
    raise InvalidArgument(f"{value!r} is not a valid {options.__name__}", hint=f"use {choices}")
