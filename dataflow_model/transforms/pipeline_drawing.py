"""A pipeline as a graph to draw: its transforms, the stage of each, and which are fused, lifted or compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.checks import unbounded_collections
from dataflow_model.plan.explain import stage_origins
from dataflow_model.plan.lifting import lifts
from dataflow_model.plan.nodes import MAIN, ParDo, Read, Write
from dataflow_model.plan.stages import changing_sides, cut_into_stages
from dataflow_model.transforms.topology_drawing import Box, Kind, Line

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.nodes import Node, Ref

__all__ = ["pipeline_graph"]


def pipeline_graph(plan: Plan) -> tuple[list[Box], list[Line]]:
    """Return a box for each transform and a line for each collection that another transform takes.

    A box says in which stage its transform begins, or into which stage it is fused, so that it runs in the same worker
    without a shuffle. A grouping whose combiner runs partly before the shuffle is *lifted*.
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
                box = Box(node.label, Kind.COMPUTATION, f"stage {staged.depths[node.label]}{how}")
            case _:
                into = sorted({staged.depths[producer] for producer in origins[node.label]})
                box = Box(node.label, Kind.FUSED, f"fused into stage {' and '.join(map(str, into))}")
        boxes.append(box)
    places = {node.label: place for place, node in enumerate(plan.nodes)}
    lines = [
        Line(places[ref.label], places[node.label], _name(node, ref)) for node in plan.nodes for ref in node.inputs
    ]
    return boxes, list(dict.fromkeys(lines))


def _name(node: Node, ref: Ref) -> str:
    if isinstance(node, ParDo) and ref != node.input:
        return "side input"
    return "" if ref.tag == MAIN else ref.tag
