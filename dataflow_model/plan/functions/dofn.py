"""DoFns: user code that turns an element into any number of outputs, and the metadata that it can request."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.parameters import ELEMENT, SIDE_INPUT, MetadataParam, SpecParam
from dataflow_model.plan.functions.typevars import ElementT_co, InputT_contra, OutputT_co
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import MAX_TIMESTAMP, EventTime, event_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dataflow_model.plan.functions.concurrent_calls import Call
    from dataflow_model.time import Duration, InstantLike


@attrs.frozen
class TaggedOutput:
    """An output for the collection with the given tag instead of the main one.

    Example:
        >>> TaggedOutput("cancelled", ("UA", 1))
        TaggedOutput(tag='cancelled', value=('UA', 1))
    """

    tag: str
    value: Any


def element_time(value: InstantLike) -> EventTime:
    """Return `value` as the event time of an element.

    Raises:
        InvalidArgument: for +∞, which no element can have, since it would end every window.
        InvalidType: for a value that is not an event time.
    """
    time = event_time(value)
    if time == MAX_TIMESTAMP:
        raise InvalidArgument(
            f"an element cannot have the event time +∞, got {value!r}",
            hint="use the time at which it happened; the last possible one is dm.EventTime(2**63 - 2)",
        )
    return time


@attrs.frozen
class TimestampedValue(Generic[ElementT_co]):
    """An output with its own event time. It may be earlier than the input's only within a declared bound.

    Example:
        >>> TimestampedValue("take-off", "2013-01-01T05:00-05:00")
        TimestampedValue(value='take-off', event_time=EventTime(2013-01-01T10:00:00Z))
    """

    value: ElementT_co
    event_time: EventTime = attrs.field(converter=element_time)

    def __attrs_post_init__(self) -> None:
        """Reject a `TaggedOutput` as the value; the tag goes around the timestamp.

        Raises:
            InvalidType: for a `TaggedOutput`, which would be a value of the main output.
        """
        if isinstance(self.value, TaggedOutput):
            raise InvalidType(
                f"the value of a TimestampedValue cannot be the {self.value!r}",
                hint=f"write TaggedOutput({self.value.tag!r}, TimestampedValue(value, event_time))",
            )


@attrs.frozen
class Retract(Generic[ElementT_co]):
    """An output that takes back an earlier output of a stateful `DoFn` whose class declares `retracts = True`.

    What is behind the function then computes its results as if the value had never been emitted: groupings correct
    theirs, tables delete rows, and other sinks mark the retraction.

    The value must be equal to the one that was emitted, for the same key and window. Give it the same event time too,
    as `TimestampedValue(Retract(value), event_time)`, if windows are assigned behind the function, or if a function
    there asks for `timestamp` or is memoised. Like any output, a retraction may be earlier than the element or timer
    that causes it only if the watermark waits for it: see `DoFn.late_data_horizon` and `WatermarkHoldSpec`. Emit a
    retraction before the value that replaces it; a grouping behind the function then takes both as one update, and a
    table keeps the new row.

    What a retraction of a value does that was never emitted is up to what is behind the function: a sum, for example,
    subtracts it.

    Raises:
        InvalidType: for a `TimestampedValue`, a `TaggedOutput` or a `Retract`, which go around the retraction.

    Source: the retractions of the Dataflow Model paper, section 2.3; Kafka Streams' `leftJoin`, which emits tombstones.

    Example:
        >>> import dataflow_model as dm
        >>> class Newest(dm.DoFn):
        ...     retracts = True
        ...     newest = dm.ValueStateSpec[int | None](default=None)
        ...
        ...     def process(self, pair, newest):
        ...         if newest.read() is not None:
        ...             yield dm.Retract((pair[0], newest.read()))
        ...         newest.write(pair[1])
        ...         yield pair
        >>> with dm.Pipeline() as p:
        ...     ratings = p | dm.Create([("Ann", 3), ("Bob", 4), ("Ann", 5)])
        ...     _ = ratings | dm.ParDo(Newest()) | dm.Values() | dm.Sum.globally() | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [9]
    """

    value: ElementT_co

    def __attrs_post_init__(self) -> None:
        """Reject the other wrappers as the value, which go around a retraction.

        Raises:
            InvalidType: for a `TimestampedValue`, a `TaggedOutput` or a `Retract`.
        """
        if isinstance(self.value, Retract | TaggedOutput | TimestampedValue):
            raise InvalidType(
                f"the value of a Retract cannot be the {self.value!r}",
                hint="write the others around it, as in TimestampedValue(Retract(value), event_time) or "
                "TaggedOutput(tag, Retract(value)); a retraction cannot be taken back, so emit the value again",
            )


def _on_one_line(text: str) -> str:
    return " ".join(filter(None, map(str.strip, text.splitlines())))


@attrs.frozen
class DeadLetter:
    """An element that could not be processed, and the reason.

    Attributes:
        element: the element as the transform received it.
        label: the full label of the transform.
        reason: the exception, on one line.
        traceback: the part of the traceback in the user's code.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     numbers, failed = p | dm.Create(["1", "one"]) | dm.Map(int).with_exception_handling()
        ...     _ = failed | "failed" >> dm.io.Collect()
        >>> [(record.value.element, record.value.reason) for record in p.result.collected("failed")]
        [('one', "ValueError: invalid literal for int() with base 10: 'one'")]
    """

    element: Any
    label: str
    reason: str = attrs.field(converter=_on_one_line)
    traceback: str


@with_spellings
class DoFn(Generic[InputT_contra, OutputT_co]):
    """A function over elements with a life cycle; subclass it and define `process`.

    For type checkers, a `DoFn[str, int]` takes strings and emits integers; the type parameters are optional.

    `process(self, element, …)` returns an iterable of outputs, is a generator, or returns `None`. An output is a plain
    value, a `TaggedOutput` or a `TimestampedValue`, and in a class with `retracts` also a `Retract`. Further parameters
    are filled by name:

    * `timestamp`: the element's `EventTime`;
    * `window`: the element's window;
    * `pane`: the `PaneInfo` of the pane in which the element arrived;
    * `trigger`: the `repr` of the trigger that fired that pane, or `None`;
    * `production_time`: the `ProcessingTime` at which the element was produced;
    * `watermark_percentile`: the lowest percentile of the watermark that had not passed the event time at that moment
      (1, 5, 10, 25, 50, 75, 90, 95, 99 or 100); `None` if the element was late;
    * `is_retraction`: whether the element retracts an earlier one;
    * `key`: the key of a pair;
    * `record_id`: the position of the record in its source, a tuple that is unique to it; not available after a
      grouping;
    * any other name: an argument given to `ParDo`.

    A parameter with another name can request the same value by its default, as in `at=DoFn.TimestampParam`, and
    likewise `WindowParam`, `PaneInfoParam`, `KeyParam`, `StateParam(spec)`, `TimerParam(spec)` and, in the function of
    a timer, `DynamicTimerTagParam`.

    `setup` runs once per worker, or once per task of a batch job on Spark, before anything else. `start_bundle` and
    `finish_bundle` run before and after each bundle, and `teardown` when the worker or the task has finished.
    `finish_bundle` may return outputs, as `process` does. Each transform of each run works on a copy of the object,
    whose attributes are at first as they were when the run started.

    Attributes:
        late_data_horizon: how far an output's event time may be before its input's; `None` means not at all.
        retractable: whether the DoFn may run on retractions. `True`: for a retracted element it emits the same outputs
            as before, which are retracted too, so it must be deterministic. `False`: a plan in which it would get
            retractions is rejected. `"memoised"`, for functions that are not deterministic: it does not run on
            retractions; its outputs are kept by input value until the window expires, and exactly those are retracted.
        watermark_percentiles: the percentiles below 100 of its input's watermark that it reads; see `WatermarkSpec`.
        requires_time_sorted_input: whether `process` gets each key's elements in event-time order. An element is then
            buffered until the watermark has passed it by the allowed lateness; elements that arrive later are dropped
            and counted.
        retracts: whether a stateful DoFn takes back what it has emitted; see `Retract`. A plan in which a retraction
            would reach a transform that cannot apply it is then rejected before it runs. Its outputs belong to no pane.

    A class may define `process_batch` instead of `process`, or both; see `process_batch`.

    A class with `StateSpec`s or `TimerSpec`s as attributes is stateful: it takes pairs, and its functions name states
    and timers as parameters; see `TimerSpec`, `on_timer` and `on_window_expiry(self, …)`, which runs just before a
    window's state is cleared.

    Source: Beam's `DoFn`; the papers' BOUNDED_PAST is `late_data_horizon`.

    Example:
        >>> import dataflow_model as dm
        >>> class Timed(dm.DoFn):
        ...     def process(self, element, at=dm.DoFn.TimestampParam, window=dm.DoFn.WindowParam):
        ...         yield element, at, window
        >>> with dm.Pipeline() as p:
        ...     letters = p | dm.Create([dm.TimestampedValue("a", 5)])
        ...     _ = letters | dm.ParDo(Timed()) | dm.io.Collect()
        >>> p.result.collected("Collect")[0].value
        ('a', EventTime(1970-01-01T00:00:05Z), GlobalWindow())
    """

    ElementParam: ClassVar[Any] = ELEMENT
    TimestampParam: ClassVar[Any] = MetadataParam("timestamp")
    WindowParam: ClassVar[Any] = MetadataParam("window")
    PaneInfoParam: ClassVar[Any] = MetadataParam("pane")
    KeyParam: ClassVar[Any] = MetadataParam("key")
    DynamicTimerTagParam: ClassVar[Any] = MetadataParam("timer_tag")
    SideInputParam: ClassVar[Any] = SIDE_INPUT

    late_data_horizon: Duration | None = None
    retractable: ClassVar[bool | Literal["memoised"]] = True
    watermark_percentiles: tuple[float, ...] = ()
    requires_time_sorted_input: ClassVar[bool] = False
    retracts: ClassVar[bool] = False

    def setup(self) -> None:
        """Acquire expensive resources, such as a connection or a model, once per worker."""

    def start_bundle(self) -> None:
        """Begin a bundle."""

    def process(
        self, element: InputT_contra, *args: Any, **kwargs: Any
    ) -> Iterable[OutputT_co | TaggedOutput | TimestampedValue | Retract] | None:
        """Return the outputs for one element."""
        raise NotImplementedError(f"{type(self).__name__} must define `process(self, element, …)`")

    def process_batch(self, batch: pa.RecordBatch, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Return a batch with one output for each element of a batch of elements: the function on columns.

        It receives a `pyarrow.RecordBatch` with a row for each element, and yields one `RecordBatch` or `Table`, whose
        rows are the outputs, or one Arrow or NumPy array, whose values are the outputs. Output row `i` belongs to row
        `i` of the batch, and has its event time, window and pane; if row `i` is a retraction, so is the output. A batch
        is never empty. The runner decides where batches begin and end, so an output must depend only on its own row;
        `testing.check_vectorized` checks this.

        The columns are those that `WriteParquet` would write: the fields of a record; `key` and `value` (or its
        fields) of a pair; `value` otherwise. Their types come from the type of the elements, so that they are the same
        in every batch: `int` is `int64`, `float` is `float64`, instants are in UTC. Rows that a source reads stay in
        columns, and so do rows that one such function passes to another.

        If a class also defines `process`, it is called for elements that are not in columns. Both must return the same
        outputs.

        Further parameters are arguments given to `ParDo`. Metadata, side inputs, state and timers, tagged outputs and
        memoised outputs need a function that sees the elements one by one, and are rejected when the pipeline is
        built.

        Source: Beam's `process_batch`, which chooses the type of the batch by the type hint of the parameter.

        Example:
            >>> import dataflow_model as dm
            >>> import pyarrow.compute as pc
            >>> class Hours(dm.DoFn):
            ...     def process_batch(self, batch):
            ...         yield pc.divide(batch["value"], 60.0)
            >>> with dm.Pipeline() as p:
            ...     _ = p | dm.Create([90, 30]) | dm.ParDo(Hours()) | dm.io.Collect()
            >>> [record.value for record in p.result.collected("Collect")]
            [1.5, 0.5]
        """
        raise NotImplementedError(f"{type(self).__name__} must define `process_batch(self, batch, …)`")

    def finish_bundle(self) -> Iterable[OutputT_co | TaggedOutput | TimestampedValue] | None:
        """End a bundle, and return outputs if there are any.

        Outputs get the event time and the windows of the bundle's last element; a `TimestampedValue` has its own event
        time in the same windows.
        """

    def teardown(self) -> None:
        """Release what `setup` acquired."""

    @staticmethod
    def StateParam(spec: Any) -> Any:  # noqa: N802 - Beam's name
        """Return the default value that requests the state of a spec, which must be an attribute of the class."""
        return SpecParam(spec)

    @staticmethod
    def TimerParam(spec: Any) -> Any:  # noqa: N802 - Beam's name
        """Return the default value that requests the timer of a spec, which must be an attribute of the class."""
        return SpecParam(spec)

    def user_function(self) -> Callable[..., Any]:
        """Return the user's function, for its parameters and source lines."""
        return self.process if self.takes_elements else self.process_batch

    @property
    def takes_elements(self) -> bool:
        """Whether it has a function for one element; false only if it has nothing but a function on columns."""
        return type(self).process is not DoFn.process or not self.takes_batches

    @property
    def takes_batches(self) -> bool:
        """Whether it has a function on columns."""
        return type(self).process_batch is not DoFn.process_batch

    def title(self) -> str:
        """Return the DoFn's name in explanations."""
        return type(self).__name__


