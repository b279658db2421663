"""Triggers as users write them, for the drawn strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Sequence


def one_in_three(element: Any) -> bool:
    """Tell whether a power of two is one of every third."""
    return bool(element % 7 == 1)


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
class Wishes(dm.Trigger):
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


EVENT_TIME, PROCESSING_TIME = dm.TimeDomain.EVENT_TIME, dm.TimeDomain.PROCESSING_TIME
