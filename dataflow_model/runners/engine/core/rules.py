"""The rules of one grouping that are not in its trigger, as the machine goes by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.strategy import ClosingBehavior, LateData, OnTimeBehavior, TimestampCombiner

if TYPE_CHECKING:
    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["EARLIEST", "END_OF_WINDOW", "LATEST", "Rules"]

END_OF_WINDOW: Final = 0
EARLIEST: Final = 1
LATEST: Final = 2
_TIMES: Final = {
    TimestampCombiner.END_OF_WINDOW: END_OF_WINDOW,
    TimestampCombiner.EARLIEST: EARLIEST,
    TimestampCombiner.LATEST: LATEST,
}


@attrs.frozen
class Rules:
    """A windowing strategy without its window function and its trigger.

    Attributes:
        allowed_lateness: how far behind its end a window expires, in microseconds.
        passes_always: whether a firing as the watermark passes emits a pane with nothing new in it.
        closes_always: whether a window's last pane is emitted with nothing new in it.
        clears: whether a pane's contents are gone after it.
        retracts: whether a pane takes the one before it back.
        times: what gives a pane its event time.
        reopens: whether late data open an expired window again.
        merges: whether windows of a key that intersect become the one that spans them.
    """

    allowed_lateness: int
    passes_always: bool
    closes_always: bool
    clears: bool
    retracts: bool
    times: int
    reopens: bool
    merges: bool

    @classmethod
    def of(cls, strategy: WindowingStrategy, late_data: LateData = LateData.DROP) -> Rules:
        """Return the rules of a strategy; `late_data` is the pipeline's default.

        The triggers that the core runs ask for no mode of their own, so the four accumulation modes come to two.
        """
        return cls(
            allowed_lateness=int(strategy.allowed_lateness),
            passes_always=strategy.on_time is OnTimeBehavior.FIRE_ALWAYS,
            closes_always=strategy.closing is ClosingBehavior.FIRE_ALWAYS,
            clears=not strategy.accumulates,
            retracts=strategy.retracting,
            times=_TIMES[strategy.timestamp_combiner],
            reopens=(strategy.late_data or late_data) is LateData.DUPLICATE_WINDOW,
            merges=strategy.merges,
        )
