"""Plans whose groupings have an output for what they drop, and what such an output must agree with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.endpoints.message_sinks import CollectSink
from dataflow_model.plan.functions.dofn import MapFn
from dataflow_model.plan.logical.dropped import STRATEGY_OF_DROPPED
from dataflow_model.plan.logical.nodes import AssignWindows, GroupByKeyAndWindow, ParDo, Ref, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node

__all__ = ["REASONS", "check_counts", "taking_dropped"]

REASONS = {"dropped_because_late": "late", "dropped_because_closed": "closed", "dropped_retractions": "retractions"}
_TAG = "dropped"
_PER_SEVEN = dm.WindowingStrategy(dm.FixedWindows(7))


def taking_dropped(plan: Plan) -> Plan:
    """Return the plan in which every grouping has an output for what it drops, which is collected and counted."""
    labels = [node.label for node in plan.nodes if isinstance(node, GroupByKeyAndWindow)]
    strategies = dict(plan.strategies)
    added: list[Node] = []
    for label in labels:
        ref = Ref(label, _TAG)
        windows, reasons, counts = (f"{label}/dropped {part}" for part in ("windows", "reasons", "counts"))
        strategies |= {ref: STRATEGY_OF_DROPPED, Ref(windows): _PER_SEVEN, Ref(reasons): _PER_SEVEN}
        added += [
            Write(label=f"{label}/dropped", input=ref, sink=CollectSink()),
            AssignWindows(label=windows, input=ref, strategy=_PER_SEVEN),
            ParDo(label=reasons, input=Ref(windows), fn=MapFn(_with_reason)),
            GroupByKeyAndWindow(label=counts, input=Ref(reasons), strategy=_PER_SEVEN, combine=dm.Count()),
            Write(label=f"{counts}/panes", input=Ref(counts), sink=CollectSink()),
        ]
    nodes: list[Node] = [
        attrs.evolve(node, dropped=_TAG) if isinstance(node, GroupByKeyAndWindow) else node for node in plan.nodes
    ]
    return attrs.evolve(plan, nodes=(*nodes, *added), strategies=strategies)


def check_counts(result: Any, labels: Iterable[str]) -> int:
    """Check that each output has what was counted, that its records are never late, and return how many there are."""
    counters, number = result.metrics(), 0
    for label in labels:
        records = result.collected(f"{label}/dropped")
        counted = {reason: counters.get(label, {}).get(counter, 0) for counter, reason in REASONS.items()}
        reasons = Counter(record.value.reason.value for record in records)
        assert dict(reasons) == {reason: count for reason, count in counted.items() if count}, label
        assert {record.value.label for record in records} <= {label}
        for record in records:
            assert record.window == dm.GlobalWindow()
            assert not record.is_retraction
            assert record.event_time >= min(record.value.watermark, dm.GlobalWindow().max_timestamp)
        after_the_end = sum(record.value.watermark == dm.MAX_TIMESTAMP for record in records)
        per_seven = f"{label}/dropped counts"
        assert counters.get(per_seven, {}).get("dropped_because_late", 0) <= after_the_end
        in_windows: Counter[str] = Counter()
        for pane in result.collected(f"{per_seven}/panes"):
            in_windows[pane.value[0]] += pane.value[1]
        assert sum(in_windows.values()) >= len(records) - after_the_end
        number += len(records)
    return number


def _with_reason(record: dm.Dropped) -> tuple[str, int]:
    return record.reason.value, 1
