"""Reshuffle for one shard: elements pass as they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.keyed import percentile_at
from dataflow_model.runners.engine.order import relayed
from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.nodes import Reshuffle

__all__ = ["RelayEngine"]


class RelayEngine:
    """One reshuffle on one shard; keeps nothing but how far its watermark has come.

    Args:
        node: the reshuffle.
        percentiles: those below 100 of the watermark that someone asks for, in order.
        tells_percentile: whether a function behind it asks for the watermark's percentile.
    """

    def __init__(self, node: Reshuffle, percentiles: tuple[float, ...] = (), *, tells_percentile: bool = False) -> None:
        self.percentiles = dict.fromkeys(percentiles, int(MIN_TIMESTAMP))
        self._tells_percentile = tells_percentile
        self.label = node.label
        self.counters: Counter[str] = Counter()
        self.watermark = int(MIN_TIMESTAMP)
        self._output = Bundle()

    def reach(self, watermark: int, percentiles: Sequence[int] = ()) -> None:
        """Take the watermarks forward, never back: a source that is added later begins far behind."""
        self.watermark = max(self.watermark, watermark)
        for percentile, value in zip(self.percentiles, percentiles, strict=False):
            self.percentiles[percentile] = max(self.percentiles[percentile], value)

    def position(self) -> dict[str, Any]:
        """Return how far the watermarks have come, for `reach`."""
        return {"watermark": self.watermark, "percentiles": tuple(self.percentiles.values())}

    def relay(self, bundle: Bundle) -> None:
        """Pass elements on; the shard has brought them into order."""
        self.counters["elements_in"] += len(bundle)
        self._output.extend(
            Bundle(
                bundle.values,
                bundle.times,
                bundle.windows,
                bundle.panes,
                relayed(bundle.orders),
                bundle.produced,
                bundle.updates,
                self._told(bundle.times),
            )
        )

    def _told(self, times: list[int]) -> dict[int, float | None]:
        if not self._tells_percentile:
            return {}
        return {row: percentile_at(time, self.watermark, self.percentiles) for row, time in enumerate(times)}

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return nothing: nothing waits here."""
        return None, None

    def output_watermark(self) -> int:
        """Return the input's: a relay holds nothing."""
        return self.watermark

    def take_output(self) -> Bundle:
        """Return what has passed since the last call."""
        output, self._output = self._output, Bundle()
        return output
