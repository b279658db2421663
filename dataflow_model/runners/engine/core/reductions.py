"""Accumulators of kernels, folded from the log: sums, and least and greatest values, of integers and of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.core import operations

if TYPE_CHECKING:
    from dataflow_model.runners.engine.core.log import OperationLog

_ADD: Final = operations.ADD
_MERGE: Final = operations.MERGE
_FIRE: Final = operations.FIRE
_REPLACE: Final = operations.REPLACE
_RETRACT: Final = operations.RETRACT
_TAKE_BACK: Final = operations.TAKE_BACK
_EXCHANGE: Final = operations.EXCHANGE
_CLEAR: Final = operations.CLEAR
_EXPIRE: Final = operations.EXPIRE


def add_up(log: OperationLog, begin: int, sums: Any, values: Any, emitted: Any) -> None:
    """Fold sums from operation `begin` on. The caller must ensure that no sum of integers exceeds 64 bits.

    Args:
        log: the operations.
        begin: the index of the first operation.
        sums: the sum of each slot.
        values: the value of each row.
        emitted: receives the sum of each pane that is fired.
    """
    for index in range(begin, log.count):
        kind, slot, argument = log.kind[index], log.slot[index], log.argument[index]
        if kind == _ADD:
            sums[slot] += values[argument]
        elif kind in (_TAKE_BACK, _EXCHANGE):
            sums[slot] -= values[argument]
        elif kind == _FIRE:
            emitted[argument] = sums[slot]
        elif kind == _MERGE:
            sums[slot] += sums[argument]
            sums[argument] = 0
        elif kind in (_CLEAR, _EXPIRE):
            sums[slot] = 0


def keep_best(log: OperationLog, begin: int, best: Any, present: Any, values: Any, emitted: Any, sign: int) -> None:
    """Fold the least or greatest values from operation `begin` on; NaN is kept only where there is no number.

    Args:
        log: the operations.
        begin: the index of the first operation.
        best: the value of each slot.
        present: 1 for each slot that has a value, otherwise 0.
        values: the value of each row.
        emitted: receives the value of each pane that is fired.
        sign: 1 for the greatest values, −1 for the least.
    """
    for index in range(begin, log.count):
        kind, slot, argument = log.kind[index], log.slot[index], log.argument[index]
        if kind == _FIRE:
            emitted[argument] = best[slot]
        elif kind in (_CLEAR, _EXPIRE):
            best[slot] = 0
            present[slot] = 0
        elif kind == _ADD or (kind == _MERGE and present[argument]):
            value = values[argument] if kind == _ADD else best[argument]
            before = best[slot]
            # Only NaN is not itself.
            if not present[slot] or (value > before if sign > 0 else value < before) or before != before:  # noqa: PLR0124
                best[slot] = value
                present[slot] = 1
            if kind == _MERGE:
                best[argument] = 0
                present[argument] = 0


def note_touched(log: OperationLog, begin: int, touched: Any, emitted: Any) -> None:
    """Note from operation `begin` on which slots have had an element since they were last empty.

    Args:
        log: the operations.
        begin: the index of the first operation.
        touched: 1 for each slot that has had an element, otherwise 0.
        emitted: receives the note on the slot of each pane that is fired.
    """
    for index in range(begin, log.count):
        kind, slot, argument = log.kind[index], log.slot[index], log.argument[index]
        if kind in (_ADD, _TAKE_BACK, _EXCHANGE):
            touched[slot] = 1
        elif kind == _FIRE:
            emitted[argument] = touched[slot]
        elif kind == _MERGE:
            touched[slot] |= touched[argument]
            touched[argument] = 0
        elif kind in (_CLEAR, _EXPIRE):
            touched[slot] = 0


def trace(log: OperationLog, begin: int, standing: Any, sources: Any) -> None:
    """Note from operation `begin` on where the value of each pane comes from.

    An index is the number of a pane, or −1 − the number of a standing entry from before the log.

    Args:
        log: the operations.
        begin: the index of the first operation.
        standing: the index of the value of each standing entry.
        sources: receives the index of the value of each pane.
    """
    for index in range(begin, log.count):
        kind, slot, argument = log.kind[index], log.slot[index], log.argument[index]
        if kind == _FIRE:
            sources[argument] = argument
        elif kind == _REPLACE:
            standing[slot] = argument
        elif kind == _RETRACT:
            sources[argument] = standing[slot]
