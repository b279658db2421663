"""Calls of a stateful DoFn's functions: their arguments and their outputs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.declaration import EXPIRY
from dataflow_model.plan.dofn import TaggedOutput, TimestampedValue
from dataflow_model.plan.nodes import MAIN, SideInput
from dataflow_model.plan.state import CombiningStateSpec, WatermarkSpec
from dataflow_model.plan.state_handles import Timer, Watermark, WatermarkHold
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.lifetimes import Lifetime, tear_down_all
from dataflow_model.runners.engine.order import Emissions
from dataflow_model.runners.engine.stateful_cells import Hold, PendingTimer
from dataflow_model.runners.engine.user_code import check_tag, dead_letter, life_cycle, listed, user_error
from dataflow_model.time import Duration, EventTime, ProcessingTime, format_instant
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.nodes import ParDo
    from dataflow_model.runners.engine.stateful_cells import Arrived, StateCell
    from dataflow_model.values import PaneInfo, Window

__all__ = ["Call", "UserCalls"]

_EVENT: Final = TimeDomain.EVENT_TIME


@attrs.define(kw_only=True)
class Call:
    """One call of a user's function, with its `TimerBoard` and `HoldBoard`.

    Attributes:
        cell: the state of the key and window.
        key, window: the key and window.
        expiry: the watermark at which the window's state is cleared.
        time: the default event time of outputs.
        clock: the processing time.
        event_now: the time from which a delay in event time is measured.
        horizon: how far outputs may be before the input's event time.
        watermark, percentiles: the watermarks of the input.
        freed: the earliest hold that was released in this event, such as that of the timer that fires.
        pane: the pane of the element, for its outputs.
        earliest: the earliest event time that an output may have.
    """

    cell: StateCell
    key: Any
    window: Window
    expiry: int
    time: int
    clock: int
    event_now: int
    horizon: int
    watermark: int
    percentiles: Mapping[float, int]
    freed: int | None
    pane: PaneInfo = NO_FIRING
    earliest: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Compute the earliest event time of outputs from the holds before the call, which the call may change."""
        earliest, held = self.time - self.horizon, self.cell.earliest()
        self.earliest = earliest if held is None else min(earliest, held)

    def set_timer(self, name: str, domain: TimeDomain, tag: str, time: int, output_time: int | None) -> None:
        """Set or reset a timer; reject one that could never fire, or would hold a watermark that has passed."""
        if domain is _EVENT and time > self.expiry:
            raise InvalidArgument(
                f"the timer {name!r} is set to {format_instant(time)} and would never fire: "
                f"the state of the window {self.window!r} is cleared at {format_instant(self.expiry)}",
                hint="set it no later than the end of the window plus its allowed lateness",
            )
        if output_time is None:
            inside = min(time, int(self.window.max_timestamp)) if domain is _EVENT else self.time
            output_time = max(inside, self.time)
        elif output_time < self.earliest or (domain is _EVENT and output_time > max(time, self.time)):
            latest = f" and {format_instant(max(time, self.time))}" if domain is _EVENT else " and later"
            raise InvalidArgument(
                f"the output timestamp of the timer {name!r} must lie between "
                f"{format_instant(self.earliest)}{latest}, got {format_instant(output_time)}",
                hint="declare how far back outputs may be: dm.ParDo(…).late_data_horizon('1 hour')",
            )
        if domain is not _EVENT:
            time = max(time, self.clock)
        self.cell.count += 1
        self.clear_timer(name, domain, tag)
        timer = PendingTimer(time, output_time, self.cell.count, self._hold_at(output_time))
        self.cell.timers(domain).set((name, tag), timer)

    def clear_timer(self, name: str, domain: TimeDomain, tag: str) -> None:
        """Clear a timer, if it is set."""
        self._free(self.cell.timers(domain).clear((name, tag)))

    def set_hold(self, name: str, time: int) -> None:
        """Set or move a user's hold."""
        if time < self.earliest:
            raise InvalidArgument(
                f"the watermark cannot be held at {format_instant(time)}, which is before the current input at "
                f"{format_instant(self.earliest)}",
                hint="hold it from the first element on, and set the hold again at its old position",
            )
        self.clear_hold(name)
        self.cell.holds[name] = Hold(time, self._hold_at(time))

    def clear_hold(self, name: str) -> None:
        """Release the hold, if there is one."""
        self._free(self.cell.holds.pop(name, None))

    def read_hold(self, name: str) -> int | None:
        """Return the instant at which the watermark is held; `None` if it is not."""
        hold = self.cell.holds.get(name)
        return None if hold is None else hold.time

    def _free(self, released: PendingTimer | Hold | None) -> None:
        """Record that a hold was released; in this event another hold may be set at its instant."""
        if released is not None and released.hold is not None:
            self.freed = released.hold if self.freed is None else min(self.freed, released.hold)

    def _hold_at(self, time: int) -> int | None:
        """Return the input watermark to hold for outputs at an event time; `None` if the watermark has passed it.

        The output watermark is behind the input's by the horizon. A passed instant cannot be held again, since the
        output watermark would then depend on which keys share a shard.
        """
        at = int(EventTime(time) + Duration(self.horizon)) if self.horizon else time
        if at < self.watermark:
            held = [hold for hold in (self.freed, self.cell.hold()) if hold is not None]
            if not held or at < min(held):
                return None
        return at

    def after(self, domain: TimeDomain, delay: int) -> int:
        """Return the current instant plus a delay; raise at ±∞."""
        now = EventTime(self.event_now if domain is _EVENT else self.clock)
        return int(now + Duration(delay))


