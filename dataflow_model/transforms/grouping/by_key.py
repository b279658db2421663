"""Groupings: GroupByKey, CombinePerKey and CombineGlobally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, overload

from dataflow_model.arguments import calls_explained
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.plan.functions.typevars import ElementT, InputT, InputT_contra, KeyT, OutputT, OutputT_co, ValueT
from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
from dataflow_model.transforms.elementwise.dropped import restored, value_alone
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.pairs import Values
from dataflow_model.transforms.elementwise.side_inputs import AsSingleton
from dataflow_model.transforms.grouping.associative import as_combine_fn, user_function
from dataflow_model.transforms.grouping.hot_keys import checked_fanout, combine_in_parts
from dataflow_model.transforms.grouping.refusals import accepted
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import code_name
from dataflow_model.transforms.pipelines.groupings import add_grouping, check_pairs_to_combine
from dataflow_model.transforms.pipelines.output_tags import check_dead_letters, check_dropped
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Concatenate, Self

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.transforms.elementwise.dropped import GroupedAndDropped

    class _Sum(Protocol):
        """The builtin `sum` without the int 0 in its result type, which it returns only for no inputs."""

        def __call__(self, iterable: Iterable[Any], /, start: Any) -> Any: ...


_OF_DROPPED: Final = (
    "it takes only the tag of the dropped elements, and returns a pair: the results, and what was dropped"
)


class GroupByKey(PTransform):
    """Group pairs by key and window; each pane is a pair of the key and the list of its values.

    Takes the windowing strategy of its input. Keys are grouped by value and type; a key without a deterministic
    encoding (a set, a dict, a float NaN) fails the run.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs.

    Source: the papers' GroupByKeyAndWindow; Beam's `GroupByKey`.

    Example:
        >>> import dataflow_model as dm
        >>> (dm.Pipeline() | dm.Create([("UA", 1)]) | dm.GroupByKey()).element_type
        tuple[str, list[int]]
        >>> dm.Pipeline() | dm.Create([1]) | dm.GroupByKey()
        Traceback (most recent call last):
        dataflow_model.errors.InvalidType: 'GroupByKey' takes pairs (key, value), got elements of type int
        Hint: put dm.WithKeys(…) before it, or dm.Map(lambda x: (key, value))
    """

    input_kind = "collection"

    _inputs: tuple[str, ...] = ()
    _dropped: str | None = None

    @calls_explained(otherwise=_OF_DROPPED)
    def with_dropped_output(self, tag: str = "dropped") -> GroupedAndDropped:
        """Send elements that are dropped to a separate output, as `Dropped` records.

        Applying the transform then returns a pair: the groups, and the records. See
        `CombinePerKey.with_dropped_output`.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.
        """
        check_dropped(tag)
        changed: Any = self._but(_dropped=tag)
        grouped: GroupedAndDropped = changed
        return grouped

    def expand(self, pcoll: PCollection[tuple[KeyT, ValueT]], /) -> PCollection[tuple[KeyT, list[ValueT]]]:
        """Add the node."""
        _, value = typehints.pair_types(pcoll.element_type)
        values: Any = list[value]  # type: ignore[valid-type] # built at run time
        grouped: PCollection[tuple[KeyT, list[ValueT]]] = add_grouping(
            pcoll, GroupFn(self._inputs), values, dropped=self._dropped
        )
        return grouped

    def _of_inputs(self, names: Iterable[str]) -> Self:
        """Return a grouping of values `(index, value)`, where `index` is the number of the input."""
        return self._but(_inputs=tuple(names))


class _Combining(PTransform[InputT_contra, OutputT_co], Generic[InputT_contra, OutputT_co]):
    """The base class of `CombinePerKey` and `CombineGlobally`: a combiner, and a name that may contain it."""

    input_kind = "collection"

    def __init__(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str | None) -> None:
        self._name = name or type(self).__name__
        self.fn = as_combine_fn(fn, self._name, *args, **kwargs)

    def default_label(self) -> str:
        """Return the name that was passed, or that of the class."""
        return self._name

    _dead_letters: str | None = None
    _dropped: str | None = None
    _drops_first = False

    @calls_explained(otherwise=_OF_DROPPED)
    def with_dropped_output(
        self, tag: str = "dropped"
    ) -> _Combining[InputT_contra, tuple[OutputT_co, PCollection[Dropped]]]:
        """Send elements that are dropped to a separate output, as `Dropped` records.

        Applying the transform then returns a pair: the previous result, and the records. An element is dropped if its
        window has expired, if the trigger of its window has finished, or if it retracts a value for one of these
        reasons. There is one record for each element and window that the transform counts as dropped, so the number of
        records of a reason is that in `report().transforms[label].dropped`. Records are part of the run's commits: each
        is in the output exactly once, also after a restart.

        A record is in the global window. Its event time is the watermark at which the element was dropped, or that of
        the element if it is later, so that the records are never late themselves: count them per hour, for example,
        with `dm.Window.into(dm.FixedWindows("1 hour"))`. The element's own event time is `record.timestamp`.

        A grouping with this output is not *lifted*: its elements are shuffled before they are combined.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.

        Source: Flink's `sideOutputLateData`.

        Example:
            >>> import dataflow_model as dm
            >>> from dataflow_model.testing import TestStream
            >>> script = TestStream().add(4, 30, key="UA").watermark(60).add(8, 40, key="UA")
            >>> with dm.Pipeline() as p:
            ...     minutes = p | script | dm.Window.into(dm.FixedWindows("1 minute"))
            ...     totals, dropped = minutes | dm.Sum.per_key().with_dropped_output()
            ...     _ = totals | "totals" >> dm.io.Collect()
            ...     _ = dropped | "dropped" >> dm.io.Collect()
            >>> [record.value for record in p.result.collected("totals")]
            [('UA', 4)]
            >>> [(record.value.element, record.value.reason.value) for record in p.result.collected("dropped")]
            [(('UA', 8), 'late')]
        """
        check_dropped(tag, [*filter(None, [self._dead_letters])])
        changed: Any = self._but(_dropped=tag, _drops_first=self._dead_letters is None)
        dropping: _Combining[InputT_contra, tuple[OutputT_co, PCollection[Dropped]]] = changed
        return dropping

    def _with_refused(self, combined: Any, refused: Any) -> Any:
        """Return the result of a combiner that refuses values, as users get it."""
        tag = self._dead_letters or ""
        if self._dropped is None or self._drops_first:
            return WithDeadLetters(combined, refused, tag=tag)
        results, dropped = combined
        return WithDeadLetters(results, refused, tag=tag), dropped

    @calls_explained(
        otherwise="it takes only the tag of the dead letters, and returns a pair: the results, and the dead letters"
    )
    def with_exception_handling(
        self, dead_letter_tag: str = "dead_letters"
    ) -> _Combining[InputT_contra, WithDeadLetters[OutputT_co]]:
        """Send elements that the combiner refuses to a separate output, as `DeadLetter`s.

        Applying the transform then returns a pair: the results, and the dead letters. An element is refused if the
        combiner raises an error when it adds its value to an empty accumulator, or a function over values when it is
        called with the value alone. It never reaches the accumulator of its key. If the input contains retractions,
        the retraction of a refused element is a dead letter too, and is marked as a retraction.

        An error that depends on other values too, such as that of `Max` for a number and a text, still stops the run:
        which of the values was refused would depend on the order of arrival. Each value is added twice, and the
        grouping is not lifted.

        Args:
            dead_letter_tag: the dead letters' tag, as it appears in metrics.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.

        Source: Beam's `with_exception_handling`.

        Example:
            >>> import dataflow_model as dm
            >>> with dm.Pipeline() as p:
            ...     amounts = p | dm.Create([("a", 1), ("a", None), ("a", 4)])
            ...     totals, refused = amounts | dm.Sum.per_key().with_exception_handling()
            ...     _ = totals | "totals" >> dm.io.Collect()
            ...     _ = refused | "refused" >> dm.io.Collect()
            >>> [record.value for record in p.result.collected("totals")]
            [('a', 5)]
            >>> [record.value.element for record in p.result.collected("refused")]
            [('a', None)]
        """
        check_dead_letters(dead_letter_tag, [*filter(None, [self._dropped])])
        changed: Any = self._but(_dead_letters=dead_letter_tag)
        handled: _Combining[InputT_contra, WithDeadLetters[OutputT_co]] = changed
        return handled

    def label_by_code(self) -> str | None:
        """Return the name with the function or the combiner's class; `None` if the name has it, as in `Sum.PerKey`."""
        return f"{self._name}({code_name(user_function(self.fn))})" if self._name == type(self).__name__ else None


