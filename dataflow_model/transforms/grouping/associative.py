"""Turn what users pass as a combiner into a `CombineFn`: an instance, a class, or a plain function."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from dataflow_model.errors import InvalidType
from dataflow_model.plan.functions.combine import CombineFn, WrappingFn, check_combine_fn
from dataflow_model.plan.functions.parameters import check_plain, misfit_of
from dataflow_model.transforms.elementwise.side_inputs import AsView
from dataflow_model.transforms.pipelines.code_names import CallsUser, code_name
from dataflow_model.transforms.pipelines.foreign import converters, is_of_beam
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.typehints import combined_type, return_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_MEDIAN: Final = "dm.ApproximateQuantiles(3), whose second value is the median"
_NOT_ASSOCIATIVE: Final[Mapping[tuple[str, str], str]] = {
    ("builtins", "len"): "dm.Count()",
    **{(module, name): "dm.Mean()" for module in ("statistics", "numpy") for name in ("mean", "fmean", "average")},
    **{(module, "median"): _MEDIAN for module in ("statistics", "numpy")},
    ("builtins", "list"): "dm.ToList()",
    ("builtins", "tuple"): "dm.ToList()",
    ("builtins", "sorted"): "dm.ToList(), and sort its lists in a dm.Map, or dm.Top(n) for the n greatest elements",
    ("builtins", "set"): "dm.ToSet()",
    ("builtins", "frozenset"): "dm.ToSet()",
    ("builtins", "dict"): "dm.ToDict()",
    ("collections", "Counter"): "dm.Count.per_element()",
    ("collections", "deque"): "dm.ToList()",
}
"""What to use instead of functions that are not associative, by their module and name."""


@attrs.frozen(repr=False)
class AssociativeFn(CombineFn[Any, list[Any], Any]):
    """An associative and commutative function over an iterable, as a combiner.

    Results are fed back as inputs, so `fn([fn([a, b]), c])` must be `fn([a, b, c])`, which
    `testing.check_combine_fn(fn, inputs)` checks. The value of an empty pane is `fn([])`, or `None` if the function
    does not accept an empty iterable.

    Source: Beam's `CallableWrapperCombineFn`.

    Example:
        >>> from math import prod
        >>> AssociativeFn(prod).extract_output([2, 3, 4])
        24
    """

    buffered: ClassVar[int] = 32
    """The number of values at which the buffer is reduced."""

    fn: Callable[[Iterable[Any]], Any]

    def create_accumulator(self) -> list[Any]:
        """Return an empty buffer."""
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Buffer, and reduce the buffer when it is full."""
        accumulator.append(element)
        return accumulator if len(accumulator) < self.buffered else [self.fn(accumulator)]

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Put the buffers together."""
        merged = [value for accumulator in accumulators for value in accumulator]
        return merged if len(merged) < self.buffered else [self.fn(merged)]

    def extract_output(self, accumulator: list[Any]) -> Any:
        """Reduce the buffer to the result."""
        if accumulator:
            return self.fn(list(accumulator))
        try:
            return self.fn([])
        except Exception:  # noqa: BLE001 - `min`-like functions raise what they like for nothing
            return None

    def __repr__(self) -> str:
        return code_name(self.fn.func if isinstance(self.fn, _Curried) else self.fn)

    def output_type(self, value_type: Any) -> Any:
        """Return the type that the function is annotated to return."""
        del value_type
        return return_type(self.fn.func if isinstance(self.fn, _Curried) else self.fn)


class _Curried(CallsUser):
    """An associative function with further arguments."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__(func)
        self.args = args
        self.kwargs = kwargs

    def __call__(self, values: Iterable[Any]) -> Any:
        return self.func(values, *self.args, **self.kwargs)


@attrs.frozen(repr=False)
class _WithArguments(WrappingFn[Any, Any, Any]):
    """A combiner whose methods take further arguments.

    Source: Beam's `CurriedFn`.
    """

    combine: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def wrapped(self) -> Sequence[CombineFn[Any, Any, Any]]:
        return (self.combine,)

    def create_accumulator(self) -> Any:
        return self.combine.create_accumulator(*self.args, **self.kwargs)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return self.combine.add_input(accumulator, element, *self.args, **self.kwargs)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return self.combine.merge_accumulators(accumulators, *self.args, **self.kwargs)

    def extract_output(self, accumulator: Any) -> Any:
        return self.combine.extract_output(accumulator, *self.args, **self.kwargs)

    def subtract_input(self, accumulator: Any, element: Any) -> Any:
        return self.combine.subtract_input(accumulator, element, *self.args, **self.kwargs)

    def title(self) -> str:
        return str(self.combine.title())

    def __repr__(self) -> str:
        return repr(self.combine)

    @property
    def can_subtract(self) -> bool:
        can: bool = self.combine.can_subtract
        return can

    def output_type(self, value_type: Any) -> Any:
        return combined_type(self.combine, value_type)


