"""Pairs of key and value: creating them and taking them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from dataflow_model.arguments import EXTRA, calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.parameters import check_takes_element
from dataflow_model.plan.functions.typevars import ElementT, KeyT, TypeVar, ValueT
from dataflow_model.plan.logical import nodes
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import CallsUser, code_name
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.transforms.pipelines.pcollection import PCollection

FieldT = TypeVar("FieldT", default=None)
"""The type of `value` in `WithKeys`: `str` if a field becomes the value, `None` if the element does."""


@calls_explained(
    {EXTRA: "use value='field' for the value, a tuple of names for several fields; a function takes the element only"}
)
class WithKeys(PTransform, Generic[KeyT, FieldT]):
    """Turn elements into pairs `(key, value)`.

    Args:
        key: a function from the element to its key; or the name of a field of the rows (named tuples, attrs values,
            dataclasses, dicts), or a tuple of names, and then the key is a tuple.
        value: with field names, the field that becomes the value; without it, the value is the whole element.

    Raises:
        InvalidArgument: for a field that the rows are known not to have, or `value=` beside a function.
        InvalidType: for a key that is none of these.

    Source: Beam's `WithKeys`, which takes text as a constant key; here text names a field, since a runner can then
        read the columns without making rows.

    Example:
        >>> import dataflow_model as dm
        >>> from typing import NamedTuple
        >>> class Flight(NamedTuple):
        ...     carrier: str
        ...     dep_delay: float
        >>> flights = dm.Pipeline() | dm.Create([Flight("UA", 4.0)])
        >>> (flights | dm.WithKeys("carrier", value="dep_delay")).element_type
        tuple[str, float]
        >>> (flights | "by length" >> dm.WithKeys(lambda flight: len(flight.carrier))).element_type
        tuple[typing.Any, ...Flight]
    """

    input_kind = "collection"

    @overload
    def __init__(self: WithKeys[ElementT, None], key: Callable[[Any], ElementT]) -> None: ...

    @overload
    def __init__(self: WithKeys[Any, None], key: str | tuple[str, ...], *, value: None = None) -> None: ...

    @overload
    def __init__(self: WithKeys[Any, str], key: str | tuple[str, ...], *, value: str) -> None: ...

    def __init__(self, key: Callable[[Any], Any] | str | tuple[str, ...], *, value: str | None = None) -> None:
        if not callable(key) and not isinstance(key, str) and not _is_names(key):
            raise InvalidType(
                f"`key` must be a function, a field's name or a tuple of names, got {key!r}",
                hint="use WithKeys('carrier'), for example; for one key for all elements, "
                f"dm.Map(lambda element: ({key!r}, element))",
            )
        if callable(key) and value is not None:
            raise InvalidArgument(
                f"`value` can be used only if `key` is a field's name, got {value!r} with a function as `key`",
                hint="use dm.Map(lambda x: (key, value))",
            )
        if value is not None and not isinstance(value, str):
            raise InvalidType(
                f"`value` must be a field's name, got {value!r}", hint="use dm.Map(lambda x: (key, value))"
            )
        if callable(key):
            check_takes_element(key, "WithKeys")
        self.key = key
        self.value = value

    def label_by_code(self) -> str:
        """Return the name with the function, or with the fields."""
        if callable(self.key):
            return f"{self.default_label()}({code_name(self.key)})"
        fields = (self.key,) if isinstance(self.key, str) else self.key
        return f"{self.default_label()}({', '.join(fields)}{'' if self.value is None else f': {self.value}'})"

    @overload
    def expand(self: WithKeys[KeyT, None], pcoll: PCollection[ElementT], /) -> PCollection[tuple[KeyT, ElementT]]: ...

    @overload
    def expand(self: WithKeys[KeyT, str], pcoll: PCollection, /) -> PCollection[tuple[KeyT, Any]]: ...

    def expand(self, pcoll: PCollection, /) -> PCollection[Any]:
        """Add the node."""
        pipeline, row = pcoll.pipeline, pcoll.element_type
        if callable(self.key):
            typehints.check_first_parameter(self.key, row, pipeline.scope)
            pairs = typehints.tuple_of(typehints.return_type(self.key), row)
            mapped: PCollection = pcoll | Map(_Pair(self.key)).with_output_types(pairs)
            return mapped
        names = (self.key,) if isinstance(self.key, str) else self.key
        kinds = [typehints.field_type(row, name, pipeline.scope) for name in names]
        key_type = kinds[0] if isinstance(self.key, str) else typehints.tuple_of(*kinds)
        value_type = row if self.value is None else typehints.field_type(row, self.value, pipeline.scope)
        node = nodes.ToPairs(label=pipeline.scope, input=pcoll.ref, key=self.key, value=self.value)
        return pipeline.add_main(node, strategy=pcoll.strategy, element_type=typehints.tuple_of(key_type, value_type))


# Functions of a module, so that plans pickle without cloudpickle's help.
def _key(pair: Any) -> Any:
    return as_pair(pair, "Keys")[0]


def _value(pair: Any) -> Any:
    return as_pair(pair, "Values")[1]


def _swapped(pair: Any) -> Any:
    key, value = as_pair(pair, "KvSwap")
    return value, key


class _OfPairs(Map[Any, Any]):
    """A `Map` over pairs, whose function is not the user's."""

    def expand(self, pcoll: PCollection, /) -> Any:
        """Check that the elements are pairs, and add the node."""
        typehints.check_pairs(pcoll.element_type, pcoll.pipeline.scope)
        return super().expand(pcoll)


