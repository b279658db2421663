"""Plain functions over a whole flow of elements, and their outputs, which may be tagged and have other event times."""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.errors import InvalidType
from dataflow_model.plan.functions.dofn import (
    FilterFn,
    FlatMapFn,
    MapFn,
    Retract,
    TaggedOutput,
    TimestampedValue,
    TimestampFn,
)
from dataflow_model.plan.logical.nodes import MAIN, AssignTimestamps
from dataflow_model.runners.engine.elementwise.flows import Flow, Outputs
from dataflow_model.runners.engine.functions.calling import indices_kept, mapped
from dataflow_model.runners.engine.functions.user_code import check_tag, listed, user_error
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.logical.nodes import ParDo

MARKED: Final = frozenset({TaggedOutput, TimestampedValue, Retract})
"""The classes of outputs that are not plain values."""
LIST_HINT: Final = "return a list, or use Map for one output each"
_WRITTEN: Final[Mapping[type[Any], str]] = {MapFn: "Map", FlatMapFn: "FlatMap", FilterFn: "Filter"}


def map_flow(node: ParDo, flow: Flow) -> Flow:
    """Map all elements at once; outputs that are not plain values are sorted out afterwards."""
    assert isinstance(node.fn, MapFn)  # noqa: S101 - the caller has looked
    values = mapped(node.fn.fn, flow.values, node.label)
    if not MARKED.isdisjoint(map(type, values)):
        outputs = {MAIN: Outputs()}
        for row, (value, time) in enumerate(zip(values, flow.times, strict=True)):
            add_outputs(node, outputs, [value], row, time)
        return outputs[MAIN].flow(flow)
    return flow.with_all_values(values)


def flat_map_flow(node: ParDo, flow: Flow) -> dict[str, Flow]:
    """Call the function for all elements, then sort out the outputs together."""
    assert isinstance(node.fn, FlatMapFn)  # noqa: S101 - the caller has looked
    fn = node.fn.fn
    as_list: Callable[[Any], list[Any]] = functools.partial(listed, label=node.label, hint=LIST_HINT)
    if inspect.isgeneratorfunction(fn):
        as_list = list
    results: list[list[Any]] = []
    failure: BaseException | None = None
    try:
        for value in flow.values:
            results.append(as_list(fn(value)))  # noqa: PERF401 - those before an exception count
    except BaseException as error:  # noqa: BLE001 - it is raised below, unless an earlier output is rejected
        failure = error
    values = list(itertools.chain.from_iterable(results))
    rows = np.repeat(np.arange(len(results)), np.fromiter(map(len, results), np.int64, len(results)))
    outputs = {tag: Outputs() for tag in (MAIN, *node.tags)}
    is_kept = np.ones(len(values), np.bool_)
    times: dict[int, int] = {}
    marked = _marked_indices(values)
    given_times = list(flow.times) if marked else []
    for index in marked:
        row = int(rows[index])
        try:
            tag, values[index], at = _unmarked(values[index], given_times[row], node)
            check_tag(tag, outputs, node.label)
        except BaseException as error:
            raise user_error(error, node.label, flow.values[row]) from error
        if tag != MAIN:
            outputs[tag].add(values[index], row, at)
            is_kept[index] = False
        elif at is not None:
            times[index] = at
    if failure is not None:
        raise user_error(failure, node.label, flow.values[len(results)]) from failure
    if not is_kept.all():
        values = list(itertools.compress(values, is_kept.tolist()))
        moved = np.cumsum(is_kept) - 1
        rows, times = rows[is_kept], {int(moved[index]): time for index, time in times.items()}
    outputs[MAIN] = Outputs(values, rows.tolist(), times)
    return {tag: output.flow(flow) for tag, output in outputs.items()}


def filter_flow(node: ParDo, flow: Flow) -> Flow:
    """Keep the elements for which the function returns something true."""
    assert isinstance(node.fn, FilterFn)  # noqa: S101 - the caller has looked
    rows = indices_kept(node.fn.fn, flow.values, node.label)
    return flow if len(rows) == len(flow.values) else flow.taken(rows)


def add_outputs(node: ParDo, outputs: dict[str, Outputs], results: list[Any], row: int, time: int) -> None:
    """Add the outputs of one element, by tag; if one of them is rejected, add none.

    Args:
        node: the transform.
        outputs: the outputs so far, by tag.
        results: what the function has returned for the element.
        row: the element's row in the flow.
        time: its event time.
    """
    filed: list[tuple[str, Any, int | None]] = []
    for result in results:
        tag, value, at = _unmarked(result, time, node)
        check_tag(tag, outputs, node.label)
        filed.append((tag, value, at))
    for tag, value, at in filed:
        outputs[tag].add(value, row, at)


def _unmarked(result: Any, time: int, node: ParDo) -> tuple[str, Any, int | None]:
    """Return the tag and the value of an output, and its event time if it has its own.

    Args:
        result: the output.
        time: the event time of its input.
        node: the transform.
    """
    tag, value, at = MAIN, result, None
    if isinstance(value, TaggedOutput):
        tag, value = value.tag, value.value
    if isinstance(value, TimestampedValue):
        at = checked_move(time, int(value.event_time), node)
        value = value.value
    if isinstance(value, Retract):
        raise InvalidType(
            f"{node.label!r} has no state, so it cannot take back what it has emitted, got {value!r}",
            hint="use a stateful DoFn that declares retracts = True; retractions of a function's input are applied by "
            "calling it again, without a Retract",
        )
    return tag, value, at


def _marked_indices(values: Sequence[Any]) -> list[int]:
    """Return the indices of the outputs that are not plain values."""
    kinds = list(map(type, values))
    return [] if MARKED.isdisjoint(kinds) else [index for index, kind in enumerate(kinds) if kind in MARKED]


def checked_move(before: int, after: int, node: ParDo | AssignTimestamps) -> int:
    """Return the new event time, after checking that it is no further back than declared."""
    horizon = node.late_data_horizon
    if after < before - int(horizon or 0):
        bound = "no" if horizon is None else "a smaller"
        way_out = f"dm.{_WRITTEN.get(type(node.fn), 'ParDo')}(…).late_data_horizon('1 hour')"
        if isinstance(node, AssignTimestamps) or isinstance(node.fn, TimestampFn):
            way_out = "dm.WithTimestamps(…, late_data_horizon='1 hour')"
        raise InvalidType(
            f"{node.label!r} moves an event time backward from {format_instant(before)} to "
            f"{format_instant(after)}, but declares {bound} bound",
            hint=f"declare how far back it may move; this holds the watermark back by as much: {way_out}",
        )
    return after
