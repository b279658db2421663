"""What a chain of groupings comes to, all data in hand at once; and what its panes fold to."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.testing.proving.proof_runs import groupings_of
from tests.support.laws.answers import elements_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from tests.support.laws.chains import Case

Answer = dict[tuple[Any, Any], tuple[Any, int]]
"""By key and window, the value and the event time of its pane."""


def batch_answers(drawn: Case) -> list[Answer]:
    """Return what each grouping comes to when each is given the whole answer of the one before."""
    answers: list[Answer] = []
    inputs: list[tuple[Any, Any, int, Any]] = [
        (key, value, int(at), None) for key, value, at in elements_of(drawn.script)
    ]
    for grouping, node in zip(drawn.chain.groupings, groupings_of(drawn.plan()), strict=True):
        assigns = grouping.windowing is not None and not grouping.keeps_windows
        placed: defaultdict[Any, list[tuple[Any, Any, int]]] = defaultdict(list)
        for before, value, at, window in inputs:
            key = before if grouping.rekey is None else grouping.rekey(before, value)[0]
            windows = node.strategy.window_fn.assign(dm.EventTime(at), (key, value)) if assigns else [window]
            placed[key] += [(assigned, value, at) for assigned in windows]
        answers.append(_grouped(placed, node.strategy, node.combine))
        inputs = [(key, value, at, window) for (key, window), (value, at) in answers[-1].items()]
    return answers


def _grouped(placed: dict[Any, list[tuple[Any, Any, int]]], strategy: WindowingStrategy, combine: Any) -> Answer:
    contents: defaultdict[tuple[Any, Any], list[tuple[Any, int]]] = defaultdict(list)
    for key, elements in placed.items():
        windows = sorted({window for window, *_ in elements}, key=lambda window: (window.start, window.end))
        homes = {window: window for window in windows}
        for members, merged in strategy.window_fn.merge(windows) if strategy.merges else ():
            homes |= dict.fromkeys(members, merged)
        for window, value, at in elements:
            contents[key, homes[window]].append((value, at))
    answer: Answer = {}
    for (key, window), inside in contents.items():
        total = functools.reduce(combine.add_input, [value for value, _ in inside], combine.create_accumulator())
        times = [at for _, at in inside]
        event_time = {
            dm.TimestampCombiner.END_OF_WINDOW: int(window.max_timestamp),
            dm.TimestampCombiner.EARLIEST: min(times),
            dm.TimestampCombiner.LATEST: max(times),
        }[strategy.timestamp_combiner]
        answer[key, window] = combine.extract_output(total), event_time
    return answer


def what_stands(records: Iterable[Record]) -> dict[tuple[Any, Any], Any]:
    """Return the last value of each key and window that has not been taken back."""
    values: dict[tuple[Any, Any], Any] = {}
    for record in records:
        cell = (record.value[0], record.window)
        if record.is_retraction:
            assert values.pop(cell) == record.value[1]
        else:
            values[cell] = record.value[1]
    return {cell: value for cell, value in values.items() if value not in {0, None}}


def added_up(records: Iterable[Record], answer: Answer) -> dict[tuple[Any, Any], Any]:
    """Add up discarding panes, in the windows of the answer."""
    sums = dict.fromkeys(answer, 0)
    for record in records:
        key, value = record.value
        home = next(
            (key, window)
            for other, window in sums
            if other == key and window.start <= record.window.start and record.window.end <= window.end
        )
        exact = (key, record.window)
        sums[exact if exact in sums else home] += value
    return sums
