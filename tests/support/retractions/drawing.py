"""Strategies that draw windowing strategies under retractions."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.retractions.accounts import retracting

ENDLESS = strategies.triggers(2).map(dm.Repeatedly)
FOREVER = st.just("1000 days")
QUIET = {"on_time": dm.OnTimeBehavior.FIRE_IF_NON_EMPTY, "closing": dm.ClosingBehavior.FIRE_IF_NON_EMPTY}
"""A window whose elements have all been taken back sends no pane: a batch job would not have it at all."""
UNMERGED = strategies.windowing_strategies(
    fns=strategies.window_fns(merging=False), trees=ENDLESS, lateness=FOREVER
).map(lambda strategy: retracting(strategy, **QUIET))
ANYTHING = strategies.windowing_strategies().map(retracting)


@attrs.frozen
class AtEachChange(dm.Trigger):
    """Fires at each element, and at each that is taken back for good."""

    def on_element(self, context: Any) -> None:
        context.trigger()

    def on_retraction(self, context: Any) -> None:
        context.trigger()

    def on_merge(self, context: Any) -> None:
        pass

    def may_finish(self, *, allowed_lateness: dm.Duration) -> bool:
        return False


EACH = dm.Repeatedly(dm.AfterCount(1))
AT_EACH: dict[str, Any] = {
    "trigger": EACH,
    "allowed_lateness": dm.duration("1000 days"),
    "on_time": dm.OnTimeBehavior.FIRE_IF_NON_EMPTY,
    "closing": dm.ClosingBehavior.FIRE_IF_NON_EMPTY,
    "timestamp_combiner": dm.TimestampCombiner.END_OF_WINDOW,
}
FIRST = strategies.windowing_strategies().map(lambda strategy: retracting(strategy, **AT_EACH))
LATER = strategies.windowing_strategies(fns=strategies.window_fns(merging=False)).map(
    lambda strategy: retracting(strategy, **AT_EACH)
)
