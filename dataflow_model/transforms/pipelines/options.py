"""Options from a closed set, given as a member of the enum or as text."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeVar

from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

E = TypeVar("E", bound=enum.Enum)


def as_option(options: type[E], value: E | str, name: str, choices: Sequence[str] = ()) -> E:
    """Return the member of `options` that `value` is or names; case does not matter.

    Args:
        options: the enum.
        value: a member, or the name or the value of one.
        name: the name of the parameter, for the error.
        choices: the texts that the error names, if they are not the values.

    Raises:
        InvalidArgument: when there is no such member.

    Example:
        >>> from dataflow_model.plan.logical.strategy import LateData
        >>> as_option(LateData, "drop", "late_data")
        <LateData.DROP: 'drop'>
    """
    if isinstance(value, options):
        return value
    for member, option in options.__members__.items():  # with the aliases
        if isinstance(value, str) and value.lower() in {member.lower(), str(option.value).lower()}:
            return option
    texts = map(repr, choices or [str(option.value) for option in options])
    raise InvalidArgument(
        f"`{name}` must be {' or '.join(texts)}, got {value!r}",
        hint=f"pass one of these texts, or a member of dm.{options.__name__}",
    )
