"""Retracting inputs of a combiner that cannot subtract: the inputs are kept, and combined when needed."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dataflow_model.errors import KeyEncodingError
from dataflow_model.plan.combine import CombineFn
from dataflow_model.plan.strategy import AccumulationMode
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.nodes import GroupByKeyAndWindow

__all__ = ["Multiset", "MultisetFn", "key_of_value", "subtracting"]

_LONG: Final = 64
Multiset: TypeAlias = dict[bytes, tuple[Any, int]]
"""Values by their encoding, each with its count, which is negative if it was retracted before it arrived."""


class MultisetFn(CombineFn[Any, Multiset, Any]):
    """A combiner over the multiset of its inputs, so that any input can be retracted.

    Values that `encode_key` accepts are the same if value and type are equal. Lists, sets, dicts and tuples are the
    same if they have the same parts, regardless of the order of sets and dicts. Other values are the same if their
    pickles are.

    Example:
        >>> from dataflow_model.transforms import Max
        >>> largest = MultisetFn(Max())
        >>> inputs = largest.merge_accumulators([largest.add_input({}, 7), largest.add_input({}, 3)])
        >>> largest.extract_output(largest.subtract_input(inputs, 7))
        3
    """

    def __init__(self, combine: CombineFn[Any, Any, Any]) -> None:
        self._combine = combine

    def create_accumulator(self) -> Multiset:
        """Return an empty multiset."""
        return {}

    def add_input(self, accumulator: Multiset, element: Any) -> Multiset:
        """Add an input; values are kept in the order in which they first arrived."""
        return self._change(accumulator, element, 1)

    def subtract_input(self, accumulator: Multiset, element: Any) -> Multiset:
        """Remove an input."""
        return self._change(accumulator, element, -1)

    def merge_accumulators(self, accumulators: Iterable[Multiset]) -> Multiset:
        """Add up the counts."""
        merged: Multiset = {}
        for accumulator in accumulators:
            for encoded, (value, count) in accumulator.items():
                _put(merged, encoded, value, merged.get(encoded, (value, 0))[1] + count)
        return merged

    def extract_output(self, accumulator: Multiset) -> Any:
        """Combine the inputs; inputs with a negative count are subtracted, if the combiner can do so."""
        combined = self._combine.create_accumulator()
        for value, count in accumulator.values():
            for _ in range(count):
                combined = self._combine.add_input(combined, value)
            for _ in range(-count if self._combine.can_subtract else 0):
                combined = self._combine.subtract_input(combined, value)
        return self._combine.extract_output(combined)

    @staticmethod
    def _change(accumulator: Multiset, element: Any, by: int) -> Multiset:
        encoded = _encoded(element)
        _put(accumulator, encoded, element, accumulator.get(encoded, (element, 0))[1] + by)
        return accumulator


def subtracting(node: GroupByKeyAndWindow) -> CombineFn[Any, Any, Any]:
    """Return a combiner that can retract values; if a trigger may clear, one that keeps the remaining values."""
    strategy, combine = node.strategy, node.combine
    may_clear = strategy.retracting and strategy.accumulation_mode is AccumulationMode.ACCUMULATE_BY_DEFAULT
    return combine if combine.can_subtract and not may_clear else MultisetFn(combine)


def key_of_value(label: str, value: Any) -> bytes:
    """Return bytes, at most 64, that are equal for values that `MultisetFn` considers the same.

    Args:
        label: the label of the transform, for errors.
        value: the value.

    Raises:
        UserCodeError: for a value that cannot be pickled.

    Example:
        >>> key_of_value("x", {1: "a", 2: "b"}) == key_of_value("x", {2: "b", 1: "a"})
        True
    """
    try:
        encoded = _encoded(value)
    except Exception as error:
        raise user_error(error, label, value, hint=None) from error
    return encoded if len(encoded) <= _LONG else b"#" + hashlib.blake2b(encoded, digest_size=32).digest()


def _put(multiset: Multiset, encoded: bytes, value: Any, count: int) -> None:
    if count:
        multiset[encoded] = (value, count)
    else:
        multiset.pop(encoded, None)


def _encoded(value: Any) -> bytes:
    try:
        return b"k" + encode_key(value)
    except KeyEncodingError:
        pass
    kind = type(value)
    if kind in {list, tuple}:
        parts = [_sized(_encoded(part)) for part in value]
    elif kind in {set, frozenset}:  # their order depends on their history and the process
        parts = sorted(_sized(_encoded(part)) for part in value)
    elif kind is dict:
        parts = sorted(_sized(_encoded(key)) + _sized(_encoded(part)) for key, part in value.items())
    else:
        return b"p" + pickle.dumps(value, protocol=5)
    return kind.__name__.encode() + b"".join(parts)


def _sized(encoded: bytes) -> bytes:
    return b"%d:" % len(encoded) + encoded
