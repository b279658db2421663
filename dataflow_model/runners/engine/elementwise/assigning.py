"""Transforms without functions that emit: windows, event times, and pairs of fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.errors import InvalidType
from dataflow_model.plan.columns.rows import field_getter
from dataflow_model.runners.engine.elementwise.flow_functions import checked_move
from dataflow_model.runners.engine.elementwise.flows import Flow
from dataflow_model.runners.engine.functions.user_code import user_error
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals, array_of
from dataflow_model.runners.engine.lanes.overlapping import Overlapping
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, RowValues
from dataflow_model.runners.engine.lifted.chunks import assigned_columns
from dataflow_model.time import EventTime, event_time
from dataflow_model.values import GlobalWindow, IntervalWindow, Window, as_pair, check_within_time
from dataflow_model.windowing import SlidingWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.logical.nodes import AssignTimestamps, AssignWindows, ToPairs
    from dataflow_model.windowing import WindowFn

_WINDOWS: Final = frozenset({IntervalWindow, GlobalWindow})
"""The window classes that are recognised by type, which is faster than checking for attributes."""


def with_windows(node: AssignWindows, flow: Flow) -> Flow:
    """Return the elements in the windows that the node's window function assigns.

    An element that is in several windows already counts as several elements, each of which is assigned anew.
    """
    if not node.assigns:
        return flow
    _, flow = flow.apart()
    assign = node.strategy.window_fn.assign
    needs_pairs = node.strategy.window_fn.needs_pairs
    columns = _columns(node.strategy.window_fn, flow.times, node.label)
    if columns is not None:
        return Flow(flow.values, flow.causes, flow.times, columns, flow.panes)
    windows: list[tuple[Window, ...]] = []
    for value, time in zip(flow.values, flow.times, strict=True):
        if needs_pairs:
            as_pair(value, node.label)
        try:
            windows.append(_checked_windows(assign(EventTime(time), value), node))
        except BaseException as error:
            raise user_error(error, node.label, value) from error
    return Flow(flow.values, flow.causes, flow.times, windows, flow.panes)


def with_timestamps(node: AssignTimestamps, flow: Flow) -> Flow:
    """Return the elements with the event times that the node's function returns."""
    times = []
    for value, before in zip(flow.values, flow.times, strict=True):
        try:
            after = int(event_time(node.fn(value)))
        except BaseException as error:
            raise user_error(error, node.label, value) from error
        times.append(checked_move(before, after, node))
    return Flow(flow.values, flow.causes, Integers(np.array(times, np.int64)), flow.windows, flow.panes)


def with_pairs(node: ToPairs, flow: Flow) -> Flow:
    """Return the elements as pairs of two fields; in columns if they are rows in columns."""
    if isinstance(flow.values, RowValues) and isinstance(node.key, str) and node.value is not None:
        columns = flow.values.table
        if {node.key, node.value} <= set(columns.column_names):
            return flow.with_all_values(Pairs(columns[node.key], columns[node.value]))
    key, value = _getter(node.key), _getter(node.value)
    pairs = []
    for element in flow.values:
        try:
            pairs.append((key(element), value(element)))
        except BaseException as error:
            raise user_error(error, node.label, element) from error
    return flow.with_all_values(pairs)


def _columns(window_fn: WindowFn, times: Sequence[int], label: str) -> Intervals | Overlapping | None:
    """Assign windows to a column of event times; return `None` if they are assigned element by element."""
    if not len(times) or not window_fn.assigns_columns:
        return None
    if type(window_fn) is SlidingWindows and window_fn.size != window_fn.period:
        return Overlapping(window_fn, array_of(times))
    assigned = assigned_columns(window_fn, array_of(times), label)
    if assigned is None or assigned[0] is not None:
        return None
    _, starts, ends = assigned
    return Intervals.alike(starts, ends, is_global=window_fn.is_global)


def _checked_windows(assigned: Any, node: AssignWindows) -> tuple[Window, ...]:
    """Return the windows that a window function has assigned, after checking that they are windows."""
    windows = tuple(assigned) if isinstance(assigned, Iterable) else None
    if windows is None or not all(type(window) in _WINDOWS or isinstance(window, Window) for window in windows):
        raise InvalidType(
            f"{node.strategy.window_fn!r} must assign a sequence of windows, got {assigned!r}",
            hint="return [dm.IntervalWindow(start, end)] from its assign, or [] to leave the element out",
        )
    for window in windows:
        if type(window) not in _WINDOWS:
            check_within_time(window, node.strategy.window_fn, "assign")
            _check_hashable(window, node.strategy.window_fn)
    return windows


def _check_hashable(window: Window, fn: WindowFn) -> None:
    try:
        hash(window)
    except TypeError as error:
        raise InvalidType(
            f"{fn!r} must assign windows that can be hashed, got {window!r}: {error}",
            hint="make their class @attrs.frozen, and its fields values that can be hashed, such as tuples, not lists",
        ) from error


def _getter(field: str | tuple[str, ...] | None) -> Callable[[Any], Any]:
    if field is None:
        return lambda element: element
    if isinstance(field, tuple):
        parts = [_getter(name) for name in field]
        return lambda element: tuple(part(element) for part in parts)
    return field_getter(field)
