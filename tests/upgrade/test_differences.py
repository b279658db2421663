"""What an error says about a checkpoint of another pipeline: only what differs."""

from __future__ import annotations

from typing import Any

import dataflow_model as dm
from dataflow_model.plan.logical.fingerprint import differences, fingerprint


def lines(grouping: Any, windows: Any = dm.FixedWindows(10)) -> dict[str, str]:  # noqa: B008 - immutable
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.WindowInto(windows) | grouping
    return fingerprint(p.plan())


def test_another_combiner_shows_the_combiners_alone() -> None:
    assert differences(lines(dm.Mean.per_key()), lines(dm.Sum.per_key())) == [
        "'Sum.PerKey' takes the place of 'Mean.PerKey', which was: combiner Mean; it is: combiner Sum"
    ]


def test_another_label_alone_is_said_so() -> None:
    assert differences(lines("a" >> dm.Sum.per_key()), lines("b" >> dm.Sum.per_key())) == ["'a' is called 'b' now"]


def test_the_same_label_shows_what_differs() -> None:
    assert differences(lines("a" >> dm.Mean.per_key()), lines("a" >> dm.Sum.per_key())) == [
        "'a' was: combiner Mean; it is: combiner Sum"
    ]


def test_what_is_no_grouping_is_new() -> None:
    found = differences(lines(dm.Sum.per_key()), lines(dm.Deduplicate(lambda pair: pair[0], horizon=5)))
    assert any(line.startswith("'Deduplicate/ids' is new: ParDo of ") for line in found)
    assert found[-1].startswith("'Sum.PerKey' is gone; it was: grouping of ")
