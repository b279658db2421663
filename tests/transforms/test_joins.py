"""Joins by key: which sides can be joined."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm


@pytest.mark.parametrize(
    "join", [dm.Join.inner(), dm.Join.full(), dm.Join(within="5 minutes"), dm.CoGroupByKey()], ids=repr
)
def test_sides_whose_keys_never_match_are_rejected(join: Any) -> None:
    p = dm.Pipeline()
    names, prices = p | "names" >> dm.Create([(7, "lamp")]), p | "prices" >> dm.Create([("7", 100)])
    with pytest.raises(dm.InvalidType, match=r"no key of type int equals one of type str\nHint: convert the keys"):
        _ = (names, prices) | join


def test_sides_whose_key_types_overlap_are_joined() -> None:
    with dm.Pipeline() as p:
        left, right = p | "left" >> dm.Create([(None, 1), (7, 2)]), p | "right" >> dm.Create([(None, 3), ("7", 4)])
        _ = (left, right) | dm.Join.inner() | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [(None, (1, 3))]
