"""Cases for a proof: elements in some order of arrival, with watermarks and clock values between them, and bundles."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, SignalStep, WatermarkStep, events_of
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
from dataflow_model.plan.logical.triggering import awaited_signals
from dataflow_model.testing.proving.micro_batches import Schedule
from dataflow_model.testing.streams import TestStream
from dataflow_model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    EventTime,
    Instant,
    ProcessingTime,
    event_time,
    format_instant,
)
from dataflow_model.values import is_pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypothesis import strategies as st

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.triggers import Trigger
    from dataflow_model.windowing import WindowFn

_SECOND: Final = 1_000_000
_MOST_ELEMENTS: Final = 30
_MOST_DRAWN: Final = 8
_STEPS: Final = ("", "", "watermark", "clock")

_SHARDS: Final = (2, 1, 3, 5)
_CUTS: Final = ((1_000,), (1,), (3,), (2, 5))
_RESTARTS: Final = tuple(map(frozenset[int], ([], [1], [2], [3, 5])))
_CRASHES: Final[tuple[dict[int, int], ...]] = ({}, {0: 1}, {1: 2}, {2: 3}, {4: 7})

Element = tuple[Any, EventTime]


@attrs.frozen
class Case:
    """One input for a proof.

    Attributes:
        script: the elements in order of arrival, with watermarks and clock values between them.
        cuts: for each step, whether an element joins the bundle before it, or another step is repeated.
        schedule: how a stream of the script is sharded, cut and interrupted.
    """

    script: TestStream
    cuts: tuple[bool, ...]
    schedule: Schedule = attrs.field(factory=Schedule)


@attrs.frozen(eq=False)
class Grounds:
    """The properties of a pipeline that determine which instants are worth testing.

    Attributes:
        strategies: the windowing strategies of its groupings.
        signals: the names of the signals that its triggers wait for.
    """

    strategies: tuple[WindowingStrategy, ...]
    signals: tuple[str, ...]
    _known: dict[tuple[int, str, int], set[int]] = attrs.field(init=False, factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> Grounds:
        """Return the grounds of a plan."""
        strategies = [node.strategy for node in plan.nodes if isinstance(node, GroupByKeyAndWindow)]
        return cls(tuple(strategies), tuple(sorted(awaited_signals(plan))))

    @property
    def lateness(self) -> int:
        """How late an element may arrive without being dropped by any grouping."""
        return min((int(strategy.allowed_lateness) for strategy in self.strategies), default=0)

    @property
    def delays(self) -> list[int]:
        """The durations that the triggers name, and one second."""
        durations = {_SECOND}
        for strategy in self.strategies:
            durations.update(durations_in(strategy.trigger))
        return sorted(durations)

    def watermarks(self, elements: Sequence[Element]) -> list[int]:
        """The instants at which something may happen: event times, and the ends and expiry of windows."""
        instants: set[int] = set()
        for value, at in elements:
            instants.add(int(at))
            for strategy in self.strategies:
                ends = self._ends(strategy.window_fn, value, at)
                instants |= ends | {end + int(strategy.allowed_lateness) for end in ends}
        return sorted(instant for instant in instants if int(MIN_TIMESTAMP) < instant < int(MAX_TIMESTAMP) - 1) or [0]

    def _ends(self, fn: WindowFn, value: Any, at: EventTime) -> set[int]:
        """Return the ends of an element's windows; the same at each call, as hypothesis requires."""
        key = (id(fn), repr(value), int(at))
        if key not in self._known:
            state = random.getstate()  # hypothesis warns about functions that draw random numbers
            try:
                self._known[key] = {int(window.end) for window in fn.assign(at, value)}
            except Exception:  # noqa: BLE001 - it may need fields that the element has only later
                self._known[key] = set()
            finally:
                random.setstate(state)
        return self._known[key]


def cases_of(data: Any, grounds: Grounds) -> st.SearchStrategy[Case]:
    """Return a strategy of cases.

    Args:
        data: `(value, event time)` elements, any of which arrive in any order; or a strategy of one, or of lists.
        grounds: the properties of the pipeline.

    Raises:
        InvalidArgument: without elements, and for an element that is not a pair of value and instant.
        InvalidType: for something that is neither a list nor a strategy.
    """
    from hypothesis import strategies as st

    if isinstance(data, st.SearchStrategy):
        drawn = data.flatmap(lambda example: st.just(example) if isinstance(example, list) else _more(data, example))
        arrivals = drawn.map(_checked).flatmap(st.permutations)
    else:
        elements = _checked(data)
        if not elements:
            raise InvalidArgument(
                "proving a pipeline needs data, got none", hint="pass a few pairs of a value and its event time"
            )
        orders = st.lists(st.sampled_from(range(len(elements))), unique=True, max_size=_MOST_ELEMENTS)
        arrivals = orders.map(lambda order: [elements[index] for index in order])
    return _cases(arrivals, grounds)


def _more(data: st.SearchStrategy[Any], first: Any) -> st.SearchStrategy[list[Any]]:
    from hypothesis import strategies as st

    return st.lists(data, max_size=_MOST_DRAWN).map(lambda others: [first, *others])


def _checked(elements: Any) -> list[Element]:
    if not isinstance(elements, Iterable):
        raise InvalidType(
            f"`data` must be a list of elements or a hypothesis strategy, got {elements!r}",
            hint="pass [(('UA', 5), '2013-01-01T05:15Z')], for example",
        )
    checked: list[Element] = []
    for element in elements:
        if not is_pair(element):
            raise InvalidArgument(
                f"elements must be pairs of a value and its event time, got {element!r}",
                hint="pass (('UA', 5), '2013-01-01T05:15Z'), for example",
            )
        checked.append((element[0], event_time(element[1])))
    return checked


