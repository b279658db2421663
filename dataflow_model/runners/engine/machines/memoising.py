"""A memoised ParDo on one shard, which keeps its outputs so that a retraction retracts exactly those.

Elements are sharded by value, so that an element and its retraction reach the same shard. The outputs of an element are
kept until the last of its windows expires; for a retraction they are emitted as retractions, without calling the
function again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.uncombining import key_of_value
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Produced
from dataflow_model.runners.engine.lanes.order import by_window, event_of, of_row, replayed
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS
from dataflow_model.runners.engine.protocol.by_key import NEVER
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.keyed import StoreMachine
from dataflow_model.runners.engine.state.key_store import EVENT_TIME
from dataflow_model.runners.engine.state.stateful_cells import CellStore, StateCell
from dataflow_model.values import PaneInfo, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dataflow_model.plan.logical.nodes import ParDo, SideInput
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.functions.draws import Draws
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks

_Output: TypeAlias = tuple[str, Any, int, tuple[Window, ...]]
"""An output: its tag, value, event time and windows."""
_Sent: TypeAlias = tuple[int, tuple[Window, ...], PaneInfo]
"""What distinguishes equal values: event time, windows and pane, all of which a retraction repeats."""
_COUNTERS: Final = {DropReason.LATE: "dropped_because_late", DropReason.RETRACTION: "dropped_retractions"}
_KEPT: Final = "kept"
"""The state of a value and window: the outputs of each current element, by what distinguishes equal values."""


class MemoMachine(StoreMachine):
    """One memoised ParDo on one shard.

    Equal values with the same event time, windows and pane are interchangeable: the last one to arrive is the first to
    be retracted. The outputs of an element in an expired window are not kept. The element is processed, unless it
    replaces a value that can no longer be retracted; then both are dropped and counted, as in a grouping.

    Args:
        node: the ParDo.
        staged: the staged plan.
        lateness: how long after the end of a window its values may be retracted.
        side_values: the static side inputs.
        percentiles: the percentiles below 100 that the plan uses, in order.
        records_percentile: whether any function requests `watermark_percentile`.

    Attributes:
        draws: records the function's outputs, and returns earlier ones if the same elements are processed again.
    """

    def __init__(
        self,
        node: ParDo,
        staged: StagedPlan,
        lateness: int,
        side_values: Mapping[SideInput, Callable[[Window], Any]],
        percentiles: tuple[float, ...] = (),
        *,
        records_percentile: bool = False,
    ) -> None:
        self.draws: Draws | None = None
        self.state = CellStore(lateness, holds_to_end=False)
        super().__init__(node.label, self.state, percentiles)
        self._fragment = Fragment(staged.plan, node.label, staged.cuts, side_values)
        self._index = staged.plan.nodes.index(node)
        self._records_percentile = records_percentile
        self._drops = Drops.of(node)

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket, which contains all elements of a value and all their retractions."""
        produced = Produced()
        produced.add(0, self.elements(bucket.elements.in_order()))
        self.advance_watermarks(MAX_WATERMARKS)
        self.set_clocks(watermark=NEVER, clock=NEVER)
        return produced

    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        self.clock = max(self.clock, chunk.instants.clocks[index])
        outputs = {} if inbox is None else self.elements(inbox)
        self.advance_watermarks(chunk.watermarks[index])
        return outputs

    def elements(self, inbox: Bundle) -> dict[str, Bundle]:
        """Call the function for elements, and repeat its outputs for retractions; return both by tag."""
        inbox = inbox.plain()  # each element is looked at several times
        retractions = inbox.retractions()
        self.counters["elements_in"] += len(inbox)
        encoded = [key_of_value(self.label, value) for value in inbox.values]
        outputs_of = self._outputs_of(inbox, encoded, retractions)
        outputs: dict[str, Bundle] = {}
        for row, order in enumerate(inbox.orders):
            if row in retractions:
                row_outputs = self._take_back(inbox, row, encoded[row])
            else:
                row_outputs = outputs_of.get(row, [])
                self._keep(inbox, row, encoded[row], row_outputs)
            for number, (tag, value, time, windows) in enumerate(row_outputs):
                output = outputs.setdefault(tag, Bundle())
                if self._records_percentile:
                    output.percentiles[len(output)] = self.percentile_of(time)
                output_order = replayed(order, self._index, number)
                output.append(
                    value, time, windows, inbox.panes[row], output_order, inbox.produced[row], inbox.updates.get(row)
                )
        return outputs if self._drops is None else outputs | {self._drops.tag: self._drops.take()}

    def advance_watermarks(self, watermarks: Watermarks) -> None:
        """Apply the input's watermarks: clear the state of expired windows."""
        if self.reach(watermarks):
            for _, window, keyed in self.state.take_due({EVENT_TIME: self.watermark}):
                del keyed.cells[window]

    def tear_down(self) -> None:
        """Tear down the DoFn."""
        self._fragment.tear_down()

    def _is_expired(self, windows: tuple[Window, ...]) -> bool:
        return all(self.watermark >= self.state.expiry(window) for window in windows)

    def _is_to_run(self, inbox: Bundle, row: int) -> bool:
        """Return whether to call the function for a value; count the element if it is dropped."""
        if row in inbox.updates and self._is_expired(inbox.windows[row]):
            self._drop(DropReason.LATE, inbox, row)
            return False
        return True

    def _drop(self, reason: DropReason, inbox: Bundle, row: int) -> None:
        """Count an element as dropped in each of its windows."""
        windows = inbox.windows[row]
        self.counters[_COUNTERS[reason]] += len(windows)
        if self._drops is None:
            return
        for window in windows:
            self._drops.add(
                reason,
                inbox.values[row],
                (window,),
                time=inbox.times[row],
                watermark=self.watermark,
                order=inbox.orders[row],
                clock=self.clock,
            )

    def _outputs_of(
        self, inbox: Bundle, encoded: list[bytes], retractions: Collection[int]
    ) -> dict[int, list[_Output]]:
        """Return the outputs of elements by their indices: the recorded outputs, or those of the function.

        Args:
            inbox: the elements.
            encoded: their values.
            retractions: the indices of those that are retractions.
        """
        rows = [row for row in range(len(inbox)) if row not in retractions and self._is_to_run(inbox, row)]
        if self.draws is None:
            return self._run(inbox, rows)
        addresses = {row: (encoded[row], *_sent(inbox, row)) for row in rows}
        again = {row: self.draws.again(address) for row, address in addresses.items()}
        rows = [row for row, outputs in again.items() if outputs is None]
        outputs_of = self._run(inbox, rows)
        for row in rows:
            self.draws.add(addresses[row], outputs_of.get(row, []))
        return outputs_of | {row: outputs for row, outputs in again.items() if outputs is not None}

    def _run(self, inbox: Bundle, rows: list[int]) -> dict[int, list[_Output]]:
        """Call the function for some elements; return its outputs by their indices."""
        fresh = inbox.take(rows)
        fresh.orders = [of_row(self.label, row) for row in rows]
        if self._records_percentile:
            fresh.percentiles = {index: self.percentile_of(time) for index, time in enumerate(fresh.times)}
        outputs_of: dict[int, list[_Output]] = {}
        for tag, output in self._fragment.run_alone(self.label, fresh).items():
            for value, time, windows, order in zip(
                output.values, output.times, output.windows, output.orders, strict=True
            ):
                outputs_of.setdefault(event_of(order, 0), []).append((tag, value, time, windows))
        return outputs_of

    def _keep(self, inbox: Bundle, row: int, encoded: bytes, outputs: list[_Output]) -> None:
        """Keep the outputs of an element, even if it has none, until its last window expires."""
        windows = inbox.windows[row]
        if self._is_expired(windows):
            return
        last = max(windows, key=by_window)
        cells = self.state.open(encoded).cells
        standing = cells.setdefault(last, StateCell()).values.setdefault(_KEPT, {})
        standing.setdefault(_sent(inbox, row), []).append(outputs)
        self.state.mark(encoded, last)

    def _take_back(self, inbox: Bundle, row: int, encoded: bytes) -> list[_Output]:
        """Remove and return the outputs of a retracted element."""
        windows = inbox.windows[row]
        outputs: list[_Output] | None = None
        if not self._is_expired(windows):
            last = max(windows, key=by_window)
            cells = self.state.open(encoded).cells
            if last in cells:
                standing: dict[_Sent, list[list[_Output]]] = cells[last].values[_KEPT]
                sent = _sent(inbox, row)
                equal = standing.get(sent)
                if equal:
                    outputs = equal.pop()
                    if not equal:
                        del standing[sent]
                if not standing:
                    del cells[last]
            self.state.mark(encoded, last)
        if outputs is None:
            self._drop(DropReason.RETRACTION, inbox, row)
            return []
        return outputs


def _sent(inbox: Bundle, row: int) -> _Sent:
    return inbox.times[row], inbox.windows[row], inbox.panes[row]
