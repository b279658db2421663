"""Reshuffle for one shard: elements pass unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Produced
from dataflow_model.runners.engine.lanes.order import relayed
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.protocol.keyed import percentile_at
from dataflow_model.runners.engine.protocol.machine import ObjectMachine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.logical.nodes import Reshuffle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk


class RelayMachine(ObjectMachine):
    """One reshuffle on one shard; its only state is its watermarks.

    Args:
        node: the reshuffle.
        percentiles: the percentiles of the watermark below 100 that the plan uses, in order.
        records_percentile: whether a function downstream requests `watermark_percentile`.
    """

    def __init__(
        self, node: Reshuffle, percentiles: tuple[float, ...] = (), *, records_percentile: bool = False
    ) -> None:
        super().__init__(node.label)
        self._percentiles = percentiles
        self._records_percentile = records_percentile

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Pass a bucket's elements on, in order."""
        produced = Produced()
        produced.add(0, {MAIN: self._relayed(bucket.elements.in_order())})
        return produced

    def clocks(self) -> dict[str, Any]:
        """Return the watermarks, for `set_clocks`."""
        return {"watermark": self.watermarks.low, "percentiles": self.watermarks.further(len(self._percentiles))}

    def set_clocks(self, *, watermark: int, clock: int = 0, percentiles: tuple[int, ...] = ()) -> None:
        """Set the watermarks to what `clocks` returned; the clock is not used."""
        del clock
        self.watermarks = Watermarks.of(watermark, percentiles)

    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        # An element's percentile is that of the watermark before its instant.
        outputs = {} if inbox is None else {MAIN: self._relayed(inbox)}
        self.reach(chunk.watermarks[index])
        return outputs

    def _relayed(self, bundle: Bundle) -> Bundle:
        self.counters["elements_in"] += len(bundle)
        return Bundle(
            bundle.values,
            bundle.times,
            bundle.windows,
            bundle.panes,
            relayed(bundle.orders),
            bundle.produced,
            bundle.updates,
            self._percentiles_by_row(bundle.times),
        )

    def _percentiles_by_row(self, times: Sequence[int]) -> dict[int, float | None]:
        if not self._records_percentile:
            return {}
        low, further = self.watermarks.low, self.watermarks.further(len(self._percentiles))
        percentiles = dict(zip(self._percentiles, further, strict=True))
        return {row: percentile_at(time, low, percentiles) for row, time in enumerate(times)}
