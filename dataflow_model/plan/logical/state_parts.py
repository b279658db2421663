"""The parts of a transform's state, where it has one for each of several combiners or inputs.

State stores such parts by their index, so a pipeline that has them in another order would take one for another. The
arguments of a combiner that decide what it keeps are parts too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.functions.state import CombiningStateSpec
from dataflow_model.plan.logical.fingerprint import stable_repr
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo
from dataflow_model.plan.logical.retracted import retracted_collections

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.plan.logical.stages import StagedPlan

Parts = list[list[str]]
"""The name and the kind of each part, in order, and for a side input the labels of what produces it.

The name is empty if the kind says everything.
"""
_INPUT = "input "


def parts_of_state(staged: StagedPlan) -> dict[str, Parts]:
    """Return the parts of the state of each transform that has several, by label.

    Args:
        staged: a plan.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.plan.logical.stages import cut_into_stages
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | "both" >> dm.Together(total=dm.Sum(), most=dm.Max()).per_key()
        >>> parts_of_state(cut_into_stages(p.plan()))
        {'both': [['total', 'Sum'], ['most', 'Max']]}
    """
    parts: dict[str, Parts] = {}
    for node in staged.keyed:
        own: Iterable[Sequence[str]] = ()
        if isinstance(node, GroupByKeyAndWindow):
            own = node.combine.named_parts()
        elif isinstance(node, ParDo) and node.is_stateful:
            specs = sorted(node.declaration.specs.items())
            own = [
                (f"{name}.{part}", kind)
                for name, spec in specs
                if isinstance(spec, CombiningStateSpec)
                for part, kind in spec.combine.named_parts()
            ]
        elif isinstance(node, ParDo):
            own = _changing_sides(node, staged)
        if own:
            parts[node.label] = [list(part) for part in own]
    return parts


def change_of_parts(before: Parts, after: Parts) -> str | None:
    """Return how parts differ, if state with the former cannot continue as state with the latter; otherwise `None`.

    Parts keep their indices, but may be renamed. Inputs may be added behind the others. A side input is the same if one
    of its producers is.

    Example:
        >>> change_of_parts([["total", "Sum"], ["n", "Count"]], [["total", "Sum"], ["count", "Count"]])
        >>> change_of_parts([["a", "Sum"], ["b", "Sum"]], [["b", "Sum"], ["a", "Sum"]])
        'was: a=Sum, b=Sum; it is: b=Sum, a=Sum'
    """
    indices = {name: index for index, (name, *_) in enumerate(before) if name}
    fits = (
        len(before) <= len(after)
        and all(_is_same(*pair) for pair in zip(before, after, strict=False))
        and all(kind.startswith(_INPUT) for _, kind, *_ in after[len(before) :])
        and all(indices.get(name, index) == index for index, (name, *_) in enumerate(after))
    )
    return None if fits else f"was: {_text(before)}; it is: {_text(after)}"


def _is_same(before: Sequence[str], after: Sequence[str]) -> bool:
    _, kind, *producers = before
    _, other_kind, *other_producers = after
    return kind == other_kind and (not producers or not set(producers).isdisjoint(other_producers))


def _changing_sides(node: ParDo, staged: StagedPlan) -> list[list[str]]:
    """Return the side inputs that change while the plan runs, each by the sources and keyed nodes that produce it."""
    retracted = retracted_collections(staged.plan)
    sides: list[list[str]] = []
    for side, producers in staged.side_feeds.get(node.label, {}).items():
        strategy = staged.plan.strategy(side.ref)
        taken_back = " with retractions" if side.ref in retracted else ""
        sides.append(["", f"side input{taken_back} under {stable_repr(strategy.window_fn)}", *sorted(producers)])
    return sides


def _text(parts: Parts) -> str:
    shown = [
        f"{name}={kind}" if name else " from ".join(filter(None, (kind, " and ".join(producers))))
        for name, kind, *producers in parts
    ]
    return ", ".join(shown) or "the same without this"
