"""Element by element: Map, FlatMap, Filter, and their forms for tuples."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Never, overload

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.dofn import FilterFn, FlatMapFn, MapFn, VectorizedFilterFn, VectorizedMapFn
from dataflow_model.plan.functions.parameters import filled_by_default
from dataflow_model.plan.functions.typevars import ElementT, ElementT_contra, InputT, OutputT
from dataflow_model.transforms.elementwise.pardo import ParDo, checked_function
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import CallsUser
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.ptransform import KeepsElements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Concatenate

    from dataflow_model.plan.functions.dofn import TimestampedValue
    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
    from dataflow_model.transforms.elementwise.functions import Function, LongerFunction, SpreadFunction, Unknown

_RETURN: Final = "use `return` instead of `yield`"


class Map(ParDo[InputT, PCollection[OutputT]], Generic[InputT, OutputT]):
    """Turn each element into one output.

    Args:
        fn: called with the element and the further arguments; may name metadata parameters as a `DoFn` may.
        args, kwargs: further arguments, side inputs among them.
        vectorized: whether `fn` is called with a `pyarrow.RecordBatch` of elements instead. It then returns a
            `RecordBatch` or a `Table`, whose rows are the outputs, or an array of Arrow or NumPy, whose values are
            the outputs: one for each row. `DoFn.process_batch` says what the columns are, and what `fn` may not do.

    Raises:
        InvalidType: for a value that is not callable, a generator function, or if an annotation excludes the elements.

    Source: Beam's `Map`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([1, 2]) | "as text" >> dm.Map(str)
        PCollection('as text', element_type=str)

        On columns; the type of the outputs has to be declared for whoever needs to know it:

        >>> import pyarrow.compute as pc
        >>> hours = dm.Map(lambda batch: pc.divide(batch["value"], 60.0), vectorized=True).with_output_types(float)
        >>> p | "minutes" >> dm.Create([90, 30]) | "hours" >> hours
        PCollection('hours', element_type=float)
    """

    @overload
    def __init__(
        self: Map[Any, Any], fn: Callable[..., Any], *args: Any, vectorized: Literal[True], **kwargs: Any
    ) -> None: ...

    @overload
    def __init__(self: Map[ElementT, Any], fn: Function[ElementT, Unknown]) -> None: ...

    @overload
    def __init__(self, fn: Function[InputT, TimestampedValue[OutputT]]) -> None: ...

    @overload
    def __init__(self, fn: Function[InputT, OutputT]) -> None: ...

    @overload
    def __init__(self, fn: LongerFunction[InputT, OutputT], *args: Any, **kwargs: Any) -> None: ...

    @overload
    def __init__(  # type: ignore[overload-cannot-match] # reached by keyword-only parameters
        self, fn: Callable[Concatenate[InputT, ...], OutputT], *args: Any, **kwargs: Any
    ) -> None: ...

    def __init__(self, fn: Callable[..., Any], *args: Any, vectorized: bool = False, **kwargs: Any) -> None:
        kind = VectorizedMapFn if _checked_flag(vectorized) else MapFn
        hint = _RETURN if vectorized else "use dm.FlatMap, which emits what fn yields"
        super().__init__(kind(_returning(fn, self, hint)), *args, **kwargs)

    def output_type(self, element_type: Any) -> Any:
        """Return the type that the function is annotated to return; a function on columns does not state it."""
        del element_type
        if not self.fn.takes_elements:
            return Any
        return typehints.unwrapped(typehints.return_type(self.fn.user_function()))


@calls_explained({"fn": "for elements that are iterables themselves, pass dm.FlatMap(lambda parts: parts)"})
class FlatMap(ParDo[InputT, PCollection[OutputT]], Generic[InputT, OutputT]):
    """Turn each element into any number of outputs; the function returns an iterable, or `None` for no output.

    Source: Beam's `FlatMap`.

    Example:
        >>> import dataflow_model as dm
        >>> def words(line: str) -> list[str]:
        ...     return line.split()
        >>> dm.Pipeline() | dm.Create(["to be"]) | dm.FlatMap(words)
        PCollection('FlatMap', element_type=str)
    """

    @overload
    def __init__(self: FlatMap[ElementT, Any], fn: Function[ElementT, Unknown]) -> None: ...

    @overload
    def __init__(self, fn: Function[InputT, Iterable[OutputT] | None]) -> None: ...

    @overload
    def __init__(self, fn: LongerFunction[InputT, Iterable[OutputT] | None], *args: Any, **kwargs: Any) -> None: ...

    @overload
    def __init__(  # type: ignore[overload-cannot-match] # reached by keyword-only parameters
        self, fn: Callable[Concatenate[InputT, ...], Iterable[OutputT] | None], *args: Any, **kwargs: Any
    ) -> None: ...

    def __init__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(FlatMapFn(checked_function(fn, self)), *args, **kwargs)


class Filter(ParDo[Never, PCollection], KeepsElements[ElementT_contra]):
    """Keep the elements for which the function returns true.

    Args:
        fn: called with the element and the further arguments; may name metadata parameters as a `DoFn` may.
        args, kwargs: further arguments, side inputs among them.
        vectorized: whether `fn` is called with a `pyarrow.RecordBatch` of elements instead; see
            `DoFn.process_batch`. It then returns an array of booleans, of Arrow or NumPy: for each row whether its
            element is kept. Null counts as false.

    Source: Beam's `Filter`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([1, 2]) | dm.Filter(lambda x: x > 1)
        PCollection('Filter', element_type=int)

        On columns:

        >>> import pyarrow.compute as pc
        >>> large = dm.Filter(lambda batch: pc.greater(batch["value"], 1), vectorized=True)
        >>> (dm.Pipeline() | dm.Create([1, 2]) | large).head()
        [2]
    """

    @overload
    def __init__(
        self: Filter[Any], fn: Callable[..., Any], *args: Any, vectorized: Literal[True], **kwargs: Any
    ) -> None: ...

    @overload
    def __init__(self, fn: Function[ElementT_contra, object]) -> None: ...

    @overload
    def __init__(self, fn: LongerFunction[ElementT_contra, object], *args: Any, **kwargs: Any) -> None: ...

    @overload
    def __init__(  # type: ignore[overload-cannot-match] # reached by keyword-only parameters
        self, fn: Callable[Concatenate[ElementT_contra, ...], object], *args: Any, **kwargs: Any
    ) -> None: ...

    def __init__(self, fn: Callable[..., Any], *args: Any, vectorized: bool = False, **kwargs: Any) -> None:
        kind = VectorizedFilterFn if _checked_flag(vectorized) else FilterFn
        super().__init__(kind(_returning(fn, self, _RETURN)), *args, **kwargs)

    def output_type(self, element_type: Any) -> Any:
        """Return the type of the elements, which stay as they are."""
        return element_type

    if TYPE_CHECKING:

        def with_exception_handling(  # noqa: D102 - see `ParDo`
            self, *args: Any, **kwargs: Any
        ) -> ParDo[Any, WithDeadLetters[PCollection[ElementT_contra]]]: ...

        def with_dropped_output(  # noqa: D102 - see `ParDo`
            self, tag: str = "dropped"
        ) -> ParDo[Any, tuple[PCollection[ElementT_contra], PCollection[Dropped]]]: ...


class MapTuple(Map[Any, OutputT]):
    """`Map` with a function that takes the parts of each tuple as its arguments.

    Further arguments follow the parts, or are named. Metadata is filled in where a default asks for it, as in
    `window=dm.DoFn.WindowParam`: a parameter without a default takes a part, whatever its name. Further arguments by
    position need such parameters to come last.

    Source: Beam's `MapTuple`.

    Example:
        >>> import dataflow_model as dm
        >>> swapped = dm.Pipeline() | dm.Create([("a", 1)]) | dm.MapTuple(lambda letter, number: (number, letter))
    """

    def __init__(self, fn: SpreadFunction[OutputT], *args: Any, **kwargs: Any) -> None:
        if "vectorized" in kwargs:
            raise InvalidArgument(
                f"MapTuple calls its function with the parts of one tuple, got vectorized={kwargs['vectorized']!r}",
                hint="use dm.Map(…, vectorized=True), whose function takes a batch with a column for each part",
            )
        hint = "use dm.FlatMapTuple, which emits what fn yields"
        super().__init__(_Spread(_returning(fn, self, hint)), *args, **kwargs)

    def _check_element_type(self, element_type: Any, label: str) -> None:
        _check_parts(self, element_type, label)

    def output_type(self, element_type: Any) -> Any:
        """Return what the function's annotation says."""
        del element_type
        return typehints.unwrapped(_spread_type(self))