class Keys(_OfPairs):
    """Keep the key of each pair.

    Source: Beam's `Keys`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([("UA", 1)]) | dm.Keys()
        PCollection('Keys', element_type=str)
    """

    def __init__(self) -> None:
        super().__init__(_key)

    def output_type(self, element_type: Any) -> Any:
        """Return the type of the keys."""
        return typehints.pair_types(element_type)[0]

    if TYPE_CHECKING:

        def expand(self, pcoll: PCollection[tuple[KeyT, Any]], /) -> PCollection[KeyT]: ...  # noqa: D102 - see `Map`


class Values(_OfPairs):
    """Keep the value of each pair.

    Source: Beam's `Values`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([("UA", 1)]) | dm.Values()
        PCollection('Values', element_type=int)
    """

    def __init__(self) -> None:
        super().__init__(_value)

    def output_type(self, element_type: Any) -> Any:
        """Return the type of the values."""
        return typehints.pair_types(element_type)[1]

    if TYPE_CHECKING:

        def expand(self, pcoll: PCollection[tuple[Any, ValueT]], /) -> PCollection[ValueT]: ...  # noqa: D102 - see `Map`


class KvSwap(_OfPairs):
    """Turn `(key, value)` into `(value, key)`.

    Source: Beam's `KvSwap`.

    Example:
        >>> import dataflow_model as dm
        >>> (dm.Pipeline() | dm.Create([("UA", 1)]) | dm.KvSwap()).element_type
        tuple[int, str]
    """

    def __init__(self) -> None:
        super().__init__(_swapped)

    def output_type(self, element_type: Any) -> Any:
        """Return the type of the swapped pairs."""
        key, value = typehints.pair_types(element_type)
        return typehints.tuple_of(value, key)

    if TYPE_CHECKING:

        def expand(  # noqa: D102 - see `Map`
            self, pcoll: PCollection[tuple[KeyT, ValueT]], /
        ) -> PCollection[tuple[ValueT, KeyT]]: ...


class _Pair(CallsUser):
    """Calls a function for the key and keeps the element as the value."""

    def __call__(self, element: Any) -> tuple[Any, Any]:
        return self.func(element), element


def _is_names(key: object) -> bool:
    return isinstance(key, tuple) and bool(key) and all(isinstance(name, str) for name in key)
