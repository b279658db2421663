"""Ids that records get at their source: where they are known, and which requests for them are rejected."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import PlanError
from dataflow_model.plan.logical.graph import main_inputs
from dataflow_model.plan.logical.nodes import Deduplicate, GroupByKeyAndWindow, ParDo, Read, Reshuffle
from dataflow_model.plan.logical.stages import changing_sides

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node, Ref, SideInput

RECORD_ID: Final = "record_id"
"""The parameter by which a function requests its element's record id."""


def check_record_ids(plan: Plan) -> None:
    """Raise `PlanError` for a function that requests record ids where there are none, or where they are not unique.

    An id stays with its record through element-wise transforms, and ends at any other transform.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.Map(lambda pair, record_id: record_id)
        >>> check_record_ids(p.plan())
        Traceback (most recent call last):
        ...
        dataflow_model.errors.PlanError: 'Map' asks for 'record_id', but runs after 'Sum.PerKey', where elements have
            no record id
        Hint: put it between the source and 'Sum.PerKey', or use an id of your own: dm.Deduplicate(id_fn, …)
    """
    for node in plan.nodes:
        if isinstance(node, ParDo) and RECORD_ID in node.metadata:
            _check(plan, node)


def has_record_ids(plan: Plan, ref: Ref) -> bool:
    """Return whether the elements of a collection have record ids, which need not be unique.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> pairs = p | dm.Create([("a", 1)])
        >>> sums = pairs | dm.Sum.per_key()
        >>> has_record_ids(p.plan(), pairs.ref), has_record_ids(p.plan(), sums.ref)
        (True, False)
    """
    changing = changing_sides(plan)
    refs = [ref]
    while refs:
        before = plan[refs.pop().label]
        if _is_keyed(before) or _ends(before, changing):
            return False
        if isinstance(before, Read) and not before.source.names_records:
            return False
        refs.extend(main_inputs(before))
    return True


def _check(plan: Plan, node: ParDo) -> None:
    changing = changing_sides(plan)
    if _ends(node, changing):
        raise _no_ids(node, node.label)
    reads: Counter[str] = Counter()
    refs = [node.input]
    while refs:
        before = plan[refs.pop().label]
        if isinstance(before, Read):
            reads[before.label] += 1
            _check_source(node, before)
        elif _is_keyed(before) or _ends(before, changing):
            raise _no_ids(node, before.label)
        else:
            refs.extend(main_inputs(before))
    for label, ways in reads.items():
        if ways > 1:
            raise PlanError(
                f"{node.label!r} asks for {RECORD_ID!r}, but the records of {label!r} reach it in {ways} ways, "
                "so several elements would have the same id",
                hint="put it before the branches separate, or use an id of your own: dm.Deduplicate(id_fn, …)",
            )


def _check_source(node: ParDo, read: Read) -> None:
    if not read.source.names_records:
        raise PlanError(
            f"{node.label!r} asks for {RECORD_ID!r}, but the rows of {read.label!r} have no ids",
            hint="name the columns that identify a row: "
            "dm.io.ReadDataFrame(…, id_columns=('topic', 'partition', 'offset'))",
        )


def _no_ids(node: ParDo, behind: str) -> PlanError:
    return PlanError(
        f"{node.label!r} asks for {RECORD_ID!r}, but runs after {behind!r}, where elements have no record id",
        hint=f"put it between the source and {behind!r}, or use an id of your own: dm.Deduplicate(id_fn, …)",
    )


def _is_keyed(node: Node) -> bool:
    return isinstance(node, GroupByKeyAndWindow | Reshuffle | Deduplicate)


def _ends(node: Node, changing: Collection[SideInput]) -> bool:
    """Return whether record ids end at a node: it is keyed, so it may process elements later and in other bundles."""
    return isinstance(node, ParDo) and (node.is_stateful or node.has_side_among(changing))
