"""Collections between two bounded jobs: one keeps them as rows, and the other reads these as those of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.runners.engine.collections.kept import Kept
from dataflow_model.runners.engine.functions.lifetimes import torn_down
from dataflow_model.runners.engine.lanes.lanes import Repeated
from dataflow_model.runners.engine.lanes.order import at_instant, name_of_origin, of_rows
from dataflow_model.runners.sharded.feed.slices import FIRST
from dataflow_model.runners.sharded.outputs.pending import PendingWriter
from dataflow_model.runners.sharded.stages.stage0 import run_through
from dataflow_model.runners.sharded.tasks.rows import PackedBundle, PackedPanes, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.sharded.tasks.rows import Row
    from dataflow_model.runners.sharded.tasks.task import Task


def kept_of_rows(payloads: Iterable[bytes]) -> Kept:
    """Return the collection of some rows, in order."""
    return Kept.of([_elements(payload) for payload in payloads]).in_order()


def read_kept(task: Task, ref: Ref, payloads: Iterable[bytes]) -> Iterator[Row]:
    """Yield the elements of some rows as those of a source, packed by shard.

    Args:
        task: the task.
        ref: the collection.
        payloads: the rows.
    """
    with PendingWriter(task) as writer:
        with torn_down(task):
            for payload in payloads:
                bundle, instants = _elements(payload)
                orders = map(at_instant, instants, bundle.orders)
                bundle.orders = of_rows(name_of_origin(ref.label, ref.tag), orders)
                yield from run_through(task, ref.label, ref.tag, bundle, FIRST, writer=writer)
        yield from writer.finish()


def _elements(payload: bytes) -> tuple[Bundle, Sequence[At]]:
    packed: PackedBundle | PackedPanes = unpacked(payload)
    if isinstance(packed, PackedBundle):
        return packed.bundle, packed.instants()
    bundle = packed.records().bundle()
    return bundle, Repeated(packed.at, len(bundle))
