"""The rules of one grouping apart from its trigger, in the form for the machine, and what it asks users' code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from dataflow_model.plan.logical.strategy import (
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy

END_OF_WINDOW: Final = 0
EARLIEST: Final = 1
LATEST: Final = 2
_OBEDIENT: Final = frozenset({AccumulationMode.CLEAR_BY_DEFAULT, AccumulationMode.ACCUMULATE_BY_DEFAULT})
_TIMESTAMP_COMBINERS: Final = {
    TimestampCombiner.END_OF_WINDOW: END_OF_WINDOW,
    TimestampCombiner.EARLIEST: EARLIEST,
    TimestampCombiner.LATEST: LATEST,
}


@attrs.frozen
class Rules:
    """A windowing strategy without its window function and its trigger.

    Attributes:
        allowed_lateness: how long after its end a window expires, in microseconds.
        passes_always: whether a firing when the watermark passes the window emits a pane even without new elements.
        closes_always: whether a window's last pane is emitted even without new elements.
        clears: whether the contents of a window are cleared after a pane, unless the trigger decides.
        obeys: whether the trigger may decide that.
        retracts: whether a pane retracts the previous one.
        timestamp_combiner: the rule for the event time of a pane.
        reopens: whether late data reopen an expired window.
        merges: whether windows of a key may merge.
        spans: whether only windows that intersect merge, into the window that spans them.
    """

    allowed_lateness: int
    passes_always: bool
    closes_always: bool
    clears: bool
    obeys: bool
    retracts: bool
    timestamp_combiner: int
    reopens: bool
    merges: bool
    spans: bool

    @classmethod
    def of(cls, strategy: WindowingStrategy, late_data: LateData = LateData.DROP) -> Rules:
        """Return the rules of a strategy; `late_data` is the pipeline's default."""
        return cls(
            allowed_lateness=int(strategy.allowed_lateness),
            passes_always=strategy.on_time is OnTimeBehavior.FIRE_ALWAYS,
            closes_always=strategy.closing is ClosingBehavior.FIRE_ALWAYS,
            clears=not strategy.accumulates,
            obeys=strategy.accumulation_mode in _OBEDIENT,
            retracts=strategy.retracting,
            timestamp_combiner=_TIMESTAMP_COMBINERS[strategy.timestamp_combiner],
            reopens=(strategy.late_data or late_data) is LateData.DUPLICATE_WINDOW,
            merges=strategy.merges,
            spans=strategy.window_fn.merges_intersecting,
        )


class MergeCallbacks(Protocol):
    """What the machine asks a user's window function that merges.

    Attributes:
        changed: the cells that the last arrival has made by merging, and that of the arriving window, in order of their
            windows; empty if it has not merged any.
    """

    changed: list[int]

    def arrive(self, key: int, bounds: tuple[int, int, int], candidates: int) -> int:
        """Return the cell of an arriving window after merging it with candidates among the machine's `sources`."""
        ...

    def is_earlier(self, kind: int, other: int, start: int, end: int) -> bool:
        """Return whether a window comes before another one with the same bounds, which is of another kind."""
        ...


class TriggerCallbacks(Protocol):
    """What the evaluator asks and tells users' triggers, each at its place of the tree.

    Attributes:
        fired_at: the deadline that made a place fire in its last call.
    """

    fired_at: int

    def set_clocks(self, now: Sequence[int]) -> None:
        """Set the clocks, by time domain."""
        ...

    def run(self, number: int, place: int, slot: int, row: int, event_time: int) -> int:
        """Show an event to the trigger at a place; return 1 if it fired, plus 2 if it finished, plus the mode."""
        ...

    def collect(self, place: int, slot: int, clock: bool, until: int) -> bool:
        """Take the timers of a place that are due out of its cell; return whether there are any."""
        ...

    def has_timer(self, slot: int, place: int, domain: int) -> bool:
        """Return whether a place, or one below it, has a timer in a time domain."""
        ...

    def reset(self, number: int, place: int, slot: int, row: int, event_time: int) -> None:
        """Let the trigger at a place begin a new turn."""
        ...

    def merge(self, place: int, target: int, slots: Sequence[int]) -> bool:
        """Let the trigger at a place build its state for a merged window; return whether it has finished."""
        ...

    def meet(self, place: int, slot: int, child: int, mode: int) -> None:
        """Note the mode in which a child of an `AfterAll` has fired."""
        ...

    def take_met(self, place: int, slot: int) -> int:
        """Forget the conditions that were met; return the mode of the firing."""
        ...

    def merge_met(self, place: int, target: int, slots: Sequence[int]) -> None:
        """Unite the met conditions of several cells."""
        ...

    def remember(self, slot: int, flags: int, index: int, on_time_index: int) -> None:
        """Note a pane of a cell."""
        ...

    def clear(self, place: int, slot: int) -> None:
        """Forget what a place and all below it have stored, and their timers."""
        ...

    def forget(self, slot: int) -> None:
        """Forget a cell."""
        ...