def _cases(arrivals: st.SearchStrategy[list[Element]], grounds: Grounds) -> st.SearchStrategy[Case]:
    from hypothesis import strategies as st

    @st.composite
    def case(draw: st.DrawFn) -> Case:
        schedule = draw(schedules())  # first, so that the rest can be shrunk without it
        elements = draw(arrivals)
        # In one case of four, elements may arrive so late that some are dropped.
        may_drop = draw(st.integers(0, 3)) == 3  # noqa: PLR2004
        script = TestStream()
        position = _Position(grounds.watermarks(elements), grounds)
        for index, element in enumerate(elements):
            left = None if may_drop else min(int(at) for _, at in elements[index:])
            script = position.step(draw, script, left).bundle([element])
        for _ in range(draw(st.integers(0, 2)) if elements else 0):
            script = position.step(draw, script, None)
        cuts = draw(st.lists(st.booleans(), max_size=len(script.steps)))
        return Case(script, tuple(cuts), schedule)

    return case()


@functools.cache
def schedules() -> st.SearchStrategy[Schedule]:
    """Draw how a stream is sharded, cut and interrupted: one choice, the simplest first, so that it shrinks fast."""
    from hypothesis import strategies as st

    return st.sampled_from([Schedule(*parts) for parts in itertools.product(_SHARDS, _CUTS, _RESTARTS, _CRASHES)])


@attrs.define
class _Position:
    """The watermark and clock reached so far while a script is drawn."""

    instants: list[int]
    grounds: Grounds
    watermark: int = int(MIN_TIMESTAMP)
    clock: int = 0

    def step(self, draw: st.DrawFn, script: TestStream, left: int | None) -> TestStream:
        """Add a step that is not an element, or none.

        Args:
            draw: hypothesis's draw function.
            script: the script so far.
            left: the least event time still to arrive, if nothing may be dropped.
        """
        from hypothesis import strategies as st

        kinds = _STEPS + (("signal",) if self.grounds.signals else ())
        match draw(st.sampled_from(kinds)):
            case "watermark":
                to = draw(st.sampled_from(self.instants))
                if left is not None:
                    to = min(to, left + self.grounds.lateness)
                if to > self.watermark:
                    self.watermark = to
                    return script.watermark(EventTime(to))
            case "clock":
                self.clock += draw(st.sampled_from(self.grounds.delays)) * draw(st.integers(1, 2))
                return script.processing_time(ProcessingTime(self.clock))
            case "signal":
                return script.signal(draw(st.sampled_from(self.grounds.signals)))
        return script


def durations_in(trigger: Trigger) -> Iterator[int]:
    """Yield the durations in the fields of a trigger tree."""
    kind: Any = type(trigger)
    for field in attrs.fields(kind) if attrs.has(kind) else ():
        value = getattr(trigger, field.name)
        if isinstance(value, Duration) and 0 < int(value) < int(MAX_TIMESTAMP):
            yield int(value)
    below = trigger.lowered()
    for child in below.children or (() if below is trigger else (below,)):
        yield from durations_in(child)


def elements_of(script: TestStream) -> list[Element]:
    """Return a script's elements in order of arrival."""
    return [element for step in script.steps if isinstance(step, AddStep) for element in step.elements]


def all_at_once(script: TestStream) -> TestStream:
    """Return the bounded input of a script: its elements in order of event time, all available from the start."""
    elements = sorted(elements_of(script), key=lambda element: (int(element[1]), repr(element[0])))
    return TestStream([AddStep(tuple(elements))]) if elements else TestStream()


def recut(script: TestStream, cuts: Sequence[bool]) -> TestStream:
    """Return the same events in other bundles, with watermarks and clock values repeated.

    Example:
        >>> script = TestStream().add(1, 0).add(2, 0).watermark(5)
        >>> [type(step).__name__ for step in recut(script, [False, True, True]).steps]
        ['AddStep', 'WatermarkStep', 'WatermarkStep']
    """
    steps: list[Any] = []
    events = [step for _, step in events_of(script.steps)]
    for step, joins in itertools.zip_longest(events, cuts[: len(events)]):
        if isinstance(step, AddStep) and joins and steps and isinstance(steps[-1], AddStep):
            steps[-1] = AddStep((*steps[-1].elements, *step.elements))
        else:
            steps += [step, step] if joins and isinstance(step, WatermarkStep | ClockStep) else [step]
    return TestStream(steps)


def script_text(script: TestStream) -> str:
    """Return the Python code that creates a script.

    Example:
        >>> print(script_text(TestStream().add(("a", 5), event_time=26).watermark(60)))
        script = (
            TestStream()
            .add(('a', 5), event_time='1970-01-01T00:00:26Z')
            .watermark('1970-01-01T00:01:00Z')
        )
    """
    lines = []
    for step in script.steps:
        match step:
            case AddStep():
                added = [(value, _instant(at)) for value, at in step.elements]
                if len(added) == 1:
                    lines.append(f".add({added[0][0]!r}, event_time={added[0][1]})")
                else:
                    lines.append(f".bundle([{', '.join(f'({value!r}, {at})' for value, at in added)}])")
            case WatermarkStep():
                lines.append(f".watermark({_instant(step.watermark)})")
            case ClockStep():
                lines.append(f".processing_time({_instant(step.processing_time)})")
            case SignalStep():
                lines.append(f".signal({step.name!r})")
    return "\n    ".join(["script = (", "TestStream()", *lines]) + "\n)"


def _instant(at: Instant) -> str:
    if at == MIN_TIMESTAMP:
        return "dm.MIN_TIMESTAMP"
    return "dm.MAX_TIMESTAMP" if at == MAX_TIMESTAMP else repr(format_instant(at))
