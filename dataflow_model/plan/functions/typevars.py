"""Type variables with defaults, so that `PCollection` without parameters means `PCollection[Any]`."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def TypeVar(name: str, *, default: Any = None, **options: Any) -> typing.TypeVar:  # noqa: N802 - stands for typing's
        """Return a type variable; only type checkers need the default, which `typing` supports from Python 3.13."""
        del default
        return typing.TypeVar(name, **options)


__all__ = [
    "AccumT",
    "ElementT",
    "ElementT_co",
    "ElementT_contra",
    "InputT",
    "InputT_contra",
    "KeyT",
    "OutputT",
    "OutputT_co",
    "ResultT",
    "TypeVar",
    "ValueT",
]

ElementT = TypeVar("ElementT", default=Any)
"""The elements of a collection."""
ElementT_co = TypeVar("ElementT_co", default=Any, covariant=True)
ElementT_contra = TypeVar("ElementT_contra", default=object, contravariant=True)
"""The elements that a function takes; any by default."""
KeyT = TypeVar("KeyT", default=Any)
ValueT = TypeVar("ValueT", default=Any)

InputT = TypeVar("InputT", default=Any)
"""The inputs of a function or a combiner."""
AccumT = TypeVar("AccumT", default=Any)
OutputT = TypeVar("OutputT", default=Any)
"""The outputs of a function or a combiner."""
InputT_contra = TypeVar("InputT_contra", default=Any, contravariant=True)
OutputT_co = TypeVar("OutputT_co", default=Any, covariant=True)

ResultT = TypeVar("ResultT", default=Any)
"""The result of applying a transform: a collection, or several."""
