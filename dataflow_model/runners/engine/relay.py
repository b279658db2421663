"""Reshuffle for one shard: elements pass as they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from dataflow_model.plan.nodes import Reshuffle

__all__ = ["RelayEngine"]


class RelayEngine:
    """One reshuffle on one shard; keeps no state."""

    def __init__(self, node: Reshuffle) -> None:
        self.label = node.label
        self.counters: Counter[str] = Counter()
        self.watermark = int(MIN_TIMESTAMP)
        self._output = Bundle()

    def relay(self, bundle: Bundle) -> None:
        """Pass elements on; the shard has brought them into order."""
        self.counters["elements_in"] += len(bundle)
        self._output.extend(
            Bundle(
                bundle.values,
                bundle.times,
                bundle.windows,
                bundle.panes,
                [(1, *order, 0) for order in bundle.orders],
                bundle.produced,
                bundle.updates,
            )
        )

    def output_watermark(self) -> int:
        """Return the input's: a relay holds nothing."""
        return self.watermark

    def take_output(self) -> Bundle:
        """Return what has passed since the last call."""
        output, self._output = self._output, Bundle()
        return output
