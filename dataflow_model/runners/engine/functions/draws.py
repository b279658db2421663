"""The outputs of a function for a piece of work, so that the work can be repeated without calling the function."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

Address: TypeAlias = tuple[Any, ...]
"""Identifies elements with the same outputs; elements with the same address are interchangeable."""


@attrs.define
class Draws:
    """Outputs by address; those of several elements with the same address are in order of arrival.

    Attributes:
        before: the outputs in an earlier attempt at the same work.
        now: the outputs in this attempt.
        asked: the number of elements in this attempt for which the function was called.

    Example:
        >>> first = Draws()
        >>> first.again(("a",)) is None
        True
        >>> first.add(("a",), ["heads"])
        >>> second = Draws(first.now)
        >>> second.again(("a",)), second.again(("a",)), second.asked
        (['heads'], None, 0)
    """

    before: dict[Address, list[list[Any]]] = attrs.field(factory=dict)
    now: dict[Address, list[list[Any]]] = attrs.field(factory=dict)
    asked: int = 0

    def again(self, address: Address) -> list[Any] | None:
        """Return the earlier attempt's outputs for the next element with an address; `None` if it had none."""
        outputs, before = self.now.setdefault(address, []), self.before.get(address, [])
        if len(outputs) >= len(before):
            return None
        outputs.append(before[len(outputs)])
        return outputs[-1]

    def add(self, address: Address, outputs: list[Any]) -> None:
        """Add the function's outputs for the next element with an address."""
        self.now.setdefault(address, []).append(outputs)
        self.asked += 1
