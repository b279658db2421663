"""What a function gave for the elements of one piece of work, so that the work can be done again without asking it."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

__all__ = ["Address", "Draws"]

Address: TypeAlias = tuple[Any, ...]
"""What tells elements apart that get outputs of their own. Those with one address are interchangeable."""


@attrs.define
class Draws:
    """Outputs by address; where several elements have one, in the order in which they came.

    Attributes:
        before: what an earlier attempt at the same work was given.
        now: what this one was given.
        asked: how many elements of this one the function was asked for.

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
        """Return what the earlier attempt was given for the next element of an address; `None` if there was none."""
        given, before = self.now.setdefault(address, []), self.before.get(address, [])
        if len(given) >= len(before):
            return None
        given.append(before[len(given)])
        return given[-1]

    def add(self, address: Address, outputs: list[Any]) -> None:
        """Note what the function gave for the next element of an address."""
        self.now.setdefault(address, []).append(outputs)
        self.asked += 1
