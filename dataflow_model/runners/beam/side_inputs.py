"""Side inputs of functions with state that change while the pipeline runs: a function in front of them reads these.

It waits with each element until they are known, as any function with changing side inputs, and adds their current
values to the element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.functions.dofn import MapFn
from dataflow_model.plan.logical.nodes import ParDo, Ref
from dataflow_model.plan.logical.stages import changing_sides
from dataflow_model.runners.beam.functions.stateful import StatefulStageFn

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


def _with_values(pair: tuple[bytes, Any], *values: Any) -> tuple[bytes, Any]:
    key, value = pair
    return key, (value, values)
