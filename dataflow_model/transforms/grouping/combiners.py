"""The combiners with kernels: Sum, Count, Mean, Min, Max."""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import math
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.arguments import factory
from dataflow_model.errors import InvalidType
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import Duration
from dataflow_model.transforms.elementwise.dropped import key_alone, restored
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.grouping.by_key import CombinePerKey
from dataflow_model.transforms.grouping.combiner_forms import Combiner
from dataflow_model.transforms.pipelines.output_tags import check_dropped
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.typehints import tuple_of, without_none

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.functions.typevars import ElementT
    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.transforms.pipelines.pcollection import PCollection

_DECIMALS: Final = decimal.Context(prec=10_000)
"""Adds Decimals exactly: the program's context rounds to 28 digits, so that sums would depend on the order."""


def _no_element(combine: Combiner[Any, Any, Any]) -> InvalidType:
    """Return the error for `None` as an element, which must not be accepted or rejected depending on the order."""
    return InvalidType(
        f"an element of {type(combine).__name__} must not be None, got None",
        hint="leave such elements out before: dm.Filter(lambda pair: pair[1] is not None) in front of per_key(), "
        "dm.Filter(lambda element: element is not None) in front of globally(); an empty on-time pane of a grouping "
        "before it carries None too, which .on_time('fire_if_non_empty') leaves out",
    )


def _exact(number: Any) -> Any:
    """Return a NumPy number as a Python number, which does not overflow; return any other value unchanged."""
    return number.item() if isinstance(number, np.number) and number.dtype.kind != "m" else number


def _plus(total: Any, number: Any) -> Any:
    number = _exact(number)
    if type(number) is decimal.Decimal or type(total) is decimal.Decimal:
        return _DECIMALS.add(total, number)
    try:
        return total + number
    except TypeError:  # a `timedelta` cannot be added to 0, the sum of nothing
        if isinstance(number, datetime.timedelta) and _is_nothing(total):
            return number
        if isinstance(total, datetime.timedelta) and _is_nothing(number):
            return total
        raise


def _minus(total: Any, number: Any) -> Any:
    number = _exact(number)
    if type(number) is decimal.Decimal or type(total) is decimal.Decimal:
        return _DECIMALS.subtract(total, number)
    if isinstance(number, datetime.timedelta) and _is_nothing(total):
        return -number
    return total - number


def _is_nothing(total: Any) -> bool:
    return type(total) is int and total == 0


def _quotient(total: Any, count: int) -> Any:
    """Return a part of a sum; one of durations is rounded to a microsecond, as that of a `timedelta` is."""
    if isinstance(total, Duration):
        share: Any = fractions.Fraction(1, count)
        return total * share
    if isinstance(total, np.timedelta64) and np.datetime_data(total.dtype)[0] in _COARSE:
        return total.astype("m8[us]") / count  # which keeps the unit, and cuts off the rest
    return total / count


_COARSE: Final = frozenset({"W", "D", "h", "m", "s", "ms"})
"""The units of a `timedelta64` that are longer than a microsecond, and of one length."""


@attrs.frozen
class Sum(Combiner[Any, Any, Any]):
    """Add up the elements; the sum of ints is an int, and for no elements the result is 0.

    NumPy numbers are added as Python's, so that no sum wraps around. Decimals are added exactly, whatever the precision
    of the program's context. Durations and `timedelta`s are added too. Floats are added in the order of arrival, so the
    last bits of the result depend on it. The accumulator is the sum.

    Source: Beam's `combiners.Sum`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4), ("UA", 3)]) | dm.Sum.per_key()
        PCollection('Sum.PerKey', element_type=tuple[str, int])
    """

    kernel = "sum"

    def create_accumulator(self) -> Any:
        """Return 0."""
        return 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Add."""
        try:
            return _plus(accumulator, element)
        except TypeError:
            if element is None:
                raise _no_element(self) from None
            raise

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Add, one after the other: from Python 3.12 on, `sum` rounds floats differently."""
        return functools.reduce(_plus, accumulators, 0)

    def extract_output(self, accumulator: Any) -> Any:
        """Return the sum."""
        return accumulator

    def subtract_input(self, accumulator: Any, element: Any) -> Any:
        """Subtract; exact for ints and Decimals.

        With floats a rounding error remains, and an infinity or NaN leaves NaN.
        """
        return _minus(accumulator, element)

    def output_type(self, value_type: Any) -> Any:
        """Return the type of the inputs; the sum of bools is an int."""
        return int if value_type is bool else value_type


@with_spellings
@attrs.frozen
class Count(Combiner[Any, int, int]):
    """Count the elements; for no elements, the result is 0.

    The accumulator is the count.

    Source: Beam's `combiners.Count`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create(["to", "be", "to"]) | dm.Count.per_element()
        PCollection('Count.PerElement/CombinePerKey', element_type=tuple[str, int])
    """

    kernel = "count"

    def create_accumulator(self) -> int:
        """Return 0."""
        return 0

    def add_input(self, accumulator: int, element: Any) -> int:
        """Add one."""
        del element
        return accumulator + 1

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        """Add."""
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def subtract_input(self, accumulator: int, element: Any) -> int:
        """Subtract one."""
        del element
        return accumulator - 1

    def output_type(self, value_type: Any) -> Any:
        """Return `int`."""
        del value_type
        return int

    @factory
    def per_element(cls) -> _PerElement:
        """Return a transform that counts each distinct element: its output is pairs of an element and its count."""
        return _PerElement(cls())


