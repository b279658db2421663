"""Approximate combiners that need bounded memory: the number of distinct elements, and quantiles.

Neither uses a sketch whose answer depends on the order in which partial results are merged. Both answers depend only on
the elements, so every runner returns the same answer, no matter how the work is divided.
"""

from __future__ import annotations

import decimal
import heapq
import itertools
import math
import numbers
from typing import TYPE_CHECKING, Any, Final, SupportsFloat

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.transforms.grouping.combiner_forms import Combiner, takes_an_element
from dataflow_model.transforms.grouping.element_bytes import SPACE, hash_of, later_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SMALLEST: Final = 16
_STEPS: Final = 1024
"""The number of buckets of equal width between two powers of two."""
_LEAST_EXPONENT: Final = -1100
"""Less than the exponent of the least positive float."""
_INFINITE: Final = (1100 - _LEAST_EXPONENT) * _STEPS


def _is_possible(error: object) -> bool:
    return isinstance(error, SupportsFloat) and 0.01 <= float(error) <= 0.5  # noqa: PLR2004 - as in Beam


class ApproximateUnique(Combiner[Any, set[int], int]):
    """Estimate how many distinct elements there are.

    Up to `size` of them are counted exactly; beyond that the standard error is about `1 / sqrt(size)`, and the error
    stays below `2 / sqrt(size)` in 95 of 100 cases. The estimate depends only on the elements. Like keys, elements are
    compared by value and type; they may also be lists, sets and dicts.

    Args:
        size: the number of hashes to keep, each of 8 bytes; at least 16.
        error: instead of `size`, the relative error that may be exceeded in 5 of 100 cases, from 0.01 to 0.5.

    Raises:
        InvalidArgument: if both or neither of the arguments are given, or a value is out of range.

    Source: Beam's `ApproximateUnique`.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(range(10_000)) | dm.ApproximateUnique.globally(error=0.05) | dm.io.Collect()
        >>> p.result.collected("Collect")[0].value
        9537
    """

    def __init__(self, size: int | None = None, error: float | None = None) -> None:
        if (size is None) == (error is None):
            raise InvalidArgument(
                f"ApproximateUnique takes either `size` or `error`, got size={size!r} and error={error!r}",
                hint="use dm.ApproximateUnique(error=0.05)",
            )
        if size is not None and (type(size) is not int or size < _SMALLEST):
            raise InvalidArgument(
                f"`size` must be an int of at least {_SMALLEST}, got {size!r}", hint="use size=1600 for 5 %"
            )
        if error is not None and not _is_possible(error):
            raise InvalidArgument(f"`error` must be from 0.01 to 0.5, got {error!r}", hint="use error=0.05 for 5 %")
        self.size = size if size is not None else math.ceil(4 / float(error or 1) ** 2)

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the argument that decides which hashes the accumulator keeps."""
        return [("size", str(self.size))]

    def create_accumulator(self) -> set[int]:
        """Return no hashes."""
        return set()

    def add_input(self, accumulator: set[int], element: Any) -> set[int]:
        """Add the hash; drop the greatest ones if there are too many."""
        accumulator.add(hash_of(element))
        return accumulator if len(accumulator) <= 2 * self.size else self._least(accumulator)

    def merge_accumulators(self, accumulators: Iterable[set[int]]) -> set[int]:
        """Unite."""
        return self._least(set().union(*accumulators))

    def extract_output(self, accumulator: set[int]) -> int:
        """Return the exact count, or an estimate from the density of the least hashes."""
        least = self._least(accumulator)
        return len(least) if len(least) < self.size else round((self.size - 1) * SPACE / max(least))

    def output_type(self, value_type: Any) -> Any:
        """Return `int`."""
        del value_type
        return int

    def _least(self, accumulator: set[int]) -> set[int]:
        return accumulator if len(accumulator) <= self.size else set(heapq.nsmallest(self.size, accumulator))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApproximateUnique) and self.size == other.size

    def __hash__(self) -> int:
        return hash((ApproximateUnique, self.size))

    def __repr__(self) -> str:
        return f"ApproximateUnique({self.size})"


def _at_least_two(_quantiles: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(
            f"`num_quantiles` must be an int, got {value!r}", hint="use ApproximateQuantiles(5) for quartiles"
        )
    if value < 2:  # noqa: PLR2004 - the least and the greatest
        raise InvalidArgument(
            f"`num_quantiles` must be at least 2, got {value!r}", hint="use ApproximateQuantiles(5) for quartiles"
        )


@attrs.frozen
class _Bucket:
    """How many elements fall into a bucket, with the least and the greatest of them."""

    count: int
    least: Any
    greatest: Any


_Buckets = dict[int, _Bucket]


@calls_explained(
    {
        "weighted": "leave it out, and repeat an element as often as it counts",
        "input_batched": "leave it out, and put dm.FlatMap(lambda batch: batch) in front",
    }
)
@attrs.frozen
class ApproximateQuantiles(Combiner[Any, _Buckets, list[Any]]):
    """Return quantiles in a list: the smallest element, elements at equal distances in rank, and the greatest element.

    `ApproximateQuantiles(5)` returns the smallest element, the three quartiles and the greatest element. The smallest
    and the greatest are exact. The others are elements that differ from the exact quantile by less than a thousandth of
    its value; whole numbers up to 2048 are exact. Numbers outside the range of floats are not told apart. The answer
    depends only on the elements. Memory depends on how many powers of two the elements span, with at most 1024 counts
    for each. NaN is ignored.

    Args:
        num_quantiles: the number of elements in the list; at least 2.
        key: a function that returns the number by which an element is compared; without it, the elements must be
            numbers.
        reverse: return the quantiles in descending order.

    Raises:
        InvalidType: for an element, or the key of an element, that is not a number.
        InvalidArgument: for fewer than two quantiles.

    Source: Beam's `ApproximateQuantiles`, which compares elements of any type and bounds the error in rank.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(range(101)) | dm.ApproximateQuantiles.globally(5) | dm.io.Collect()
        >>> p.result.collected("Collect")[0].value
        [0, 25, 50, 75, 100]
    """

    num_quantiles: int = attrs.field(validator=_at_least_two)
    key: Callable[[Any], Any] | None = attrs.field(default=None, validator=takes_an_element, kw_only=True)
    reverse: bool = attrs.field(default=False, kw_only=True)

    def create_accumulator(self) -> _Buckets:
        """Return no buckets."""
        return {}

    def add_input(self, accumulator: _Buckets, element: Any) -> _Buckets:
        """Count the element in its bucket."""
        number = self._number(element)
        if number == number:  # noqa: PLR0124 - NaN
            index = _index(number)
            accumulator[index] = self._both(accumulator.get(index), _Bucket(1, element, element))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Buckets]) -> _Buckets:
        """Put the buckets together."""
        merged: _Buckets = {}
        for accumulator in accumulators:
            for index, bucket in accumulator.items():
                merged[index] = self._both(merged.get(index), bucket)
        return merged

    def extract_output(self, accumulator: _Buckets) -> list[Any]:
        """Return the elements at the ranks."""
        buckets = [accumulator[index] for index in sorted(accumulator, reverse=self.reverse)]
        if not buckets:
            return []
        ends = list(itertools.accumulate(bucket.count for bucket in buckets))
        total, parts = ends[-1], self.num_quantiles - 1
        ranks = [0, *((part * total - 1) // parts for part in range(1, parts)), total - 1]
        quantiles, index = [], 0
        for rank in ranks:
            while ends[index] <= max(rank, 0):
                index += 1
            before = ends[index] - buckets[index].count
            quantiles.append(self._at(buckets[index], max(rank, 0) - before))
        return quantiles

    def output_type(self, value_type: Any) -> Any:
        """Return a list of the inputs' type."""
        return list[value_type]

    def _at(self, bucket: _Bucket, rank: int) -> Any:
        first = 2 * rank < bucket.count - 1 or rank == 0
        return bucket.least if first != self.reverse else bucket.greatest

    def _number(self, element: Any) -> Any:
        number = element if self.key is None else self.key(element)
        if not isinstance(number, numbers.Real | decimal.Decimal):
            raise InvalidType(
                f"ApproximateQuantiles compares numbers, got {shown(number)}",
                hint="pass a key that gives a number: dm.ApproximateQuantiles(5, key=lambda row: row.delay)",
            )
        return number

    def _both(self, left: _Bucket | None, right: _Bucket) -> _Bucket:
        if left is None:
            return right
        least, greatest = left.least, left.greatest
        if self._before(right.least, least):
            least = right.least
        if self._before(greatest, right.greatest):
            greatest = right.greatest
        return _Bucket(left.count + right.count, least, greatest)

    def _before(self, left: Any, right: Any) -> bool:
        """Return whether one element sorts before the other, also for equal numbers, whichever arrived first."""
        left_number, right_number = self._number(left), self._number(right)
        return bool(left_number < right_number) or (
            left is not right and left_number == right_number and later_of(left, right) is right
        )


def _index(number: Any) -> int:
    """Return the index of a number's bucket: the greater the number, the greater the index."""
    try:
        size = abs(float(number))
    except OverflowError:  # an int beyond the floats
        size = math.inf
    if math.isinf(size):
        index = _INFINITE
    elif size == 0.0:
        index = 0
    else:
        mantissa, exponent = math.frexp(size)
        index = (exponent - _LEAST_EXPONENT) * _STEPS + int((2 * mantissa - 1) * _STEPS)
    return index if number > 0 else -index
