"""Triggers as users write them, for the drawn strategies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Sequence

EVENT_TIME, PROCESSING_TIME = dm.TimeDomain.EVENT_TIME, dm.TimeDomain.PROCESSING_TIME


def one_in_three(element: Any) -> bool:
    """Tell whether a power of two is one of every third."""
    number = element[0] if isinstance(element, tuple) else element
    return bool(number % 7 == 1)


@attrs.frozen
class EveryThird(dm.DataTrigger):
    """Fires at each third element of its turn, and merges by adding up."""

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        return (state or 0) == 2, ((state or 0) + 1) % 3

    def merge_state(self, states: Sequence[Any]) -> Any:
        return sum(states) % 3


@attrs.frozen
class OddResult(dm.Trigger):
    """Fires while the result is odd: in a sum that of the number of elements, as the elements are powers of two."""

    def on_element(self, context: Any) -> None:
        result = context.peek_value()
        if isinstance(result, tuple):  # of several combiners
            result = result[0]
        if isinstance(result, float):  # such as a mean, NaN of no elements
            result = int(result) if math.isfinite(result) else 0
        if (len(result) if isinstance(result, list) else (result or 0).bit_count()) % 2:
            context.trigger()

    def on_merge(self, context: Any) -> None:
        """Remembers nothing."""


@attrs.frozen
class Timeout(dm.Trigger):
    """Some seconds after an element what has come goes out, and the window starts empty if the mode says so."""

    seconds: int
    domain: dm.TimeDomain
    mode: dm.FiringMode

    def on_element(self, context: Any) -> None:
        if context.get_timer("end") is None:
            now = context.now(self.domain)
            self._wait(context, type(now)(max(int(now), 0)) + dm.duration(self.seconds))

    def on_timer(self, context: Any, tag: str) -> None:
        context.trigger(self.mode)
        context.store_state("until", None)

    def on_merge(self, context: Any) -> None:
        open_ones = [window for window in context.sources if not context.is_source_finished(window)]
        ends = [context.lookup_source_state(window, "until") for window in open_ones]
        if any(ends):
            self._wait(context, min(end for end in ends if end))

    def _wait(self, context: Any, until: Any) -> None:
        context.set_timer("end", until, self.domain)
        context.store_state("until", until)


@attrs.frozen
class FiresWith(dm.Trigger):
    """Asks for the next of its modes at each element; `"clear"` empties the window without a pane."""

    modes: tuple[Any, ...]

    def on_element(self, context: Any) -> None:
        number = context.lookup_state("seen", 0)
        context.store_state("seen", number + 1)
        if number >= len(self.modes):
            context.trigger()
            context.done()
        elif self.modes[number] == "done":
            context.done()
        elif self.modes[number] == "clear":
            context.clear()
        elif self.modes[number] is not None:
            context.trigger(self.modes[number])

    def on_merge(self, context: Any) -> None:
        open_ones = [window for window in context.sources if not context.is_source_finished(window)]
        seen = [context.lookup_source_state(window, "seen", 0) for window in open_ones]
        context.store_state("seen", max(seen, default=0))


@attrs.frozen
class Restless(dm.Trigger):
    """Uses every callback and all that a context has; its timers wait for each clock, several at a time."""

    seconds: int
    mode: dm.FiringMode

    signals: ClassVar[frozenset[str]] = frozenset({"now"})
    percentiles: ClassVar[tuple[float, ...]] = (50,)
    reads_history: ClassVar[bool] = True

    def on_element(self, context: Any) -> None:
        seen = context.lookup_state("seen", 0) + 1
        context.store_state("seen", seen)
        if len(context.trigger_history()) % 3 == 1:
            context.trigger(self.mode)
        if seen % 3 == 0:
            self._wait(
                context, "again", int(context.event_time) + int(context.window.end) % 3, dm.TimeDomain.EVENT_TIME
            )
        if context.get_timer("clock") is None:
            self._wait(context, "clock", int(context.now(dm.TimeDomain.PROCESSING_TIME)), dm.TimeDomain.PROCESSING_TIME)
        else:
            context.delete_timer("most")

    def on_retraction(self, context: Any) -> None:
        if context.is_retraction and context.lookup_state("seen", 0) % 2:
            context.trigger()
        self._wait(context, "most", int(context.event_time), dm.TimeDomain.EVENT_TIME, 50)

    def on_timer(self, context: Any, tag: str) -> None:
        fired = context.lookup_state(tag, 0) + 1
        context.store_state(tag, fired)
        if tag == "clock" and fired % 2:
            self._wait(context, "most", int(context.now(dm.TimeDomain.EVENT_TIME, 50)), dm.TimeDomain.EVENT_TIME, 50)
        elif fired % 3 == 2:
            context.clear()
        elif context.peek_value() is not None:
            context.trigger(self.mode)
        if fired > 3:
            context.done()

    def on_signal(self, context: Any, name: str) -> None:
        if name in self.signals and not context.is_finished():
            context.trigger(self.mode)
            context.delete_timer("clock")

    def reset(self, context: Any) -> None:
        context.store_state("turns", 1)
        self._wait(context, "again", int(context.window.end) - 2, dm.TimeDomain.EVENT_TIME)

    def on_merge(self, context: Any) -> None:
        seen = [context.lookup_source_state(window, "seen", 0) for window in context.sources]
        context.store_state("seen", sum(seen))
        if sum(seen) % 4 == 3:
            context.reopen()
        elif sum(seen) % 7 == 6:
            context.done()
        self._wait(context, "again", int(context.window.end) - 1, dm.TimeDomain.EVENT_TIME)

    def _wait(self, context: Any, tag: str, since: int, domain: dm.TimeDomain, percentile: float = 100) -> None:
        kind = dm.EventTime if domain is dm.TimeDomain.EVENT_TIME else dm.ProcessingTime
        context.set_timer(tag, kind(max(since, 0) + self.seconds * 1_000_000), domain, percentile)


@attrs.frozen
class Both(dm.CompositeTrigger):
    """Fires when all children have in one turn, or some seconds after the first; every third turn is its last."""

    children: tuple[dm.Trigger, ...]  # type: ignore[misc]
    seconds: int
    mode: dm.FiringMode

    def on_element(self, context: Any) -> None:
        for child in range(len(self.children)):
            self.on_child_timer(context, child)

    def on_signal(self, context: Any, name: str) -> None:
        if name == "now" and not context.is_finished(0):
            context.invoke_child(0)
            context.trigger(self.mode)

    def on_child_timer(self, context: Any, child: int) -> None:
        result = context.invoke_child(child)
        if not result.fired:
            return
        fired = context.lookup_state("fired", ())
        if not fired:
            now = context.now(PROCESSING_TIME)
            context.set_timer("over", dm.ProcessingTime(max(int(now), 0) + self.seconds * 1_000_000), PROCESSING_TIME)
        context.store_state("fired", tuple(sorted({*fired, child})))
        if len(context.lookup_state("fired")) == len(self.children):
            context.trigger(result.mode)
            self._begin(context)

    def on_timer(self, context: Any, tag: str) -> None:
        context.trigger(self.mode)
        self._begin(context)

    def finished_from(self, children: Sequence[bool]) -> bool:
        return sum(children) > 1

    def on_merge(self, context: Any) -> None:
        turns = [context.lookup_source_state(window, "turns", 0) for window in context.sources]
        context.store_state("turns", max(turns, default=0))
        if context.is_finished(0) and sum(turns) % 2:
            context.reset_child(0)
            context.reopen()

    def reset(self, context: Any) -> None:
        context.store_state("turns", 1)
        context.set_timer("over", dm.EventTime(int(context.window.end) - 1_000_000), EVENT_TIME)

    def _begin(self, context: Any) -> None:
        turns = context.lookup_state("turns", 0) + 1
        context.store_state("turns", turns)
        context.store_state("fired", ())
        context.delete_timer("over")
        for child in range(len(self.children)):
            if (turns + child) % 4:
                context.reset_child(child)
            else:
                context.finish_child(child)
        if turns % 3 == 0:
            context.done()
