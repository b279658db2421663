"""DoFns: user code that turns an element into any number of outputs, and the metadata that it can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.parameters import ELEMENT, SIDE_INPUT, Held, Told
from dataflow_model.plan.spellings import with_spellings
from dataflow_model.plan.typevars import ElementT_co, InputT_contra, OutputT_co
from dataflow_model.time import MAX_TIMESTAMP, EventTime, event_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.time import Duration, InstantLike

__all__ = [
    "CallableDoFn",
    "DeadLetter",
    "DoFn",
    "FilterFn",
    "FlatMapFn",
    "MapFn",
    "TaggedOutput",
    "TimestampedValue",
]


@attrs.frozen
class TaggedOutput:
    """An output for the collection called `tag` instead of the main one.

    Example:
        >>> TaggedOutput("cancelled", ("UA", 1))
        TaggedOutput(tag='cancelled', value=('UA', 1))
    """

    tag: str
    value: Any


def element_time(value: InstantLike) -> EventTime:
    """Return `value` as the event time of an element.

    Raises:
        InvalidArgument: for +∞, which no element has: it would end every window.
        InvalidType: for what is no event time.
    """
    time = value if type(value) is EventTime else event_time(value)
    if time == MAX_TIMESTAMP:
        raise InvalidArgument(
            f"an element cannot have the event time +∞, got {value!r}",
            hint="use the time at which it happened; the last possible one is dm.EventTime(2**63 - 2)",
        )
    return time


@attrs.frozen
class TimestampedValue(Generic[ElementT_co]):
    """An output with an event time of its own; it may not lie before the input's without a declared bound.

    Example:
        >>> TimestampedValue("take-off", "2013-01-01T05:00-05:00")
        TimestampedValue(value='take-off', event_time=EventTime(2013-01-01T10:00:00Z))
    """

    value: ElementT_co
    event_time: EventTime = attrs.field(converter=element_time)


@attrs.frozen
class DeadLetter:
    """An element that could not be processed, and the reason.

    Attributes:
        element: the element as it came in.
        label: the full label path of the transform.
        reason: the exception as one line.
        traceback: the user's part of the traceback.
    """

    element: Any
    label: str
    reason: str
    traceback: str


@with_spellings
class DoFn(Generic[InputT_contra, OutputT_co]):
    """A function over elements with a life cycle; subclass it and define `process`.

    `DoFn[str, int]` takes texts and gives numbers, for type checkers; the parameters may be left out.

    `process(self, element, …)` returns an iterable of outputs (or is a generator, or returns `None`): plain values,
    `TaggedOutput`s, `TimestampedValue`s. Further parameters are filled by name: `timestamp` (`EventTime`), `window`,
    `pane` (`PaneInfo`), `trigger` (the `repr` of the one that fired the pane, or `None`), `production_time`
    (`ProcessingTime`: when the element was produced), `watermark_percentile` (the lowest percentile of the watermark
    that had not passed its event time then: 1, 5, 10, 25, 50, 75, 90, 95, 99 or 100; `None` if it was late),
    `is_retraction` (whether it takes an earlier one back), `key` (of a pair), `record_id` (where the record stands in
    its source: a tuple that no other has; not behind a grouping); any other name is one of the arguments given to
    `ParDo`.
    A parameter of another name is filled in by its default: `at=DoFn.TimestampParam`, and likewise `WindowParam`,
    `PaneInfoParam`, `KeyParam`, `StateParam(spec)`, `TimerParam(spec)`, and in the function of a timer
    `DynamicTimerTagParam`.
    `setup` runs once per worker before anything else, `start_bundle` / `finish_bundle` around each bundle (the latter
    may return outputs as `TimestampedValue`s or none), `teardown` when the worker lets go.

    Attributes:
        late_data_horizon: how far before its input's an output's event time may lie; `None` means not at all.
        retractable: whether it may run on retractions: it then gives for an element that is taken back the outputs
            that it gave before, which are taken back too. So it must be deterministic. `False` has it refused there;
            `"memoised"` is for one that is not deterministic: it does not run on retractions, its outputs are kept by
            input value until the window expires, and just those are taken back.
        watermark_percentiles: which percentiles below 100 of its input's watermark it reads; see `WatermarkSpec`.
        requires_time_sorted_input: whether `process` wants each key's elements in event-time order. They then wait
            until the watermark has passed them by the allowed lateness; what comes later is dropped and counted.

    A class with `StateSpec`s and `TimerSpec`s as attributes is stateful: it takes pairs, and its functions name states
    and timers as parameters; see `TimerSpec`, `on_timer` and `on_window_expiry(self, …)`, which runs just before a
    window's state is gone.

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
    TimestampParam: ClassVar[Any] = Told("timestamp")
    WindowParam: ClassVar[Any] = Told("window")
    PaneInfoParam: ClassVar[Any] = Told("pane")
    KeyParam: ClassVar[Any] = Told("key")
    DynamicTimerTagParam: ClassVar[Any] = Told("timer_tag")
    SideInputParam: ClassVar[Any] = SIDE_INPUT

    late_data_horizon: Duration | None = None
    retractable: ClassVar[bool | Literal["memoised"]] = True
    watermark_percentiles: tuple[float, ...] = ()
    requires_time_sorted_input: ClassVar[bool] = False

    def setup(self) -> None:
        """Acquire expensive resources, such as a connection or a model, once per worker."""

    def start_bundle(self) -> None:
        """Begin a bundle."""

    def process(
        self, element: InputT_contra, *args: Any, **kwargs: Any
    ) -> Iterable[OutputT_co | TaggedOutput | TimestampedValue] | None:
        """Turn one element into outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define `process(self, element, …)`")

    def finish_bundle(self) -> Iterable[TimestampedValue] | None:
        """End a bundle."""

    def teardown(self) -> None:
        """Release what `setup` acquired."""

    @staticmethod
    def StateParam(spec: Any) -> Any:  # noqa: N802 - Beam's name
        """Return the default that asks for the state of a spec, which the class holds as an attribute."""
        return Held(spec)

    @staticmethod
    def TimerParam(spec: Any) -> Any:  # noqa: N802 - Beam's name
        """Return the default that asks for the timer of a spec, which the class holds as an attribute."""
        return Held(spec)

    def user_function(self) -> Callable[..., Any]:
        """Return the function whose parameters and source lines are the user's."""
        return self.process

    def title(self) -> str:
        """Return what explanations call it."""
        return type(self).__name__


@attrs.frozen(eq=False)
class CallableDoFn(DoFn):
    """A plain function as a DoFn; the engine runs its three kinds as comprehensions."""

    fn: Callable[..., Any]

    def user_function(self) -> Callable[..., Any]:
        """Return the wrapped function."""
        return self.fn


class MapFn(CallableDoFn):
    """One output for each element."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Yield the function's result."""
        yield self.fn(element, *args, **kwargs)


class TimestampFn(MapFn):
    """The element itself with another event time, as a `TimestampedValue`."""


class FlatMapFn(CallableDoFn):
    """Any number of outputs for each element."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Return the function's results."""
        result: Iterable[Any] | None = self.fn(element, *args, **kwargs)
        return result


class FilterFn(CallableDoFn):
    """The element itself if the function returns true."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        """Yield the element if the function returns true."""
        if self.fn(element, *args, **kwargs):
            yield element
