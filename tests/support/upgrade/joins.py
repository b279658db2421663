"""A pipeline with joins by event time, which keep elements of both sides in state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOINS: Final[dict[str, tuple[Any, bool]]] = {
    "interval": (dm.Join.full(within="9 microseconds"), False),
    "corrected": (dm.Join.full(within="9 microseconds"), True),
    "as of": (dm.Join.left_as_of(within="90 microseconds"), True),
}
"""The joins, by their sinks, and whether their sides retract."""


def joins(rows: Path) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline that joins even numbers with odd ones."""

    def build(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(
            rows, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("4 microseconds")
        )
        pairs = read | "pairs" >> dm.Map(lambda row: (row.key, row.n))
        everywhere = dm.Window.into(dm.GlobalWindows()).allowed_lateness("30 microseconds")
        for sink, (join, retracts) in JOINS.items():
            windows = everywhere.trigger(dm.Always()).accumulating_and_retracting() if retracts else everywhere
            sides = tuple(
                pairs
                | f"{sink}, {odd}" >> dm.Filter(lambda pair, odd: pair[1] % 2 == odd, odd)
                | f"{sink} {odd}" >> windows
                for odd in (0, 1)
            )
            _ = sides | f"{sink} join" >> join | sink >> dm.io.Collect()

    return build


def _is_even(pair: tuple[str, int]) -> bool:
    return pair[1] % 2 == 0


def _is_odd(pair: tuple[str, int]) -> bool:
    return pair[1] % 2 == 1
