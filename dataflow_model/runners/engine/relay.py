"""Reshuffle for one shard: elements pass as they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.keyed import percentile_at
from dataflow_model.runners.engine.order import relayed
from dataflow_model.runners.engine.watermarks import MIN_WATERMARKS, Watermarks

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
        self._percentiles = percentiles
        self._tells_percentile = tells_percentile
        self.label = node.label
        self.counters: Counter[str] = Counter()
        self.watermarks = MIN_WATERMARKS
        self._output = Bundle()

    def reach(self, watermarks: Watermarks) -> None:
        """Take the watermarks forward, never back: a source that is added later begins far behind."""
        self.watermarks = self.watermarks.advance(watermarks)

    def stand_at(self, *, watermark: int, percentiles: Sequence[int] = ()) -> None:
        """Set the watermarks, as `position` gave them."""
        self.watermarks = Watermarks.of(watermark, percentiles)

    def position(self) -> dict[str, Any]:
        """Return how far the watermarks have come, for `stand_at`."""
        return {"watermark": self.watermarks.low, "percentiles": self.watermarks.further(len(self._percentiles))}

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
        low, further = self.watermarks.low, self.watermarks.further(len(self._percentiles))
        percentiles = dict(zip(self._percentiles, further, strict=True))
        return {row: percentile_at(time, low, percentiles) for row, time in enumerate(times)}

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return nothing: nothing waits here."""
        return None, None

    def output_watermarks(self) -> Watermarks:
        """Return the input's: a relay holds nothing."""
        return self.watermarks

    def take_output(self) -> Bundle:
        """Return what has passed since the last call."""
        output, self._output = self._output, Bundle()
        return output
