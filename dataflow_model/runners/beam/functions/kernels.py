"""Combiners of Beam's that kernels of the engine compute: `sum`, `Count`, and `min` and `max` of whole numbers.

Where Beam combines before a grouping, so does this package: partial results, which the grouping then combines.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam import coders
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import combiners, core
from apache_beam.utils import proto_utils

from dataflow_model.plan.functions.combine import CombineFn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COMBINE_ELEMENTS: Final = "dataflow_model:combine_elements:v1"
"""The kind of a `CombinePerKey` whose grouping a kernel combines."""
COMBINE_EARLY: Final = "dataflow_model:combine_early:v1"
"""The kind of what combines elements before the grouping."""
COMBINE_RESULTS: Final = "dataflow_model:combine_results:v1"
"""The kind of a grouping that combines partial results."""


class _Sum(CombineFn[Any, Any, Any]):
    """What Python's `sum` does."""

    kernel = "sum"

    def create_accumulator(self) -> Any:
        return 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        total: Any = 0
        for accumulator in accumulators:
            total += accumulator
        return total

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class _Count(CombineFn[Any, int, int]):
    """What Beam's `CountCombineFn` does."""

    kernel = "count"

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: Any) -> int:
        del element
        return accumulator + 1

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class _Best(CombineFn[Any, Any, Any]):
    """What Python's `min` or `max` does to at least one whole number."""

    better: Any  # a builtin function

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is None else type(self).better(accumulator, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        best = None
        for accumulator in accumulators:
            if accumulator is not None:
                best = self.add_input(best, accumulator)
        return best

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class _Min(_Best):
    kernel = "min"
    better = min


class _Max(_Best):
    kernel = "max"
    better = max


def _plus_one(count: int, element: Any) -> int:
    del element
    return count + 1


def _one(element: Any) -> int:
    del element
    return 1


@attrs.frozen
class Reduced:
    """How a combiner of Beam's is computed.

    Attributes:
        elements: combines elements, by a kernel.
        results: combines partial results, by a kernel.
        first: returns the partial result of one element.
        add: returns a partial result with one more element.
    """

    elements: CombineFn[Any, Any, Any]
    results: CombineFn[Any, Any, Any]
    first: Callable[[Any], Any]
    add: Callable[[Any, Any], Any]


_SUM: Final = Reduced(_Sum(), _Sum(), lambda value: 0 + value, operator.add)
_COUNT: Final = Reduced(_Count(), _Sum(), _one, _plus_one)
_OF_NUMBERS: Final[dict[Any, Reduced]] = {
    min: Reduced(_Min(), _Min(), lambda value: value, min),
    max: Reduced(_Max(), _Max(), lambda value: value, max),
}
_NUMBERS: Final = coders.VarIntCoder()
_WRAPPERS: Final = (core.CallableWrapperCombineFn, core.NoSideInputsCallableWrapperCombineFn)


def combiner_of(transform: Any, context: Any) -> Any:
    """Return the combiner of Beam's description of a `CombinePerKey`.

    Args:
        transform: the description.
        context: Beam's context, which decodes its parts.
    """
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.CombinePayload)
    return core.CombineFn.from_runner_api(payload.combine_fn, context)


def reduced(fn: Any, values: Any = _NUMBERS, *, emits_nothing_empty: bool = True) -> Reduced | None:
    """Return how a combiner of Beam's is computed by kernels, with equal results; `None` if only it can do that.

    `min` and `max` of other values than whole numbers stay Beam's, since their results for NaN depend on the order of
    elements; so do they where panes may be empty, of which Beam makes an error. So does `Mean`: Beam rounds sums of
    whole numbers before it divides them.

    Args:
        fn: the combiner.
        values: Beam's coder of its elements; that of whole numbers, where it is known that kernels compute it.
        emits_nothing_empty: whether each pane has elements; it does, where that is known.

    Example:
        >>> wrapped = core.CallableWrapperCombineFn(sum)
        >>> reduced(wrapped).add(3, 4)
        7
    """
    if type(fn) is combiners.CountCombineFn:
        return _COUNT
    if type(fn) not in _WRAPPERS:
        return None
    function = fn._fn  # noqa: SLF001 - it is kept nowhere else
    if function is sum:
        return _SUM
    is_of_numbers = type(values) is coders.VarIntCoder and emits_nothing_empty
    return next((each for known, each in _OF_NUMBERS.items() if known is function and is_of_numbers), None)
