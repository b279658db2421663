"""The implementation of a computation: its streams are merged by key, and a stateful `DoFn` calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.plan.functions.state import TimerSpec, ValueStateSpec, WatermarkHoldSpec, WatermarkSpec, on_timer
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.reshaping import Flatten
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.topologies.computations import Computation, ComputationState, Scope
from dataflow_model.transforms.topologies.stream_records import Coder, FiredTimer, StreamRecord
from dataflow_model.triggers import TimeDomain
from dataflow_model.triggers.percentiles import check_named_percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from dataflow_model.plan.functions.state_handles import Timer, ValueState, Watermark, WatermarkHold
    from dataflow_model.time import EventTime, ProcessingTime
    from dataflow_model.transforms.pipelines.pcollection import PCollection

KeyExtractor: TypeAlias = "Callable[[Any], Any] | None"
"""A function from a value to its key; `None` keeps the key of the produced record."""


class ComputationFn(DoFn):
    """Calls a computation for each key; the elements are `(key, (stream, value))`.

    Args:
        name: the name of the computation, for messages.
        computation: the computation; each worker runs a copy.
        streams: the streams on which it may produce records.
    """

    state = ValueStateSpec[bytes | None]()
    state_timestamp = WatermarkHoldSpec()
    watermark = WatermarkSpec()
    low_watermark_timer = TimerSpec(TimeDomain.EVENT_TIME)
    clock_timer = TimerSpec(TimeDomain.PROCESSING_TIME)

    def __init__(self, name: str, computation: Computation, streams: tuple[str, ...]) -> None:
        self.name = name
        self.computation = computation
        self.streams = streams
        self.watermark_percentiles = tuple(computation.percentiles)

    def setup(self) -> None:
        """Set the computation up."""
        self.computation.setup()

    def teardown(self) -> None:
        """Tear the computation down."""
        self.computation.teardown()

    def title(self) -> str:
        """Name the user's class."""
        return f"computation {type(self.computation).__name__}"

    def process(
        self,
        element: Any,
        *,
        timestamp: EventTime,
        state: ValueState[bytes | None],
        state_timestamp: WatermarkHold,
        watermark: Watermark,
        low_watermark_timer: Timer,
        clock_timer: Timer,
    ) -> Iterable[Any]:
        """Call the computation with a record."""
        key, (stream, value) = element
        record = StreamRecord(key, value, timestamp, stream, timestamp < watermark.read())
        scope = self._scope(key, timestamp, state, state_timestamp, watermark, low_watermark_timer, clock_timer)
        return self._run(scope, lambda: self.computation.process_record(record))

    @on_timer(low_watermark_timer)
    def at_low_watermark(  # noqa: PLR0913 - what the engine fills by name
        self,
        *,
        key: Any,
        timer_tag: str,
        fire_timestamp: EventTime,
        timestamp: EventTime,
        state: ValueState[bytes | None],
        state_timestamp: WatermarkHold,
        watermark: Watermark,
        low_watermark_timer: Timer,
        clock_timer: Timer,
    ) -> Iterable[Any]:
        """Call the computation with a timer that the watermark has reached."""
        timer = FiredTimer(key, timer_tag, fire_timestamp, TimeDomain.EVENT_TIME, timestamp)
        scope = self._scope(key, timestamp, state, state_timestamp, watermark, low_watermark_timer, clock_timer)
        return self._run(scope, lambda: self.computation.process_timer(timer))

    @on_timer(clock_timer)
    def at_clock(  # noqa: PLR0913 - as above
        self,
        *,
        key: Any,
        timer_tag: str,
        fire_timestamp: ProcessingTime,
        timestamp: EventTime,
        state: ValueState[bytes | None],
        state_timestamp: WatermarkHold,
        watermark: Watermark,
        low_watermark_timer: Timer,
        clock_timer: Timer,
    ) -> Iterable[Any]:
        """Call the computation with a timer that the clock has passed."""
        timer = FiredTimer(key, timer_tag, fire_timestamp, TimeDomain.PROCESSING_TIME, timestamp)
        scope = self._scope(key, timestamp, state, state_timestamp, watermark, low_watermark_timer, clock_timer)
        return self._run(scope, lambda: self.computation.process_timer(timer))

    def _scope(
        self,
        key: Any,
        timestamp: EventTime,
        state: ValueState[bytes | None],
        hold: WatermarkHold,
        watermark: Watermark,
        low_watermark_timer: Timer,
        clock_timer: Timer,
    ) -> Scope:
        computation_state = ComputationState(state, hold, self.computation.coder, type(self.computation).__name__)
        timers = {TimeDomain.EVENT_TIME: low_watermark_timer, TimeDomain.PROCESSING_TIME: clock_timer}
        return Scope(self.name, key, computation_state, timestamp, hold.read(), watermark, timers, self.streams)

    def _run(self, scope: Scope, callback: Callable[[], Any]) -> Iterable[Any]:
        object.__setattr__(self.computation, "_scope", scope)  # also where the user's class is frozen
        try:
            returned = callback()
        finally:
            object.__setattr__(self.computation, "_scope", None)
        if returned is not None:
            raise InvalidType(
                f"a callback of {self.name!r} must return None, got {returned!r}",
                hint="emit records with self.produce(dm.StreamRecord(key, value, timestamp), stream)",
            )
        return scope.produced


