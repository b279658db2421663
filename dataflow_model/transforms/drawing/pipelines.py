"""A pipeline as a graph to draw: its transforms, the stage of each, and which are fused, lifted or compiled."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from dataflow_model.plan.checks.all_checks import unbounded_collections
from dataflow_model.plan.logical.nodes import MAIN, AssignWindows, GroupByKeyAndWindow, ParDo, Read, Write
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.plan.rewrites.explain import how_panes_relate, stage_origins, when_panes_are_emitted
from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.time import Duration
from dataflow_model.transforms.drawing.boxes import Box, Kind, Line
from dataflow_model.triggers import DefaultTrigger
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node, Ref
    from dataflow_model.plan.logical.strategy import LateData, WindowingStrategy

_WIDTH: Final = 46
"""How many letters a line of a box has at most, unless one word is longer."""


def pipeline_graph(plan: Plan) -> tuple[list[Box], list[Line]]:
    """Return a box for each transform and a line for each collection that another transform takes.

    A box says in which stage its transform begins, or into which stage it is fused, so that it runs in the same worker
    without a shuffle. A grouping whose combiner runs partly before the shuffle is *lifted*. A grouping also says where,
    when and how, as far as these are not the defaults, and a transform that assigns windows says which.
    """
    staged = cut_into_stages(plan, changing_sides(plan))
    lifted = lifts(staged, streaming=bool(unbounded_collections(plan)))
    origins = stage_origins(staged)
    boxes = []
    for node in plan.nodes:
        match node:
            case _ if node.label in staged.ahead:
                kind = Kind.INJECTOR if isinstance(node, Read) else Kind.FUSED
                box = Box(node.label, kind, "ahead of the run")
            case Read():
                box = Box(node.label, Kind.INJECTOR, "stage 0, source")
            case Write():
                box = Box(node.label, Kind.SINK, "sink")
            case _ if node.label in staged.depths:
                how = ", lifted" if node.label in lifted else ""
                lines_below = [f"stage {staged.depths[node.label]}{how}"]
                if isinstance(node, GroupByKeyAndWindow):
                    lines_below += windowing_lines(node.strategy, plan.late_data_of(node.strategy))
                box = Box(node.label, Kind.COMPUTATION, "\n".join(lines_below))
            case _:
                into = sorted({staged.depths[producer] for producer in origins[node.label]})
                windows = f"\n{node.strategy.window_fn!r}" if isinstance(node, AssignWindows) and node.assigns else ""
                box = Box(node.label, Kind.FUSED, f"fused into stage {' and '.join(map(str, into))}{windows}")
        boxes.append(box)
    indices = {node.label: index for index, node in enumerate(plan.nodes)}
    lines = [
        Line(indices[ref.label], indices[node.label], _name(node, ref)) for node in plan.nodes for ref in node.inputs
    ]
    return boxes, list(dict.fromkeys(lines))


def windowing_lines(strategy: WindowingStrategy, late_data: LateData) -> list[str]:
    """Return where, when and how a grouping answers, in lines of bounded length, without the answers by default.

    Example:
        >>> import dataflow_model as dm
        >>> hours = dm.WindowingStrategy(dm.FixedWindows("1 hour"), dm.Repeatedly(dm.AfterCount(9)))
        >>> windowing_lines(hours, dm.LateData.DROP)
        ["where: FixedWindows('1 hour')", 'when: at every 9 elements', 'late elements are dropped', 'how: discarding']
        >>> windowing_lines(dm.WindowingStrategy(), dm.LateData.DROP)
        []
    """
    lines = [] if isinstance(strategy.window_fn, GlobalWindows) else [f"where: {strategy.window_fn!r}"]
    if strategy.trigger != DefaultTrigger() or strategy.allowed_lateness > Duration(0):
        lines += f"when: {when_panes_are_emitted(strategy, late_data)}".split("; ")
    if len(lines) > 1 or strategy.accumulates:
        lines.append(f"how: {how_panes_relate(strategy)}")
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH)]


def _name(node: Node, ref: Ref) -> str:
    if isinstance(node, ParDo) and ref != node.input:
        return "side input"
    return "" if ref.tag == MAIN else ref.tag
