"""ParDo: a DoFn over each element, with tagged outputs and dead letters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, cast, overload

import attrs

from dataflow_model.arguments import calls_explained, nonnegative_duration
from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.plan.functions.declaration import check_callbacks, check_declared, declaration_of
from dataflow_model.plan.functions.dofn import CallableDoFn, DeadLetter, DoFn, FilterFn, FlatMapFn, MapFn
from dataflow_model.plan.functions.parameters import filled_by_position, metadata_of, requested_by
from dataflow_model.plan.functions.typevars import ElementT, InputT, OutputT, ResultT
from dataflow_model.plan.logical import nodes
from dataflow_model.time import Duration
from dataflow_model.transforms.elementwise.dead_letters import DeadLetters, WithDeadLetters, limit
from dataflow_model.transforms.elementwise.side_inputs import resolve
from dataflow_model.transforms.elementwise.state import check_stateful_input
from dataflow_model.transforms.elementwise.vectorized import check_vectorized, columns_given
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import code_name, shown_arguments
from dataflow_model.transforms.pipelines.foreign import converters, is_of_beam
from dataflow_model.transforms.pipelines.output_tags import check_dead_letters, check_dropped
from dataflow_model.transforms.pipelines.pcollection import OutputTuple, PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.triggers.percentiles import check_named_percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Concatenate

    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.time import DurationLike
    from dataflow_model.windowing import WindowFn


def checked_horizon(value: DurationLike) -> Duration:
    """Return how far back event times may move; raise `InvalidArgument` for a negative duration."""
    hint = "use 0, or leave it out, for event times that only move forward"
    return nonnegative_duration("late_data_horizon", value, hint)


class ParDo(PTransform[PCollection[InputT], ResultT], Generic[InputT, ResultT]):
    """Run a `DoFn` over each element.

    For type checkers it is a `ParDo[InputT, ResultT]`: the type of the elements, and the type of the result of applying
    it, which is one collection or, after `with_outputs` and `with_exception_handling`, several.

    Args:
        fn: a `DoFn`, also one of Beam's, or a function as in `FlatMap`.
        args, kwargs: further arguments of `process`, including side inputs. The runner fills the parameters that `DoFn`
            lists, unless an argument is given for them, and parameters with a default such as `DoFn.TimestampParam`.

    Raises:
        InvalidArgument: for a `DoFn` that defines neither `process` nor `process_batch`, a parameter that nothing
            fills, or arguments that `process` does not take.
        InvalidType: when the annotation of the first parameter rules out the elements.

    Source: the papers' ParDo; Beam's `ParDo`.

    Example:
        >>> import dataflow_model as dm
        >>> class Split(dm.DoFn):
        ...     def process(self, line, timestamp):
        ...         yield from line.split()
        >>> p = dm.Pipeline()
        >>> words = p | dm.Create(["to be"]) | dm.ParDo(Split())
        >>> p.plan()["ParDo"].metadata
        ('timestamp',)
    """

    input_kind = "collection"
    _tags: tuple[str, ...] | None = None
    _main: str = nodes.MAIN
    _dead_letters: DeadLetters | None = None
    _dropped: str | None = None
    _further: tuple[str, ...] = ()
    """The tags of the outputs that calls have added, in the order of the calls."""
    _retractable: bool | Literal["memoised"] | None = None
    _late_data_horizon: Duration | None = None

    if not TYPE_CHECKING:  # type checkers would take the result for this one's

        def __new__(cls, *given: Any, **kwargs: Any) -> Any:
            """Return the transform; for a `DoFn` of Beam's, one that runs it in the same place."""
            if cls is ParDo and given and is_of_beam(given[0], "DoFn"):
                return converters().par_do(given[0], given[1:], kwargs)
            return super().__new__(cls)

    @overload
    def __init__(
        self: ParDo[ElementT, PCollection[OutputT]], fn: DoFn[ElementT, OutputT], *args: Any, **kwargs: Any
    ) -> None: ...

    @overload
    def __init__(
        self: ParDo[ElementT, PCollection[OutputT]],
        fn: Callable[Concatenate[ElementT, ...], Iterable[OutputT] | None],
        *args: Any,
        **kwargs: Any,
    ) -> None: ...

    def __init__(self, fn: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(fn, type) and issubclass(fn, DoFn):
            raise InvalidType(
                f"ParDo takes an instance of DoFn, got the class {fn.__name__}", hint=f"write {fn.__name__}(…)"
            )
        if not isinstance(fn, DoFn):
            fn = FlatMapFn(checked_function(fn, self))
        if fn.late_data_horizon is not None:
            if not isinstance(fn.late_data_horizon, Duration):
                raise InvalidType(
                    f"`late_data_horizon` of {type(fn).__name__} must be a Duration, got {fn.late_data_horizon!r}",
                    hint=f"write late_data_horizon = dm.duration({fn.late_data_horizon!r})",
                )
            checked_horizon(fn.late_data_horizon)
        _check_retractable(fn.retractable, f"`retractable` of {type(fn).__name__}")
        check_named_percentiles(fn.watermark_percentiles, f"`watermark_percentiles` of {type(fn).__name__}")
        self.fn: DoFn = fn
        self.args, by_name = filled_by_position(fn.user_function(), args)
        self.kwargs: Mapping[str, Any] = {**by_name, **kwargs}
        _check_arguments(fn, fn.user_function(), self.args, self.kwargs)
        if fn.takes_elements and fn.takes_batches:
            _check_arguments(fn, fn.process_batch, self.args, self.kwargs)
        _check_defines_process(fn)

    if TYPE_CHECKING:

        @overload
        def with_output_types(self, element_type: type[ElementT]) -> ParDo[InputT, PCollection[ElementT]]: ...

        @overload
        def with_output_types(self, element_type: Any) -> ParDo[InputT, PCollection]: ...

        def with_output_types(self, element_type: Any) -> Any: ...  # noqa: D102 - see `PTransform`

    @overload
    def with_outputs(
        self: ParDo[ElementT, PCollection[OutputT]], *tags: str, main: str = nodes.MAIN
    ) -> ParDo[ElementT, OutputTuple[OutputT]]: ...

    @overload
    def with_outputs(
        self: ParDo[ElementT, WithDeadLetters[PCollection[OutputT]]],
        *tags: str,
        main: str = nodes.MAIN,
    ) -> ParDo[ElementT, WithDeadLetters[OutputTuple[OutputT]]]: ...

    def with_outputs(self, *tags: str, main: str = nodes.MAIN) -> Any:
        """Name the outputs for `TaggedOutput`s; applying the transform then gives an `OutputTuple`.

        Args:
            tags: the tags that the function uses.
            main: the name of the main output in the result.

        Raises:
            InvalidArgument: for a tag that is given twice.
            InvalidType: for a tag that is not text.

        Source: Beam's `with_outputs`.
        """
        if not all(isinstance(tag, str) for tag in (*tags, main)):
            raise InvalidType(f"a tag must be text, got {tags!r} and main={main!r}", hint='with_outputs("late")')
        if len({*tags, main}) != len(tags) + 1 or nodes.MAIN in tags:
            raise InvalidArgument(
                f"each output needs a different tag, got {tags!r} and main={main!r}",
                hint="use with_outputs('late', main='on_time'), for example",
            )
        if self._dead_letters is not None:
            check_dead_letters(self._dead_letters.tag, tags)
        if self._dropped is not None:
            check_dropped(self._dropped, tags)
        return self._but(_tags=tags, _main=main)

    @calls_explained(
        {
            "partial": "leave it out: the outputs of an element that fails are discarded",
            "error_handler": "use the second part of the result, which is a collection",
            "on_failure_callback": "use the second part of the result, as in … | dm.Map(fn)",
            "timeout": "leave it out, and let the function end by itself, as with the timeout of what it calls",
            "use_subprocess": "use dm.LocalRunner(workers=2), whose functions run in processes of their own",
        }
    )
    def with_exception_handling(
        self,
        dead_letter_tag: str = "dead_letters",
        *,
        main_tag: str = "good",
        exc_class: type[Exception] | tuple[type[Exception], ...] = Exception,
        threshold: float = 1,
        threshold_windowing: WindowFn | None = None,
    ) -> ParDo[InputT, WithDeadLetters[ResultT]]:
        """Send elements for which the function raises an error to a separate output, as `DeadLetter`s.

        Applying the transform then returns a pair: the previous result, and the dead letters, which are also its
        attributes `good` and `bad`. If the function had already returned outputs for such an element before it raised
        the error, they are discarded.

        Args:
            dead_letter_tag: the dead letters' tag, as it appears in metrics, and as an attribute of the result.
            main_tag: a name of the previous result, as an attribute of the result.
            exc_class: the classes of exceptions that make a dead letter; any other exception stops the run.
            threshold: the share of elements, from 0 to 1, that may become dead letters: the run fails if there are
                more in a window. It is computed once for each window, when the watermark passes the end of the window,
                and does not depend on bundles or micro-batches. A bounded run that fails writes nothing; a stream has
                already written the output of earlier micro-batches. Late elements are not counted.
            threshold_windowing: the windows in which the share is computed; by default those of the input. A stream in
                the global window, which never ends, needs other ones here.

        Raises:
            InvalidArgument: for the tag of another output, or a threshold that is not between 0 and 1.
            InvalidType: for a tag that is not text, or for an argument of another type.

        Source: Beam's `with_exception_handling`, whose first argument is the main tag.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> numbers, failed = p | dm.Create(["1", "?"]) | dm.Map(int).with_exception_handling(exc_class=ValueError)
            >>> failed.element_type
            <class 'dataflow_model.plan.functions.dofn.DeadLetter'>
        """
        check_dead_letters(dead_letter_tag, (*(self._tags or ()), *filter(None, [self._dropped])))
        how = DeadLetters(dead_letter_tag, main_tag, exc_class, threshold, threshold_windowing)
        further = (*(other for other in self._further if other == self._dropped), dead_letter_tag)
        return cast("ParDo[InputT, WithDeadLetters[ResultT]]", self._but(_dead_letters=how, _further=further))

    @calls_explained(
        otherwise="it takes only the tag of the dropped elements, and returns a pair: the outputs, and what was dropped"
    )
    def with_dropped_output(self, tag: str = "dropped") -> ParDo[InputT, tuple[ResultT, PCollection[Dropped]]]:
        """Send elements that are dropped because they are late to a separate output, as `Dropped` records.

        Applying the transform then returns a pair: the previous result, and the records. Only three kinds of functions
        drop elements: those with state or timers, those with side inputs, which drop an element if the window of a side
        input has expired, and memoised functions (`retractable("memoised")`). There is one record for each element and
        window that the transform counts as dropped; see `CombinePerKey.with_dropped_output` for their windows and event
        times.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of another output, or, when it is applied, for a function that never drops
                anything.
            InvalidType: for a tag that is not text.

        Source: Flink's `sideOutputLateData`.

        Example:
            >>> import dataflow_model as dm
            >>> from dataflow_model.testing import TestStream
            >>> class Remember(dm.DoFn):
            ...     seen = dm.ValueStateSpec[int](default=0)
            ...
            ...     def process(self, pair, seen):
            ...         seen.write(pair[1])
            ...         yield pair
            >>> script = TestStream().add(4, 30, key="UA").watermark(60).add(8, 40, key="UA")
            >>> with dm.Pipeline() as p:
            ...     minutes = p | script | dm.Window.into(dm.FixedWindows("1 minute"))
            ...     kept, dropped = minutes | dm.ParDo(Remember()).with_dropped_output()
            ...     _ = dropped | dm.io.Collect()
            >>> [record.value.element for record in p.result.collected("Collect")]
            [('UA', 8)]
        """
        check_dropped(tag, (*(self._tags or ()), *(() if self._dead_letters is None else [self._dead_letters.tag])))
        further = (*(other for other in self._further if other != self._dropped), tag)
        changed = self._but(_dropped=tag, _further=further)
        return cast("ParDo[InputT, tuple[ResultT, PCollection[Dropped]]]", changed)

    def retractable(self, how: bool | Literal["memoised"]) -> Self:  # noqa: FBT001 - as the attribute of a DoFn
        """Set how the function treats retractions, as `DoFn.retractable` does for a class.

        Args:
            how: `True` for a function that always returns the same outputs for an element; `False` for a function that
                must not run on retractions; `"memoised"` for a function whose outputs differ from call to call. Its
                outputs are then stored by input value until the window expires, and a retraction of the input retracts
                exactly these outputs.

        Raises:
            InvalidArgument: for any other value.

        Example:
            >>> import random
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
            >>> sums = p | dm.Create([("a", 1), ("a", 2)]) | each | dm.Sum.per_key()
            >>> drawn = sums | dm.Map(lambda pair: (pair[0], random.random())).retractable("memoised")
            >>> _ = drawn | "panes" >> dm.io.Collect()
            >>> result = p.run()
            >>> _ = result.wait_until_finish()
            >>> first, taken_back, second = result.collected("panes")
            >>> first.value == taken_back.value, taken_back.is_retraction
            (True, True)
        """
        _check_retractable(how, "`retractable`")
        return self._but(_retractable=how)

    def late_data_horizon(self, horizon: DurationLike) -> Self:
        """Allow outputs with an earlier event time than their inputs, as `DoFn.late_data_horizon` does for a class.

        Args:
            horizon: the maximum time between output and input; the watermark of the output is held back by it.

        Raises:
            InvalidArgument: for a negative duration.

        Source: the papers' BOUNDED_PAST; Beam's `getAllowedTimestampSkew`.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> landings = p | dm.Create([dm.TimestampedValue(("UA", 600), 3600)])
            >>> departed = dm.Map(lambda flight: dm.TimestampedValue(flight, 3600 - flight[1]))
            >>> _ = landings | departed.late_data_horizon("1 hour")
            >>> p.plan()["Map"].late_data_horizon
            Duration(3600s)
        """
        return self._but(_late_data_horizon=checked_horizon(horizon))

    def label_by_code(self) -> str:
        """Return the name with the function or the class of the DoFn."""
        return f"{self.default_label()}({code_name(self.fn.fn if isinstance(self.fn, CallableDoFn) else self.fn)})"

    def output_type(self, element_type: Any) -> Any:
        """Return the type of the main output's elements from the type hints; one on columns does not state it."""
        del element_type
        if not self.fn.takes_elements:
            return Any
        return typehints.item_type(typehints.return_type(self.fn.user_function()))

    def _check_element_type(self, element_type: Any, label: str) -> None:
        """Raise `InvalidType` if the function can take no element of this type."""
        typehints.check_first_parameter(self.fn.user_function(), element_type, label)

    def expand(self, pcoll: PCollection[InputT], /) -> ResultT:
        """Add the node."""
        pipeline = pcoll.pipeline
        label = pipeline.scope
        if self.fn.takes_elements:
            self._check_element_type(pcoll.element_type, label)
        if declaration_of(type(self.fn)).is_stateful:
            check_stateful_input(pcoll, label)
        node = nodes.ParDo(
            label=label,
            input=pcoll.ref,
            fn=self.fn,
            args=tuple(resolve(value, pcoll, label) for value in self.args),
            kwargs={name: resolve(value, pcoll, label) for name, value in self.kwargs.items()},
            tags=self._tags or (),
            dead_letters=None if self._dead_letters is None else self._dead_letters.tag,
            rescued=(Exception,) if self._dead_letters is None else self._dead_letters.errors,
            retractable=self.fn.retractable if self._retractable is None else self._retractable,
            late_data_horizon=self.fn.late_data_horizon if self._late_data_horizon is None else self._late_data_horizon,
            dropped=self._dropped,
        )
        if self._dropped is not None:
            _check_may_drop(node)
        if self.fn.takes_batches:
            check_vectorized(node)
            node = attrs.evolve(node, columns=columns_given(pcoll, node))
        known = self._output_type if self._output_type is not None else self.output_type(pcoll.element_type)
        types: dict[str, Any] = {nodes.MAIN: known}
        if self._dead_letters is not None:
            types[self._dead_letters.tag] = DeadLetter
        outputs = pipeline.add(node, strategy=pcoll.strategy, element_types=types)
        result: Any = outputs[nodes.MAIN]
        if self._tags is not None:
            result = OutputTuple({self._main: outputs[nodes.MAIN], **{tag: outputs[tag] for tag in self._tags}})
        for tag in self._further:
            how = self._dead_letters
            if how is None or tag != how.tag:
                result = result, outputs[tag]
                continue
            if how.threshold < 1:
                limit(pcoll, outputs[tag], how)
            result = how.pair(result, outputs[tag])
        applied: ResultT = result
        return applied


_FOR_PAIRS: Final[Mapping[type[DoFn], str]] = {
    MapFn: "use dm.MapTuple, whose function takes the parts",
    FlatMapFn: "use dm.FlatMapTuple, whose function takes the parts",
    FilterFn: "use one parameter for the whole pair, as in dm.Filter(lambda pair: pair[1] > 0)",
}


def checked_function(fn: Any, transform: PTransform) -> Any:
    """Return the function that a transform calls per element; raise `InvalidType` for `async` or no function at all."""
    if not callable(fn):
        raise InvalidType(
            f"{type(transform).__name__} takes a function, got {fn!r}",
            hint="pass a lambda, a def, or a DoFn to dm.ParDo",
        )
    refuse_async(fn, type(transform).__name__)
    return fn


def _check_may_drop(node: nodes.ParDo) -> None:
    """Raise `InvalidArgument` if a function has an output of dropped elements, but never drops any."""
    if not (node.is_stateful or node.side_inputs or node.retractable == "memoised"):
        raise InvalidArgument(
            f"{node.label!r} never drops an element: it has no state, no timers and no side inputs",
            hint="leave out .with_dropped_output() here, and call it on the grouping or stateful function that drops "
            "elements",
        )


def _check_defines_process(fn: DoFn) -> None:
    if isinstance(fn, CallableDoFn) or fn.takes_batches or getattr(fn.process, "__func__", None) is not DoFn.process:
        return
    kind = type(fn)
    own = {} if kind is DoFn else vars(kind)
    methods = [name for name, value in own.items() if inspect.isfunction(value) and not name.startswith("__")]
    has = f"the methods of {kind.__name__} are {methods}" if methods else f"{kind.__name__} has no method of its own"
    raise InvalidArgument(
        f"a DoFn must define `process`; {has}",
        hint="define process(self, element), which yields the outputs, or process_batch(self, batch)",
    )


def _check_retractable(how: object, name: str) -> None:
    if not (isinstance(how, bool) or how == "memoised"):
        raise InvalidArgument(
            f"{name} must be True, False or 'memoised', got {how!r}",
            hint="'memoised' keeps the outputs of a nondeterministic function",
        )


def _check_arguments(fn: DoFn, user: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    specs = declaration_of(type(fn)).specs
    check_declared(fn, user)
    metadata = metadata_of(
        user, given=tuple(kwargs), positional=len(args), specs=specs, for_pairs=_FOR_PAIRS.get(type(fn))
    )
    check_callbacks(fn, tuple(kwargs))
    try:
        signature = inspect.signature(user)
    except (TypeError, ValueError):  # builtins such as `int` may have no signature
        return
    named_specs = [name for name, what in requested_by(user, specs).items() if what in specs]
    try:
        signature.bind(None, *args, **kwargs, **dict.fromkeys([*metadata, *named_specs]))
    except TypeError as error:
        name = getattr(user, "__name__", repr(user))
        raise InvalidArgument(
            f"{name}{signature} cannot be called with {shown_arguments('an element', args, kwargs)}: {error}",
            hint="its first parameter receives the element; the others receive the transform's other arguments",
        ) from error
