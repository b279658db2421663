"""Plain functions as combiners, and whatever else users pass for one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidType
from dataflow_model.plan.combine import CombineFn
from dataflow_model.transforms.typehints import return_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["AssociativeFn", "as_combine_fn"]

_BUFFERED: Final = 32


@attrs.frozen
class AssociativeFn(CombineFn[Any, list[Any], Any]):
    """An associative and commutative function over an iterable, as a combiner.

    Results are fed back as inputs, so `fn([fn([a, b]), c])` must be `fn([a, b, c])`. The value of an empty pane is
    `fn([])`, or `None` where the function does not take nothing.

    Source: Beam's `CallableWrapperCombineFn`.

    Example:
        >>> from math import prod
        >>> AssociativeFn(prod).extract_output([2, 3, 4])
        24
    """

    fn: Callable[[Iterable[Any]], Any]

    def create_accumulator(self) -> list[Any]:
        """Return an empty buffer."""
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Buffer, and reduce the buffer when it is full."""
        accumulator.append(element)
        return accumulator if len(accumulator) < _BUFFERED else [self.fn(accumulator)]

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Put the buffers together."""
        merged = [value for accumulator in accumulators for value in accumulator]
        return merged if len(merged) < _BUFFERED else [self.fn(merged)]

    def extract_output(self, accumulator: list[Any]) -> Any:
        """Reduce what is buffered."""
        if accumulator:
            return self.fn(list(accumulator))
        try:
            return self.fn([])
        except Exception:  # noqa: BLE001 - `min`-like functions raise what they like for nothing
            return None

    def output_type(self, value_type: Any) -> Any:
        """Return what the function's annotation says."""
        del value_type
        return return_type(self.fn)


def as_combine_fn(given: Any, label: str) -> CombineFn[Any, Any, Any]:
    """Return the combiner that was given: an instance, a class, or a function over an iterable.

    Raises:
        InvalidType: for something else.
    """
    from dataflow_model.transforms.combiners import Max, Min, Sum

    if isinstance(given, CombineFn):
        return given
    if isinstance(given, type) and issubclass(given, CombineFn):
        try:
            inspect.signature(given).bind()
        except TypeError as error:
            raise InvalidType(
                f"{label} got the class {given.__name__}, which cannot be instantiated without arguments: {error}",
                hint=f"pass an instance: {given.__name__}(…)",
            ) from error
        instance: CombineFn[Any, Any, Any] = given()
        return instance
    # The builtins have kernels, and give something for nothing.
    for function, combiner in ((sum, Sum), (min, Min), (max, Max)):
        if given is function:
            return combiner()
    if callable(given):
        return AssociativeFn(given)
    raise InvalidType(
        f"{label} takes a CombineFn or an associative function, got {given!r}",
        hint="pass dm.Sum(), or sum, for example",
    )
