"""Retracting inputs of a combiner that cannot subtract: the inputs are kept, and combined when needed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dataflow_model.plan.combine import CombineFn
from dataflow_model.plan.strategy import AccumulationMode
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.runners.engine.value_identity import are_identical, encode_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.nodes import GroupByKeyAndWindow

__all__ = ["Multiset", "MultisetFn", "key_of_value", "subtracting"]

_LONG: Final = 64
Multiset: TypeAlias = dict[bytes, tuple[Any, int]]
"""Values by their encoding, each with its count, which is negative if it was retracted before it arrived.

Of several values with one encoding, such as `0.0` and `-0.0`, those after the first have a number in front of it.
"""


class MultisetFn(CombineFn[Any, Multiset, Any]):
    """A combiner over the multiset of its inputs, so that any input can be retracted.

    A retraction takes back a value that nothing distinguishes from its own; if there is none, one that is encoded
    alike, see `encode_value`.

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
        _change(accumulator, encode_value(element), element, 1)
        return accumulator

    def subtract_input(self, accumulator: Multiset, element: Any) -> Multiset:
        """Remove an input."""
        _change(accumulator, encode_value(element), element, -1)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Multiset]) -> Multiset:
        """Add up the counts."""
        merged: Multiset = {}
        for accumulator in accumulators:
            for place, (value, count) in accumulator.items():
                _change(merged, _encoding_at(place), value, count)
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


def subtracting(node: GroupByKeyAndWindow) -> CombineFn[Any, Any, Any]:
    """Return a combiner that can retract values; if a trigger may clear, one that keeps the remaining values."""
    strategy, combine = node.strategy, node.combine
    may_clear = strategy.retracting and strategy.accumulation_mode is AccumulationMode.ACCUMULATE_BY_DEFAULT
    return combine if combine.can_subtract and not may_clear else MultisetFn(combine)


def key_of_value(label: str, value: Any) -> bytes:
    """Return bytes, at most 64, that are equal for values that are encoded alike.

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
        encoded = encode_value(value)
    except Exception as error:
        raise user_error(error, label, value, hint=None) from error
    return encoded if len(encoded) <= _LONG else b"#" + hashlib.blake2b(encoded, digest_size=32).digest()


def _change(multiset: Multiset, encoded: bytes, value: Any, by: int) -> None:
    """Change how often a value occurs."""
    opposite: int | None = None
    number = 0
    while (entry := multiset.get(_place(encoded, number))) is not None:
        known, count = entry
        if are_identical(known, value):
            _set(multiset, encoded, number, known, count + by)
            return
        if count * by < 0:
            opposite = number
        number += 1
    if opposite is None:
        multiset[_place(encoded, number)] = (value, by)
        return
    # Nothing is known to have been identical: the value has another form since it was stored, for example.
    known, count = multiset[_place(encoded, opposite)]
    taken = max(by, -count) if by < 0 else min(by, -count)
    _set(multiset, encoded, opposite, known, count + taken)
    if by != taken:
        _change(multiset, encoded, value, by - taken)


def _set(multiset: Multiset, encoded: bytes, number: int, value: Any, count: int) -> None:
    """Set how often a value occurs; the last value with its encoding takes the place of one that does not."""
    multiset[_place(encoded, number)] = (value, count)
    if not count:
        last = number
        while _place(encoded, last + 1) in multiset:
            last += 1
        moved = multiset.pop(_place(encoded, last))
        if last != number:
            multiset[_place(encoded, number)] = moved


def _place(encoded: bytes, number: int) -> bytes:
    """Return the place of one of several values with the same encoding, none of which begins with `v`."""
    return b"v%d:" % number + encoded if number else encoded


def _encoding_at(place: bytes) -> bytes:
    return place.partition(b":")[2] if place.startswith(b"v") else place
