"""A topology as a graph to draw: a box for each part and a line for each stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.transforms.drawing.boxes import Box, Kind, Line
from dataflow_model.transforms.topologies.checks import makers, takers

if TYPE_CHECKING:
    from dataflow_model.transforms.topologies.topology import Topology


def boxes_and_lines(topology: Topology) -> tuple[list[Box], list[Line]]:
    """Return the parts of a topology, injectors first and sinks last, and its streams.

    A stream that no part reads ends in a box of its own.
    """
    boxes = [Box(part.label, Kind.INJECTOR) for part in topology.injected]
    boxes += [Box(part.label, Kind.COMPUTATION) for part in topology.added]
    boxes += [Box(part.label, Kind.SINK) for part in topology.sunk]
    indices = {box.label: index for index, box in enumerate(boxes)}
    taken = takers(topology)
    lines = []
    for stream, labels in makers(topology).items():
        ends = [indices[label] for label in taken.get(stream, ())]
        if not ends:
            ends = [len(boxes)]
            boxes.append(Box(Kind.NOBODY.value, Kind.NOBODY))
        lines += [Line(indices[label], end, stream) for label in labels for end in ends]
    return boxes, lines
