"""GroupBy: groupings by fields or expressions, with named aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.columns.rows import field_getter, named_row_type
from dataflow_model.plan.functions.combine import CombineFn, KernelForm, WrappingFn
from dataflow_model.plan.functions.parameters import check_takes_element
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
from dataflow_model.transforms.elementwise.dropped import restored, value_alone
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.grouping.associative import as_combine_fn
from dataflow_model.transforms.grouping.by_key import CombinePerKey, GroupByKey
from dataflow_model.transforms.grouping.refusals import accepted
from dataflow_model.transforms.grouping.together import SideBySide
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.output_tags import check_dead_letters, check_dropped
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dataflow_model.transforms.pipelines.pcollection import PCollection


@with_spellings
class GroupBy(PTransform):
    """Group elements by fields or expressions; with `aggregate_field`, combine their fields into rows.

    Each pane is a pair of the key and the list of elements. For a single positional expression, the key is its value;
    otherwise, it is a row with a field for each expression. With aggregates, each pane is one row: the fields of the
    key, then those of the aggregates.

    Args:
        fields: names of fields (of named tuples, attrs values, dataclasses or the keys of dicts), or functions. The
            field of a function is called `key`, or with several fields `key0`, `key1` and so on by position.
        expressions: further fields or functions by the names of their fields.

    Raises:
        InvalidArgument: if there is nothing to group by, two fields have the same name, or the elements are known not
            to have a field.
        InvalidType: for an expression that is neither text nor a function.

    Source: Beam's `GroupBy`.

    Example:
        >>> import dataflow_model as dm
        >>> from typing import NamedTuple
        >>> class Flight(NamedTuple):
        ...     carrier: str
        ...     delay: int
        >>> totals = (
        ...     dm.GroupBy("carrier")
        ...     .aggregate_field("delay", sum, "total")
        ...     .aggregate_field(lambda flight: flight.delay / 60, dm.Mean(), "mean_hours")
        ... )
        >>> with dm.Pipeline() as p:
        ...     flights = p | dm.Create([Flight("UA", 90), Flight("UA", 30), Flight("AA", 0)])
        ...     _ = flights | totals | dm.io.Collect()
        >>> for row in sorted(record.value for record in p.result.collected("Collect")):
        ...     print(row)
        Row(carrier='AA', total=0, mean_hours=0.0)
        Row(carrier='UA', total=120, mean_hours=1.0)
    """

    input_kind = "collection"

    def __init__(self, *fields: str | Callable[[Any], Any], **expressions: str | Callable[[Any], Any]) -> None:
        named: dict[str, str | Callable[[Any], Any]] = {}
        for index, field in enumerate(fields):
            unnamed = "key" if len(fields) == 1 else f"key{index}"
            _add(named, field if isinstance(field, str) else unnamed, field)
        for name, expression in expressions.items():
            _add(named, name, expression)
        if not named:
            raise InvalidArgument(
                "GroupBy() needs something to group by, got nothing",
                hint="use dm.GroupBy('carrier'), or dm.Together(total=sum).globally() to combine all elements",
            )
        self._keys = named
        self._is_plain = len(fields) == 1 and not expressions
        self._aggregates: dict[str, tuple[str | Callable[[Any], Any], CombineFn[Any, Any, Any]]] = {}
        self._dead_letters: str | None = None
        self._dropped: str | None = None
        self._drops_first = False

    def aggregate_field(
        self,
        field: str | Callable[[Any], Any],
        combine: CombineFn[Any, Any, Any] | type[CombineFn[Any, Any, Any]] | Callable[[Iterable[Any]], Any],
        dest: str,
    ) -> Self:
        """Return the grouping with one more aggregate.

        Args:
            field: what to combine: a field's name, or a function of the element.
            combine: a `CombineFn`, its class, or an associative function over an iterable, such as `sum`.
            dest: the name of the field in the output rows.

        Raises:
            InvalidArgument: for a name that is already used.
            InvalidType: for a field that is neither text nor a function, or a value that is not a combiner.
        """
        taken: dict[str, Any] = {**self._keys, **self._aggregates}
        _add(
            taken, dest, field, hint="pass another name as the third argument: .aggregate_field('delay', sum, 'total')"
        )
        combiner = as_combine_fn(combine, f"GroupBy.aggregate_field({dest!r})")
        return self._but(_aggregates={**self._aggregates, dest: (field, combiner)})

    def with_exception_handling(self, dead_letter_tag: str = "dead_letters") -> Self:
        """Send elements that an aggregate refuses, or whose fields cannot be read, to a separate output.

        Applying the grouping then returns a pair: the rows, and the dead letters. See
        `CombinePerKey.with_exception_handling`.

        Args:
            dead_letter_tag: the dead letters' tag, as it appears in metrics.

        Raises:
            InvalidArgument: for the tag of the main output, or, when it is applied, without an aggregate.
            InvalidType: for a tag that is not text.
        """
        check_dead_letters(dead_letter_tag, [*filter(None, [self._dropped])])
        return self._but(_dead_letters=dead_letter_tag)

    def with_dropped_output(self, tag: str = "dropped") -> Self:
        """Send elements that are dropped to a separate output, as `Dropped` records.

        Applying the grouping then returns a pair: the previous result, and the records. See
        `CombinePerKey.with_dropped_output`. The fields of the aggregates are then read after the shuffle, so that the
        whole element is still there.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of another output.
            InvalidType: for a tag that is not text.
        """
        check_dropped(tag, [*filter(None, [self._dead_letters])])
        return self._but(_dropped=tag, _drops_first=self._dead_letters is None)

    def force_tuple_keys(self) -> Self:
        """Return the grouping whose key is always a row, even if there is only one expression."""
        return self._but(_is_plain=False)

    def expand(self, pcoll: PCollection, /) -> PCollection:
        """Make pairs, group or combine them, and make rows."""
        if self._dead_letters is not None:
            both: PCollection = self._with_dead_letters(pcoll, self._dead_letters)
            return both
        if self._dropped is not None:
            dropping: PCollection = self._with_dropped(pcoll, self._dropped)
            return dropping
        row, label = pcoll.element_type, pcoll.pipeline.scope
        key, kinds = self._keys_of(row, label)
        if not self._aggregates:
            return self._with_keys(pcoll, key, row) | GroupByKey()
        values, combine = self._combined()
        pairs = typehints.tuple_of(key.type, tuple[Any, ...])
        keyed = pcoll | "keys" >> Map(_Pair(key, values)).with_output_types(pairs)
        return keyed | CombinePerKey(combine) | "rows" >> self._rows(kinds, row, label)

    def _keys_of(self, row: Any, label: str) -> tuple[_Key, dict[str, Any]]:
        """Return the function of the key, and the types of its fields by name."""
        kinds = {name: _type_of(expression, row, label) for name, expression in self._keys.items()}
        key_type: Any = next(iter(kinds.values())) if self._is_plain else named_row_type(_any(self._keys))
        return _Key(tuple(self._keys.values()), key_type if not self._is_plain else None, key_type), kinds

    def _with_keys(self, pcoll: PCollection, key: _Key, row: Any) -> PCollection:
        """Return pairs of the key and the whole element."""
        return pcoll | "keys" >> Map(_Pair(key, None)).with_output_types(typehints.tuple_of(key.type, row))

    def _rows(self, kinds: dict[str, Any], row: Any, label: str) -> Map[Any, Any]:
        """Return the transform that makes rows of keys and aggregates."""
        for name, (field, combiner) in self._aggregates.items():
            kinds[name] = typehints.combined_type(combiner, _type_of(field, row, label))
        made = named_row_type(_any({**self._keys, **self._aggregates}))
        rows: Any = Map(_Row(made, plain=self._is_plain)).with_output_types(typehints.rows_of_types(kinds))
        to_rows: Map[Any, Any] = rows
        return to_rows

    def _with_dropped(self, pcoll: PCollection, tag: str) -> Any:
        """Return the groups, and the elements that were dropped."""
        row, label = pcoll.element_type, pcoll.pipeline.scope
        key, kinds = self._keys_of(row, label)
        keyed: Any = self._with_keys(pcoll, key, row)
        if not self._aggregates:
            grouped, records = keyed | GroupByKey().with_dropped_output(tag)
            return grouped, restored(records, value_alone)
        values, combine = self._combined()
        combining: CombinePerKey[Any, Any] = CombinePerKey(_OfElement(combine, values))
        grouped, records = keyed | combining.with_dropped_output(tag)
        return grouped | "rows" >> self._rows(kinds, row, label), restored(records, value_alone)

    def _combined(self) -> tuple[_Key, _ByPosition]:
        """Return the function of the values of an element, and the combiner of these."""
        fields, combiners = zip(*self._aggregates.values(), strict=True)
        return _Key(fields, tuple), _ByPosition(tuple(self._aggregates), combiners)

    def _with_dead_letters(self, pcoll: PCollection, tag: str) -> Any:
        """Return the rows of the elements that all aggregates take, and the dead letters."""
        if not self._aggregates:
            raise InvalidArgument(
                f"{pcoll.pipeline.scope!r} combines nothing, so that no combiner could refuse an element",
                hint="leave out .with_exception_handling(), or add .aggregate_field(…)",
            )
        values, combine = self._combined()
        key = _Key(tuple(self._keys.values()), tuple)
        accepted_elements, refused = accepted(pcoll, combine, lambda element: _Pair(key, values)(element)[1], tag)
        grouped: Any = self._but(_dead_letters=None).expand(accepted_elements)
        if self._dropped is None or self._drops_first:
            return WithDeadLetters(grouped, refused, tag=tag)
        rows, dropped = grouped
        return WithDeadLetters(rows, refused, tag=tag), dropped


def _add(
    named: dict[str, Any],
    name: Any,
    expression: Any,
    *,
    hint: str = "give the expression another name: dm.GroupBy(from_airport='origin')",
) -> None:
    """Add an expression under a name that is free and can be a field."""
    if not isinstance(expression, str) and not callable(expression):
        raise InvalidType(
            f"GroupBy takes names of fields or functions, got {expression!r}", hint="use dm.GroupBy('carrier')"
        )
    if callable(expression):
        check_takes_element(expression, "GroupBy")
    if not isinstance(name, str) or name in named:
        problem = "is there already" if isinstance(name, str) else "is no text"
        raise InvalidArgument(
            f"each field that comes out needs a name of its own, and {name!r} {problem}",
            hint=hint,
        )
    named[name] = expression


def _any(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, "Any") for name in names)


def _type_of(expression: str | Callable[[Any], Any], row: Any, label: str) -> Any:
    if callable(expression):
        typehints.check_first_parameter(expression, row, label)
        return typehints.return_type(expression)
    return typehints.field_type(row, expression, label)


class _Key:
    """Computes a tuple of expressions, or with `kind=None` the only one."""

    def __init__(self, expressions: tuple[str | Callable[[Any], Any], ...], kind: Any, key_type: Any = Any) -> None:
        self.expressions = expressions
        self.kind = kind
        self.type = key_type

    def __call__(self, element: Any) -> Any:
        values = [_value(expression, element) for expression in self.expressions]
        if self.kind is None:
            return values[0]
        return tuple(values) if self.kind is tuple else self.kind(*values)


def _value(expression: str | Callable[[Any], Any], element: Any) -> Any:
    return expression(element) if callable(expression) else field_getter(expression)(element)


class _Pair:
    """Turns an element into a key and a value: the element itself, or the fields to combine."""

    def __init__(self, key: _Key, value: _Key | None) -> None:
        self.key = key
        self.value = value

    def __call__(self, element: Any) -> tuple[Any, Any]:
        return self.key(element), element if self.value is None else self.value(element)


@attrs.frozen(repr=False)
class _OfElement(WrappingFn[Any, Any, Any]):
    """A combiner of whole elements, which reads their fields itself."""

    combine: CombineFn[Any, Any, Any]
    values: _Key

    def wrapped(self) -> Sequence[CombineFn[Any, Any, Any]]:
        return (self.combine,)

    def create_accumulator(self) -> Any:
        return self.combine.create_accumulator()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return self.combine.add_input(accumulator, self.values(element))

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return self.combine.merge_accumulators(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return self.combine.extract_output(accumulator)

    def subtract_input(self, accumulator: Any, element: Any) -> Any:
        return self.combine.subtract_input(accumulator, self.values(element))

    @property
    def can_subtract(self) -> bool:
        """Whether the combiner can."""
        return self.combine.can_subtract

    def title(self) -> str:
        return self.combine.title()

    def __repr__(self) -> str:
        return repr(self.combine)


class _Row:
    """Puts the key and the aggregates into one row."""

    def __init__(self, made: type[Any], *, plain: bool) -> None:
        self.made = made
        self.plain = plain

    def __call__(self, combined: tuple[Any, tuple[Any, ...]]) -> Any:
        key, values = combined
        return self.made(*((key,) if self.plain else key), *values)


class _ByPosition(SideBySide, CombineFn[Any, tuple[Any, ...], tuple[Any, ...]]):
    """Runs a combiner over each field of tuples.

    Source: Beam's `TupleCombineFn`.
    """

    def add_input(self, accumulator: tuple[Any, ...], element: tuple[Any, ...]) -> tuple[Any, ...]:
        indices = zip(self.parts, accumulator, element, strict=True)
        return tuple([part.add_input(own, value) for part, own, value in indices])

    def subtract_input(self, accumulator: tuple[Any, ...], element: tuple[Any, ...]) -> tuple[Any, ...]:
        indices = zip(self.parts, accumulator, element, strict=True)
        return tuple([part.subtract_input(own, value) for part, own, value in indices])

    def kernel_form(self) -> KernelForm | None:
        return self.side_by_side(tuple, by_position=True)

    def title(self) -> str:
        return ", ".join(part.title() for part in self.parts)

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.parts))})"
