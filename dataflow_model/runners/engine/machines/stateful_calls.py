"""Calls of a stateful DoFn's functions: their arguments and their outputs."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.micros import shifted
from dataflow_model.plan.functions.declaration import EXPIRY
from dataflow_model.plan.functions.dofn import Retract, TaggedOutput, TimestampedValue
from dataflow_model.plan.functions.parameters import EXPIRY_METADATA, METADATA, TIMER_METADATA, takes_any_keyword
from dataflow_model.plan.functions.state import CombiningStateSpec, WatermarkSpec
from dataflow_model.plan.functions.state_handles import Timer, Watermark, WatermarkHold
from dataflow_model.plan.functions.state_journal import StateJournal
from dataflow_model.plan.functions.windowed import WindowedOutput
from dataflow_model.plan.logical.nodes import MAIN, SideInput
from dataflow_model.runners.engine.core.calls import CurrentCall, ElementCalls
from dataflow_model.runners.engine.functions.lifetimes import Lifetime, tear_down_all
from dataflow_model.runners.engine.functions.user_code import (
    FINISH_HINT,
    check_tag,
    dead_letter,
    life_cycle,
    listed,
    user_error,
)
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update
from dataflow_model.runners.engine.lanes.order import Emissions
from dataflow_model.runners.engine.state.stateful_cells import Hold, PendingTimer
from dataflow_model.time import MAX_TIMESTAMP, EventTime, ProcessingTime, format_instant
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dataflow_model.plan.logical.nodes import ParDo
    from dataflow_model.runners.engine.lanes.order import Cause, Order
    from dataflow_model.values import PaneInfo, Window

_EVENT: Final = TimeDomain.EVENT_TIME
_Placement: TypeAlias = "tuple[tuple[Window, ...], PaneInfo]"
"""The windows and the pane of an output that has its own."""
_Output: TypeAlias = "tuple[str, Any, int, bool, _Placement | None]"
"""An output: its tag, its value, its event time, whether it is a retraction, and its own windows and pane, if any."""
_METADATA: Final[Mapping[str, Callable[[Call], Any]]] = {
    "fire_timestamp": operator.attrgetter("fired_at"),
    "is_retraction": operator.attrgetter("is_retraction"),
    "key": operator.attrgetter("cell.keyed.key"),
    "pane": operator.attrgetter("pane"),
    "production_time": lambda call: ProcessingTime(call.produced),
    "timer_tag": operator.attrgetter("timer_tag"),
    "timestamp": lambda call: EventTime(call.time),
    "trigger": lambda call: call.pane.trigger,
    "window": operator.attrgetter("cell.window.window"),
}
"""How to return what a function asks for about the element, timer or window that it is called for."""


class InputClocks(Protocol):
    """The input's watermarks, which the machine advances.

    Attributes:
        watermark, percentiles: the low watermark and the others, by percentile.
    """

    watermark: int
    percentiles: dict[float, int]


class Call(CurrentCall):
    """The current call of a user's function: the `StateBoard`, `TimerBoard` and `HoldBoard` of the handles.

    Attributes:
        input: the input's watermarks.
        horizon: how far outputs may be before the input's event time.
        journal: records what the call changes, if an element that fails becomes a dead letter.
    """

    def __init__(self, clocks: InputClocks, horizon: int) -> None:
        self.input = clocks
        self.horizon = horizon
        self.has_set_timer = False
        self.journal: StateJournal | None = None

    @property
    def window(self) -> Window:
        """The window."""
        window: Window = self.cell.window.window
        return window

    @property
    def key(self) -> Any:
        """The key."""
        return self.cell.keyed.key

    @property
    def earliest(self) -> int:
        """The earliest event time that an output may have."""
        earliest = self.time - self.horizon
        return earliest if self.held is None else min(earliest, self.held)

    def set_timer(self, name: str, domain: TimeDomain, tag: str, time: int, output_time: int | None) -> None:
        """Set or reset a timer; reject one that could never fire, or would hold a watermark that has passed."""
        if domain is _EVENT and time > self.cell.window.expiry:
            raise InvalidArgument(
                f"the timer {tag or name!r} is set to {format_instant(time)} and would never fire: "
                f"the state of the window {self.window!r} is cleared at {format_instant(self.cell.window.expiry)}",
                hint="set it no later than the end of the window plus its allowed lateness",
            )
        if output_time is None:
            inside = min(time, self.cell.window.end) if domain is _EVENT else self.time
            output_time = max(inside, self.time)
        elif output_time == MAX_TIMESTAMP:
            raise InvalidArgument(
                f"the output timestamp of the timer {tag or name!r} cannot be +∞, which no element can have",
                hint="leave it out, or use a time at which something happens",
            )
        elif output_time < self.earliest:
            raise InvalidArgument(
                f"the output timestamp of the timer {tag or name!r} must not be before "
                f"{format_instant(self.earliest)}, got {format_instant(output_time)}",
                hint="leave it out, or, in a DoFn, declare how far back outputs may be: late_data_horizon",
            )
        elif domain is _EVENT and output_time > max(time, self.time):
            raise InvalidArgument(
                f"the output timestamp of the timer {tag or name!r} must not be after "
                f"{format_instant(max(time, self.time))}, got {format_instant(output_time)}",
                hint="leave it out, or set the timer to a later time: it holds the watermark only until it fires",
            )
        if domain is _EVENT:
            self.has_set_timer = True
        else:
            time = max(time, self.clock)
        self.cell.state.count += 1
        self.clear_timer(name, domain, tag)  # which records in the journal how it was set
        timer = PendingTimer(time, output_time, self.cell.state.count, self._hold_at(output_time))
        self.cell.state.timers(domain).set((name, tag), timer)

    def clear_timer(self, name: str, domain: TimeDomain, tag: str) -> None:
        """Clear a timer, if it is set."""
        timers = self.cell.state.timers(domain)
        before = timers.clear((name, tag))
        if self.journal is not None:
            self.journal.add(functools.partial(timers.reset, (name, tag), before))
        self._free(before)

    def set_hold(self, name: str, time: int) -> None:
        """Set or move a user's hold."""
        if time < self.earliest:
            raise InvalidArgument(
                f"the watermark cannot be held at {format_instant(time)}, which is before the current input at "
                f"{format_instant(self.earliest)}",
                hint="hold it from the first element on, and set the hold again at its old position",
            )
        self.clear_hold(name)
        self.cell.state.holds[name] = Hold(time, self._hold_at(time))

    def clear_hold(self, name: str) -> None:
        """Release the hold, if there is one."""
        self._free(self.cell.state.holds.pop(name, None))

    def read_hold(self, name: str) -> int | None:
        """Return the instant at which the watermark is held; `None` if it is not."""
        hold = self.cell.state.holds.get(name)
        return None if hold is None else hold.time

    def _free(self, released: PendingTimer | Hold | None) -> None:
        """Record that a hold was released; in this event another hold may be set at its instant."""
        if released is not None and released.hold is not None:
            self.freed = released.hold if self.freed is None else min(self.freed, released.hold)

    def _hold_at(self, time: int) -> int | None:
        """Return the input watermark to hold for outputs at an event time; `None` if there is none that are not late.

        The output watermark is behind the input's by the horizon. A passed instant cannot be held again, since the
        output watermark would then depend on which keys share a shard. But outputs at later instants may belong to
        input that is not late, so what this key and window hold stays held, and so does the current input.
        """
        at = shifted(time, self.horizon)
        if at >= self.input.watermark:
            return at
        holds = [hold for hold in (self.freed, self.cell.state.hold()) if hold is not None]
        if self.time >= self.input.watermark:
            holds.append(self.time)
        return max(at, min(holds)) if holds else None

    def after(self, domain: TimeDomain, delay: int) -> int:
        """Return the current instant plus a delay; at ±∞ it is the instant itself."""
        return shifted(self.event_now if domain is _EVENT else self.clock, delay)