class CombinePerKey(_Combining, Generic[InputT, OutputT]):
    """Combine the values of each key and window.

    A plain function gets its own results as inputs again, so it must be associative and commutative, which `len` and
    `statistics.mean` are not; `testing.check_combine_fn(fn, inputs)` checks it.

    Args:
        fn: a `CombineFn`, its class, or an associative function over an iterable, such as `sum`.
        args, kwargs: further arguments: of the function, or of each method of the `CombineFn`.
        name: the default label; by default the name of the class.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs, a value type that the combiner
            cannot take, or a side input as a further argument.

    Source: Beam's `CombinePerKey`, which takes side inputs too.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> totals = p | dm.Create([("UA", 1), ("UA", 2)]) | dm.CombinePerKey(sum)
        >>> p.plan()["CombinePerKey"].combine
        Sum()
        >>> def greatest(numbers, at_least):
        ...     return max(numbers, default=at_least)
        >>> dm.CombinePerKey(greatest, at_least=0).fn.extract_output([])
        0
    """

    _fanout: int | Callable[[Any], int] | None = None
    _has_one_key = False

    @overload
    def __init__(
        self,
        fn: CombineFn[InputT, Any, OutputT] | type[CombineFn[InputT, Any, OutputT]],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: CombinePerKey[Any, Any], fn: _Sum, *args: Any, name: str | None = None, **kwargs: Any
    ) -> None: ...

    @overload
    def __init__(
        self: CombinePerKey[Any, ElementT], fn: Callable[[Iterable[Any]], ElementT], *, name: str | None = None
    ) -> None: ...

    @overload
    def __init__(
        self: CombinePerKey[Any, ElementT],
        fn: Callable[Concatenate[Iterable[Any], ...], ElementT],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> None: ...

    def __init__(self, fn: Any, *args: Any, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(fn, args, kwargs, name)

    def with_hot_key_fanout(self, fanout: int | Callable[[Any], int]) -> Self:
        """Return the transform that combines the values of a key in several parts first, and then the parts.

        Without a fan-out, all values of a key and window are combined in one shard, which slows a job down if one key
        has most of the values. The final results are the same: the last pane of each key and window or, in discarding
        mode, all its panes together. Only what depends on the order of the values may differ, such as the order of a
        list or ties of `Top`. Early and late panes may differ too. Your own trigger runs in each part separately: it
        sees only the elements of that part, and `peek_value()` returns an accumulator.

        A fan-out costs a second shuffle. Do not use it if no key is hot, or if `explain()` shows the grouping as
        *lifted*, because values are then combined before the shuffle.

        An element is in the same part in every run. The part depends on the element's position in its source. After
        another grouping, it depends on the element's value and event time instead, so elements that are equal in both
        are in the same part. If the input contains retractions, `fanout` must not change from one run of a stream to
        the next.

        Args:
            fanout: the number of parts, or a function that returns it for a key; a key with 1 or less is not split.

        Raises:
            InvalidType: if `fanout` is neither an int nor a function.
            InvalidArgument: for a number below 1, or, when it is applied, for a trigger that may finish before its
                window expires.

        Source: Beam's `with_hot_key_fanout`.

        Example:
            >>> import dataflow_model as dm
            >>> with dm.Pipeline() as p:
            ...     delays = p | dm.Create([("UA", 4), ("UA", 3), ("UA", 8)])
            ...     _ = delays | dm.Mean.per_key().with_hot_key_fanout(2) | dm.io.Collect()
            >>> [record.value for record in p.result.collected("Collect")]
            [('UA', 5.0)]
            >>> [node.label for node in p.plan().nodes if "/" in node.label]
            ['Mean.PerKey/Split', 'Mean.PerKey/Parts', 'Mean.PerKey/Join', 'Mean.PerKey/Total']
        """
        return self._but(_fanout=checked_fanout(fanout))

    def expand(self, pcoll: PCollection[tuple[KeyT, InputT]], /) -> PCollection[tuple[KeyT, OutputT]]:
        """Add the node."""
        if self._dead_letters is not None:
            check_pairs_to_combine(pcoll, self.fn)
            accepted_pairs, refused = accepted(pcoll, self.fn, _value_of_pair, self._dead_letters)
            both: PCollection[tuple[KeyT, OutputT]] = self._with_refused(
                self._but(_dead_letters=None).expand(accepted_pairs), refused
            )
            return both
        _, value = typehints.pair_types(pcoll.element_type)
        output = typehints.combined_type(self.fn, value)
        if self._fanout is None:
            grouped: PCollection[tuple[KeyT, OutputT]] = add_grouping(
                pcoll, self.fn, output, has_one_key=self._has_one_key, dropped=self._dropped
            )
            return grouped
        check_pairs_to_combine(pcoll, self.fn)
        combined: PCollection[tuple[KeyT, OutputT]] = combine_in_parts(
            pcoll, self.fn, self._fanout, output, has_one_key=self._has_one_key, dropped=self._dropped
        )
        return combined


class CombineGlobally(_Combining[PCollection[InputT], PCollection[OutputT]], Generic[InputT, OutputT]):
    """Combine all elements of each window.

    A window without elements has no pane. Beam's `CombineGlobally` emits the combiner's output for no inputs in the
    global window.

    Args:
        fn: a `CombineFn`, its class, or an associative function over an iterable, such as `max`.
        args, kwargs: further arguments: of the function, or of each method of the `CombineFn`.
        name: the default label; by default the name of the class.

    Raises:
        InvalidType: for a side input as a further argument.

    Source: Beam's `CombineGlobally(…).without_defaults()`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> most = p | dm.Create([3, 1, 2]) | dm.CombineGlobally(max)
        >>> [node.label for node in p.plan().nodes]
        ['Create', 'CombineGlobally/Map', 'CombineGlobally/CombinePerKey', 'CombineGlobally/Values']
    """

    _as_view = False
    _fanout: int | None = None

    @overload
    def __init__(
        self,
        fn: CombineFn[InputT, Any, OutputT] | type[CombineFn[InputT, Any, OutputT]],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: CombineGlobally[Any, Any], fn: _Sum, *args: Any, name: str | None = None, **kwargs: Any
    ) -> None: ...

    @overload
    def __init__(
        self: CombineGlobally[Any, ElementT], fn: Callable[[Iterable[Any]], ElementT], *, name: str | None = None
    ) -> None: ...

    @overload
    def __init__(
        self: CombineGlobally[Any, ElementT],
        fn: Callable[Concatenate[Iterable[Any], ...], ElementT],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> None: ...

    def __init__(self, fn: Any, *args: Any, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(fn, args, kwargs, name)

    def as_singleton_view(self) -> PTransform[PCollection[InputT], AsSingleton[OutputT]]:
        """Return the transform whose result is a side input: the combined value of the window.

        For a window without elements, the value is the combiner's output for no inputs.

        Source: Beam's `CombineGlobally(…).as_singleton_view()`.

        Example:
            >>> import dataflow_model as dm
            >>> with dm.Pipeline() as p:
            ...     numbers = p | dm.Create([1, 2, 5])
            ...     total = numbers | dm.CombineGlobally(sum).as_singleton_view()
            ...     shares = numbers | dm.Map(lambda x, total: x / total, total)
            ...     _ = shares | "shares" >> dm.io.Collect()
            >>> [record.value for record in p.result.collected("shares")]
            [0.125, 0.25, 0.625]
        """
        viewed: Any = self._but(_as_view=True)
        view: PTransform[PCollection[InputT], AsSingleton[OutputT]] = viewed
        return view

    def with_fanout(self, fanout: int) -> Self:
        """Return the transform that combines the elements in several parts first, and then the parts.

        See `CombinePerKey.with_hot_key_fanout` for the effect and when to use it.

        Args:
            fanout: the number of parts.

        Raises:
            InvalidType: if `fanout` is not an int.
            InvalidArgument: for a number below 1, or, when it is applied, for a trigger that may finish before its
                window expires.

        Source: Beam's `with_fanout`.

        Example:
            >>> import dataflow_model as dm
            >>> with dm.Pipeline() as p:
            ...     _ = p | dm.Create([3, 1, 2]) | dm.CombineGlobally(max).with_fanout(2) | dm.io.Collect()
            >>> [record.value for record in p.result.collected("Collect")]
            [3]
        """
        return self._but(_fanout=checked_fanout(fanout, may_be_function=False))

    def expand(self, pcoll: PCollection[InputT], /) -> PCollection[OutputT]:
        """Give all elements the key `None`, combine per key, and drop the key."""
        if self._dead_letters is not None:
            typehints.check_combiner_input(self.fn, pcoll.element_type, pcoll.pipeline.scope)
            accepted_pairs, refused = accepted(pcoll, self.fn, _itself, self._dead_letters)
            both: PCollection[OutputT] = self._with_refused(
                self._but(_dead_letters=None).expand(accepted_pairs), refused
            )
            return both
        per_key: CombinePerKey[Any, Any] = CombinePerKey[Any, Any](self.fn)._but(_has_one_key=True)  # noqa: SLF001 - of this module
        if self._fanout is not None:
            per_key = per_key.with_hot_key_fanout(self._fanout)
        pairs = typehints.tuple_of(None, pcoll.element_type)
        with_keys = pcoll | Map(_with_no_key).with_output_types(pairs)
        combined: Any
        records: Any = None
        if self._dropped is None:
            combined = with_keys | per_key
        else:
            combined, records = with_keys | per_key.with_dropped_output(self._dropped)
        combined = combined | Values()
        if self._as_view:
            combined = AsSingleton(combined, _of_nothing(self.fn))
        if records is not None:
            combined = combined, restored(records, value_alone)
        result: PCollection[OutputT] = combined
        return result


def _of_nothing(combine: CombineFn[Any, Any, Any]) -> Any:
    combine.setup()
    try:
        return combine.extract_output(combine.create_accumulator())
    finally:
        combine.teardown()


def _itself(element: Any) -> Any:
    return element


def _value_of_pair(pair: Any) -> Any:
    _, value = as_pair(pair, "a combining transform")
    return value


def _with_no_key(element: Any) -> tuple[None, Any]:
    return None, element
