"""Deduplicate on one shard: of the elements with one id the first passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.nodes import MAIN
from dataflow_model.runners.engine.chunk import Produced
from dataflow_model.runners.engine.id_store import IdStore, Slices
from dataflow_model.runners.engine.keyed import KeyedEngine
from dataflow_model.runners.engine.order import relayed
from dataflow_model.runners.engine.resharding import ids_of_share
from dataflow_model.runners.engine.sharding import encoded_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.nodes import Deduplicate
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.chunk import Bucket, Chunk
    from dataflow_model.runners.engine.resharding import Share

__all__ = ["DeduplicatingEngine"]


class DeduplicatingEngine(KeyedEngine):
    """One Deduplicate on one shard; takes pairs of id and element, and gives elements.

    An element whose slice of event time has gone cannot be judged: it is dropped and counted. What passes is changed in
    nothing, and holds nothing back.

    Args:
        node: the Deduplicate.
        percentiles: those below 100 of the watermark that someone asks for, in order.
        tells_percentile: whether a function behind it asks for the watermark's percentile.
        ids: where the ids are; made for the node's horizon where it is not given.
    """

    def __init__(
        self,
        node: Deduplicate,
        percentiles: tuple[float, ...] = (),
        *,
        tells_percentile: bool = False,
        ids: IdStore | None = None,
    ) -> None:
        self.ids = IdStore(Slices(int(node.horizon))) if ids is None else ids
        super().__init__(node.label, self.ids, percentiles)
        self._tells_percentile = tells_percentile

    def _instant(self, chunk: Chunk, place: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        self.clock = max(self.clock, chunk.instants.clocks[place])
        outputs = {} if inbox is None else {MAIN: self._first_of(inbox)}
        moved = self.reach(chunk.watermarks[place])
        if moved:
            self.ids.forget_behind(self.watermark)
        if inbox is not None or moved:
            self.ids.seal_if_many()
            self._measure()
        return outputs

    def state_size(self) -> tuple[int, int] | None:
        """Return how many ids there are, and their bytes, as last counted: the one who asks may be another thread."""
        return self.counters["ids"], self.counters["id_bytes"]

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Return what passes of all the elements that some ids have in a bounded job, in the order of the input.

        Per id they go in the order of event times, and the watermark follows them.
        """
        inbox, slices = bucket.elements, self.ids.slices
        encoded = [encoded_key(self.label, pair) for pair in inbox.values]
        last: dict[bytes, int] = {}
        rows = []
        for row in sorted(range(len(inbox)), key=lambda row: (inbox.times[row], inbox.orders[row])):
            time, kept = inbox.times[row], last.get(encoded[row])
            if kept is None or slices.expiry(kept) < time:  # elements at a time come before the watermark gets there
                last[encoded[row]] = slices.of(time)
                rows.append(row)
        self.counters["elements_in"] += len(inbox)
        self.counters["duplicates"] += len(inbox) - len(rows)
        produced = Produced()
        produced.add(0, {MAIN: self._given(inbox.take(sorted(rows, key=inbox.orders.__getitem__)))})
        return produced

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Cut the sets of ids."""
        return ids_of_share(parts, share)

    def _first_of(self, inbox: Bundle) -> Bundle:
        ids, slices = self.ids, self.ids.slices
        encoded = [encoded_key(self.label, pair) for pair in inbox.values]
        sealed = ids.sealed(encoded)
        rows = []
        late = 0
        for row, (one, known, time) in enumerate(zip(encoded, sealed, inbox.times, strict=True)):
            number = slices.of(time)
            if slices.expiry(number) <= self.watermark:
                late += 1
            elif not known and ids.add(one, number):
                rows.append(row)
        self.counters["elements_in"] += len(inbox)
        self.counters["dropped_because_late"] += late
        self.counters["duplicates"] += len(inbox) - len(rows) - late
        return self._given(inbox.take(rows))

    def _given(self, passed: Bundle) -> Bundle:
        passed.values = [value for _, value in passed.values]
        passed.orders = relayed(passed.orders)
        passed.percentiles = {}
        if self._tells_percentile:
            passed.percentiles = {row: self.percentile_of(time) for row, time in enumerate(passed.times)}
        return passed

    def _measure(self) -> None:
        """Say how many ids there are and what they take; shards' figures add up."""
        self.counters["ids"] = len(self.ids)
        self.counters["id_bytes"] = self.ids.nbytes if len(self.ids) else 0
        self.counters["bloom_hits"] += self.ids.filter_hits
        self.counters["bloom_false"] += self.ids.filter_errors
        self.ids.filter_hits = self.ids.filter_errors = 0