class FlatMapTuple(FlatMap[Any, OutputT]):
    """`FlatMap` with a function that takes the parts of each tuple as its arguments.

    Source: Beam's `FlatMapTuple`.

    Example:
        >>> import dataflow_model as dm
        >>> letters = dm.Pipeline() | dm.Create([("a", 2)]) | dm.FlatMapTuple(lambda letter, times: [letter] * times)
    """

    def __init__(self, fn: SpreadFunction[Iterable[OutputT] | None], *args: Any, **kwargs: Any) -> None:
        super().__init__(_Spread(checked_function(fn, self)), *args, **kwargs)

    def _check_element_type(self, element_type: Any, label: str) -> None:
        _check_parts(self, element_type, label)

    def output_type(self, element_type: Any) -> Any:
        """Return what the function's annotation says."""
        del element_type
        return typehints.item_type(_spread_type(self))


def _returning(fn: Any, transform: ParDo, hint: str) -> Any:
    """Return the function; reject a generator function, whose generator would be the output, or always be true."""
    for function in (fn, getattr(type(fn), "__call__", None)):  # noqa: B004 - instances of its class may be called
        if inspect.isgeneratorfunction(function):
            kind, name = type(transform).__name__, getattr(fn, "__name__", repr(fn))
            raise InvalidType(f"{kind} got the generator function {name}, whose result is a generator", hint=hint)
    return checked_function(fn, transform)


def _checked_flag(vectorized: object) -> bool:
    if not isinstance(vectorized, bool):
        raise InvalidType(
            f"`vectorized` must be True or False, got {vectorized!r}",
            hint="an argument of the function needs another name; bind this one with functools.partial",
        )
    return vectorized


class _Spread(CallsUser):
    """Calls a function with the parts of a tuple; its own signature lists only what the runner fills."""

    @property
    def __signature__(self) -> inspect.Signature:
        element = inspect.Parameter("_element", inspect.Parameter.POSITIONAL_ONLY)
        further = [inspect.Parameter("_args", inspect.Parameter.VAR_POSITIONAL)]
        filled = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in filled_by_default(self.func)]
        named = inspect.Parameter("_kwargs", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([element, *further, *filled, named])

    def __call__(self, element: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        return self.func(*element, *args, **kwargs)


def _check_parts(transform: ParDo, element_type: Any, label: str) -> None:
    spread = transform.fn.user_function()
    if isinstance(spread, _Spread):
        filled = {parameter.name: parameter.default for parameter in filled_by_default(spread.func)}
        typehints.check_parts(spread.func, element_type, transform.args, {**filled, **transform.kwargs}, label)


def _spread_type(transform: ParDo) -> Any:
    spread = transform.fn.user_function()
    return typehints.return_type(spread.func) if isinstance(spread, _Spread) else Any
