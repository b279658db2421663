"""What the state of a grouping holds, counted from its stored entries."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dataflow_model.runners.engine.core.cells import REOPENED
from dataflow_model.runners.engine.grouping.stored.joined import Joined
from dataflow_model.runners.engine.grouping.stored.unpacking import read_cells
from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lanes.ipc import from_ipc
from dataflow_model.runners.engine.lifted.accumulators import column
from dataflow_model.runners.engine.state.key_store import head_bytes
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.runners.sharded.checkpoint.groupings import GroupingRecord

_FLAGS, _PENDING, _ELEMENTS, _INDEX = range(3, 7)
"""The columns of stored cells."""


@attrs.frozen
class Holding:
    """What the state of a grouping holds.

    Attributes:
        windows: the open windows of all keys.
        elements: the elements in them.
        pending: those of the elements that are in no pane yet.
        emitted: the windows that may have emitted a pane.
    """

    windows: int = 0
    elements: int = 0
    pending: int = 0
    emitted: int = 0

    def __add__(self, other: Holding) -> Holding:
        """Return what two shards hold."""
        sums = map(sum, zip(attrs.astuple(self), attrs.astuple(other), strict=True))
        return Holding(*sums)

    @classmethod
    def of(cls, grouping: GroupingRecord, entries: Mapping[bytes, Any], watermark: int) -> Holding:
        """Return what the entries of a grouping on one shard hold.

        Args:
            grouping: the grouping.
            entries: the stored entries.
            watermark: that of its input; windows in columns that end before are closed.
        """
        packed = {encoded: entry for encoded, entry in entries.items() if isinstance(entry, bytes)}
        holding = _of_cells(grouping, packed) if packed else cls()
        partials = [entry for entry in entries.values() if not isinstance(entry, bytes)]
        return holding + _of_partials(grouping, partials, watermark) if partials else holding


def _of_cells(grouping: GroupingRecord, entries: Mapping[bytes, bytes]) -> Holding:
    begin = head_bytes(next(iter(entries.values()))[0])
    ends = list(itertools.accumulate(map(len, entries.values())))
    holding = Holding()
    for _, columns in read_cells(grouping.cells, Joined.of(list(entries), b"".join(entries.values()), ends), begin):
        flags, pending, elements, index = (columns[number] for number in (_FLAGS, _PENDING, _ELEMENTS, _INDEX))
        emitted = (index > 0) | (elements != pending) | grouping.may_have_emitted
        emitted &= flags & REOPENED == 0
        all_elements = int(np.maximum(elements, 0).sum())
        holding += Holding(len(index), all_elements, int(pending.sum()), int(emitted.sum()))
    return holding


def _of_partials(grouping: GroupingRecord, partials: list[tuple[bytes | None, Any]], watermark: int) -> Holding:
    windows: set[tuple[bytes, int]] = set()
    elements = 0
    for content, folded in partials:
        opened = [cell for cell in folded if cell[2] > watermark]
        windows.update((encoded, start) for encoded, start, _ in opened)
        elements += len(opened)
        if content is None:
            continue
        table = from_ipc(content)
        starts = column(table, "window_start")
        is_open = (column(table, "window_end") if grouping.length is None else starts + grouping.length) > watermark
        codes, distinct = codes_of(table["key"])
        keys = list(map(encode_key, distinct.to_pylist()))
        opened_rows = zip(codes[is_open].tolist(), starts[is_open].tolist(), strict=True)
        windows.update((keys[code], start) for code, start in opened_rows)
        elements += int(column(table, "count")[is_open].sum())
    return Holding(len(windows), elements, elements)
