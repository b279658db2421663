"""What the built-in combiners add to `CombineFn`: their forms as transforms, and their types."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from dataflow_model.arguments import factory
from dataflow_model.errors import InvalidType, shown
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.parameters import check_plain, misfit_of
from dataflow_model.plan.functions.typevars import AccumT, InputT, OutputT
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.transforms.grouping.by_key import CombineGlobally, CombinePerKey
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.typehints import declared_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.transforms.grouping.form_types import Globally, PerKey


class _Form:
    """A method of the class and of its instances: `Top.per_key(3)` is `Top(3).per_key()`."""

    def __init__(self, transform: type[CombinePerKey | CombineGlobally], suffix: str, doc: str) -> None:
        self._transform = transform
        self._suffix = suffix
        self.__doc__ = doc

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._attribute = name

    def __get__(self, instance: Any, owner: type[Any]) -> Callable[..., Any]:
        name = f"{owner.__name__}.{self._suffix}"

        def form(*args: Any, **kwargs: Any) -> CombinePerKey | CombineGlobally:
            if instance is not None and (args or kwargs):
                given = shown((*args, *kwargs.values()))
                raise InvalidType(
                    f"{self._attribute}() of an instance takes no arguments, got {given} for {instance!r}",
                    hint=f"pass them to the class: {owner.__name__}.{self._attribute}(…)",
                )
            return self._transform(owner(*args, **kwargs) if instance is None else instance, name=name)

        form.__doc__ = self.__doc__
        form.__name__ = self._attribute
        form.__qualname__ = f"{owner.__name__}.{self._attribute}"
        described: Any = form
        parameters = inspect.signature(owner).parameters.values() if instance is None else ()
        described.__signature__ = inspect.Signature(list(parameters))
        return form


@with_spellings
class Combiner(CombineFn[InputT, AccumT, OutputT]):
    """A `CombineFn` with the forms `.per_key()` and `.globally()`; subclass it to give your own combiner these forms.

    Both forms return a transform. On the class, they take the arguments of the constructor; on an instance, they take
    none.

    Raises:
        InvalidType: by a form of an instance, for any argument.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Top.per_key(3).label, dm.Top(3).globally().label
        ('Top.PerKey', 'Top.Globally')
    """

    if TYPE_CHECKING:
        per_key: PerKey
        globally: Globally
    else:
        per_key = _Form(
            CombinePerKey, "PerKey", "Return the transform that combines the values of each key and window."
        )
        globally = _Form(CombineGlobally, "Globally", "Return the transform that combines all elements of each window.")

    def output_type(self, value_type: Any) -> Any:
        """Return what is known of the output's type, for inputs of `value_type`."""
        del value_type
        return declared_types(self)[1]


class GlobalOrPerKey(PTransform):
    """A transform with the forms of a combiner; the transform itself is its form `globally()`.

    Args:
        name: the default label.
        pairs: whether the input is pairs, whose values are grouped by key.
    """

    input_kind = "collection"

    def __init__(self, *, name: str | None = None, pairs: bool = False) -> None:
        self._name = type(self).__name__ if name is None else name
        self._pairs = pairs

    @factory
    def globally(cls) -> Self:
        """Return the transform over all elements of each window."""
        return cls(name=f"{cls.__name__}.Globally")

    @factory
    def per_key(cls) -> Self:
        """Return the transform over pairs, which treats the values of each key and window separately."""
        return cls(name=f"{cls.__name__}.PerKey", pairs=True)

    def default_label(self) -> str:
        """Return the name of the form."""
        return self._name


def takes_an_element(_combiner: object, _attribute: object, key: Any) -> None:
    """Check that the `key` of a combiner is a function of an element; a validator of attrs."""
    if key is None:
        return
    if not callable(key):
        way = f"key=lambda element: element.{key}" if isinstance(key, str) and key.isidentifier() else "key=len"
        raise InvalidType(f"`key` must be a function of an element, got {key!r}", hint=f"use {way}, for example")
    check_plain(key, "`key`")
    misfit = misfit_of(key)
    if misfit is not None:
        signature, error = misfit
        raise InvalidType(
            f"`key` must be a function of one element, got {getattr(key, '__name__', repr(key))}{signature}: {error}",
            hint="a key returns what to compare, as for sorted: key=lambda element: element.delay",
        ) from error
