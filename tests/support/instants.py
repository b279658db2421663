"""One instant of a stage at a time: a chunk of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.runners.engine.lanes.chunk import Instants, PlacedBundle

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks
    from dataflow_model.runners.engine.machines.shard import Arrivals, StageShard


def run_instant(
    shard: StageShard,
    clock: int,
    inboxes: Mapping[str, Bundle],
    watermarks: Mapping[str, Watermarks],
    *,
    closes: bool = True,
    signals: Collection[str] = (),
) -> tuple[Arrivals, dict[str, Watermarks]]:
    """Run one instant of a stage on one shard.

    Returns:
        what arrives behind it, and by node what the shard lets the output watermarks be.
    """
    arrivals, reports = shard.run(
        Instants([clock], [closes], {0: signals} if signals else {}),
        {cut: PlacedBundle(bundle, [0] * len(bundle)) for cut, bundle in inboxes.items()},
        {producer: [reported] for producer, reported in watermarks.items()},
    )
    return (
        {cut: placed.bundle for cut, placed in arrivals.items()},
        {label: report for label, (report,) in reports.items()},
    )