def user_function(combine: CombineFn[Any, Any, Any]) -> Any:
    """Return the user's own object behind a combiner: the function, or the combiner itself."""
    if isinstance(combine, _WithArguments):
        return combine.combine
    return combine.fn if isinstance(combine, AssociativeFn) else combine


def as_combine_fn(combiner: Any, label: str, *args: Any, **kwargs: Any) -> CombineFn[Any, Any, Any]:
    """Return a combiner, given an instance, a class, or a function over an iterable.

    Args:
        combiner: the combiner, which may be one of Beam's.
        label: of the transform, for errors.
        *args: further arguments of the function, or of each method of the combiner.
        **kwargs: the same, by name.

    Raises:
        InvalidType: for something else, for arguments that the function or a method does not take, or a side input
            among them.
    """
    _check_associative(combiner, label)
    if is_of_beam(combiner, "CombineFn"):
        converted: CombineFn[Any, Any, Any] = converters().combine_fn(combiner, args, kwargs)
        return converted
    if not args and not kwargs:
        return _as_combine_fn(combiner, label)
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, AsView | PCollection):
            raise InvalidType(
                f"{label} got {argument!r} as an argument of its combiner, but combiners take no side inputs",
                hint="apply what depends on the side input in a dm.Map before or after the combiner",
            )
    if callable(combiner) and not isinstance(combiner, type | CombineFn):
        check_plain(combiner, label)
        _check_arguments(combiner, (None, *args), kwargs, label)
        return AssociativeFn(_Curried(combiner, args, kwargs))
    combine = _as_combine_fn(combiner, label, further=True)
    for method, own in (("create_accumulator", 0), ("add_input", 2), ("merge_accumulators", 1), ("extract_output", 1)):
        _check_arguments(getattr(combine, method), (*[None] * own, *args), kwargs, label)
    return _WithArguments(combine, args, kwargs)


def _check_associative(fn: Any, label: str) -> None:
    """Reject well-known functions that are not associative: `f([f([a, b]), c])` differs from `f([a, b, c])`."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__name__", None)
    instead = _NOT_ASSOCIATIVE.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
    if instead is not None:
        raise InvalidType(
            f"{label} calls its function again with results of it, so {name} would give a wrong result",
            hint=f"use {instead}",
        )


def _check_arguments(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str) -> None:
    misfit = misfit_of(fn, args, kwargs)
    if misfit is not None:
        signature, error = misfit
        name = getattr(fn, "__qualname__", repr(fn))
        raise InvalidType(
            f"{label} got further arguments that {name}{signature} does not take: {error}",
            hint="a function takes them after the iterable, a CombineFn in each of its four methods; the arguments "
            "of a combiner's constructor go there: dm.CombinePerKey(dm.Top(3))",
        ) from error


def _check_takes_values(fn: Callable[..., Any], label: str) -> None:
    misfit = misfit_of(fn)
    if misfit is not None:
        signature, error = misfit
        name = getattr(fn, "__qualname__", repr(fn))
        raise InvalidType(
            f"{label} calls its function with an iterable of values, which {name}{signature} does not take: {error}",
            hint="pass sum, for example, or lambda values: functools.reduce(fn, values) for a function of two values",
        ) from error


def _as_combine_fn(candidate: Any, label: str, *, further: bool = False) -> CombineFn[Any, Any, Any]:
    from dataflow_model.transforms.grouping.combiners import Max, Min, Sum

    if isinstance(candidate, CombineFn):
        check_combine_fn(candidate, further=further)
        return candidate
    if isinstance(candidate, type) and issubclass(candidate, CombineFn):
        try:
            inspect.signature(candidate).bind()
        except TypeError as error:
            raise InvalidType(
                f"{label} got the class {candidate.__name__}, which cannot be instantiated without arguments: {error}",
                hint=f"pass an instance: {candidate.__name__}(…)",
            ) from error
        instance: CombineFn[Any, Any, Any] = candidate()
        check_combine_fn(instance, further=further)
        return instance
    # The builtins have kernels, and give something for nothing.
    for function, combiner in ((sum, Sum), (min, Min), (max, Max)):
        if candidate is function:
            return combiner()
    if callable(candidate):
        check_plain(candidate, label)
        _check_takes_values(candidate, label)
        return AssociativeFn(candidate)
    raise InvalidType(
        f"{label} takes a CombineFn or an associative function, got {candidate!r}",
        hint="pass dm.Sum(), or sum, for example",
    )