@attrs.frozen(eq=False)
class CallableDoFn(DoFn):
    """A plain function as a DoFn; the engine runs `MapFn`, `FlatMapFn` and `FilterFn` as comprehensions."""

    fn: Callable[..., Any]

    def user_function(self) -> Callable[..., Any]:
        """Return the wrapped function."""
        return self.fn


class MapFn(CallableDoFn):
    """One output for each element."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Return the function's result in a list; in a generator, `StopIteration` would become another error."""
        return [self.fn(element, *args, **kwargs)]


@attrs.frozen(eq=False)
class AsyncMapFn(CallableDoFn):
    """One output for each element, from a function that waits for a service; the engine awaits many calls at once.

    Attributes:
        fn: the function, `async` or plain.
        concurrency: how many calls may be under way.
        timeout: how long an attempt may take; `None` for any time.
        retries: how many further attempts are made.
        retry_on: the errors after which they are.
        rate: how many attempts may begin in a second; `None` for any number.
        cache: how long an answer is kept for equal elements; `None` for not at all.
    """

    concurrency: int
    timeout: Duration | None
    retries: int
    retry_on: tuple[type[Exception], ...]
    rate: float | None
    cache: Duration | None
    retractable: ClassVar[bool | Literal["memoised"]] = "memoised"

    def setup(self) -> None:
        """Start the thread that makes the calls."""
        from dataflow_model.plan.functions import concurrent_calls  # asyncio takes a while to import

        concurrent_calls.start(self)

    def begin(self, element: Any, *args: Any, **kwargs: Any) -> Call:
        """Begin a call, whose result is waited for later."""
        from dataflow_model.plan.functions import concurrent_calls

        return concurrent_calls.calls_of(self).begin((element, *args), kwargs)

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Return the answer in a list."""
        return [self.begin(element, *args, **kwargs).result()]

    def teardown(self) -> None:
        """Cancel what is under way, and end the thread."""
        from dataflow_model.plan.functions import concurrent_calls

        concurrent_calls.stop(self)


class TimestampFn(MapFn):
    """The element itself with another event time, as a `TimestampedValue`."""


class FlatMapFn(CallableDoFn):
    """Any number of outputs for each element."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Return the function's results."""
        result: Iterable[Any] | None = self.fn(element, *args, **kwargs)
        return result


