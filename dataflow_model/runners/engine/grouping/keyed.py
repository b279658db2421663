"""The core as a machine of a stage: it turns chunks and buckets of elements into panes."""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import UserCodeError
from dataflow_model.metrics.collecting import SlowestKeys, count_received_bundles, current, enter
from dataflow_model.metrics.tally import SLOW_KEPT
from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.plan.logical.strategy import LateData
from dataflow_model.runners.engine.core.operations import (
    ADD,
    ELEMENT,
    FIRE,
    GLOBAL_KIND,
    INTERVAL_KIND,
    PANE_LATE,
    PANE_ON_TIME,
    PANE_RETRACTION,
    TAKE_BACK,
    WATERMARK,
)
from dataflow_model.runners.engine.functions.lifetimes import Lifetime
from dataflow_model.runners.engine.functions.user_code import at_window, user_error
from dataflow_model.runners.engine.grouping.core_grouping import CoreChunk, CoreGrouping
from dataflow_model.runners.engine.grouping.pane_lanes import PANE_TIMINGS, PaneInfos, PaneOrders, PaneUpdates
from dataflow_model.runners.engine.grouping.placing import NOWHERE, placed, watermarks_behind
from dataflow_model.runners.engine.lanes.bundle import Bundle, all_joined, retracted
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle, Produced
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals, array_of, taken
from dataflow_model.runners.engine.lanes.order import rising_by_key
from dataflow_model.runners.engine.lanes.order_lanes import DeferredOrders, made_orders
from dataflow_model.runners.engine.lanes.overlapping import parts_of
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, list_of
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, WatermarkLane, Watermarks
from dataflow_model.runners.engine.protocol.by_key import NEVER, sorted_by_key
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.machine import WithoutState
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.values import PaneTiming, checked_pairs, encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.runners.engine.grouping.emitted_panes import EmittedPanes
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Instants
    from dataflow_model.runners.engine.lanes.order import Order
    from dataflow_model.values import Window

DROP_REASONS: Final = (DropReason.LATE, DropReason.CLOSED, DropReason.RETRACTION)
"""The reasons for which the core drops elements, in the order of their numbers there."""

_FEW: Final = 20_000
"""A bucket is run in pieces of at least this many elements, which limits the number of cells at a time."""
_NO_ROW: Final = -1
_SPARSE: Final = 8
_COUNTERS: Final = {timing: f"panes_{timing.name.lower()}" for timing in PaneTiming}