class UserCalls:
    """Calls the functions of a stateful DoFn on one shard, and collects their outputs in order.

    Args:
        node: the ParDo.
        side_values: the static side inputs.
    """

    def __init__(self, node: ParDo, side_values: Mapping[SideInput, Callable[[Window], Any]]) -> None:
        self._node = node
        self._declaration = node.declaration
        self._side_values = side_values
        self._horizon = int(node.late_data_horizon or 0)
        requested_by, specs = self._declaration.requested_by, self._declaration.specs
        self._requests = node.parameters
        self._held = {
            name: request for name, request in requested_by(node.fn.user_function()).items() if request in specs
        }
        self._of_timers = {
            name: requested_by(getattr(node.fn, function)) for name, function in self._declaration.callbacks.items()
        }
        self._at_expiry = requested_by(getattr(node.fn, EXPIRY)) if self._declaration.has_expiry else {}
        self._tags = (MAIN, *node.tags)
        states = self._declaration.states.values()
        combiners: list[Any] = [spec.combine for spec in states if isinstance(spec, CombiningStateSpec)]
        self._lifetimes = [Lifetime(node.label, fn) for fn in (node.fn, *combiners)]
        self._in_bundle = False
        self._output: dict[str, Bundle] = {}
        self.emissions = Emissions()

    @property
    def horizon(self) -> int:
        """How far outputs may be before the input's event time."""
        return self._horizon

    def process(self, call: Call, element: Arrived) -> None:
        """Call `process` for an element."""
        node = self._node
        kwargs = {name: self._metadata_of(request, call, element) for name, request in self._requests.items()}
        for name, request in self._held.items():
            kwargs[name] = self._handle(request, call)
        for name, argument in node.kwargs.items():
            kwargs[name] = self._argument(argument, call.window)
        args = [self._argument(argument, call.window) for argument in node.args]
        before = copy.deepcopy(call.cell) if node.dead_letters is not None else None
        try:
            self._begin_bundle()
            filed = self._checked(node.fn.process(element.value, *args, **kwargs), call)
        except Exception as error:
            if node.dead_letters is None or before is None:
                raise user_error(error, node.label, element.value) from error
            for name in attrs.fields_dict(type(before)):  # an element that fails must not change anything
                setattr(call.cell, name, getattr(before, name))
            filed = [(node.dead_letters, dead_letter(error, node.label, element.value), call.time)]
        self._file(filed, call)

    def fire(self, call: Call, name: str, tag: str, fire_time: int) -> None:
        """Call the function of a timer."""
        domain = self._declaration.timers[name].domain
        metadata: dict[str, Any] = {
            "timer_tag": tag,
            "fire_timestamp": EventTime(fire_time) if domain is _EVENT else ProcessingTime(fire_time),
        }
        of = f"the timer {name!r}{f' with tag {tag!r}' if tag else ''} of key {call.key!r}"
        self._call_back(call, self._declaration.callbacks[name], self._of_timers[name], metadata, of)

    def expire(self, call: Call) -> None:
        """Call `on_window_expiry`."""
        self._call_back(call, EXPIRY, self._at_expiry, {}, f"the end of {call.window!r} of key {call.key!r}")

    def take(self) -> dict[str, Bundle]:
        """Return the outputs since the last call, by tag, and end the user's bundle."""
        if self._in_bundle:
            self._in_bundle = False
            with life_cycle(self._node.label, "finish_bundle"):
                outputs = list(self._node.fn.finish_bundle() or ())
            if outputs:
                raise InvalidType(
                    f"{self._node.label!r} is stateful, so its outputs must belong to a key and a window, "
                    f"got {outputs[0]!r} from finish_bundle",
                    hint="emit outputs in process, when a timer fires, or in on_window_expiry",
                )
        self.emissions.end()
        output, self._output = self._output, {}
        return output

    def tear_down(self) -> None:
        """Tear down the DoFn and its combiners."""
        tear_down_all(self._lifetimes)

    def _call_back(
        self, call: Call, function: str, requests: Mapping[str, str], metadata: dict[str, Any], of: str
    ) -> None:
        node = self._node
        metadata |= {"key": call.key, "window": call.window, "timestamp": EventTime(call.time)}
        kwargs = {}
        for name, request in requests.items():
            if request in metadata:
                kwargs[name] = metadata[request]
            elif request in self._declaration.specs:
                kwargs[name] = self._handle(request, call)
            else:
                kwargs[name] = self._argument(node.kwargs[name], call.window)
        try:
            self._begin_bundle()
            filed = self._checked(getattr(node.fn, function)(**kwargs), call)
        except Exception as error:
            raise user_error(error, node.label, of, hint=None) from error
        self._file(filed, call)

    def _begin_bundle(self) -> None:
        if not self._in_bundle:
            for lifetime in self._lifetimes:
                lifetime.set_up()
            with life_cycle(self._node.label, "start_bundle"):
                self._node.fn.start_bundle()
            self._in_bundle = True

    def _handle(self, name: str, call: Call) -> Any:
        spec = self._declaration.states.get(name)
        if spec is not None:
            return spec.bind(call.cell.values, name)
        if name in self._declaration.timers:
            return Timer(call, name, self._declaration.timers[name].domain)
        if isinstance(self._declaration.watermarks[name], WatermarkSpec):
            named = self._node.fn.watermark_percentiles
            return Watermark(call.watermark, {percentile: call.percentiles[percentile] for percentile in named})
        return WatermarkHold(call, name)

    def _argument(self, argument: Any, window: Window) -> Any:
        return self._side_values[argument](window) if isinstance(argument, SideInput) else argument

    def _metadata_of(self, name: str, call: Call, element: Arrived) -> Any:
        match name:
            case "timestamp":
                return EventTime(call.time)
            case "window":
                return call.window
            case "pane":
                return element.pane
            case "key":
                return call.key
            case "trigger":
                return element.pane.trigger
            case "production_time":
                return ProcessingTime(element.produced)
            case "is_retraction":
                return element.is_retraction
            case _:
                raise AssertionError(f"the parameter {name!r} should have been rejected at construction")

    def _checked(self, results: Any, call: Call) -> list[tuple[str, Any, int]]:
        """Return tag, value and event time of all outputs after checking them; raise if one is rejected."""
        filed = []
        for result in listed(results, self._node.label, "return a list, or yield the outputs"):
            tag, value, at = MAIN, result, call.time
            if isinstance(value, TaggedOutput):
                tag, value = value.tag, value.value
            if isinstance(value, TimestampedValue):
                at, value = int(value.event_time), value.value
            check_tag(tag, self._tags, self._node.label)
            if at < call.earliest:
                raise InvalidType(
                    f"{self._node.label!r} moves an event time backward from {format_instant(call.time)} "
                    f"to {format_instant(at)}, further than it has declared",
                    hint="declare how far back outputs may be with dm.ParDo(…).late_data_horizon('1 hour'), or set "
                    "the timer with output_timestamp=…",
                )
            filed.append((tag, value, at))
        return filed

    def _file(self, filed: list[tuple[str, Any, int]], call: Call) -> None:
        windows = (call.window,)
        for tag, value, at in filed:
            order = self.emissions.next()
            bundle = self._output.get(tag)
            if bundle is None:
                bundle = self._output[tag] = Bundle()
            bundle.append(value, at, windows, call.pane, order, call.clock)
