"""Side inputs that change while the pipeline runs.

Where a function with state reads one, a function in front of it does so: it waits with each element until the side
input is known, as any function with changing side inputs, and adds its current values to the element. Where panes
accumulate, each is taken back before the next one, so that a side input has the newest one of each key, whatever
functions have made of them on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.checks.side_panes import refining_groupings
from dataflow_model.plan.functions.dofn import MapFn
from dataflow_model.plan.functions.windowed import ForeignFn
from dataflow_model.plan.logical.graph import main_inputs, outputs_of
from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo, Ref, Write
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.runners.beam.functions.stateful import StatefulStageFn
from dataflow_model.runners.beam.own.labelled import why_not_retractable

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.strategy import WindowingStrategy


def with_sides_in_elements(plan: Plan) -> Plan:
    """Return a plan whose functions with state get the side inputs that change with their elements.

    Args:
        plan: the plan of a pipeline of Beam's.
    """
    changing = changing_sides(plan)
    nodes: list[Node] = []
    strategies: dict[Ref, WindowingStrategy] = dict(plan.strategies)
    for node in plan.nodes:
        if isinstance(node, ParDo) and isinstance(node.fn, StatefulStageFn) and node.has_side_among(changing):
            read = {name: side for name, side in node.kwargs.items() if side in changing}
            front = ParDo(
                label=f"{node.label}/side inputs", input=node.input, fn=MapFn(_with_values), args=tuple(read.values())
            )
            strategies[Ref(front.label)] = plan.strategy(node.input)
            kwargs = {name: side for name, side in node.kwargs.items() if name not in read}
            fn = node.fn.with_sides_in_elements(tuple(read))
            nodes += [front, attrs.evolve(node, input=Ref(front.label), fn=fn, kwargs=kwargs)]
        else:
            nodes.append(node)
    return attrs.evolve(plan, nodes=tuple(nodes), strategies=strategies)


def with_panes_taken_back(plan: Plan) -> Plan:
    """Return a plan whose accumulating groupings retract the older panes of windows that side inputs have.

    Args:
        plan: the plan of a pipeline of Beam's.

    Raises:
        UnsupportedOnRunner: for panes that something else reads too: it would take what is taken back for elements.
    """
    chosen: set[str] = set()
    for reader in plan.nodes:
        for side in reader.side_inputs if isinstance(reader, ParDo) else ():
            for grouping in refining_groupings(plan, side.ref):
                if not grouping.strategy.accumulates:  # there is nothing to retract
                    continue
                other = _other_reader(plan, grouping)
                if other is not None:
                    raise UnsupportedOnRunner(
                        f"the side input {side.ref.label!r} of {reader.label!r} consists of panes of "
                        f"{grouping.label!r} that replace each other, and {other} reads these panes too",
                        hint="compute the side input by a grouping of its own, which nothing else reads, "
                        "or use AccumulationMode.DISCARDING, with which it has all panes so far",
                    )
                chosen.add(grouping.label)
    if not chosen:
        return plan

    def taking_back(node: Node) -> Node:
        if isinstance(node, GroupByKeyAndWindow) and node.label in chosen:
            return attrs.evolve(node, strategy=attrs.evolve(node.strategy, retracting=True))
        if isinstance(node, ParDo) and isinstance(node.fn, ForeignFn):
            return attrs.evolve(node, retractable="memoised")  # only where retractions come: it may be impure
        return node

    return plan.changed(taking_back)


def _other_reader(plan: Plan, grouping: GroupByKeyAndWindow) -> str | None:
    """Return what would see the retractions of a grouping besides side inputs; `None` if there is nothing."""
    refs = [Ref(grouping.label)]
    for ref in refs:
        for node in plan.consumers(ref):
            if ref not in main_inputs(node):  # it has it as a side input
                continue
            if isinstance(node, GroupByKeyAndWindow | Deduplicate | Write):
                return repr(node.label)
            if isinstance(node, ParDo) and isinstance(node.fn, ForeignFn):
                reason = why_not_retractable(vars(node.fn)["spec"], ())
                if reason is not None:
                    return f"{reason[0]!r}, which {reason[1]},"
            refs += [after for after in outputs_of(node) if after not in refs]
    return None


def _with_values(pair: tuple[bytes, Any], *values: Any) -> tuple[bytes, Any]:
    key, value = pair
    return key, (value, values)