class CoreMachine(WithoutState):
    """One grouping on one shard, run by the core, without durable state; see `durable`.

    Args:
        node: the grouping.
        late_data: the pipeline's default for expired windows.
        percentiles: the percentiles below 100 that any trigger of the plan waits for, in order.
        takes_back: whether its input may contain retractions.
        records_percentile: whether a function downstream requests `watermark_percentile`.
        core: the grouping to run, if it is a subclass of `CoreGrouping`.

    Attributes:
        label: the label of the grouping.
        counters: the counters, by name.
        watermarks: the watermarks of the input.
    """

    def __init__(
        self,
        node: GroupByKeyAndWindow,
        late_data: LateData = LateData.DROP,
        percentiles: tuple[float, ...] = (),
        *,
        takes_back: bool = False,
        records_percentile: bool = False,
        core: CoreGrouping | None = None,
    ) -> None:
        self.label = node.label
        self.counters: Counter[str] = Counter()
        self.watermarks = MIN_WATERMARKS
        self._core = CoreGrouping(node, late_data, takes_back=takes_back) if core is None else core
        self._drops = Drops.of(node)
        self._takes_back = takes_back
        self._merges_apart = node.strategy.window_fn.merges_apart
        self._lifetime = Lifetime(node.label, node.combine)
        self._percentiles = tuple(dict.fromkeys((*percentiles, *self._core.percentiles)))
        self._width = len(self._percentiles)
        self._domains = [self._percentiles.index(percentile) for percentile in self._core.percentiles]
        self._records_percentile = records_percentile
        self._hold = int(MAX_TIMESTAMP)

    # Running -------------------------------------------------------------------------------------------------------

    def run(self, chunk: Chunk) -> Produced:
        """Run the instants of a chunk in order; see `KeyedMachine`."""
        enter(self.label)
        bundle, indices = chunk.elements.bundle, array_of(chunk.elements.indices)
        count_received_bundles(self.label, np.bincount(indices))
        watermarks = WatermarkLane.of(chunk.watermarks).advanced(self.watermarks)
        reached = WatermarkLane.joined([WatermarkLane.of([self.watermarks]), watermarks])
        hold = np.empty(len(watermarks), np.int64)
        outputs: list[PlacedBundle] = []
        dropped: list[PlacedBundle] = []
        first = 0
        for begin, end in itertools.pairwise(parts_of(bundle)):
            is_last = end == len(bundle)
            stop = len(hold) if is_last else int(indices[end - 1]) + 1
            instants = self._instants(chunk.instants, reached, first, stop, is_begun=begin > 0, is_ended=is_last)
            piece = bundle if is_last and not begin else bundle.sliced(begin, end)
            panes = self._run_piece(instants, piece, indices[begin:end] - first)
            hold[first:stop] = panes.hold
            if len(panes):
                output = self._bundle(panes, piece.orders, is_sorted=True)
                at = panes.instant + first
                if self._records_percentile:
                    self._record_percentiles(output, panes, reached.taken(at + (panes.phase >= WATERMARK)))
                outputs.append(PlacedBundle(output, Integers(at)))
            if self._drops is not None:
                dropped.append(self._dropped(self._drops, piece, chunk.instants.clocks, first))
            self._core.recycle()
            first = stop - 1  # the next piece goes on in this instant
        produced = Produced(watermarks=watermarks.held(hold))
        if outputs:
            outputs[0].extend(*outputs[1:])
            produced.outputs[MAIN] = outputs[0]
        if self._drops is not None and any(map(len, dropped)):
            dropped[0].extend(*dropped[1:])
            produced.outputs[self._drops.tag] = dropped[0]
        if len(watermarks):
            self.watermarks, self._hold = watermarks[-1], int(hold[-1])
        return produced

    def _instants(
        self,
        instants: Instants,
        reached: WatermarkLane,
        first: int,
        stop: int,
        *,
        is_begun: bool,
        is_ended: bool,
    ) -> CoreChunk:
        """Return the instants `[first, stop)` without elements.

        Args:
            instants: the instants of the chunk.
            reached: the watermarks before the chunk, and then at each of its instants.
            first: the index of the first instant.
            stop: the index after the last one.
            is_begun: whether the first instant has begun before, so that its signals have taken effect.
            is_ended: whether the last instant ends here; otherwise it keeps the watermark of the one before.
        """
        watermarks, closes = reached.sliced(first + 1, stop + 1), np.fromiter(instants.closes, np.int64, len(instants))
        closes = closes[first:stop]
        if not is_ended:
            watermarks = WatermarkLane.joined([watermarks.sliced(0, stop - first - 1), reached.sliced(stop - 1, stop)])
            closes[-1] = 0
        signals: list[Collection[str]] | None = None
        if instants.signals:
            signals = [instants.signals.get(index, ()) for index in range(first, stop)]
            signals[0] = () if is_begun else signals[0]
        further = watermarks.further(self._width)
        return CoreChunk(
            keys=(),
            values=(),
            elements=NOWHERE,
            clock=array_of(instants.clocks)[first:stop],
            watermark=watermarks.low,
            closes=closes,
            until=np.zeros(stop - first, np.int64),
            further=[further[:, domain] for domain in self._domains],
            signals=signals,
        )

    def _run_piece(self, instants: CoreChunk, bundle: Bundle, indices: NDArray[np.int64]) -> EmittedPanes:
        """Run some instants with their elements; `indices` says at which instant each of these is."""
        began = time.perf_counter()
        keys, values = self._pairs(bundle)
        elements = placed(self.label, bundle, indices, self._core.kind)
        until = _counted_up_to(indices[elements.row], len(instants.clock))
        columns = attrs.evolve(instants, keys=keys, values=values, elements=elements, until=until)
        panes = self._run(columns, bundle, self._core.run)
        self._note_slowest(time.perf_counter() - began)
        return panes

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket's keys one after the other; see `KeyedMachine` and `by_key.run_by_key`."""
        elements = bucket.elements
        rows, firsts = sorted_by_key(self.label, elements)
        orders = elements.orders  # most sinks read no order, so only their indices are kept until one is read
        elements.orders = DeferredOrders(len(orders), lambda: orders)
        elements = elements.take(rows)
        slowest = SlowestKeys()
        outputs: list[Bundle] = []
        dropped: list[Bundle] = []
        begin = 0
        while begin < len(firsts):
            end = begin + 1
            while end < len(firsts) and firsts[end] - firsts[begin] < _FEW:
                end += 1
            until = firsts[end] if end < len(firsts) else len(rows)
            piece = elements.sliced(firsts[begin], until)
            bounds = [first - firsts[begin] for first in firsts[begin:end]]
            outputs.append(self._run_keys(piece, bounds, slowest, dropped))
            begin = end
        slowest.record(self.label)
        produced = Produced()
        produced.add(0, {MAIN: all_joined(outputs)})
        if self._drops is not None:
            produced.add(0, {self._drops.tag: all_joined(dropped)})
        return produced

    def _run_keys(self, elements: Bundle, firsts: Sequence[int], slowest: SlowestKeys, dropped: list[Bundle]) -> Bundle:
        """Run some keys whose rows are consecutive.

        Args:
            elements: the elements of the keys.
            firsts: the indices of the keys' first rows.
            slowest: notes how long each key took.
            dropped: takes what is dropped, if somebody reads it.
        """
        began = time.perf_counter()
        bounds = list(itertools.pairwise([*firsts, len(elements)]))
        elements.orders = _rising_later(elements.orders, firsts)
        begins = np.zeros(len(elements) + 1, np.int64)
        begins[[*firsts, len(elements)]] = 1
        watermarks = self._followed(elements, firsts)
        outputs: list[Bundle] = []
        instants: list[NDArray[np.int64]] = []  # they are rows here
        shown: list[Any] = []
        for begin, end in itertools.pairwise(parts_of(elements)):
            piece = elements if end - begin == len(elements) else elements.sliced(begin, end)
            panes = self._run_rows(piece, watermarks[begin:end], begins[begin:end], ends=bool(begins[end]))
            output = self._bundle(panes, piece.orders)
            if self._records_percentile:
                self._record_percentiles(output, panes, WatermarkLane(panes.watermark))
            outputs.append(output)
            if self._drops is not None:
                dropped.append(self._dropped(self._drops, piece).bundle)
            instants.append(panes.instant + begin)
            of_keys = self._core.numbers[np.flatnonzero(begins[begin:end])]
            shown += map(self._core.keys.shown.__getitem__, of_keys.tolist())
            self._core.recycle()
        output = all_joined(outputs)
        of_key = np.searchsorted(np.concatenate(instants), np.array(firsts, np.int64))
        output.orders = _rising_later(output.orders, of_key.tolist())
        seconds = (time.perf_counter() - began) / len(elements)
        for key, (first, until) in zip(shown, bounds, strict=True):
            slowest.offer(key, seconds * (until - first), until - first)
        return output

    def _followed(self, elements: Bundle, firsts: Sequence[int]) -> NDArray[np.int64]:
        """Return the watermark at each element; none passes where windows of a key that are apart may merge."""
        if self._merges_apart:
            return np.full(len(elements), int(MIN_TIMESTAMP))
        return watermarks_behind(elements, firsts, self._core.kind)

    def _run_rows(
        self, elements: Bundle, watermarks: NDArray[np.int64], begins: NDArray[np.int64], *, ends: bool
    ) -> EmittedPanes:
        """Run elements of some keys, each at its watermark.

        `begins` marks a key's first row, and `ends` whether the last key ends here.
        """
        keys, values = self._pairs(elements)
        placements = placed(self.label, elements, np.zeros(len(elements), np.int64), self._core.kind)
        times = array_of(elements.times)
        columns = CoreChunk(
            keys=keys,
            values=values,
            elements=placements,
            clock=times,
            watermark=watermarks,
            closes=begins,
            until=_counted_up_to(placements.row, len(elements)),
        )
        return self._run(columns, elements, functools.partial(self._core.run_by_key, ends=ends))

    def _run(self, columns: CoreChunk, bundle: Bundle, run: Callable[[CoreChunk], EmittedPanes]) -> EmittedPanes:
        """Run a chunk, add to the counters, and report exceptions of users' functions."""
        machine = self._core.machine
        before = machine.counts()
        machine.emission.begin(ELEMENT, _NO_ROW)
        self._core.fold.begin()
        if len(bundle):
            self._lifetime.set_up()
        try:
            panes = run(columns)
        except UserCodeError:
            raise
        except BaseException as error:
            raise self._reported(error, bundle.values) from error
        self._count("elements_in", len(bundle) - int(retracted(bundle.updates, len(bundle)).sum()))
        for name, count in machine.counts().items():
            self._count(name, count - before[name])
        return panes

    def _dropped(
        self, drops: Drops, bundle: Bundle, clocks: Sequence[int] | None = None, first: int = 0
    ) -> PlacedBundle:
        """Return the elements that were dropped in the last run.

        Args:
            drops: collects them.
            bundle: the input.
            clocks: the clock at each instant of the chunk; `None` in a bounded job, which has no clock.
            first: the index of the run's first instant in the chunk.
        """
        dropped = self._core.machine.drops
        assert dropped is not None  # noqa: S101 - they are recorded where they are collected
        rows = [drop[0] for drop in dropped]
        elements = zip(taken(bundle.values, rows), taken(bundle.times, rows), taken(bundle.orders, rows), strict=True)
        for (_, reason, start, end, kind, watermark, instant), (element, at, order) in zip(
            dropped, elements, strict=True
        ):
            drops.add(
                DROP_REASONS[reason],
                element,
                (self._core.window(start, end, kind),),
                time=at,
                watermark=watermark,
                order=order,
                clock=NEVER if clocks is None else clocks[first + instant],
            )
        indices = [first + drop[-1] for drop in dropped]
        dropped.clear()
        return PlacedBundle(drops.take(), indices)

    def _pairs(self, bundle: Bundle) -> tuple[Sequence[Any] | NDArray[Any], Sequence[Any] | NDArray[Any]]:
        """Return keys and values of the elements, if all are pairs."""
        assert self._takes_back or not bundle.updates, f"{self.label!r} takes nothing back"  # noqa: S101 - see the plan
        elements = bundle.values
        if isinstance(elements, Pairs) and elements.keys_are_alike():
            return elements.integers_or_keys(), elements.numbers_or_values()
        checked_pairs(elements, self.label)
        return [key for key, _ in elements], [value for _, value in elements]

    # Panes ---------------------------------------------------------------------------------------------------------

    def _bundle(self, panes: EmittedPanes, inputs: Sequence[Order], *, is_sorted: bool = False) -> Bundle:
        """Return panes as elements.

        Args:
            panes: the panes.
            inputs: where each row of the input stands.
            is_sorted: whether the rows of each instant are in order.
        """
        core = self._core
        orders = PaneOrders(panes, inputs, core.window, core.keys.lend(panes.key), is_sorted=is_sorted)
        output = Bundle(
            values=self._shown(panes),
            times=Integers(panes.time),
            windows=self._windows(panes),
            panes=PaneInfos(panes.flags & ~PANE_RETRACTION, panes.index, panes.on_time_index, core.trigger),
            orders=orders,
            produced=Integers(panes.produced),
        )
        if (panes.emission >= 0).any():
            output.updates = PaneUpdates(self.label, orders, panes.emission, (panes.flags & PANE_RETRACTION) != 0)
        self._count_panes(panes.flags)
        return output

    def _record_percentiles(self, output: Bundle, panes: EmittedPanes, watermarks: WatermarkLane) -> None:
        """Record for each pane the lowest percentile that had not passed it; `None` for late panes.

        Args:
            output: the panes as elements.
            panes: the same panes.
            watermarks: those of the input when each pane was emitted.
        """
        passed = watermarks.further(self._width) > panes.time[:, None]
        named = np.array([*self._percentiles, LOW_WATERMARK])
        lowest = named[np.argmin(np.hstack([passed, np.zeros((len(panes), 1), np.bool_)]), axis=1)]
        known: list[float | None] = np.where(panes.time < watermarks.low, LOW_WATERMARK, lowest).tolist()
        for row in np.flatnonzero((panes.flags & PANE_LATE) != 0).tolist():
            known[row] = None
        output.percentiles = dict(enumerate(known))

    def _shown(self, panes: EmittedPanes) -> Sequence[tuple[Any, Any]]:
        """Return the key and value of each pane, as columns where keys are of one type and values are in arrays."""
        table, values = self._core.keys, panes.values
        if isinstance(values, np.ndarray | pa.Array):
            column = None if panes.shown else table.shown_as_column(panes.key)
            in_column = pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values)])
            if column is not None:
                return Pairs(pa.chunked_array([column]), in_column, self._core.row)
            values = list_of(in_column, self._core.row)
        keys = panes.shown or list(map(table.shown.__getitem__, panes.key.tolist()))
        return list(zip(keys, values, strict=True))

    def _windows(self, panes: EmittedPanes) -> Sequence[tuple[Window, ...]]:
        """Return the window of each pane."""
        for kind, is_global in ((INTERVAL_KIND, False), (GLOBAL_KIND, True)):
            if (panes.kind == kind).all():
                return Intervals(panes.start, panes.end, is_global=is_global)
        windows: dict[tuple[int, int, int], tuple[Window, ...]] = {}
        in_windows: list[tuple[Window, ...]] = []
        for bounds in zip(panes.start.tolist(), panes.end.tolist(), panes.kind.tolist(), strict=True):
            if bounds not in windows:
                windows[bounds] = (self._core.window(*bounds),)
            in_windows.append(windows[bounds])
        return in_windows

    def _count_panes(self, flags: NDArray[np.int64]) -> None:
        counts = dict(enumerate(np.bincount(flags).tolist()))
        self._count("retractions", sum(count for flag, count in counts.items() if flag & PANE_RETRACTION))
        for timed, timing in PANE_TIMINGS.items():
            mask = PANE_ON_TIME | PANE_LATE | PANE_RETRACTION
            self._count(_COUNTERS[timing], sum(count for flag, count in counts.items() if flag & mask == timed))

    def _count(self, name: str, count: int) -> None:
        if count:
            self.counters[name] += count

    def _note_slowest(self, seconds: float) -> None:
        """Record the keys with the most elements in the tally: a chunk's time is divided by number of elements."""
        tally, rows = current(), self._core.numbers
        if tally is None or not len(rows):
            return
        numbers, counts = _counted(rows)
        for index in np.argsort(-counts, kind="stable")[:SLOW_KEPT].tolist():
            count = int(counts[index])
            tally.spent(self.label, self._core.keys.shown[int(numbers[index])], seconds * count / len(rows), count)

    # Errors --------------------------------------------------------------------------------------------------------

    def _reported(self, error: BaseException, elements: Sequence[Any]) -> BaseException:
        """Return the error to raise in place of another, which names the current element or window."""
        core, emission = self._core, self._core.machine.emission
        log, failed = emission.log, core.fold.failed
        if failed >= 0:
            kinds, arguments = list(log.kind[: log.count]), list(log.argument[: log.count])
            if kinds[failed] == FIRE:
                pane = arguments[failed]
                cause = emission.panes.cause[pane]
                if emission.causes.phase[cause] == ELEMENT:
                    return user_error(error, self.label, elements[emission.causes.at[cause]], hint=None)
                return self._at_window(error, pane)
            number = next((arguments[at] for at in range(failed, log.count) if kinds[at] in {ADD, TAKE_BACK}), None)
            return error if number is None else user_error(error, self.label, elements[number], hint=None)
        if emission.at != _NO_ROW:
            return user_error(error, self.label, elements[emission.at], hint=None)
        for element in elements:
            try:
                encode_key(element[0])
            except BaseException as refused:  # noqa: BLE001 - it is reported
                return user_error(refused, self.label, element, hint=None)
        return error

    def _at_window(self, error: BaseException, pane: int) -> BaseException:
        panes = self._core.machine.emission.panes
        window = self._core.window(panes.start[pane], panes.end[pane], panes.kind[pane])
        try:
            with at_window(self.label, self._core.keys.shown[panes.key[pane]], window):
                raise error
        except UserCodeError as reported:
            return reported

    # What a host reads off -----------------------------------------------------------------------------------------

    def output_watermarks(self) -> Watermarks:
        """Return the input's watermarks, held back by pending output."""
        return self.watermarks.held(self._hold)

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the next watermark, and the next time of the clock, at which a timer or an expiry is due."""
        return self._core.next_moments()

    def clocks(self) -> dict[str, Any]:
        """Return the clocks, for `set_clocks`."""
        machine = self._core.machine
        further = self.watermarks.further(self._width)
        clocks = {"watermark": self.watermarks.low, "clock": int(machine.clock), "percentiles": further}
        return clocks if machine.closed == MIN_TIMESTAMP else {**clocks, "closed": int(machine.closed)}

    def set_clocks(
        self, *, watermark: int, clock: int, percentiles: tuple[int, ...] = (), closed: int = int(MIN_TIMESTAMP)
    ) -> None:
        """Set the clocks to what `clocks` returned."""
        self.watermarks = Watermarks.of(watermark, percentiles)
        further = self.watermarks.further(self._width)
        self._core.set_clocks(watermark, clock, [further[domain] for domain in self._domains], closed)

    def state_size(self) -> tuple[int, int] | None:
        """Return the number of keys, none of which is settled."""
        return self._core.keys.in_use(), 0

    def tear_down(self) -> None:
        """Tear down the combiner."""
        self._lifetime.tear_down()

    # Durable state: there is none ----------------------------------------------------------------------------------

    def settle(self) -> dict[bytes, Any]:
        """Raise an error: the state of this machine cannot be made durable."""
        raise AssertionError(f"{self.label!r} keeps no durable state")


def _rising_later(orders: Sequence[Order], firsts: Sequence[int]) -> DeferredOrders:
    """Return the orders that `rising_by_key` returns, which are computed when one is read."""
    return DeferredOrders(len(orders), lambda: rising_by_key(made_orders(orders), firsts))


def _counted_up_to(indices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return for each number below `count` how many indices are not greater."""
    return np.cumsum(np.bincount(indices, minlength=count), dtype=np.int64)


def _counted(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct numbers in order, and how often each occurs."""
    if int(numbers.max()) > _SPARSE * len(numbers):
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers)
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]
