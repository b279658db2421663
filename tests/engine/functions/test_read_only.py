"""Lists, dicts and sets that cannot be changed, and otherwise are like any others."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.runners.engine.functions.read_only import read_only
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATORS = {"__delitem__", "__setitem__", "__iadd__", "__imul__", "__iand__", "__ior__", "__isub__", "__ixor__"}
UNCHANGING = {"copy", "count", "index", "fromkeys", "get", "items", "keys", "values", "union"} | {
    name for name in dir(frozenset) if not name.startswith("_")
}
CHANGING = [
    (kind, name)
    for kind in (list, dict, set)
    for name in dir(kind)
    if name in OPERATORS or not (name.startswith("_") or name in UNCHANGING)
]


@pytest.mark.parametrize(("kind", "name"), CHANGING)
def test_no_method_changes_a_read_only_collection(kind: type, name: str) -> None:
    value = read_only(kind([(1, 2), (3, 4)]), "side")
    before = copy.copy(value)
    with pytest.raises(dm.InvalidType, match="the side input 'side' cannot be changed"):
        getattr(value, name)(1)
    assert value == before


COPIES: list[Callable[[Any], Any]] = [
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),
    lambda value: load(dump(value)),
]


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_of_a_read_only_collection_is_plain_and_can_be_changed(copied: Callable[[Any], Any]) -> None:
    value = {"rows": [{"tags": {1}}], "pair": (1, [2])}
    plain = copied(read_only(value, "side"))
    assert plain == value
    plain["rows"][0]["tags"].add(2)
    plain["pair"][1].append(3)
    assert (value["rows"], value["pair"]) == ([{"tags": {1}}], (1, [2]))


def test_a_read_only_collection_is_an_instance_of_its_type_with_the_same_repr() -> None:
    value = {"rows": [1, {2}], "more": ()}
    shown = read_only(value, "side")
    assert shown == value
    assert repr(shown) == repr(value)
    assert isinstance(shown, dict)
    assert isinstance(shown["rows"], list)
    assert isinstance(shown["rows"][1], set)
    assert json.dumps(shown["rows"][:1]) == "[1]"
    assert [type(other) for other in (shown | {}, shown["rows"] + [3], shown["rows"][1] | {3})] == [dict, list, set]


def test_values_that_are_not_collections_are_not_wrapped() -> None:
    for value in (1, "text", (1, ("a", None)), object(), frozenset({1})):
        assert read_only(value, "side") is value


def test_a_read_only_list_that_contains_itself_still_contains_itself() -> None:
    value: list[Any] = [1]
    value.append(value)
    shown = read_only(value, "side")
    assert shown[1] is shown


def test_an_object_that_a_list_contains_twice_is_wrapped_once() -> None:
    row = [1]
    shown = read_only([row, (row,)], "side")
    assert shown[0] is shown[1][0]