@attrs.frozen(eq=False)
class UnlessRetractedFn(FlatMapFn):
    """The outputs of one function or, where panes may be retracted, those of another.

    Attributes:
        where_retracted: the function for the panes of a grouping that retracts them, or whose input may be retracted.
    """

    where_retracted: Callable[..., Any]

    def title(self) -> str:
        """Return what explanations call it."""
        return "FlatMapFn"


class ValuesFn(DoFn):
    """The element itself, unless it is a retraction."""

    def process(self, element: Any, is_retraction: bool) -> Iterable[Any]:  # noqa: FBT001 - as the engine fills it
        """Yield the element if it is a value."""
        if not is_retraction:
            yield element


class FilterFn(CallableDoFn):
    """The element itself if the function returns true."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Return the element, in a list, if the function returns true."""
        return [element] if self.fn(element, *args, **kwargs) else []


class BoundedLatenessFn(DoFn):
    """A stateful `DoFn` whose input may be late by a bounded time only: later elements are dropped and counted.

    Attributes:
        lateness: how far the event time of an element may be behind the watermark, in microseconds.
    """

    lateness: int

    @abc.abstractmethod
    def definition(self) -> str:
        """Return what else its state depends on: a checkpoint of a function with another definition is rejected."""


class SplitFn(DoFn):
    """The pairs of a bundle with keys that are pairs, of the key and the number of one of its parts."""

    @abc.abstractmethod
    def parts(
        self,
        pairs: Sequence[Any],
        times: Sequence[int],
        record_hashes: Callable[[], NDArray[np.int64]],
        coded_keys: Callable[[], tuple[Sequence[Any], NDArray[np.int64]]] | None,
    ) -> Iterable[int] | NDArray[np.int64]:
        """Return the part of each pair: an iterable raises an exception for a pair where the next part would be.

        Args:
            pairs: the pairs.
            times: their event times, in microseconds.
            record_hashes: returns a hash in `[0, 2**32)` of each pair's record id, if they have ids.
            coded_keys: returns the different keys, and the index among them of each pair's key; `None` if telling the
                keys apart takes longer than looking at each pair.
        """


class VectorizedMapFn(CallableDoFn):
    """One output for each row of a batch."""

    def process_batch(self, batch: pa.RecordBatch, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Yield the function's result."""
        yield self.fn(batch, *args, **kwargs)

    def title(self) -> str:
        """Return what explanations call it."""
        return "MapFn"


class VectorizedFilterFn(CallableDoFn):
    """The elements themselves for whose rows the function says true."""

    def process_batch(self, batch: pa.RecordBatch, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Yield the function's result: which rows stay."""
        yield self.fn(batch, *args, **kwargs)

    def title(self) -> str:
        """Return what explanations call it."""
        return "FilterFn"
