"""Values from the log: folds the accumulators of any combiner, one operation after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.core.columns import taken
from dataflow_model.runners.engine.core.operations import (
    ADD,
    CLEAR,
    EXCHANGE,
    EXPIRE,
    FIRE,
    MERGE,
    REPLACE,
    TAKE_BACK,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.combine import CombineFn
    from dataflow_model.runners.engine.core.log import OperationLog

__all__ = ["PythonFold"]

_AT_ONCE: Final = 4_096
"""Operations whose columns become lists at once, which then stay in the processor's cache."""


class PythonFold:
    """The accumulators of a combiner by slot, and the emitted values by standing entry.

    Args:
        combine: the combiner.

    Attributes:
        place: behind the operation in the log for which the combiner has raised an exception; 0 if it has not.
        emitted: the value of each pane since `begin`.
    """

    def __init__(self, combine: CombineFn[Any, Any, Any]) -> None:
        self.place = 0
        self._folded = 0
        self.emitted: list[Any] = []
        self._combine = combine
        self._accumulators: dict[int, Any] = {}
        self._standing: dict[int, Any] = {}

    def begin(self) -> None:
        """Begin a new log."""
        self.place = self._folded = 0
        self.emitted = []

    def fold(self, log: OperationLog, values: Sequence[Any], panes: int) -> None:
        """Fold the operations since the last call.

        Args:
            log: the operations of a chunk.
            values: the elements by row.
            panes: the number of panes in the log.
        """
        self.emitted.extend([None] * (panes - len(self.emitted)))
        while self._folded < log.count:
            until = min(self._folded + _AT_ONCE, log.count)
            while until < log.count and log.kind[until] == MERGE:  # the merges into one slot are folded at once
                until += 1
            self._fold_until(until, log, values)

    def _fold_until(self, end: int, log: OperationLog, values: Sequence[Any]) -> None:
        begin = self._folded
        kinds, slots, arguments = (taken(of, end)[begin:].tolist() for of in (log.kind, log.slot, log.argument))
        accumulators, add_input, create = self._accumulators, self._combine.add_input, self._combine.create_accumulator
        place = merged = 0
        try:
            for place, (kind, slot, argument) in enumerate(zip(kinds, slots, arguments, strict=True)):
                if kind == ADD:  # nearly all are
                    accumulator = accumulators[slot] if slot in accumulators else create()
                    accumulators[slot] = add_input(accumulator, values[argument])
                elif kind != MERGE:
                    self._fold_one(kind, slot, argument, values)
                elif place >= merged:
                    merged = next(
                        (row for row in range(place, len(kinds)) if kinds[row] != MERGE or slots[row] != slot),
                        len(kinds),
                    )
                    sources = [self._taken(source) for source in arguments[place:merged]]
                    accumulators[slot] = self._combine.merge_accumulators(sources)
        except BaseException:
            self.place = begin + place + 1
            raise
        self._folded = end

    def _fold_one(self, kind: int, slot: int, argument: int, values: Sequence[Any]) -> None:
        if kind == FIRE:
            self.emitted[argument] = self._combine.extract_output(self.accumulator(slot))
        elif kind in {CLEAR, EXPIRE}:
            self._accumulators.pop(slot, None)
        elif kind in {TAKE_BACK, EXCHANGE}:
            self._accumulators[slot] = self._combine.subtract_input(self.accumulator(slot), values[argument])
        elif kind == REPLACE:
            self._standing[slot] = self.emitted[argument]
        else:
            self.emitted[argument] = self._standing.pop(slot)

    def accumulator(self, slot: int) -> Any:
        """Return the accumulator of a slot."""
        if slot in self._accumulators:
            return self._accumulators[slot]
        return self._combine.create_accumulator()

    def accumulators(self) -> Mapping[int, Any]:
        """Return the accumulators that are not empty, by slot."""
        return self._accumulators

    def standing_value(self, entry: int) -> Any:
        """Return the value of a standing entry."""
        return self._standing[entry]

    def restore(self, accumulators: Mapping[int, Any], standing: Mapping[int, Any]) -> None:
        """Restore accumulators by slot and emitted values by standing entry from durable state."""
        self._accumulators.update(accumulators)
        self._standing.update(standing)

    def _taken(self, slot: int) -> Any:
        accumulator = self.accumulator(slot)
        self._accumulators.pop(slot, None)
        return accumulator
