"""Values from the log: folds the accumulators of any combiner, one operation after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.plan.functions.combine import output_of
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

    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.runners.engine.core.log import OperationLog

_ADD: Final = ADD
_MERGE: Final = MERGE
_FIRE: Final = FIRE
_CLEAR: Final = CLEAR
_EXPIRE: Final = EXPIRE
_TAKE_BACK: Final = TAKE_BACK
_EXCHANGE: Final = EXCHANGE
_REPLACE: Final = REPLACE
_NONE: Final = -1


class PythonFold:
    """The accumulators of a combiner by slot, and the emitted values by standing entry.

    Args:
        combine: the combiner.

    Attributes:
        failed: the index in the log of the operation for which the combiner has raised an exception; −1 if it has not.
        emitted: the value of each pane since `begin`.
    """

    def __init__(self, combine: CombineFn[Any, Any, Any]) -> None:
        self.failed = _NONE
        self._folded = 0
        self.emitted: list[Any] = []
        self._combine = combine
        self._accumulators: dict[int, Any] = {}
        self._standing: dict[int, Any] = {}

    def begin(self) -> None:
        """Begin a new log."""
        self.failed, self._folded = _NONE, 0
        self.emitted = []

    def fold(self, log: OperationLog, values: Sequence[Any], panes: int) -> None:
        """Fold the operations since the last call.

        Args:
            log: the operations of a chunk.
            values: the elements by row.
            panes: the number of panes in the log.
        """
        self.emitted.extend([None] * (panes - len(self.emitted)))
        accumulators, add_input, create = self._accumulators, self._combine.add_input, self._combine.create_accumulator
        kinds, slots, arguments = log.kind, log.slot, log.argument
        index = self._folded
        try:
            while index < log.count:
                kind = kinds[index]
                if kind == _ADD:  # nearly all are
                    slot = slots[index]
                    accumulator = accumulators[slot] if slot in accumulators else create()
                    accumulators[slot] = add_input(accumulator, values[arguments[index]])
                    index += 1
                elif kind == _MERGE:
                    index = self.merge(log, index)
                else:
                    self.fold_one(kind, slots[index], arguments[index], values)
                    index += 1
        except BaseException:
            self.failed = index
            raise
        self._folded = index

    def merge(self, log: OperationLog, begin: int) -> int:
        """Merge accumulators into one slot; return the index in the log after the merges into it."""
        kinds, slots, arguments = log.kind, log.slot, log.argument
        index, sources = begin, []
        while index < log.count and kinds[index] == _MERGE and slots[index] == slots[begin]:
            sources.append(self.accumulator(arguments[index]))
            self._accumulators.pop(arguments[index], None)
            index += 1
        self._accumulators[slots[begin]] = self._combine.merge_accumulators(sources)
        return index

    def fold_one(self, kind: int, slot: int, argument: int, values: Sequence[Any]) -> None:
        """Fold an operation that neither adds nor merges."""
        if kind == _FIRE:
            self.emitted[argument] = output_of(self._combine, self.accumulator(slot))
        elif kind in {_CLEAR, _EXPIRE}:
            self._accumulators.pop(slot, None)
        elif kind in {_TAKE_BACK, _EXCHANGE}:
            self._accumulators[slot] = self._combine.subtract_input(self.accumulator(slot), values[argument])
        elif kind == _REPLACE:
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

    def forget(self, entries: NDArray[np.int64]) -> None:
        """Release the values of standing entries that are free; those of expired windows are never retracted."""
        if self._standing:
            for entry in entries.tolist():
                self._standing.pop(entry, None)

    def restore(self, accumulators: Mapping[int, Any], standing: Mapping[int, Any]) -> None:
        """Restore accumulators by slot and emitted values by standing entry from durable state."""
        self._accumulators.update(accumulators)
        self._standing.update(standing)
