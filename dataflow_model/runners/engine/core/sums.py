"""Sums of 64-bit integers, folded from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core import operations
from dataflow_model.runners.engine.core.columns import column, lengthened

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from dataflow_model.runners.engine.core.log import OperationLog

__all__ = ["SumFold"]

_ADD: Final = operations.ADD
_MERGE: Final = operations.MERGE
_FIRE: Final = operations.FIRE
_REPLACE: Final = operations.REPLACE
_RETRACT: Final = operations.RETRACT
_TAKE_BACK: Final = operations.TAKE_BACK
_EXCHANGE: Final = operations.EXCHANGE
_FIRST_CAPACITY: Final = 8


class SumFold:
    """The current sum of each slot, and the sum that each standing entry was emitted with.

    The caller must ensure that no sum exceeds 64 bits.
    """

    def __init__(self) -> None:
        self.sums: array[int] = column(_FIRST_CAPACITY)
        self.standing: array[int] = column(_FIRST_CAPACITY)

    def admit(self, slots: int, entries: int) -> None:
        """Make room for `slots` slots and `entries` standing entries."""
        if slots > len(self.sums):
            self.sums = lengthened(self.sums, max(slots, 2 * len(self.sums)))
        if entries > len(self.standing):
            self.standing = lengthened(self.standing, max(entries, 2 * len(self.standing)))

    def fold(self, log: OperationLog, begin: int, values: Sequence[int], emitted: array[int]) -> None:
        """Fold the operations from `begin` on, and write the sum of each pane that they emit to `emitted`."""
        for place in range(begin, log.count):
            kind, slot, argument = log.kind[place], log.slot[place], log.argument[place]
            if kind == _ADD:
                self.sums[slot] += values[argument]
            elif kind in (_TAKE_BACK, _EXCHANGE):
                self.sums[slot] -= values[argument]
            elif kind == _FIRE:
                emitted[argument] = self.sums[slot]
            elif kind == _MERGE:
                self.sums[slot] += self.sums[argument]
                self.sums[argument] = 0
            elif kind == _REPLACE:
                self.standing[slot] = emitted[argument]
            elif kind == _RETRACT:
                emitted[argument] = self.standing[slot]
            else:
                self.sums[slot] = 0
