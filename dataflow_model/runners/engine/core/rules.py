"""The rules of one grouping apart from its trigger, in the form for the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.strategy import (
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
)

if TYPE_CHECKING:
    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["EARLIEST", "END_OF_WINDOW", "LATEST", "Rules"]

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
