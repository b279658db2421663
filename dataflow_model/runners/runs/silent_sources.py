"""Sources from which nothing has arrived yet, so that they hold back what waits for their watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo, Read
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_instant
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.logical.graph import Plan


class SilentSources:
    """Finds the sources of a run whose watermark is at −∞ while that of another source of the same transform advances.

    The watermark of a transform is the lowest of its inputs', so no window there ends before each source has one.

    Args:
        plan: the plan of the run.
        ahead: the labels of the transforms that have run before the run itself.
    """

    def __init__(self, plan: Plan, ahead: Collection[str] = ()) -> None:
        waiting = awaited_sources(plan)
        self._awaited = {
            label: [source for source in sources if source not in ahead]
            for label, sources in waiting.items()
            if label not in ahead
        }
        self._silent: set[str] = set()
        """The sources that were silent at the last look."""
        self._named: set[str] = set()

    def look(self, report: RunReport) -> list[str]:
        """Return a message about each source that is silent now, and was at the last look; about each only once."""
        watermarks = {label: transform.watermark for label, transform in report.transforms.items()}
        before, self._silent = self._silent, set()
        messages = []
        for label, sources in self._awaited.items():
            known = {source: at for source in sources if (at := watermarks[source]) is not None}
            advanced = [source for source, at in known.items() if at > MIN_TIMESTAMP]
            silent = [source for source, at in known.items() if at == MIN_TIMESTAMP] if advanced else []
            self._silent.update(silent)
            for source in silent:
                if source in before and source not in self._named:
                    self._named.add(source)
                    other = advanced[0]
                    reached = "has ended" if known[other] == MAX_TIMESTAMP else f"is at {format_instant(known[other])}"
                    messages.append(
                        f"no watermark of {source!r} yet, from which {report.transforms[source].elements_out:,} "
                        f"elements have been read: {label!r} waits for it, although {other!r} {reached}; a source that "
                        "is silent for long needs watermark=dm.WallTime(…)"
                    )
        return messages


def awaited_sources(plan: Plan) -> Mapping[str, list[str]]:
    """Return the labels of the transforms that wait for watermarks, each with those of the sources that they wait for.

    In the global window, where nothing ends before the input does, only functions with event-time timers wait, such as
    those of joins.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> both = (p | "a" >> dm.Create([("k", 1)]), p | "b" >> dm.Create([("k", 2)])) | dm.Flatten()
        >>> _ = both | dm.Window.into(dm.FixedWindows(60)) | dm.Sum.per_key()
        >>> awaited_sources(p.plan())
        {'Sum.PerKey': ['a', 'b']}
    """
    changing = changing_sides(plan)
    sources: dict[str, list[str]] = {}
    awaited: dict[str, list[str]] = {}
    for node in plan.nodes:
        if isinstance(node, Read):
            sources[node.label] = [node.label]
            continue
        read = dict.fromkeys(source for ref in node.inputs for source in sources[ref.label])
        sources[node.label] = list(read)
        has_changing_side = isinstance(node, ParDo) and node.has_side_among(changing)
        is_stateful = isinstance(node, ParDo) and node.is_stateful
        waits = isinstance(node, ParDo) and (
            node.declaration.joins
            or any(timer.domain is TimeDomain.EVENT_TIME for timer in node.declaration.timers.values())
        )
        ends = not plan.strategy(node.inputs[0]).window_fn.is_global
        if has_changing_side or waits or (ends and (is_stateful or isinstance(node, GroupByKeyAndWindow))):
            awaited[node.label] = list(read)
    return awaited
