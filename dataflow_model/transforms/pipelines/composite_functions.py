"""`ptransform_fn`: a function as a composite transform."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.transforms.pipelines.code_names import code_name, shown_arguments
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def ptransform_fn(fn: Callable[..., Any]) -> Callable[..., PTransform]:
    """Turn a function into a composite: `fn(pcoll, …)` becomes a transform that takes the further arguments.

    Its default label is the function's name, and the transforms that the function applies are nested in it.

    Raises:
        InvalidType: for a value that is not a function.
        InvalidArgument: if the transform is called with arguments that the function does not take.

    Source: Beam's `ptransform_fn`.

    Example:
        >>> import dataflow_model as dm
        >>> @dm.ptransform_fn
        ... def LongWords(lines, length):
        ...     return lines | dm.FlatMap(str.split) | dm.Filter(lambda word: len(word) >= length)
        >>> p = dm.Pipeline()
        >>> p | dm.Create(["to be or maybe not"]) | LongWords(5)
        PCollection('LongWords/Filter', element_type=Any)
    """
    function: Any = fn
    if not callable(function) or isinstance(function, type):
        raise InvalidType(f"ptransform_fn decorates a function, got {fn!r}", hint="a class derives from dm.PTransform")

    @functools.wraps(fn)
    def transform(*args: Any, **kwargs: Any) -> PTransform:
        try:
            inspect.signature(fn).bind(None, *args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(
                f"{code_name(fn)}{inspect.signature(fn)} cannot be called with "
                f"{shown_arguments('a collection', args, kwargs)}: {error}",
                hint="the first parameter receives the collection; pass the others",
            ) from error
        return _OfFunction(fn, args, kwargs)

    return transform


class _OfFunction(PTransform):
    """A composite whose `expand` is a function."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs

    def default_label(self) -> str:
        """Return the function's name."""
        return code_name(self.fn)

    def expand(self, pcoll: Any) -> Any:
        """Call the function."""
        return self.fn(pcoll, *self.args, **self.kwargs)
