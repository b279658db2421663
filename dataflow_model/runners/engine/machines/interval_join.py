"""A join by distance on one shard, on columns.

Which pairs there are does not depend on the watermark: an element is dropped only if it is later than the lateness, and
one that is not so late finds all of its partners still open. So a machine takes a chunk as a whole: it looks at each
element once, in order, and finds out afterwards at which instants elements without a partner are emitted.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from dataflow_model.errors import KeyEncodingError
from dataflow_model.metrics.collecting import count_received_bundles, enter
from dataflow_model.overriding import override
from dataflow_model.plan.functions.interval_joins import Firing
from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.core.operations import WATERMARK
from dataflow_model.runners.engine.lanes.bundle import GLOBAL_ONLY, Bundle, Update, all_joined, windows_apart
from dataflow_model.runners.engine.lanes.chunk import Chunk, Instants, PlacedBundle, Produced
from dataflow_model.runners.engine.lanes.lanes import Integers, Repeated, array_of, ranks_of_bytes, taken
from dataflow_model.runners.engine.lanes.order import Order, by_window, caused, rising_by_key, timer_cause
from dataflow_model.runners.engine.lanes.order_lanes import dense_ranks, numbers_within
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane
from dataflow_model.runners.engine.machines.open_elements import NEVER, Matches, OpenElements, plus
from dataflow_model.runners.engine.protocol.by_key import NEVER as NO_CLOCK
from dataflow_model.runners.engine.protocol.by_key import sorted_by_key
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.keyed import StoreMachine
from dataflow_model.runners.engine.protocol.sharding import encoded_key, encoded_keys
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.functions.interval_joins import JoinWithin
    from dataflow_model.plan.logical.nodes import ParDo
    from dataflow_model.runners.engine.lanes.chunk import Bucket

_RETRACTION, _PAIR, _ALONE = range(3)
"""What is emitted for an element, in this order: what it takes back, its pairs, and itself without a partner."""
_BOUNDS: Final = by_window(GLOBAL_WINDOW)
_Indices: TypeAlias = "NDArray[np.int64]"


@attrs.frozen(eq=False)
class _Arrivals:
    """The elements of a chunk that are not dropped, in order.

    Attributes:
        bundle: the input.
        rows: the row of each there; an element in several windows is there once for each.
        at: the index of its instant.
        pairs: its key, and its side and value.
        times: its event time.
        reached: the watermark when it arrived.
    """

    bundle: Bundle
    rows: _Indices
    at: _Indices
    pairs: list[Any]
    times: _Indices
    reached: _Indices


@attrs.frozen(eq=False)
class _Joined:
    """What a chunk emits.

    Attributes:
        slots: the slots of its elements.
        rows, kinds, partners: of each output that an element causes, in order, the index of the element, what it is,
            and the slot of its partner, or its own.
        alone: the slots of the elements that the watermark lets be emitted without a partner.
        at, dues: the index of the instant at which each of these is emitted, and the watermark for which it has waited.
        matched: the slots of the elements that have met their first partners.
        expired: the slots of the elements that can have no more partners.
    """

    slots: _Indices
    rows: _Indices
    kinds: _Indices
    partners: _Indices
    alone: _Indices
    at: _Indices
    dues: _Indices
    matched: _Indices
    expired: _Indices


class IntervalJoinMachine(StoreMachine):
    """One join by distance on one shard.

    Args:
        node: the join.
        percentiles: the percentiles below 100 that the plan uses, in order.
        is_durable: whether its changes are made durable.
    """

    def __init__(self, node: ParDo, percentiles: tuple[float, ...] = (), *, is_durable: bool = False) -> None:
        fn: Any = node.fn
        self._join: JoinWithin = fn
        self._retracts = node.retracts
        self._open = OpenElements(self._join, is_durable=is_durable)
        super().__init__(node.label, self._open, percentiles)
        self._drops = Drops.of(node)

    # Chunks --------------------------------------------------------------------------------------------------------

    @override
    def run(self, chunk: Chunk) -> Produced:
        """Run the instants of a chunk; see `KeyedMachine`."""
        if self._percentiles:  # which what is due next holds back, so it has to be known after each instant
            return super().run(chunk)
        enter(self.label)
        count_received_bundles(self.label, np.bincount(array_of(chunk.elements.indices)))
        return self._run(chunk)

    @override
    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        instant = Instants(chunk.instants.clocks[index : index + 1], chunk.instants.closes[index : index + 1])
        elements = PlacedBundle() if inbox is None else PlacedBundle(inbox, Repeated(0, len(inbox)))
        produced = self._run(Chunk(instant, elements, chunk.watermarks[index : index + 1]))
        return {tag: placed.bundle for tag, placed in produced.outputs.items()}

    def _run(self, chunk: Chunk) -> Produced:
        watermarks = WatermarkLane.of(chunk.watermarks).advanced(self.watermarks)
        count, low = len(watermarks), watermarks.low
        produced = Produced()
        if count:
            clocks = np.maximum.accumulate(np.maximum(array_of(chunk.instants.clocks), self.clock))
            before = np.concatenate([[self.watermark], low[:-1]])
            arrivals = self._arrivals(chunk.elements, before, clocks, produced)
            joined = self._joined(arrivals, int(low[-1]), lambda _, dues: np.searchsorted(low, dues))
            outputs, at = self._outputs(arrivals, joined, clocks)
            if len(at):
                produced.outputs[MAIN] = PlacedBundle(outputs, Integers(at))
            watermarks = watermarks.held(self._holds(arrivals, joined, count))
            self._open.end_chunk(joined.matched, joined.expired)
            self.clock = int(clocks[-1])
            self.reach(WatermarkLane.of(chunk.watermarks)[-1])
        produced.watermarks = watermarks
        return produced

    @override
    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket's keys, each in event-time order: the watermark follows its elements, then advances to +∞."""
        sorted_rows, firsts = sorted_by_key(self.label, bucket.elements)
        bundle = bucket.elements.take(sorted_rows)
        bundle.orders = rising_by_key(bundle.orders, firsts)
        self.counters["elements_in"] += len(bundle)
        rows = np.asarray(windows_apart(bundle.windows)[0], np.int64)
        times = array_of(bundle.times)[rows]
        each = np.arange(len(rows))  # every element has an instant of its own
        arrivals = _Arrivals(bundle, rows, each, list(taken(bundle.values, rows)), times, plus(times, -1))
        begins = np.searchsorted(rows, firsts)
        key = np.cumsum(np.isin(each, begins)) - 1

        def passes(numbers: _Indices, dues: _Indices) -> _Indices:
            """Return the last element of each key that arrives before the watermark has passed an instant."""
            of_keys = self._open.keys.numbers([arrivals.pairs[begin][0] for begin in begins.tolist()])
            key_of_number = np.zeros(len(self._open.keys), np.int64)
            key_of_number[of_keys] = np.arange(len(of_keys))
            is_due = np.repeat([False, True], [len(rows), len(dues)])
            keys, moments = np.concatenate([key, key_of_number[numbers]]), np.concatenate([times, dues])
            in_order = np.lexsort([is_due, moments, keys])
            passed = np.empty(len(in_order), np.int64)
            passed[in_order] = np.cumsum(~is_due[in_order]) - 1
            return passed[len(rows) :]

        joined = self._joined(arrivals, int(MAX_TIMESTAMP), passes)
        outputs, at = self._outputs(arrivals, joined, np.full(len(rows), NO_CLOCK))
        outputs.orders = rising_by_key(outputs.orders, np.searchsorted(at, begins).tolist())
        self._open.end_chunk(joined.matched, joined.expired)
        produced = Produced()
        produced.add(0, {MAIN: outputs})
        return produced

    def _arrivals(self, elements: PlacedBundle, before: _Indices, clocks: _Indices, produced: Produced) -> _Arrivals:
        """Return the elements of a chunk that are not too late, and drop the others.

        Args:
            elements: the elements.
            before: the watermark before each instant.
            clocks: the clock at each instant.
            produced: takes the records of those that are dropped.
        """
        bundle, indices = elements.bundle, array_of(elements.indices)
        self.counters["elements_in"] += len(bundle)
        rows = np.asarray(windows_apart(bundle.windows)[0], np.int64)
        times, at = array_of(bundle.times)[rows], indices[rows]
        reached = before[at]
        is_late = (reached > self._open.late_after(times)) | (reached == MAX_TIMESTAMP)
        if is_late.any():
            self.counters["dropped_because_late"] += int(is_late.sum())
            self._drop(bundle, rows[is_late], at[is_late], reached[is_late], clocks, produced)
            rows, at, times, reached = (column[~is_late] for column in (rows, at, times, reached))
        is_all = len(rows) == len(bundle)
        return _Arrivals(
            bundle, rows, at, list(bundle.values if is_all else taken(bundle.values, rows)), times, reached
        )

    def _drop(
        self, bundle: Bundle, rows: _Indices, at: _Indices, reached: _Indices, clocks: _Indices, produced: Produced
    ) -> None:
        drops = self._drops
        if drops is None:
            return
        late = bundle.take(rows)
        elements = zip(late.values, late.times, late.orders, at.tolist(), reached.tolist(), strict=True)
        for index, of_instant in itertools.groupby(elements, operator.itemgetter(3)):
            for value, time, order, _, watermark in of_instant:
                clock = int(clocks[index])
                windows, reason = GLOBAL_ONLY, DropReason.LATE
                drops.add(reason, value, windows, time=time, watermark=watermark, order=order, clock=clock)
            produced.add(index, {drops.tag: drops.take()})

    # Joining -------------------------------------------------------------------------------------------------------

    def _joined(self, arrivals: _Arrivals, last: int, passes: Callable[[_Indices, _Indices], _Indices]) -> _Joined:
        """Join the elements of a chunk with each other and with those that are open.

        Args:
            arrivals: the elements.
            last: the last watermark of the chunk.
            passes: returns the instants after which the watermark has passed given times, by the numbers of the keys.
        """
        elements, firing, at = self._open, self._join.firing, arrivals.at
        self._load(arrivals.pairs, last)
        matches = self._matches(arrivals)
        slots, pair_rows, partners = matches.slots, matches.rows, matches.partners
        until = elements.until
        has_pair = np.bincount(pair_rows, minlength=len(slots)) > 0
        until[slots[has_pair]] = at[has_pair]
        unmatched = np.flatnonzero(until[partners] == NEVER)
        first_matched, first_pairs = np.unique(partners[unmatched], return_index=True)
        first_pairs = unmatched[first_pairs]
        until[first_matched] = at[pair_rows[first_pairs]]

        alone_rows = np.flatnonzero(~has_pair & elements.is_kept(slots))
        may_wait = firing is Firing.ON_TIME
        if firing is not Firing.AT_ONCE:
            of_rows = slots[alone_rows]
            dues = elements.wait(of_rows) if may_wait else elements.expiry(of_rows)
            is_over = dues <= arrivals.reached[alone_rows]
            waiting, alone_rows = alone_rows[~is_over], alone_rows[is_over]
            if may_wait:
                elements.wait_for(slots[waiting])
        elements.is_emitted[slots[alone_rows]] = True

        alone = elements.take_waiting(last)
        expired = elements.take_expired(last)
        if firing is Firing.FINAL:
            alone = expired[elements.is_kept(expired) & (until[expired] == NEVER) & ~elements.is_emitted[expired]]
        dues = elements.wait(alone) if may_wait else elements.expiry(alone)
        alone_at = passes(elements.key[alone], dues)
        is_first = until[alone] > alone_at  # before its first partner
        alone, dues, alone_at = alone[is_first], dues[is_first], alone_at[is_first]
        elements.is_emitted[alone] = True
        until[expired] = np.minimum(until[expired], passes(elements.key[expired], elements.expiry(expired)))

        rows, kinds, others = pair_rows, np.full(len(pair_rows), _PAIR), partners
        retracted = first_pairs[:0]
        if self._retracts:
            retracted = first_pairs[elements.is_emitted[first_matched]]
            elements.is_emitted[first_matched] = False
        if len(retracted) or len(alone_rows):
            parts = (
                (pair_rows[retracted], _RETRACTION, partners[retracted]),
                (pair_rows, _PAIR, partners),
                (alone_rows, _ALONE, slots[alone_rows]),
            )
            number = np.concatenate([retracted, np.arange(len(pair_rows)), np.zeros(len(alone_rows), np.int64)])
            rows, others = (np.concatenate([part[column] for part in parts]) for column in (0, 2))
            kinds = np.repeat([part[1] for part in parts], [len(part[0]) for part in parts])
            in_order = np.lexsort([number, kinds, rows])
            rows, kinds, others = rows[in_order], kinds[in_order], others[in_order]
        elements.touch(np.concatenate([first_matched, alone]))
        matched = np.concatenate([slots[has_pair], first_matched])
        return _Joined(slots, rows, kinds, others, alone, alone_at, dues, matched, expired)

    def _matches(self, arrivals: _Arrivals) -> Matches:
        keys = [pair[0] for pair in arrivals.pairs]
        is_right = np.fromiter([pair[1][0] for pair in arrivals.pairs], np.bool_, len(keys))
        values = [pair[1][1] for pair in arrivals.pairs]
        try:
            return self._open.add(keys, is_right, arrivals.times, values)
        except KeyEncodingError:
            for pair in arrivals.pairs:
                encoded_key(self.label, pair)
            raise

    def _load(self, pairs: list[Any], last: int) -> None:
        if self._open.is_bounded:
            self._open.load_for(encoded_keys(self.label, pairs)[0], last)

    def _holds(self, arrivals: _Arrivals, joined: _Joined, count: int) -> _Indices:
        """Return the earliest event time of pending output after each of `count` instants.

        An element that is emitted without a partner has its own event time. So it holds the watermark there until it
        has a partner, unless it was late already.
        """
        elements, at = self._open, arrivals.at
        holds = np.full(count, NEVER)
        if any(self._join.keeps):
            slots = joined.slots
            is_kept = elements.is_kept(slots)
            rows = np.flatnonzero(is_kept & (arrivals.times >= arrivals.reached) & (elements.until[slots] > at))
            bounds = np.searchsorted(at[rows], np.arange(count + 1)).tolist()
            for index, (begin, end) in enumerate(itertools.pairwise(bounds)):
                if begin < end:
                    elements.hold_at(slots[rows[begin:end]])
                holds[index] = elements.held_after(index)
        return holds

    # Outputs -------------------------------------------------------------------------------------------------------

    def _outputs(self, arrivals: _Arrivals, joined: _Joined, clocks: _Indices) -> tuple[Bundle, _Indices]:
        """Return what a chunk emits, and the index of the instant of each."""
        caused_at = arrivals.at[joined.rows]
        outputs = self._of_elements(arrivals, joined, clocks[caused_at])
        if not len(joined.alone):
            return outputs, caused_at
        released, released_at = self._of_watermarks(joined, clocks)
        if not len(caused_at):
            return released, released_at
        at = np.concatenate([caused_at, released_at])
        in_order = np.argsort(at, kind="stable")  # at each instant, elements come before the watermark
        return all_joined([outputs, released]).take(in_order), at[in_order]

    def _of_elements(self, arrivals: _Arrivals, joined: _Joined, clocks: _Indices) -> Bundle:
        """Return what elements cause; `clocks` has the clock of each output."""
        elements, rows, partners = self._open, joined.rows, joined.partners
        kinds = joined.kinds
        own = joined.slots[rows]
        is_pair, is_right = kinds == _PAIR, elements.is_right[partners]
        # The right one of two, and of one without a partner, on its side.
        lefts = elements.values[np.where(is_right, own, partners)]
        rights = elements.values[np.where(is_right, partners, own)]
        lefts[~is_pair & is_right] = None
        rights[~is_pair & ~is_right] = None
        pairs = arrivals.pairs
        keys = [pairs[row][0] for row in rows.tolist()]
        if self._join.firing is not Firing.AT_ONCE:  # those without a partner are emitted by the watermark
            for output in np.flatnonzero(kinds == _ALONE).tolist():
                keys[output] = elements.keys.shown[int(elements.key[own[output]])]
        times = elements.time[partners]
        times = np.where(kinds == _RETRACTION, times, np.maximum(times, elements.time[own]))
        sources = arrivals.rows[rows]
        orders = caused(arrivals.bundle.orders, sources)
        panes = Repeated(NO_FIRING, len(rows)) if self._retracts else taken(arrivals.bundle.panes, sources)
        return Bundle(
            list(zip(keys, zip(lefts.tolist(), rights.tolist(), strict=True), strict=True)),
            Integers(times),
            Repeated(GLOBAL_ONLY, len(rows)),
            panes,
            orders,
            Integers(clocks),
            self._updates(joined, orders),
        )

    def _updates(self, joined: _Joined, orders: Sequence[Order]) -> dict[int, Update]:
        """Return the marks of what is taken back, and of the pairs in its place."""
        rows, kinds = joined.rows, joined.kinds
        if not self._retracts:
            return {}
        corrected = np.flatnonzero(np.isin(rows, rows[kinds == _RETRACTION]))
        firsts = np.searchsorted(rows, rows[corrected]).tolist()
        return {
            output: Update((self.label, orders[first]), bool(kinds[output] == _RETRACTION))
            for output, first in zip(corrected.tolist(), firsts, strict=True)
        }

    def _of_watermarks(self, joined: _Joined, clocks: _Indices) -> tuple[Bundle, _Indices]:
        """Return the elements that the watermark lets be emitted without a partner, and the instant of each."""
        elements = self._open
        slots, dues, at = joined.alone, joined.dues, joined.at
        numbers = elements.key[slots]
        different, codes = np.unique(numbers, return_inverse=True)
        ranks = ranks_of_bytes([elements.keys.encoded[number] for number in different.tolist()])[codes]
        arrived = elements.number[slots]
        if self._retracts:  # of those with one event time the last one first
            arrived = -arrived
        is_right = elements.is_right[slots]
        in_order = np.lexsort([arrived, elements.time[slots], is_right, ranks, dues, at])
        slots, dues, at, numbers, ranks = (column[in_order] for column in (slots, dues, at, numbers, ranks))
        causes = [
            timer_cause(due, _BOUNDS, elements.keys.encoded[number])
            for due, number in zip(dues.tolist(), numbers.tolist(), strict=True)
        ]
        outputs_of_cause = numbers_within(dense_ranks([ranks, dues, at])).tolist()
        values = elements.values[slots].tolist()
        alone = [
            (None, value) if on_right else (value, None)
            for value, on_right in zip(values, elements.is_right[slots].tolist(), strict=True)
        ]
        shown = elements.keys.shown
        orders = [Order((WATERMARK, *each)) for each in zip(causes, outputs_of_cause, strict=True)]
        bundle = Bundle(
            [(shown[number], pair) for number, pair in zip(numbers.tolist(), alone, strict=True)],
            Integers(elements.time[slots]),
            Repeated(GLOBAL_ONLY, len(slots)),
            Repeated(NO_FIRING, len(slots)),
            orders,
            Integers(clocks[at]),
        )
        return bundle, at
