"""What an error says about a checkpoint of another pipeline: only what differs."""

from __future__ import annotations

from typing import Any

import dataflow_model as dm
from dataflow_model.plan.logical.fingerprint import differences, fingerprint


def lines(grouping: Any, windows: Any = dm.FixedWindows(10)) -> dict[str, str]:  # noqa: B008 - immutable
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.WindowInto(windows) | grouping
    return fingerprint(p.plan())


def test_for_a_changed_combiner_only_the_combiners_are_shown() -> None:
    assert differences(lines(dm.Mean.per_key()), lines(dm.Sum.per_key())) == [
        "'Sum.PerKey' takes the place of 'Mean.PerKey', which was: combiner Mean; it is: combiner Sum"
    ]


def test_a_change_of_only_the_label_is_reported_as_such() -> None:
    assert differences(lines("a" >> dm.Sum.per_key()), lines("b" >> dm.Sum.per_key())) == ["'a' is called 'b' now"]


def test_the_same_label_shows_what_differs() -> None:
    assert differences(lines("a" >> dm.Mean.per_key()), lines("a" >> dm.Sum.per_key())) == [
        "'a' was: combiner Mean; it is: combiner Sum"
    ]


def test_a_transform_that_was_not_a_grouping_is_reported_as_new() -> None:
    found = differences(lines(dm.Sum.per_key()), lines(dm.Deduplicate(lambda pair: pair[0], horizon=5)))
    assert any(line.startswith("'Deduplicate/ids' is new: ParDo of ") for line in found)
    assert found[-1].startswith("'Sum.PerKey' is gone; it was: grouping of ")
