"""Retracting inputs of a combiner that cannot subtract: the inputs are kept, and combined when needed."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.logical.strategy import AccumulationMode
from dataflow_model.runners.engine.functions.user_code import user_error
from dataflow_model.runners.engine.functions.value_identity import are_identical, encode_value, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow

_LONG: Final = 64


class _Alike:
    """Several values with one encoding, by number.

    Args:
        entries: the values and their counts.

    Attributes:
        identities: what distinguishes each of them from the others.
        numbers: their numbers, by identity.
        negative: how many of them have a negative count.
    """

    __slots__ = ("identities", "negative", "numbers")

    def __init__(self, entries: Iterable[tuple[Any, int]]) -> None:
        self.identities: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.negative = 0
        for value, count in entries:
            self.append(identity_of(value), count)

    def append(self, identity: Any, count: int) -> None:
        """Add a value."""
        self.numbers[identity] = len(self.identities)
        self.identities.append(identity)
        self.negative += count < 0

    def remove(self, number: int) -> None:
        """Remove a value; the last one takes its number."""
        self.numbers.pop(self.identities[number], None)
        last = self.identities.pop()
        if number < len(self.identities):
            self.identities[number] = last
            self.numbers[last] = number


class Multiset(dict[bytes, tuple[Any, int]]):
    """Values by their encoding, each with its count, which is negative if it was retracted before it arrived.

    Of several values with one encoding, such as `0.0` and `-0.0`, those after the first have a number in front of it.
    What distinguishes them is worked out once. It is not stored: a multiset is pickled as a dict.
    """

    __slots__ = ("_alike",)

    def __init__(self, entries: Mapping[bytes, tuple[Any, int]] | None = None) -> None:
        super().__init__(entries or {})
        self._alike: dict[bytes, _Alike] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def number_of(self, encoded: bytes, value: Any) -> int | None:
        """Return the number of the value that nothing distinguishes from this one, or `None`."""
        if encoded not in self:
            return None
        if are_identical(self[encoded][0], value):
            return 0
        alike = self._of(encoded)
        return None if alike is None else alike.numbers.get(identity_of(value))

    def opposite_of(self, encoded: bytes, by: int) -> int | None:
        """Return the number of the last value whose count has the other sign than `by`, or `None`."""
        alike = self._of(encoded)
        if alike is None:
            return 0 if encoded in self and self[encoded][1] * by < 0 else None
        count = len(alike.identities)
        if alike.negative == (count if by < 0 else 0):
            return None
        return next(number for number in reversed(range(count)) if self[_key(encoded, number)][1] * by < 0)

    def append(self, encoded: bytes, value: Any, count: int) -> None:
        """Add a value that is distinguished from all others."""
        alike = self._of(encoded)
        number = len(alike.identities) if alike is not None else int(encoded in self)
        if alike is not None:
            alike.append(identity_of(value), count)
        self[_key(encoded, number)] = value, count

    def change(self, encoded: bytes, number: int, by: int) -> None:
        """Change a count; the last value with its encoding takes the place of one that no longer occurs."""
        alike, key = self._of(encoded), _key(encoded, number)
        value, count = self[key]
        if alike is not None:
            alike.negative += (count + by < 0) - (count < 0)
        if count + by:
            self[key] = value, count + by
        elif alike is None:
            del self[key]
        else:
            alike.remove(number)
            last = len(alike.identities)
            moved = self.pop(_key(encoded, last))
            if number < last:
                self[key] = moved
            if last == 1:
                del self._alike[encoded]

    def _of(self, encoded: bytes) -> _Alike | None:
        """Return what is known of the values with an encoding, if there are several."""
        alike = self._alike.get(encoded)
        if alike is None and _key(encoded, 1) in self:
            keys = (_key(encoded, number) for number in itertools.count())
            alike = self._alike[encoded] = _Alike(map(self.__getitem__, itertools.takewhile(self.__contains__, keys)))
        return alike


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
        return Multiset()

    def add_input(self, accumulator: Multiset, element: Any) -> Multiset:
        """Add an input; values are kept in the order in which they first arrived."""
        return _change(accumulator, encode_value(element), element, 1)

    def subtract_input(self, accumulator: Multiset, element: Any) -> Multiset:
        """Remove an input."""
        return _change(accumulator, encode_value(element), element, -1)

    def merge_accumulators(self, accumulators: Iterable[Multiset]) -> Multiset:
        """Add up the counts."""
        merged = Multiset()
        for accumulator in accumulators:
            for key, (value, count) in accumulator.items():
                _change(merged, _encoding_at(key), value, count)
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
    except BaseException as error:
        raise user_error(error, label, value, hint=None) from error
    return encoded if len(encoded) <= _LONG else b"#" + hashlib.blake2b(encoded, digest_size=32).digest()


def _change(accumulator: Mapping[bytes, tuple[Any, int]], encoded: bytes, value: Any, by: int) -> Multiset:
    """Change how often a value occurs; return the changed multiset."""
    multiset = accumulator if type(accumulator) is Multiset else Multiset(accumulator)
    number = multiset.number_of(encoded, value)
    if number is not None:
        multiset.change(encoded, number, by)
        return multiset
    # Nothing is known to have been identical: the value has another form since it was stored, for example.
    while by and (number := multiset.opposite_of(encoded, by)) is not None:
        count = multiset[_key(encoded, number)][1]
        taken = max(by, -count) if by < 0 else min(by, -count)
        multiset.change(encoded, number, taken)
        by -= taken
    if by:
        multiset.append(encoded, value, by)
    return multiset


def _key(encoded: bytes, number: int) -> bytes:
    """Return the key of one of several values with the same encoding, none of which begins with `v`."""
    return b"v%d:" % number + encoded if number else encoded


def _encoding_at(key: bytes) -> bytes:
    return key.partition(b":")[2] if key.startswith(b"v") else key
