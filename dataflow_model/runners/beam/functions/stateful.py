"""Stages whose first function has state or timers, as stateful functions of the engine."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from apache_beam.transforms import userstate

from dataflow_model.overriding import override
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.plan.functions.state import MapStateSpec, TimerSpec, on_timer
from dataflow_model.runners.beam.functions.stages import SIDE, Hosted, OfStage, fixed, in_stage, tagged
from dataflow_model.runners.beam.functions.states import Handles, States, name_and_tag
from dataflow_model.runners.beam.functions.times import NO_BEAM_PANE, beam_timestamp
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.functions.state_handles import MapState, Timer
    from dataflow_model.runners.beam.functions.harness import StageSpec
    from dataflow_model.runners.beam.functions.stages import StageRun
    from dataflow_model.time import EventTime, ProcessingTime
    from dataflow_model.values import PaneInfo, Window


class StatefulStageFn(OfStage, DoFn):
    """A stage whose first function has state or timers; it reads pairs of an encoded key and a value.

    Args:
        spec: the stage.
        run: the run.
        lateness: the allowed lateness of its input, in microseconds.
        needs_clock: whether its timers in processing time are more than a bound on how long it waits.

    Attributes:
        with_elements: the names of the arguments for side inputs whose values come with the elements.
    """

    pieces = MapStateSpec[str, Any]()
    event_timer = TimerSpec(TimeDomain.EVENT_TIME)
    clock_timer = TimerSpec(TimeDomain.PROCESSING_TIME)

    def __init__(self, spec: StageSpec, run: StageRun, lateness: int, *, needs_clock: bool) -> None:
        super().__init__(spec, run)
        self.lateness, self.needs_clock = lateness, needs_clock
        self.with_elements: tuple[str, ...] = ()
        self.states: States | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to other processes."""
        return super().__getstate__() | {"states": None}

    def with_sides_in_elements(self, names: tuple[str, ...]) -> StatefulStageFn:
        """Return the stage as one of pairs with a key, and a value with the values of side inputs.

        Args:
            names: the names of their arguments.
        """
        stage = copy.copy(self)
        stage.with_elements = names
        return stage

    @override
    def start_bundle(self) -> None:
        with in_stage(self.spec.label):
            if self.hosted is None:
                self.states = States()
                states = self.states
                self.hosted = Hosted(self.spec, self.of_run, self.uncommitted, lambda: states)
            self.hosted.operations.begin()

    def process(  # type: ignore[override] # the parameters are filled by name
        self,
        pair: tuple[bytes, Any],
        timestamp: EventTime,
        window: Window,
        pane: PaneInfo,
        pieces: MapState[str, Any],
        event_timer: Timer,
        clock_timer: Timer,
        **sides: Any,
    ) -> Iterable[Any]:
        """Process an element."""
        hosted = self._enter(window, pieces, event_timer, clock_timer)
        reader = hosted.operations.sides
        encoded, value = pair
        if self.with_elements:
            value, values = value
            sides.update(zip(self.with_elements, values, strict=True))
        for number, side in enumerate(self.spec.sides):
            reader.look_ups[side] = fixed(sides[f"{SIDE}{number}"])
        with in_stage(self.spec.label):
            element = hosted.element((hosted.decode_key(encoded), value), int(timestamp), (window,), pane)
            hosted.operations.receive(element)
        return tagged(hosted.outputs)

    @on_timer(event_timer)
    def at_event_time(
        self,
        key: bytes,
        window: Window,
        timestamp: EventTime,
        fire_timestamp: EventTime,
        timer_tag: str,
        pieces: MapState[str, Any],
        event_timer: Timer,
        clock_timer: Timer,
    ) -> Iterable[Any]:
        """Run the function of a timer in event time."""
        self._enter(window, pieces, event_timer, clock_timer)
        return self._fire(key, window, timestamp, fire_timestamp, timer_tag)

    @on_timer(clock_timer)
    def at_processing_time(
        self,
        key: bytes,
        window: Window,
        timestamp: EventTime,
        fire_timestamp: ProcessingTime,
        timer_tag: str,
        pieces: MapState[str, Any],
        event_timer: Timer,
        clock_timer: Timer,
    ) -> Iterable[Any]:
        """Run the function of a timer in processing time."""
        self._enter(window, pieces, event_timer, clock_timer)
        return self._fire(key, window, timestamp, fire_timestamp, timer_tag)

    def finish_bundle(self) -> Iterable[Any]:
        """End a bundle, and return what the functions put out at its end."""
        hosted = self.opened()
        with in_stage(self.spec.label):
            hosted.operations.finish()
        return tagged(hosted.outputs)

    def teardown(self) -> None:
        """Tear down the functions and the combiners of their state."""
        super().teardown()
        if self.states is not None:
            self.states.tear_down()
            self.states = None

    def _enter(self, window: Window, pieces: MapState[str, Any], event_timer: Timer, clock_timer: Timer) -> Hosted:
        assert self.states is not None  # noqa: S101 - the bundle has begun
        self.states.handles = Handles(pieces, event_timer, clock_timer, int(window.end) + self.lateness)
        return self.opened()

    def _fire(
        self, key: bytes, window: Window, timestamp: EventTime, fire_timestamp: EventTime | ProcessingTime, tag: str
    ) -> Iterable[Any]:
        hosted = self.opened()
        family, dynamic_tag = name_and_tag(tag)
        timer = userstate.Timer(
            user_key=hosted.decode_key(key),
            dynamic_timer_tag=dynamic_tag,
            windows=hosted.windows.to_beam((window,)),
            clear_bit=False,
            fire_timestamp=beam_timestamp(int(fire_timestamp)),
            hold_timestamp=beam_timestamp(int(timestamp)),
            paneinfo=NO_BEAM_PANE,
        )
        with in_stage(self.spec.label):
            hosted.operations.fire(family, timer)
        return tagged(hosted.outputs)
