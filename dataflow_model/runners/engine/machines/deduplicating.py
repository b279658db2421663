"""Deduplicate on one shard: keep the first element with each id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.lanes.chunk import Produced
from dataflow_model.runners.engine.lanes.order import relayed
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.keyed import StoreMachine
from dataflow_model.runners.engine.protocol.sharding import encoded_key
from dataflow_model.runners.engine.state.id_store import IdStore, Slices
from dataflow_model.runners.engine.state.resharding import ids_of_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.logical.nodes import Deduplicate
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk
    from dataflow_model.runners.engine.state.resharding import Share


class DeduplicatingMachine(StoreMachine):
    """One Deduplicate on one shard; the input is pairs of id and element, the output elements.

    An element whose slice of event time has expired cannot be checked, so it is dropped and counted. Elements that pass
    are unchanged and do not hold back the watermark.

    Args:
        node: the Deduplicate.
        percentiles: the percentiles of the watermark below 100 that the plan uses, in order.
        records_percentile: whether a function downstream requests `watermark_percentile`.
    """

    def __init__(
        self,
        node: Deduplicate,
        percentiles: tuple[float, ...] = (),
        *,
        records_percentile: bool = False,
    ) -> None:
        self.ids = IdStore(Slices(int(node.horizon)))
        super().__init__(node.label, self.ids, percentiles)
        self._records_percentile = records_percentile
        self._drops = Drops.of(node)

    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        self.clock = max(self.clock, chunk.instants.clocks[index])
        outputs = {} if inbox is None else {MAIN: self._first_of(inbox)}
        if self._drops is not None:
            outputs[self._drops.tag] = self._drops.take()
        moved = self.reach(chunk.watermarks[index])
        if moved:
            self.ids.forget_behind(self.watermark)
        if inbox is not None or moved:
            self.ids.seal_if_many()
            self._measure()
        return outputs

    def state_size(self) -> tuple[int, int] | None:
        """Return the number of ids and their bytes, as last counted, since the caller may be another thread."""
        return self.counters["ids"], self.counters["id_bytes"]

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Return the elements of a bucket of a bounded job that pass, in the order of the input.

        The elements of each id are processed in event-time order, and the watermark follows them.
        """
        inbox, slices = bucket.elements, self.ids.slices
        encoded = [encoded_key(self.label, pair) for pair in inbox.values]
        last: dict[bytes, int] = {}
        rows = []
        times, orders = list(inbox.times), list(inbox.orders)
        for row in sorted(range(len(inbox)), key=lambda row: (times[row], orders[row])):
            time, known = times[row], last.get(encoded[row])
            if known is None or slices.expiry(known) < time:  # elements at a time come before the watermark reaches it
                last[encoded[row]] = slices.of(time)
                rows.append(row)
        self.counters["elements_in"] += len(inbox)
        self.counters["duplicates"] += len(inbox) - len(rows)
        produced = Produced()
        produced.add(0, {MAIN: self._with_values(inbox.take(sorted(rows, key=orders.__getitem__)))})
        return produced

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return the ids of one shard."""
        return ids_of_share(parts, share)

    def _first_of(self, inbox: Bundle) -> Bundle:
        ids, slices = self.ids, self.ids.slices
        encoded = [encoded_key(self.label, pair) for pair in inbox.values]
        sealed = ids.sealed(encoded)
        rows = []
        late = []
        for row, (record_id, known, time) in enumerate(zip(encoded, sealed, inbox.times, strict=True)):
            number = slices.of(time)
            if slices.expiry(number) <= self.watermark:
                late.append(row)
            elif not known and ids.add(record_id, number):
                rows.append(row)
        self.counters["elements_in"] += len(inbox)
        self.counters["dropped_because_late"] += len(late)
        self.counters["duplicates"] += len(inbox) - len(rows) - len(late)
        if self._drops is not None:
            self._drop(inbox.take(late), self._drops)
        return self._with_values(inbox.take(rows))

    def _drop(self, late: Bundle, drops: Drops) -> None:
        rows = zip(late.values, late.windows, late.times, late.orders, strict=True)
        for (_, element), windows, time, order in rows:
            drops.add(
                DropReason.LATE, element, windows, time=time, watermark=self.watermark, order=order, clock=self.clock
            )

    def _with_values(self, passed: Bundle) -> Bundle:
        passed.values = [value for _, value in passed.values]
        passed.orders = relayed(passed.orders)
        passed.percentiles = {}
        if self._records_percentile:
            passed.percentiles = {row: self.percentile_of(time) for row, time in enumerate(passed.times)}
        return passed

    def _measure(self) -> None:
        """Update the counters of ids and their bytes, which are added up over shards."""
        self.counters["ids"] = len(self.ids)
        self.counters["id_bytes"] = self.ids.nbytes if len(self.ids) else 0
        self.counters["bloom_hits"] += self.ids.filter_hits
        self.counters["bloom_false"] += self.ids.filter_errors
        self.ids.filter_hits = self.ids.filter_errors = 0
