"""Values from the log: folds the accumulators of any combiner, one operation after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


class PythonFold:
    """The accumulators of a combiner by slot, and the emitted values by standing entry.

    Args:
        combine: the combiner.

    Attributes:
        place: behind the operation at hand in the log, for whoever reports what the combiner raises; 0 if none is.
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
        combine, accumulators, standing = self._combine, self._accumulators, self._standing
        begin, end = self._folded, log.count
        kinds, slots, arguments = (list(of[begin:end]) for of in (log.kind, log.slot, log.argument))
        emitted = self.emitted
        emitted.extend([None] * (panes - len(emitted)))
        place, count = 0, end - begin
        while place < count:
            kind, slot, argument = kinds[place], slots[place], arguments[place]
            place += 1
            self.place = begin + place
            if kind == ADD:
                if slot in accumulators:
                    accumulators[slot] = combine.add_input(accumulators[slot], values[argument])
                else:
                    accumulators[slot] = combine.add_input(combine.create_accumulator(), values[argument])
            elif kind == FIRE:
                accumulator = accumulators[slot] if slot in accumulators else combine.create_accumulator()
                emitted[argument] = combine.extract_output(accumulator)
            elif kind in {CLEAR, EXPIRE}:
                accumulators.pop(slot, None)
            elif kind == MERGE:
                sources = [argument]
                while place < count and kinds[place] == MERGE and slots[place] == slot:
                    sources.append(arguments[place])
                    place += 1
                accumulators[slot] = combine.merge_accumulators([self._taken(source) for source in sources])
            elif kind in {TAKE_BACK, EXCHANGE}:
                accumulator = accumulators[slot] if slot in accumulators else combine.create_accumulator()
                accumulators[slot] = combine.subtract_input(accumulator, values[argument])
            elif kind == REPLACE:
                standing[slot] = emitted[argument]
            else:
                emitted[argument] = standing.pop(slot)
        self.place, self._folded = 0, end

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
