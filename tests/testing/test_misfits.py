"""What a testing tool cannot take is rejected at the call, with what to pass instead."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import (
    TestStream,
    assert_panes,
    check_combine_fn,
    check_trigger,
    check_window_fn,
    prove,
    run_script,
)

WINDOWS: Any = dm.Window.into(dm.FixedWindows(60))


def _sums(elements: Any) -> Any:
    return elements | dm.Sum.per_key()


MISFITS: dict[str, tuple[Any, type[Exception], str]] = {
    "a script in short form with text as an element": (
        lambda: TestStream.parse(["e foo@12:00"], day="2024-01-01"),
        dm.InvalidArgument,
        r"must be an integer with its time, got 'e foo@12:00'\nHint: write 'e 5@12:00:26'",
    ),
    "an element in short form without a time": (
        lambda: TestStream.parse(["e 5"], day="2024-01-01"),
        dm.InvalidArgument,
        r"must be an integer with its time, got 'e 5'\nHint: ",
    ),
    "an element in short form with an instant for a time of day": (
        lambda: TestStream.parse(["e 5@2024-01-01T01:00Z"], day="2024-01-01"),
        dm.InvalidArgument,
        r"'e 5@2024-01-01T01:00Z' on the day '2024-01-01' must have a time of day at its end\nHint: write 'e 5@12",
    ),
    "a watermark in short form at an impossible time": (
        lambda: TestStream.parse(["w 25:00:00"], day="2024-01-01"),
        dm.InvalidArgument,
        r"'w 25:00:00' on the day '2024-01-01' must have a time of day at its end\nHint: ",
    ),
    "a script in short form that is no list": (
        lambda: TestStream.parse("e 5@12:00", day="2024-01-01"),
        dm.InvalidType,
        r"a list with a text for each step, got 'e 5@12:00'\nHint: write \['e 5@12:00'\]",
    ),
    "a bundle of values": (
        lambda: TestStream().bundle([1, 2], key="k"),  # type: ignore[list-item] # the point
        dm.InvalidType,
        r"a pair of a value and its event time, got 1\nHint: write \.bundle\(\[\(5, ",
    ),
    "a script of values": (
        lambda: run_script([1], WINDOWS),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"`script` must be a TestStream, got \[1\]\nHint: write TestStream\(\)\.add\(5, ",
    ),
    "expected values": (
        lambda: assert_panes([], [1]),
        dm.InvalidType,
        r"a Pane or a dict of its fields, got 1\nHint: write {'value': 1}",
    ),
    "no list of expected panes": (
        lambda: assert_panes([], None),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"`expected` must be a list of panes, got None\nHint: write \[",
    ),
    "values as actual panes": (
        lambda: assert_panes([1], [{"value": 1}]),  # type: ignore[list-item] # the point
        dm.InvalidType,
        r"an actual pane must be a Pane, got 1\nHint: pass what run_script",
    ),
    "no percentile": (
        lambda: dm.AfterWatermark(percentile=None),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"`percentile` must be a number, got None\nHint: use percentile=95",
    ),
    "a class of window functions": (
        lambda: check_window_fn(dm.FixedWindows),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"an instance of WindowFn, got <class .*\nHint: write check_window_fn\(FixedWindows\(…\)\)",
    ),
    "a class of triggers": (
        lambda: check_trigger(dm.AfterCount),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"an instance of Trigger, got <class .*\nHint: write check_trigger\(AfterCount\(…\)\)",
    ),
    "a class of combiners": (
        lambda: check_combine_fn(dm.Sum, [1]),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"an instance of CombineFn, got <class .*\nHint: write check_combine_fn\(Sum\(…\)\)",
    ),
    "no combiner": (
        lambda: check_combine_fn("max", [1]),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"an instance of CombineFn, got 'max'\nHint: write check_combine_fn\(dm\.Mean\(\), ",
    ),
    "a function of two values as a combiner": (
        lambda: check_combine_fn(operator.add, [1]),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"check_combine_fn calls its function with an iterable of values, which add\(.*\) does not take",
    ),
    "one value as the elements of a trigger": (
        lambda: check_trigger(dm.Always(), elements=5),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"check_trigger draws from `elements`, which must be a list of values, got 5\nHint: write \[5\]",
    ),
    "one value as the elements of windows": (
        lambda: check_window_fn(dm.FixedWindows(60), elements=5),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"check_window_fn draws from `elements`, which must be a list of values, got 5",
    ),
    "no elements of windows": (
        lambda: check_window_fn(dm.FixedWindows(60), elements=[]),
        dm.InvalidArgument,
        r"check_window_fn draws from `elements`, got none\nHint: pass a few values",
    ),
    "one value as the inputs of a combiner": (
        lambda: check_combine_fn(dm.Sum(), 5),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"check_combine_fn draws from `inputs`, which must be a list of values, got 5",
    ),
    "a number as the part to compare": (
        lambda: check_combine_fn(dm.Sum(), [5], by=5),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"`by` must be a function of an output, got 5\nHint: pass sorted",
    ),
    "the name of a runner": (
        lambda: prove(_sums, [(("a", 1), 0)], runner="local"),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"`runner` must be a runner, got 'local'\nHint: pass dm\.LocalRunner\(\)",
    ),
    "no examples of a proof": (
        lambda: prove(_sums, [(("a", 1), 0)], examples=0),
        dm.InvalidArgument,
        r"`examples` must be an int of at least 1, got 0\nHint: write examples=100",
    ),
    "a transform as the pipeline of a proof": (
        lambda: prove(dm.Sum.per_key(), [(("a", 1), 0)]),  # type: ignore[arg-type] # the point
        dm.InvalidType,
        r"a function of a collection, got <.*\nHint: write prove\(lambda elements: elements \| transform, data\)",
    ),
    "a proof without data": (
        lambda: prove(_sums, []),
        dm.InvalidArgument,
        r"needs data, got none\nHint: pass a few pairs",
    ),
    "a proof with a number as data": (
        lambda: prove(_sums, 5),
        dm.InvalidType,
        r"a list of elements or a hypothesis strategy, got 5\nHint: pass \[\(",
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_invalid_arguments_of_testing_tools_are_rejected_with_a_way_out(misfit: str) -> None:
    call, error, message = MISFITS[misfit]
    with pytest.raises(error, match=message):
        call()