class _PerElement(PTransform):
    """Count each distinct element; elements must be valid keys."""

    input_kind = "collection"

    def __init__(self, fn: Count) -> None:
        self.fn = fn

    def default_label(self) -> str:
        """Return the name that users write."""
        return f"{type(self.fn).__name__}.PerElement"

    _dropped: str | None = None

    def with_dropped_output(self, tag: str = "dropped") -> PTransform[Any, tuple[PCollection, PCollection[Dropped]]]:
        """Send elements that are dropped to a separate output; see `CombinePerKey.with_dropped_output`."""
        check_dropped(tag)
        changed: Any = self._but(_dropped=tag)
        counting: PTransform[Any, tuple[PCollection, PCollection[Dropped]]] = changed
        return counting

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[tuple[ElementT, int]]:
        """Use each element as a key, and count."""
        keys = pcoll | Map(_as_key).with_output_types(tuple_of(pcoll.element_type, None))
        counting: CombinePerKey[Any, int] = CombinePerKey(self.fn)
        if self._dropped is None:
            counts: PCollection[tuple[ElementT, int]] = keys | counting
            return counts
        per_key, records = keys | counting.with_dropped_output(self._dropped)
        both: Any = per_key, restored(records, key_alone)
        result: PCollection[tuple[ElementT, int]] = both
        return result


def _as_key(element: Any) -> tuple[Any, None]:
    return element, None


@attrs.frozen
class Mean(Combiner[Any, tuple[Any, int], float]):
    """Compute the arithmetic mean; for no elements, the result is NaN.

    The accumulator is the sum and the count. Integers and Decimals are added exactly and divided once; the mean of
    Decimals is a Decimal, rounded to the precision of the program's context, by default 28 digits. The mean of
    durations or `timedelta`s is one too, rounded to a microsecond.

    Source: Beam's `combiners.Mean`.

    Example:
        >>> mean = Mean()
        >>> mean.extract_output((10, 4)), mean.extract_output(mean.create_accumulator())
        (2.5, nan)
    """

    kernel = "mean"

    def create_accumulator(self) -> tuple[Any, int]:
        """Return a sum and a count of 0."""
        return 0, 0

    def add_input(self, accumulator: tuple[Any, int], element: Any) -> tuple[Any, int]:
        """Add, and count."""
        total, count = accumulator
        try:
            return _plus(total, element), count + 1
        except TypeError:
            if element is None:
                raise _no_element(self) from None
            raise

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, int]]) -> tuple[Any, int]:
        """Add both."""
        total, count = 0, 0
        for subtotal, number in accumulators:
            total, count = _plus(total, subtotal), count + number
        return total, count

    def extract_output(self, accumulator: tuple[Any, int]) -> float:
        """Divide."""
        total, count = accumulator
        mean: float = _quotient(total, count) if count else math.nan
        return mean

    def subtract_input(self, accumulator: tuple[Any, int], element: Any) -> tuple[Any, int]:
        """Subtract, and count down."""
        total, count = accumulator
        return _minus(total, element), count - 1

    def output_type(self, value_type: Any) -> Any:
        """Return `float` for numbers."""
        kinds = without_none(value_type)  # `None` is rejected as an element
        return float if kinds and all(kind in (int, float, bool) for kind in kinds) else Any


def _unless_nan(first: Any, second: Any) -> Any:
    """Return the first value, or the second if the first is NaN, which alone does not equal itself.

    Skipping NaN makes the result independent of the order of arrival.
    """
    return first if first == first else second  # noqa: PLR0124


class _Extreme(Combiner[Any, Any, Any]):
    """What Min and Max have in common; the accumulator is the value, or `None` for nothing."""

    def create_accumulator(self) -> Any:
        """Return `None`."""
        return None

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Compare the accumulators that hold a value."""
        best = None
        for accumulator in accumulators:
            if accumulator is not None:
                best = self.add_input(best, accumulator)
        return best

    def extract_output(self, accumulator: Any) -> Any:
        """Return the value."""
        return accumulator

    def output_type(self, value_type: Any) -> Any:
        """Return the inputs' type."""
        return value_type


@attrs.frozen
class Min(_Extreme):
    """Keep the smallest element; for no elements, the result is `None`.

    `None` is rejected as an element, and a NaN is kept only if there is no number.

    Example:
        >>> Min().merge_accumulators([3, None, 2])
        2
    """

    kernel = "min"

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Keep the smaller one."""
        if element is None:
            raise _no_element(self)
        try:
            if accumulator is None or element < accumulator:
                return element
        except ArithmeticError:  # a NaN of `decimal` is not compared
            return _unless_nan(element, accumulator)
        return _unless_nan(accumulator, element)


@attrs.frozen
class Max(_Extreme):
    """Keep the greatest element; for no elements, the result is `None`.

    `None` is rejected as an element, and a NaN is kept only if there is no number.

    Example:
        >>> Max().merge_accumulators([3, None, float("nan")])
        3
    """

    kernel = "max"

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Keep the greater one."""
        if element is None:
            raise _no_element(self)
        try:
            if accumulator is None or element > accumulator:
                return element
        except ArithmeticError:
            return _unless_nan(element, accumulator)
        return _unless_nan(accumulator, element)
