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
def test_a_text_or_list_of_two_items_is_not_taken_for_a_pair(element: Any, transform: Any) -> None:
    p = dm.Pipeline()
    codes = p | "codes" >> dm.Create([element]) | "forgets its type" >> dm.Map(lambda code: code)
    _ = transform(codes, p | "pairs" >> dm.Create([("U", "x")])) | "out" >> dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match=r"(takes|must hold) \(key, value\) pairs, got \[?['\[(]"):
        p.run().wait_until_finish()


@pytest.mark.parametrize(
    ("transform", "way_out"),
    [
        (
            dm.Map(lambda word: ((word, n) for n in (1,))),
            r"got <generator object .*\nHint: use dm.FlatMap for a function that yields pairs",
        ),
        (dm.FlatMap(lambda x: (x, 1)), r"got 'a'\nHint: .*a function that returns one pair .* needs dm.Map"),
    ],
)
def test_the_error_for_outputs_that_are_not_pairs_names_the_right_transform(transform: Any, way_out: str) -> None:
    with pytest.raises(dm.InvalidType, match=way_out):
        (dm.Pipeline() | dm.Create(["a"]) | transform | dm.Sum.per_key()).head()


@pytest.mark.parametrize(("base", "element"), [(dm.Keys, "US"), (dm.Values, 1), (dm.KvSwap, (1, "US"))])
def test_a_subclass_of_a_transform_handles_pairs_like_its_base_class(base: Any, element: Any) -> None:
    own: Any = type("Own", (base,), {})
    assert (dm.Pipeline() | dm.Create([("US", 1)]) | own()).head() == [element]