@attrs.frozen
class _Arguments:
    """The arguments that a function names.

    Attributes:
        by_name: all of them; those that differ from call to call are as the last call had them.
        varying: the names of the latter, each with a function that returns the argument for the current call.
    """

    by_name: dict[str, Any] = attrs.field(factory=dict)
    varying: list[tuple[str, Callable[[Call], Any]]] = attrs.field(factory=list)

    def of(self, call: Call) -> dict[str, Any]:
        """Return the arguments of the current call; the next one reuses the dictionary."""
        for name, argument_of in self.varying:
            self.by_name[name] = argument_of(call)
        return self.by_name


class UserCalls:
    """Calls the functions of a stateful DoFn on one shard, and collects their outputs in order.

    A call's handles, their board and its arguments are made once and reused, since a handle is valid only in its call.

    Args:
        node: the ParDo.
        side_values: the static side inputs.
        clocks: the input's watermarks.

    Attributes:
        call: the current call, which the machine fills in.
        elements: calls `process` for elements.
        timer: the phase and the cause of what is being run, if it is not an element.
    """

    def __init__(
        self, node: ParDo, side_values: Mapping[SideInput, Callable[[Window], Any]], clocks: InputClocks
    ) -> None:
        self._node = node
        self._declaration = node.declaration
        self._side_values = side_values
        self.call = Call(clocks, int(node.late_data_horizon or 0))
        requested_by, specs = self._declaration.requested_by, self._declaration.specs
        held = {name: request for name, request in requested_by(node.fn.user_function()).items() if request in specs}
        process = self._arguments(node.parameters | held, METADATA, node.kwargs)
        self._arguments_of = {
            name: self._arguments(
                requested_by(function), TIMER_METADATA, node.kwargs if takes_any_keyword(function) else ()
            )
            for name in self._declaration.callbacks.values()
            for function in [getattr(node.fn, name)]
        }
        if self._declaration.has_expiry:
            self._arguments_of[EXPIRY] = self._arguments(requested_by(getattr(node.fn, EXPIRY)), EXPIRY_METADATA)
        self.elements = ElementCalls(
            node.fn,
            self.call,
            process.by_name,
            process.varying,
            None if any(isinstance(argument, SideInput) for argument in node.args) else node.args,
            self,
            rescues=node.dead_letters is not None,
        )
        self._tags = (MAIN, *node.tags)
        self._retracts = node.retracts
        states = self._declaration.states.values()
        combiners: list[Any] = [spec.combine for spec in states if isinstance(spec, CombiningStateSpec)]
        self._lifetimes = [Lifetime(node.label, fn) for fn in (node.fn, *combiners)]
        self._output: dict[str, Bundle] = {}
        self._emissions = Emissions()
        self._orders: Sequence[Order] = ()
        self.timer: tuple[int, Cause] | None = None

    def begin_elements(self, orders: Sequence[Order]) -> None:
        """Begin a bundle of elements.

        Args:
            orders: where they stand.
        """
        self._orders, self.timer = orders, None

    def begin_bundle(self) -> None:
        """Begin the user's bundle, unless it has begun."""
        if self.elements.has_begun:
            return
        for lifetime in self._lifetimes:
            lifetime.set_up()
        with life_cycle(self._node.label, "start_bundle"):
            self._node.fn.start_bundle()
        self.elements.has_begun = True
        self._begin_emission()

    def positional(self) -> Sequence[Any]:
        """Return the further positional arguments of the current call of `process`."""
        return [self._argument(argument, self.call.window) for argument in self._node.args]

    def begin_journal(self) -> StateJournal:
        """Record what the current call changes from now on, so that an element that fails changes nothing."""
        state = self.call.cell.state
        journal = self.call.journal = StateJournal(state.values)
        journal.add(functools.partial(setattr, state, "holds", dict(state.holds)))
        return journal

    def emit(self, results: Any) -> None:
        """Check and emit what a function has returned."""
        filed = self._checked(results, self.call)
        if filed:
            self._file(filed, self.call)

    def fail(self, error: BaseException, value: Any, journal: StateJournal | None) -> None:
        """Raise an error for an element, or emit its dead letter; an element that fails must not change anything.

        Args:
            error: the exception.
            value: the element.
            journal: what the call has changed; `None` without dead letters.

        Raises:
            UserCodeError: without dead letters, for what is no `Exception`, and for state that cannot be copied.
        """
        node, call = self._node, self.call
        if node.dead_letters is None or journal is None or not node.rescues(error):
            raise user_error(error, node.label, value) from error
        if journal.uncopied is not None:
            problem = InvalidType(
                f"the state of key {call.key!r} cannot be copied, which elements that fail need: {journal.uncopied}",
                hint="keep values in it that can be copied, such as a list instead of a generator, "
                "or leave out .with_exception_handling()",
            )
            raise user_error(problem, node.label, value) from journal.uncopied
        journal.undo()
        self._file([(node.dead_letters, dead_letter(error, node.label, value), call.time, False, None)], call)

    def fire(self, name: str, tag: str, fire_time: int) -> None:
        """Call the function of a timer."""
        call = self.call
        is_event = self._declaration.timers[name].domain is _EVENT
        call.timer_tag = tag
        call.fired_at = EventTime(fire_time) if is_event else ProcessingTime(fire_time)
        self._call_back(self._declaration.callbacks[name])

    def expire(self) -> None:
        """Call `on_window_expiry`."""
        self._call_back(EXPIRY)

    def take(self) -> dict[str, Bundle]:
        """Return the outputs since the last call, by tag, and end the user's bundle."""
        if self.elements.has_begun:
            self.elements.has_begun = False
            with life_cycle(self._node.label, "finish_bundle"):
                outputs = listed(self._node.fn.finish_bundle(), self._node.label, FINISH_HINT)
            plain = [output for output in outputs if not isinstance(_untagged(output), WindowedOutput)]
            if plain:
                raise InvalidType(
                    f"{self._node.label!r} is stateful, so its outputs must belong to a key and a window, "
                    f"got {plain[0]!r} from finish_bundle",
                    hint="emit outputs in process, when a timer fires, or in on_window_expiry",
                )
            if outputs:  # they are behind the last ones of the bundle, or stand where it began
                self._add(self._checked(outputs, self.call), self.call)
        self._emissions.end()
        output, self._output = self._output, {}
        return output

    def tear_down(self) -> None:
        """Tear down the DoFn and its combiners."""
        tear_down_all(self._lifetimes)

    def _call_back(self, function: str) -> None:
        node, call = self._node, self.call
        call.pane, call.journal = NO_FIRING, None
        self.begin_bundle()
        try:
            arguments = self._arguments_of[function].of(call)
            filed = self._checked(getattr(node.fn, function)(**arguments), call)
        except BaseException as error:
            raise user_error(error, node.label, self._event(function), hint=None) from error
        if filed:
            self._file(filed, call)

    def _event(self, function: str) -> str:
        """Return what called a function other than `process`, for errors."""
        call = self.call
        if function == EXPIRY:
            return f"the end of {call.window!r} of key {call.key!r}"
        name = next(name for name, of_timer in self._declaration.callbacks.items() if of_timer == function)
        return f"the timer {name!r}{f' with tag {call.timer_tag!r}' if call.timer_tag else ''} of key {call.key!r}"

    def _arguments(
        self, requests: Mapping[str, str], metadata: Collection[str], keywords: Iterable[str] = ()
    ) -> _Arguments:
        """Return the arguments of a function.

        Args:
            requests: by parameter, the metadata, state, timer, watermark or keyword argument that it names.
            metadata: the metadata that the function may request.
            keywords: the keyword arguments that it takes anyway.
        """
        arguments = _Arguments()
        constant, varying, passed = arguments.by_name, arguments.varying, list(keywords)
        for name, request in requests.items():
            if request in metadata:
                varying.append((name, _METADATA[request]))
            elif request in self._declaration.states:
                constant[name] = self._declaration.states[request].bind(self.call, request)
            elif request in self._declaration.timers:
                constant[name] = Timer(self.call, request, self._declaration.timers[request].domain)
            elif isinstance(self._declaration.watermarks.get(request), WatermarkSpec):
                varying.append((name, self._watermark))
            elif request in self._declaration.watermarks:
                constant[name] = WatermarkHold(self.call, request)
            else:
                passed.append(name)
        for name in passed:
            argument = self._node.kwargs[name]
            if isinstance(argument, SideInput):
                varying.append((name, functools.partial(self._side_value, argument)))
            else:
                constant[name] = argument
        return arguments

    def _watermark(self, call: Call) -> Watermark:
        named = self._node.fn.watermark_percentiles
        return Watermark(call.input.watermark, {percentile: call.input.percentiles[percentile] for percentile in named})

    def _side_value(self, argument: SideInput, call: Call) -> Any:
        return self._side_values[argument](call.window)

    def _argument(self, argument: Any, window: Window) -> Any:
        return self._side_values[argument](window) if isinstance(argument, SideInput) else argument

    def _checked(self, results: Any, call: Call) -> list[_Output]:
        """Return all outputs after checking them; raise if one is rejected."""
        filed: list[_Output] = []
        earliest = call.earliest
        for result in listed(results, self._node.label, "return a list, or yield the outputs"):
            tag, value, at = MAIN, result, call.time
            if isinstance(value, TaggedOutput):
                tag, value = value.tag, value.value
            if isinstance(value, WindowedOutput):
                check_tag(tag, self._tags, self._node.label)
                filed.append((tag, value.value, value.time, False, (value.windows, value.pane)))
                continue
            if isinstance(value, TimestampedValue):
                at, value = int(value.event_time), value.value
            is_retraction = isinstance(value, Retract)
            if is_retraction:
                if not self._retracts:
                    raise InvalidType(
                        f"{self._node.label!r} emits {value!r}, but its class does not declare that it retracts, so "
                        "the plan was not checked for it",
                        hint=f"write retracts = True in the class {type(self._node.fn).__name__}",
                    )
                value = value.value
            check_tag(tag, self._tags, self._node.label)
            if at < earliest:
                raise InvalidType(
                    f"{self._node.label!r} moves an event time backward from {format_instant(call.time)} "
                    f"to {format_instant(at)}, further than it has declared",
                    hint="declare how far back outputs may be with dm.ParDo(…).late_data_horizon('1 hour'), or set "
                    "the timer with output_timestamp=…",
                )
            filed.append((tag, value, at, is_retraction, None))
        return filed

    def _begin_emission(self) -> None:
        """Make what the current call is for the cause of the outputs that follow."""
        if self.timer is not None:
            self._emissions.of_timer(*self.timer)
        else:
            self._emissions.of_element(self._orders[self.call.row])

    def _file(self, filed: list[_Output], call: Call) -> None:
        """Add the outputs of a call."""
        if self.timer is None and not isinstance(self._orders, list):
            self._orders = list(self._orders)  # one after the other, which lanes are slow at
        self._begin_emission()
        self._add(filed, call)

    def _add(self, filed: list[_Output], call: Call) -> None:
        """Add outputs of the current cause, behind those that it has."""
        emissions, own_windows = self._emissions, (call.window,)
        own_pane = NO_FIRING if self._retracts else call.pane  # a retraction has everything that its value had
        emission: Order | None = None  # identifies the call from its first retraction on
        for tag, value, at, is_retraction, placement in filed:
            windows, pane = (own_windows, own_pane) if placement is None else placement
            order = emissions.next()
            if is_retraction and emission is None:
                emission = order
            update = None if emission is None else Update((self._node.label, emission), is_retraction)
            bundle = self._output.get(tag)
            if bundle is None:
                bundle = self._output[tag] = Bundle()
            bundle.append(value, at, windows, pane, order, call.clock, update)


def _untagged(output: Any) -> Any:
    return output.value if isinstance(output, TaggedOutput) else output
