"""Transforms of pairs, given elements that Python would also unpack into two parts."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm


@pytest.mark.parametrize("element", ["US", ["U", "S"], ("U", "S", 1)], ids=repr)
@pytest.mark.parametrize(
    "transform",
    [
        lambda codes, pairs: (codes, pairs) | dm.CoGroupByKey(),
        lambda codes, pairs: (codes, pairs) | dm.Join.inner(),
        lambda codes, pairs: (pairs, codes) | dm.Join.inner(within=3),
        lambda codes, _: codes | dm.Latest.per_key(),
        lambda codes, _: codes | dm.Keys(),
        lambda codes, _: codes | dm.Values(),
        lambda codes, _: codes | dm.KvSwap(),
        lambda codes, _: codes | dm.ToDict.globally(),
        lambda codes, _: codes | dm.CombineValues(max),
        lambda codes, pairs: pairs | dm.Map(lambda pair, names: (pair, names), dm.AsDict(codes)),
    ],
)
def test_what_is_no_pair_is_never_split_into_one(element: Any, transform: Any) -> None:
    p = dm.Pipeline()
    codes = p | "codes" >> dm.Create([element]) | "forgets its type" >> dm.Map(lambda code: code)
    _ = transform(codes, p | "pairs" >> dm.Create([("U", "x")])) | "out" >> dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match=r"(takes|must hold) \(key, value\) pairs, got \[?['\[(]"):
        p.run().wait_until_finish()