class ByKey(PTransform):
    """Merges the streams of a computation into elements `(key, (stream, value))`."""

    input_kind = "collections"

    def __init__(self, subscribes: Mapping[str, KeyExtractor], keyed: Collection[str]) -> None:
        self._subscribes = subscribes
        self._keyed = keyed

    def expand(self, pcoll: Mapping[str, PCollection], /) -> PCollection:
        """Key each stream, and flatten them."""
        pairs = []
        for stream, collection in pcoll.items():
            made = _keying(stream, self._subscribes[stream], has_key=stream in self._keyed)
            pairs.append(collection | f"by {stream}" >> Map(made).with_output_types(tuple[Any, tuple[str, Any]]))
        together: PCollection = tuple(pairs) | "together" >> Flatten()  # of one too, so that others may be added later
        return together


def _keying(stream: str, extractor: KeyExtractor, *, has_key: bool) -> Callable[[Any], Any]:
    """Return a function from an element to `(key, (stream, value))`; streams of computations consist of pairs."""
    if extractor is None:
        return lambda pair: (pair[0], (stream, pair[1]))
    if has_key:
        return lambda pair: (extractor(pair[1]), (stream, pair[1]))
    return lambda value: (extractor(value), (stream, value))


def check_computation(computation: object) -> Computation:
    """Return the argument after checking that it can run as a computation.

    Raises:
        InvalidType: if it is not an instance of `Computation`, or its coder is not a coder.
        InvalidArgument: if it does not define `process_record`, or its percentiles are out of range.

    Example:
        >>> check_computation(Computation)
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: expected an instance of Computation, got the class Computation
        Hint: write Computation(…)
    """
    if isinstance(computation, type) and issubclass(computation, Computation):
        name = computation.__name__
        raise InvalidType(f"expected an instance of Computation, got the class {name}", hint=f"write {name}(…)")
    if not isinstance(computation, Computation):
        raise InvalidType(
            f"expected a Computation, got {computation!r}", hint="define a subclass: class Mine(dm.Computation): …"
        )
    name = type(computation).__name__
    if type(computation).process_record is Computation.process_record:
        raise InvalidArgument(
            f"{name} must have process_record", hint="define process_record(self, record: dm.StreamRecord)"
        )
    for method in (computation.process_record, computation.process_timer):
        refuse_async(method, name)
    if computation.coder is not None and (
        isinstance(computation.coder, type) or not isinstance(computation.coder, Coder)
    ):
        raise InvalidType(
            f"`coder` of {name} must have encode and decode, got {computation.coder!r}",
            hint="set coder = dm.PickleCoder()",
        )
    check_named_percentiles(computation.percentiles, f"`percentiles` of {name}")
    return computation
